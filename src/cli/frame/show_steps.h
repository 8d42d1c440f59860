// The list of what is left to do by hand, as text.
#ifndef PLIM_CLI_SHOW_STEPS_H
#define PLIM_CLI_SHOW_STEPS_H

#include <stdio.h>

// One step: "1. install what the plan uses:", indented below it the lines to paste, and the reason (NULL: none).
void steps_print(FILE *out, size_t number, const char *text, const char *lines, const char *why);

#endif
