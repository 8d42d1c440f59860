// Decides whether code under an `if` runs, as far as the file and the command line show.
#ifndef PLIM_IO_CONDITIONS_H
#define PLIM_IO_CONDITIONS_H

#include "settings.h"

// Adds a condition and returns its number; 0 when out of memory.
uint32_t plim_condition_add(plim_settings *s, plim_condition condition);
// Sets `truth` of all conditions, from the literals of the file and the values given instead of them.
void plim_conditions_decide(plim_settings *s);
// Copies the given values of `before`, an earlier version of the same file.
void plim_conditions_adopt(plim_settings *s, const plim_settings *before);

// Whether the setting takes effect.
plim_truth plim_setting_counts(const plim_settings *s, const plim_setting *setting);
// For a setting that may take effect: the text of the condition that is unknown.
const char *plim_setting_doubt(const plim_settings *s, const plim_setting *setting);
// Whether a later setting of the same key, or a later word of the same command, overrides it.
bool plim_setting_is_passed_over(const plim_settings *s, const plim_setting *setting);
// Whether one setting is under an `if` and the other under its `else`.
bool plim_settings_alternate(const plim_settings *s, const plim_setting *a, const plim_setting *b);

#endif
