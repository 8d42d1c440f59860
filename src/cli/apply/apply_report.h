// What apply and undo say they did.
#ifndef PLIM_CLI_APPLY_REPORT_H
#define PLIM_CLI_APPLY_REPORT_H

#include "changeset.h"

// On stderr; frees the text.
void apply_note(char *text);
// Prints it on stderr if stdout cannot be written, so that the user learns what was done.
void apply_say_if_unseen(const char *what);
// "the interrupted apply was rolled back (train.yaml, ds.json)"; the caller frees it.
char *apply_describe_earlier(const plim_changes *earlier);
// The same as a note, if there is one.
void apply_print_earlier(const plim_changes *earlier);
void apply_print_done(const plim_changes *done, bool as_json);

#endif
