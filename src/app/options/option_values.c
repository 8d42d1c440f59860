#include "option_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suggest.h"
#include "units.h"
#include "value.h"

size_t cli_choice_count(const char *const *choices) {
  size_t count = 0;
  while (choices[count]) count++;
  return count;
}

static void list_choices(const char *const *choices, char *out, size_t size) {
  size_t count = cli_choice_count(choices), used = 0;
  for (size_t i = 0; i < count && used < size; i++) {
    const char *before = i == 0 ? "" : i + 1 == count ? " or " : ", ";
    used += (size_t)snprintf(out + used, size - used, "%s%s", before, choices[i]);
  }
}

plim_err cli_choice_find(const char *const *choices, const char *text, int *index,
                         plim_error *error) {
  for (int i = 0; choices[i]; i++) {
    if (strcmp(choices[i], text) != 0) continue;
    *index = i;
    return PLIM_OK;
  }
  char list[200];
  list_choices(choices, list, sizeof list);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "\"%s\" is not allowed; use %s", text, list);
  plim_error_at(error, 0);
  return err;
}

static plim_err set_string(void *field, const char *text) {
  *(const char **)field = text;
  return PLIM_OK;
}

static plim_err add_string(void *field, const char *text, plim_error *error) {
  return vec_push((cli_strings *)field, text) ? PLIM_OK : plim_no_memory(error);
}

plim_err cli_option_set(const cli_option *option, void *base, const char *text, plim_error *error) {
  void *field = (char *)base + option->offset;
  switch (option->kind) {
  case CLI_BYTES: return units_parse_bytes(text, field, error);
  case CLI_UINT: return units_parse_u64(text, field, error);
  case CLI_NUMBER: return units_parse_number(text, field, error);
  case CLI_CHOICE: return cli_choice_find(option->choices, text, field, error);
  default:
    return cli_is_repeated(option->kind) ? add_string(field, text, error) : set_string(field, text);
  }
}

void cli_member_name(const cli_option *option, char *text, size_t size) {
  snprintf(text, size, "%s", option->name);
  for (char *c = text; *c; c++)
    if (*c == '-') *c = '_';
}

const cli_kind_words cli_kinds[CLI_KIND_COUNT] = {
    [CLI_BYTES] = {"24GiB", NULL},
    [CLI_UINT] = {"1", "a whole number"},
    [CLI_NUMBER] = {"0.5", "a number"},
    [CLI_MODEL] = {"qwen2.5-7b", "a model"},
    [CLI_CARD] = {"24GiB", "a GPU name or size (RTX 4090, 24GiB)"},
};

// The whole number that was probably meant by 1k, 8.0 or 1e6; false: none.
static bool meant_number(const char *wrong, char *text, size_t size) {
  size_t digits = strspn(wrong, "0123456789");
  if (!digits) return false;
  char *end;
  double value = floor(strtod(wrong, &end));
  if (*end == 'k' || *end == 'K') value *= 1024;
  snprintf(text, size, "%.0f", value);
  return value > 0 && value < 1e9;
}

const char *cli_option_example(const cli_option *option, const char *wrong, char *text,
                               size_t size) {
  if (option->kind == CLI_UINT && wrong && meant_number(wrong, text, size)) return text;
  if (cli_kinds[option->kind].example) return cli_kinds[option->kind].example;
  if (option->kind != CLI_CHOICE) return option->argument;
  const char *near =
      wrong ? plim_suggest(wrong, option->choices, cli_choice_count(option->choices)) : NULL;
  return near ? near : option->choices[0];
}

void cli_call_clear(cli_call *call) {
  for (const cli_option *o = call->command->options; o && (o->name || o->letter); o++)
    if (cli_is_repeated(o->kind)) vec_free((cli_strings *)(void *)((char *)call->args + o->offset));
  free(call->args);
  vec_free(&call->words);
  vec_free(&call->program);
  vec_free(&call->given);
  call->args = NULL;
}
