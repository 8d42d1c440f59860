// The whole program, and its commands: one table.
//
// To add a command x: write cli/x/cmd_x.c, which defines `const cli_command cmd_x`, and add the row X(x) below. Dispatch,
// help, man pages and shell completion follow.
#ifndef PLIM_CLI_PROGRAM_H
#define PLIM_CLI_PROGRAM_H

#include "command.h"

#define CLI_COMMANDS(X)                                                                            \
  X(plan)                                                                                          \
  X(apply)                                                                                         \
  X(undo)                                                                                          \
  X(check)                                                                                         \
  X(estimate)                                                                                      \
  X(simulate)                                                                                      \
  X(profile)                                                                                       \
  X(run)                                                                                           \
  X(runs)                                                                                          \
  X(watch)                                                                                         \
  X(replay)                                                                                        \
  X(web)                                                                                           \
  X(explain)                                                                                       \
  X(help)                                                                                          \
  X(version)                                                                                       \
  X(completion)                                                                                    \
  X(man)

extern const cli_command *const plimsoll_commands[]; // ends with NULL

int plimsoll_main(int argc, char **argv);

#endif
