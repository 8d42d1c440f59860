// Removes a setting from a text. The editor of a format knows where the entry begins and ends; this file decides what is
// removed with it (its line, a comma) and checks that nothing else was removed.
#ifndef PLIM_IO_REMOVAL_H
#define PLIM_IO_REMOVAL_H

#include "settings.h"

// Removes the key and value at `entry`. With is_block the entry must be alone on its lines; otherwise it may also be
// between commas.
plim_err plim_entry_remove(const plim_settings *s, const plim_setting *setting, plim_span entry,
                           bool is_block, plim_edit *out, plim_error *error);

// Removes the key `roof` with everything below it; `first` is the first setting below it.
plim_err plim_roof_remove(const plim_settings *s, const plim_setting *first, const char *roof,
                          plim_span entry, bool is_block, plim_edit *out, plim_error *error);

// Removes exactly this span.
plim_err plim_span_remove(const plim_settings *s, const plim_setting *setting, plim_span span,
                          plim_edit *out, plim_error *error);

// The lines of an entry. Returns false if anything but a comment is on the same lines.
bool plim_entry_lines(const plim_settings *s, plim_span entry, plim_span *out);

// Fails with "KEY cannot be removed: WHY".
plim_err plim_removal_refuse(const plim_setting *setting, const char *why, plim_error *error);

#endif
