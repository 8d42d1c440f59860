// Runs a command of the table that main hands in (cli/program), from which help, man pages and shell completion come
// as well.
#ifndef PLIM_CLI_COMMAND_H
#define PLIM_CLI_COMMAND_H

#include "parse.h"
#include "report.h"

extern const cli_command cli_program; // the row for `plimsoll` without a command
// The table of commands, which ends with NULL; to be set before anything else is called.
void cli_set_commands(const cli_command *const *commands);
const cli_command *const *cli_commands(void);

const cli_command *cli_find(const char *name); // NULL if there is none
const char *cli_nearest(const char *name);     // did you mean; NULL if nothing is close

// The words of the user's program, ended by NULL. The caller frees the array.
const char **cli_program_words(const cli_call *call);

// Runs the command that was typed, and returns the exit code.
int cli_main(int argc, char **argv);

#endif
