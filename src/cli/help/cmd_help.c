#include "command.h"
#include "help.h"
#include "help_lists.h"

static int run(const cli_call *call) {
  const help_list *list = call->words.len ? help_list_named(call->words.at[0]) : NULL;
  if (list) {
    if (call->common.json) help_list_print_json(stdout, list);
    else help_list_print(stdout, list);
    return CLI_OK;
  }
  const cli_command *about = call->words.len ? cli_find(call->words.at[0]) : &cli_program;
  if (call->common.json) help_print_json(stdout, about);
  else help_print(stdout, about, HELP_FULL);
  return CLI_OK;
}

static const cli_positional positionals[] = {
    {"TOPIC",
     "a command to explain, or a list to print: models, families, gpus, "
     "knobs, chunked_loss",
     CLI_TOPIC, 0, 1, NULL},
    {0},
};

static const char *const description[] = {
    "Prints the full help of a command, the same text as `plimsoll COMMAND --help` and as its man "
    "page. With --json, the commands and their options as data.",
    "Prints what plimsoll knows by name, too: the models for --model, their families, the cards "
    "for --gpu, and the knobs that a plan turns, with the values they take.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll help replay", "everything about replay"},
    {"plimsoll help models", "every model that a name is enough for"},
    {"plimsoll help chunked_loss > chunked_loss.py", "a loss in chunks for a script of your own"},
    {0},
};

const cli_command cmd_help = {
    .name = "help",
    .summary = "explain a command, or list models, cards, knobs",
    .positionals = positionals,
    .run = run,
    .description = description,
    .examples = examples,
};
