// What apply and undo say they did.
#ifndef PLIM_CLI_APPLY_REPORT_H
#define PLIM_CLI_APPLY_REPORT_H

#include "changeset.h"

// On stderr; frees the text.
void apply_note(char *text);
// Says it on stderr if stdout cannot be written: then what was done has been told to nobody.
void apply_say_if_unseen(const char *what);
// What an interrupted call left, and what became of it.
void apply_print_earlier(const plim_changes *earlier);
// `verb` is what happened to a file that was there and still is.
void apply_print_done(const plim_changes *done, const char *verb, bool as_json);

#endif
