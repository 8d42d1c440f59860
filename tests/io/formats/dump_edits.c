// dump_edits FILE...: prints every edit of every setting and of one new key, which yaml_check.py reads back. One line
// of JSON each, after a line with the settings of the file.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "settings.h"
#include "text_file.h"

enum { MAX_BYTES = 16 << 20, MAX_VALUES = 8 };

static json_t *json_of(const plim_value *v) {
  switch (v->kind) {
  case PLIM_VALUE_NULL: return json_null();
  case PLIM_VALUE_BOOL: return json_boolean(v->flag);
  case PLIM_VALUE_INTEGER: return json_integer(v->integer);
  case PLIM_VALUE_REAL: return json_real(v->real);
  default: return json_string(v->text);
  }
}

static void print_line(json_t *line) {
  json_dumpf(line, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(line);
}

static void print_settings(const char *path, const plim_settings *s) {
  json_t *all = json_array();
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *at = &s->at.at[i];
    bool is_derived = at->value.kind == PLIM_VALUE_DERIVED;
    json_array_append_new(all,
                          json_pack("{s:s,s:b,s:o,s:s?}", "key", at->key, "derived", is_derived,
                                    "value", json_of(&at->value), "root", at->root));
  }
  print_line(json_pack("{s:s,s:o}", "file", path, "settings", all));
}

static bool is_on_one_line(const plim_settings *s, plim_span span) {
  return !memchr(s->text + span.begin, '\n', span.end - span.begin);
}

// `setting` is NULL for a new key. The first edit of each is checked with the slow reader.
static int print_edit(const char *path, const plim_settings *s, const plim_setting *setting,
                      const char *key, const plim_value *value, bool is_first) {
  char *text = NULL;
  size_t size;
  plim_edit edit;
  plim_error error = {0};
  plim_err err = setting ? plim_settings_change(s, setting, value, &edit, &error)
                         : plim_settings_insert(s, key, value, &edit, &error);
  if (!err) err = plim_edits_apply(s->text, s->size, &edit, 1, &text, &size, &error);
  if (err) return fprintf(stderr, "%s: %s: %s\n", path, key, error.message), 1;
  print_line(json_pack("{s:s,s:s,s:o,s:s%,s:b,s:b,s:b}", "file", path, "key", key, "value",
                       json_of(value), "text", text, size, "is_new", !setting, "is_first", is_first,
                       "is_on_one_line", is_on_one_line(s, edit.span)));
  free(edit.text);
  free(text);
  return 0;
}

// New values of each kind; the first is close to the old one.
static size_t other_values(const plim_value *old, plim_value out[MAX_VALUES]) {
  size_t count = 0;
  if (old->kind == PLIM_VALUE_BOOL)
    out[count++] = (plim_value){.kind = PLIM_VALUE_BOOL, .flag = !old->flag};
  if (old->kind == PLIM_VALUE_INTEGER)
    out[count++] = (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = old->integer + 1};
  if (old->kind == PLIM_VALUE_REAL)
    out[count++] = (plim_value){.kind = PLIM_VALUE_REAL, .real = old->real / 2};
  out[count++] = (plim_value){.kind = PLIM_VALUE_TEXT, .text = "other"};
  out[count++] = (plim_value){.kind = PLIM_VALUE_TEXT, .text = "no: # \"'\\, [1e3}"};
  out[count++] = (plim_value){.kind = PLIM_VALUE_TEXT, .text = "1e-5"};
  out[count++] = (plim_value){.kind = PLIM_VALUE_REAL, .real = 1.5e-9};
  out[count++] = (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = -4};
  out[count++] = (plim_value){.kind = PLIM_VALUE_NULL};
  return count;
}

static int change_all(const char *path, const plim_settings *s) {
  int failed = 0;
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *setting = &s->at.at[i];
    plim_value values[MAX_VALUES];
    size_t count = other_values(&setting->value, values);
    bool is_derived = setting->value.kind == PLIM_VALUE_DERIVED;
    bool is_in_force = plim_settings_find(s, setting->key) == setting;
    for (size_t j = 0; j < count && !is_derived && is_in_force; j++)
      failed += print_edit(path, s, setting, setting->key, &values[j], j == 0);
  }
  return failed;
}

static int insert_some(const char *path, const plim_settings *s) {
  static const char *const keys[] = {"plimsoll_new", "plimsoll_new.a.b"};
  const plim_value value = {.kind = PLIM_VALUE_REAL, .real = 2e-5};
  bool is_list = s->at.len && s->at.at[0].key[0] == '0';
  int failed = 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys && !is_list; i++)
    failed += print_edit(path, s, NULL, keys[i], &value, true);
  return failed;
}

static int dump(const char *path) {
  char *text;
  size_t size;
  plim_format format;
  plim_settings s;
  plim_error error = {0};
  if (plim_text_file_read(path, MAX_BYTES, &text, &size, &error) ||
      !plim_format_of(path, text, size, &format) ||
      plim_settings_read(format, text, size, &s, &error)) {
    fprintf(stderr, "%s: %s\n", path, error.message);
    return 1;
  }
  print_settings(path, &s);
  int failed = change_all(path, &s) + insert_some(path, &s);
  plim_settings_clear(&s);
  free(text);
  return failed;
}

int main(int argc, char **argv) {
  int failed = 0;
  for (int i = 1; i < argc; i++) failed += dump(argv[i]);
  return failed > 0;
}
