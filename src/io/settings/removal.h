// Taking a setting out of a text, for editors: they know where its entry begins and ends, here is what
// goes with it (its line, a comma) and the check that nothing else went.
#ifndef PLIM_IO_REMOVAL_H
#define PLIM_IO_REMOVAL_H

#include "settings.h"

// Removes key and value at `entry`. With is_block it must be alone on its lines; else it may stand
// between commas.
plim_err plim_entry_remove(const plim_settings *s, const plim_setting *setting, plim_span entry,
                           bool is_block, plim_edit *out, plim_error *error);

// The same for a key with all that is below it: `first` is the first setting there.
plim_err plim_roof_remove(const plim_settings *s, const plim_setting *first, const char *roof,
                          plim_span entry, bool is_block, plim_edit *out, plim_error *error);

// Removes a span as it is.
plim_err plim_span_remove(const plim_settings *s, const plim_setting *setting, plim_span span,
                          plim_edit *out, plim_error *error);

// The lines of an entry, if nothing but a comment stands beside it; false if something does.
bool plim_entry_lines(const plim_settings *s, plim_span entry, plim_span *out);

plim_err plim_removal_refuse(const plim_setting *setting, const char *why, plim_error *error);

#endif
