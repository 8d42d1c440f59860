// Notes as text.
#ifndef PLIM_CLI_SHOW_NOTES_H
#define PLIM_CLI_SHOW_NOTES_H

#include <stdio.h>

#include "notes.h"

// "note: train.py:24: ...", wrapped to the stream's width.
void notes_print(FILE *out, const plim_notes *notes);
// What every prediction assumes, joined into one line: "assumes: one GPU; ...". notes_print leaves it out.
void notes_print_assumptions(FILE *out, const plim_notes *notes);

#endif
