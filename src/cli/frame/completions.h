// The words that shells offer as values: models, cards, knobs, commands. They come from the tables that the
// commands use themselves.
#ifndef PLIM_CLI_COMPLETIONS_H
#define PLIM_CLI_COMPLETIONS_H

#include <stdio.h>

#include "options.h"

// A list that a completion script holds once, by name.
typedef struct {
  cli_kind kind;
  const char *name;
  void (*print)(FILE *out); // its words, separated by blanks
} words_list;

extern const words_list words_lists[]; // ends with {0}

const words_list *words_list_of(cli_kind kind); // NULL: its words are few, or it has none

// The words of a kind that has no list, separated by blanks; none if any value is allowed.
void words_print(FILE *out, cli_kind kind, const char *const *choices);

#endif
