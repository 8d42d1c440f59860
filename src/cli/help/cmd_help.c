#include "command.h"
#include "help.h"
#include "help_lists.h"

static int run(const cli_call *call) {
  const help_list *list = call->words.len ? help_list_named(call->words.at[0]) : NULL;
  if (list) {
    if (call->common.json) help_list_print_json(list);
    else help_list_print(stdout, list);
    return CLI_OK;
  }
  const cli_command *about = call->words.len ? cli_find(call->words.at[0]) : &cli_program;
  if (call->common.json) help_print_json(stdout, about);
  else help_print(stdout, about, HELP_FULL);
  return CLI_OK;
}

static const cli_positional positionals[] = {
    {"TOPIC", "a command, or one of: models, families, gpus, knobs, chunked_loss", CLI_TOPIC, 0, 1,
     NULL},
    {0},
};

static const char *const description[] = {
    "Prints the full help of a command; plimsoll COMMAND --help and the man page show the same "
    "text. With --json, it prints the commands and their options as JSON.",
    "It also lists the models for --model, their architectures, the GPUs for --gpu, and the knobs "
    "(settings) that a "
    "plan can change, with their values.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll help replay", "the full help of replay"},
    {"plimsoll help models", "the models you can give by name"},
    {"plimsoll help chunked_loss > chunked_loss.py", "a chunked loss for your own script"},
    {0},
};

const cli_command cmd_help = {
    .name = "help",
    .summary = "show help for a command, or list models, GPUs, knobs",
    .positionals = positionals,
    .run = run,
    .description = description,
    .examples = examples,
};
