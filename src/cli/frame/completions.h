// The words of plimsoll's own that a value may be: models, cards, knobs, commands. What shells offer,
// from the same tables that the commands read them by.
#ifndef PLIM_CLI_COMPLETIONS_H
#define PLIM_CLI_COMPLETIONS_H

#include <stdio.h>

#include "options.h"

// A list that a completion script holds once, by name.
typedef struct {
  cli_kind kind;
  const char *name;
  void (*print)(FILE *out); // its words, a blank between them
} words_list;

extern const words_list words_lists[]; // ends with {0}

const words_list *words_list_of(cli_kind kind); // NULL: its words are few, or it has none

// The words of a kind without a list, a blank between them; none where anything goes.
void words_print(FILE *out, cli_kind kind, const char *const *choices);

#endif
