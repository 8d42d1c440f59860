// A command as it was typed, to be typed again with more.
#ifndef PLIM_APP_TYPED_LINE_H
#define PLIM_APP_TYPED_LINE_H

#include <stdio.h>

#include "options.h"

// "plimsoll plan train.py --gpu 4090": its words and the options that were given, quoted for a shell where they need
// it; without the common options.
void typed_line(const cli_call *call, FILE *out);
// Its two parts, for a line with further options: all but the user's program, and " -- python train.py".
void typed_options(const cli_call *call, FILE *out);
void typed_program(const cli_call *call, FILE *out);

#endif
