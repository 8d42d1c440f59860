#include "typed_line.h"

#include <stdlib.h>
#include <string.h>

#include "quoting.h"

static void word(FILE *out, const char *text) {
  fputc(' ', out);
  plim_shell_quote(out, text);
}

static void strings(FILE *out, const cli_option *o, const cli_strings *given) {
  for (size_t i = 0; i < given->len; i++) {
    fprintf(out, " --%s", o->name);
    word(out, given->at[i]);
  }
}

static void option(FILE *out, const cli_option *o, const char *field) {
  bool is_repeated = cli_is_repeated(o->kind);
  if (is_repeated) strings(out, o, (const void *)field);
  else fprintf(out, " --%s", o->name);
  if (is_repeated || o->kind == CLI_FLAG) return;
  if (o->kind == CLI_UINT || o->kind == CLI_BYTES)
    fprintf(out, " %llu", (unsigned long long)*(const uint64_t *)(const void *)field);
  else if (o->kind == CLI_NUMBER) fprintf(out, " %g", *(const double *)(const void *)field);
  else if (o->kind == CLI_CHOICE) word(out, o->choices[*(const int *)(const void *)field]);
  else word(out, *(const char *const *)(const void *)field);
}

void typed_options(const cli_call *call, FILE *out) {
  const cli_option *options = call->command->options;
  fprintf(out, "plimsoll %s", call->command->name);
  for (size_t i = 0; i < call->words.len; i++) word(out, call->words.at[i]);
  for (size_t i = 0; i < cli_option_count(options); i++)
    if (options[i].name && cli_was_given(call, options[i].offset))
      option(out, &options[i], (const char *)call->args + options[i].offset);
}

void typed_program(const cli_call *call, FILE *out) {
  if (call->program.len) fputs(" --", out);
  for (size_t i = 0; i < call->program.len; i++) word(out, call->program.at[i]);
}

void typed_line(const cli_call *call, FILE *out) {
  typed_options(call, out);
  typed_program(call, out);
}
