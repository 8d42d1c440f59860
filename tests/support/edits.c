#include "edits.h"
#include "formats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char shown[1 << 16];

static plim_err make(const plim_settings *s, const char *key, const plim_value *value,
                     plim_edit *edit, plim_error *error) {
  const plim_setting *found = plim_settings_find(s, key);
  return found ? plim_settings_change(s, found, value, edit, error)
               : plim_settings_insert(s, key, value, edit, error);
}

const char *edited(plim_format format, const char *text, const char *key, plim_value value) {
  plim_settings s;
  plim_edit edit = {0};
  plim_error error = {0};
  char *out = NULL;
  size_t size;
  plim_err err = plim_settings_read(format, text, strlen(text), &s, &error);
  if (!err) {
    err = make(&s, key, &value, &edit, &error);
    if (!err) err = plim_edits_apply(text, strlen(text), &edit, 1, &out, &size, &error);
    plim_settings_clear(&s);
  }
  if (err) snprintf(shown, sizeof shown, "refused: %s", error.message);
  else snprintf(shown, sizeof shown, "%s", out);
  free(edit.text);
  free(out);
  return shown;
}

static void show(const plim_setting *s, FILE *out) {
  static const char *const kinds[] = {"null", "bool", "int", "real", "text", "derived"};
  fprintf(out, "%s %s ", s->key, kinds[s->value.kind]);
  if (s->value.kind == PLIM_VALUE_BOOL) fputs(s->value.flag ? "true" : "false", out);
  if (s->value.kind == PLIM_VALUE_INTEGER) fprintf(out, "%" PRId64, s->value.integer);
  if (s->value.kind == PLIM_VALUE_REAL) fprintf(out, "%.17g", s->value.real);
  if (s->value.text) fputs(s->value.text, out);
  if (s->root) fprintf(out, " <- %s", s->root);
  if (*s->comment) fprintf(out, " # %s", s->comment);
  fputc('\n', out);
}

const char *listed(plim_format format, const char *text) {
  plim_settings s;
  plim_error error = {0};
  FILE *out = fmemopen(shown, sizeof shown, "w");
  if (!out) abort();
  if (plim_settings_read(format, text, strlen(text), &s, &error))
    fprintf(out, "refused: %s", error.message);
  for (size_t i = 0; i < s.at.len; i++) show(&s.at.at[i], out);
  plim_settings_clear(&s);
  fclose(out);
  return shown;
}

bool edits_hold(plim_format format, const edit_case *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char *got = edited(format, cases[i].before, cases[i].key, cases[i].value);
    bool is_refused = strncmp(got, "refused: ", 9) == 0;
    if (cases[i].after ? strcmp(got, cases[i].after) == 0 : is_refused) continue;
    printf("%s of\n%s\ngave\n%s\nnot\n%s\n", cases[i].key, cases[i].before, got,
           cases[i].after ? cases[i].after : "a refusal");
    return false;
  }
  return true;
}
