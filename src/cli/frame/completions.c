#include "completions.h"

#include <string.h>

#include "catalogue.h"
#include "command.h"
#include "gpu.h"
#include "help_lists.h"
#include "plan.h"

static void print_models(FILE *out) {
  const char *blank = "";
  for (size_t i = 0; i < plim_catalogue_count; i++) {
    if (!plim_catalogue_is_public(&plim_catalogue[i])) continue;
    fprintf(out, "%s%s", blank, plim_catalogue[i].name);
    blank = " ";
  }
}

// Prints card names as one word each: a dash means the same as a blank.
static void print_cards(FILE *out) {
  for (size_t i = 0; i < plim_gpu_count; i++) {
    if (i) fputc(' ', out);
    for (const char *c = plim_gpus[i].name; *c; c++) fputc(*c == ' ' ? '-' : *c, out);
  }
}

static void print_knobs(FILE *out) {
  for (size_t i = 0; i < plim_plan_knob_count; i++)
    fprintf(out, "%s%s", i ? " " : "", plim_knob_table[plim_plan_knobs[i]].name);
}

// Prints "checkpoint=on" for every value that is one word in a shell, and "micro_batch=" for numbers.
static void print_values(FILE *out, plim_knob knob) {
  const char *name = plim_knob_table[knob].name, *value;
  if (!plim_knob_value_name(knob, 0)) fprintf(out, "%s= ", name);
  for (int64_t v = 0; (value = plim_knob_value_name(knob, v)); v++)
    if (!strpbrk(value, " :")) fprintf(out, "%s=%s ", name, value);
}

static void print_settings(FILE *out) {
  for (size_t i = 0; i < plim_plan_knob_count; i++) print_values(out, plim_plan_knobs[i]);
}

const words_list words_lists[] = {
    {CLI_MODEL, "models", print_models},
    {CLI_CARD, "cards", print_cards},
    {CLI_KNOBS, "knobs", print_knobs},
    {CLI_SETTINGS, "settings", print_settings},
    {0},
};

const words_list *words_list_of(cli_kind kind) {
  for (const words_list *list = words_lists; list->name; list++)
    if (list->kind == kind) return list;
  return NULL;
}

static void print_commands(FILE *out) {
  for (size_t i = 0; cli_commands()[i]; i++)
    fprintf(out, "%s%s", i ? " " : "", cli_commands()[i]->name);
}

static void print_lists(FILE *out) {
  for (const help_list *list = help_lists; list->name; list++) fprintf(out, " %s", list->name);
}

void words_print(FILE *out, cli_kind kind, const char *const *choices) {
  if (kind == CLI_COMMAND || kind == CLI_TOPIC) print_commands(out);
  if (kind == CLI_TOPIC) print_lists(out);
  for (size_t i = 0; kind == CLI_CHOICE && choices[i]; i++)
    fprintf(out, "%s%s", i ? " " : "", choices[i]);
}
