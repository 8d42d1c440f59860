#include "command.h"
#include "help.h"

static int run(const cli_call *call) {
  const cli_command *about = call->words.len ? cli_find(call->words.at[0]) : &cli_program;
  if (call->common.json) help_print_json(stdout, about);
  else help_print(stdout, about, HELP_FULL);
  return CLI_OK;
}

static const cli_positional positionals[] = {
    {"COMMAND", "the command to explain", CLI_COMMAND, 0, 1, NULL},
    {0},
};

static const char *const description[] = {
    "Prints the full help of a command, the same text as `plimsoll COMMAND --help` and as its man "
    "page. With --json, the commands and their options as data.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll help replay", "everything about replay"},
    {0},
};

const cli_command cmd_help = {
    .name = "help",
    .summary = "explain a command",
    .positionals = positionals,
    .run = run,
    .description = description,
    .examples = examples,
};
