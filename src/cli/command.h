// The commands. One table, from which dispatch, help, man pages and shell completion all come.
//
// To add a command x: write cmd_x.c, which defines `const cli_command cmd_x`, and add the row
// X(x) below. Nothing else.
#ifndef PLIM_CLI_COMMAND_H
#define PLIM_CLI_COMMAND_H

#include "options.h"
#include "report.h"

#define CLI_COMMANDS(X)                                                                            \
  X(plan)                                                                                          \
  X(apply)                                                                                         \
  X(undo)                                                                                          \
  X(check)                                                                                         \
  X(estimate)                                                                                      \
  X(replay)                                                                                        \
  X(help)                                                                                          \
  X(version)                                                                                       \
  X(completion)                                                                                    \
  X(man)

typedef struct {
  const char *command; // as typed
  const char *what;    // what it does, one line
} cli_example;

typedef struct cli_command {
  const char *name;                  // NULL: the program itself
  const char *summary;               // one line, lower case, no full stop
  const cli_positional *positionals; // or NULL
  const cli_option *options;         // its own, without the common ones; or NULL
  size_t args_size;                  // sizeof its args struct; 0 if it has none
  const void *defaults;              // an args struct to start from; NULL: all zero
  int (*run)(const cli_call *call);  // returns a CLI_ exit code
  const char *const *description;    // paragraphs, ends with NULL; or NULL
  const cli_example *examples;       // ends with {0}; or NULL
  const char *finding;               // what exit 1 means here; NULL: it does not occur
} cli_command;

#define CLI_DECLARE(name) extern const cli_command cmd_##name;
CLI_COMMANDS(CLI_DECLARE)
#undef CLI_DECLARE

extern const cli_command cli_program;      // the row for `plimsoll` without a command
extern const cli_command *const cli_all[]; // ends with NULL

const cli_command *cli_find(const char *name); // NULL if there is none
const char *cli_nearest(const char *name);     // did you mean; NULL if nothing is close

// The whole program, except for main itself.
int cli_main(int argc, char **argv);

#endif
