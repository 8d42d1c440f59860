#include "program.h"

#define DECLARE(name) extern const cli_command cmd_##name;
CLI_COMMANDS(DECLARE)

#define ROW(name) &cmd_##name,
const cli_command *const plimsoll_commands[] = {CLI_COMMANDS(ROW) NULL};

int plimsoll_main(int argc, char **argv) {
  cli_set_commands(plimsoll_commands);
  return cli_main(argc, argv);
}
