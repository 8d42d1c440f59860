// Writes commands of plimsoll that a finding suggests.
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "quoting.h"

static void add_word(FILE *out, const char *option, const char *word) {
  if (!word) return;
  fprintf(out, "%s ", option);
  plim_shell_quote(out, word);
}

// Files to which the named ones refer are found again.
static void write_plan(check *c, FILE *out) {
  const plim_project *p = &c->files.project;
  fputs("plimsoll plan", out);
  for (size_t i = 0; i < c->files.named_count; i++) {
    if (p->files.at[i]->is_typed) continue;
    char *name = plim_project_name_of(p->files.at[i]);
    if (!name) c->has_no_memory = true;
    add_word(out, "", name);
    free(name);
  }
  add_word(out, " --command", c->command);
  for (size_t i = 0; c->sets && i < c->sets->len; i++) add_word(out, " --set", c->sets->at[i]);
  add_word(out, " --model", c->model);
  if (c->gpu) fprintf(out, " --gpu \"%s\"", c->gpu); // the name of a card, or its size
  if (c->world) fprintf(out, " --world %llu", (unsigned long long)c->world);
}

const char *check_plan_command(check *c) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (out) write_plan(c, out);
  if (!out || !plim_stream_end(out, &text)) text = NULL;
  return check_keep(c, text);
}
