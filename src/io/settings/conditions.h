// Whether code under an `if` runs, as far as its file and the command line tell.
#ifndef PLIM_IO_CONDITIONS_H
#define PLIM_IO_CONDITIONS_H

#include "settings.h"

// The number of a new condition; 0 when out of memory.
uint32_t plim_condition_add(plim_settings *s, plim_condition condition);
// Fills the truth of all, from the literals of the file and what is given instead of them.
void plim_conditions_decide(plim_settings *s);
// The same text with small changes: what is given there counts here as well.
void plim_conditions_adopt(plim_settings *s, const plim_settings *before);

plim_truth plim_setting_counts(const plim_settings *s, const plim_setting *setting);
// Of a setting that may count: the condition that is unknown, as it is written.
const char *plim_setting_doubt(const plim_settings *s, const plim_setting *setting);
// A later one of this key is in force, or one that the same command gets later.
bool plim_setting_is_passed_over(const plim_settings *s, const plim_setting *setting);
// One stands under an `if`, the other under its `else`.
bool plim_settings_alternate(const plim_settings *s, const plim_setting *a, const plim_setting *b);

#endif
