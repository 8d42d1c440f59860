// Reads argv by the tables of a command.
#ifndef PLIM_CLI_PARSE_H
#define PLIM_CLI_PARSE_H

#include "option_values.h"

extern const cli_option cli_common_options[]; // what every command understands

// A usage error, and the text that error.byte points into ("" if none), for the caret.
typedef struct {
  plim_error error;
  char source[256];
} cli_usage;

// Reads argv[first..argc) by the command's tables into *call, which the caller clears whatever
// the result. With `until_word`, stops at the first positional and leaves its index in *next
// (argc if there is none). Asking for help is no error, whatever is missing.
bool cli_parse(const struct cli_command *command, int argc, char **argv, int first, bool until_word,
               int *next, cli_call *call, cli_usage *usage);
#endif
