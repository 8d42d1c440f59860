// Prints what is read from launch scripts, which shell_check.py compares with what bash passes on. One JSON object per
// line: the file, and for each command its flags in order, each with its value, or null if it is unknown; "$" contains
// the variables.
//
//   dump_shell_flags FILE...
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "settings.h"
#include "text_file.h"

enum { MAX_BYTES = 16 << 20 };

static json_t *number_json(const plim_value *v) {
  char text[40];
  if (v->kind == PLIM_VALUE_INTEGER) snprintf(text, sizeof text, "%" PRId64, v->integer);
  else snprintf(text, sizeof text, "%.17g", v->real);
  return json_pack("s", text);
}

static json_t *value_json(const plim_settings *s, const plim_setting *a) {
  const plim_value *v = &a->value;
  if (v->kind == PLIM_VALUE_DERIVED && a->root) v = &plim_settings_find(s, a->root)->value;
  else if (v->kind == PLIM_VALUE_DERIVED) v = &a->computed;
  switch (v->kind) {
  case PLIM_VALUE_BOOL: return json_pack("b", v->flag);
  case PLIM_VALUE_INTEGER:
  case PLIM_VALUE_REAL: return number_json(v);
  case PLIM_VALUE_TEXT: return json_pack("s", v->text);
  default: return json_pack("n");
  }
}

static void dump(const char *path) {
  plim_settings s;
  plim_error error = {0};
  char *text;
  size_t size;
  json_t *all = json_pack("{}");
  if (plim_text_file_read(path, MAX_BYTES, &text, &size, &error)) {
    fprintf(stderr, "%s: %s\n", path, error.message);
    exit(2);
  }
  plim_err err = plim_settings_read(PLIM_FORMAT_SHELL, text, size, &s, &error);
  for (size_t i = 0; i < s.at.len && !err; i++) {
    const plim_setting *a = &s.at.at[i];
    char group[24];
    snprintf(group, sizeof group, *a->key == '$' ? "$" : "%zu", a->group);
    json_t *flags = json_object_get(all, group);
    if (!flags) json_object_set_new(all, group, flags = json_pack("[]"));
    json_array_append_new(flags, json_pack("[s, o]", a->key, value_json(&s, a)));
  }
  json_t *line = json_pack("{s:s, s:s, s:o}", "file", path, "error", err ? error.message : "",
                           "commands", all);
  json_dumpf(line, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(line);
  plim_settings_clear(&s);
  free(text);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) dump(argv[i]);
  return 0;
}
