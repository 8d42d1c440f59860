// What plimsoll knows by name, printed by `plimsoll help models` and the like.
#ifndef PLIM_CLI_HELP_LISTS_H
#define PLIM_CLI_HELP_LISTS_H

#include <stdio.h>

#include "json_writer.h"

// One list: one row.
typedef struct {
  const char *name;         // "models"
  const char *summary;      // one line, lower case, no full stop
  void (*print)(FILE *out); // never wider than 80 columns
} help_list;

extern const help_list help_lists[]; // ends with {0}

// Prints the topic chunked_loss: the text of docs/chunked_loss.py.
void help_print_chunked_loss(FILE *out);
void help_write_chunked_loss(json_writer *j, const void *nothing); // the document

const help_list *help_list_named(const char *name); // NULL if there is none

// As text, or as one JSON document {"format_version": 1, "models": [...]}.
void help_list_print(FILE *out, const help_list *list);
void help_list_print_json(const help_list *list);

#endif
