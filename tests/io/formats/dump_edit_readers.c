// Prints what the editors read from files and write, which edit_check.py compares with Python's own readers. One
// JSON object per line.
//
//   edit_dump settings FILE...   all settings
//   edit_dump edits LIMIT FILE...  the text after each of the changes below, for LIMIT settings of a
//                                  file, and after an insertion into each place
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "settings.h"
#include "text_file.h"

enum { MAX_BYTES = 16 << 20 };

static const plim_value news[] = {
    {.kind = PLIM_VALUE_INTEGER, .integer = 4},
    {.kind = PLIM_VALUE_INTEGER, .integer = -123456},
    {.kind = PLIM_VALUE_REAL, .real = 2.5e-5},
    {.kind = PLIM_VALUE_REAL, .real = 3},
    {.kind = PLIM_VALUE_BOOL, .flag = true},
    {.kind = PLIM_VALUE_NULL},
    {.kind = PLIM_VALUE_TEXT, .text = "bf16"},
    {.kind = PLIM_VALUE_TEXT, .text = "it's \"so\"\n\ttab\\ \xc3\xa9\x01\r\\"},
};

static json_t *value_json(const plim_value *v) {
  switch (v->kind) {
  case PLIM_VALUE_BOOL: return json_boolean(v->flag);
  case PLIM_VALUE_INTEGER: return json_integer(v->integer);
  case PLIM_VALUE_REAL: {
    char text[40]; // as text, because JSON has no infinity
    snprintf(text, sizeof text, "%.17g", v->real);
    return json_string(text);
  }
  case PLIM_VALUE_TEXT:
  case PLIM_VALUE_DERIVED: return json_string(v->text);
  default: return json_null();
  }
}

static void print_json(json_t *object) {
  json_dumpf(object, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(object);
}

static json_t *setting_json(const plim_setting *s) {
  return json_pack("{s:s, s:i, s:o, s:I, s:I, s:i, s:s, s:s?}", "key", s->key, "kind",
                   (int)s->value.kind, "value", value_json(&s->value), "begin",
                   (json_int_t)s->span.begin, "end", (json_int_t)s->span.end, "line", s->line,
                   "comment", s->comment, "root", s->root);
}

static void print_settings(const char *path, const plim_settings *s) {
  json_t *all = json_array();
  for (size_t i = 0; i < s->at.len; i++) json_array_append_new(all, setting_json(&s->at.at[i]));
  print_json(json_pack("{s:s, s:o}", "file", path, "settings", all));
}

static void print_edit(const char *path, const plim_settings *s, const char *key, bool is_new,
                       const plim_setting *old, const plim_value *value, plim_edit *edit) {
  char *text = NULL;
  size_t size;
  plim_edits_apply(s->text, s->size, edit, 1, &text, &size, NULL);
  print_json(json_pack("{s:s, s:s, s:b, s:i, s:o, s:I, s:I, s:s%}", "file", path, "key", key,
                       "is_new", is_new, "kind", (int)value->kind, "value", value_json(value),
                       "begin", (json_int_t)(old ? old->span.begin : edit->span.begin), "end",
                       (json_int_t)(old ? old->span.end : edit->span.end), "text", text, size));
  free(text);
  free(edit->text);
}

static void print_changes(const char *path, const plim_settings *s, const plim_setting *old) {
  plim_edit edit;
  for (size_t i = 0; i < sizeof news / sizeof *news; i++)
    if (!plim_settings_change(s, old, &news[i], &edit, NULL))
      print_edit(path, s, old->key, false, old, &news[i], &edit);
}

// Inserts a key next to a setting: the same path with another last part.
static void print_insertion(const char *path, const plim_settings *s, const plim_setting *beside) {
  char key[1024];
  const char *dot = strrchr(beside->key, '.');
  plim_edit edit;
  if (!dot || (dot > beside->key && dot[-1] == '\\')) return;
  snprintf(key, sizeof key, "%.*s.plimsoll_new", (int)(dot - beside->key), beside->key);
  if (!plim_settings_insert(s, key, &news[0], &edit, NULL))
    print_edit(path, s, key, true, NULL, &news[0], &edit);
}

static void print_edits(const char *path, const plim_settings *s, size_t limit) {
  size_t step = s->at.len / limit + 1;
  for (size_t i = 0; i < s->at.len; i += step) {
    if (s->at.at[i].value.kind != PLIM_VALUE_DERIVED) print_changes(path, s, &s->at.at[i]);
    print_insertion(path, s, &s->at.at[i]);
  }
}

static void dump(const char *path, size_t limit) {
  char *text;
  size_t size;
  plim_format format;
  plim_settings s;
  plim_error error;
  plim_err err = plim_text_file_read(path, MAX_BYTES, &text, &size, &error);
  if (!err && !plim_format_of(path, text, size, &format)) format = PLIM_FORMAT_PYTHON;
  if (!err) err = plim_settings_read(format, text, size, &s, &error);
  if (err)
    print_json(json_pack("{s:s, s:s, s:I}", "file", path, "error", error.message, "byte",
                         (json_int_t)error.byte));
  else if (limit) print_edits(path, &s, limit);
  else print_settings(path, &s);
  if (!err) plim_settings_clear(&s);
  free(text);
}

int main(int argc, char **argv) {
  bool is_edits = argc > 2 && strcmp(argv[1], "edits") == 0;
  size_t limit = is_edits ? (size_t)atoi(argv[2]) : 0;
  for (int i = is_edits ? 3 : 2; i < argc; i++) dump(argv[i], limit);
  return 0;
}
