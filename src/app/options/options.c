#include "options.h"

static bool is_end(const cli_option *option) { return !option->name && !option->letter; }

size_t cli_option_count(const cli_option *options) {
  size_t count = 0;
  while (options && !is_end(&options[count])) count++;
  return count;
}

size_t cli_positional_count(const cli_positional *positionals) {
  size_t count = 0;
  while (positionals && positionals[count].name) count++;
  return count;
}

bool cli_is_repeated(cli_kind kind) {
  return kind == CLI_STRINGS || kind == CLI_KNOBS || kind == CLI_SETTINGS;
}

bool cli_was_given(const cli_call *call, size_t offset) {
  for (size_t i = 0; i < call->given.len; i++)
    if (call->given.at[i] == offset) return true;
  return false;
}
