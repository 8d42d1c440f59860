// A property of every editor and every text: the text is refused with a message, or each edit changes only the bytes
// of its span, and the result reads back with the new value there and everything else unchanged.
#ifndef PLIM_FUZZ_CHECK_EDITS_H
#define PLIM_FUZZ_CHECK_EDITS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "remove_property.h"
#include "settings.h"

enum { MAX_CHANGED = 6 };

static void expect(bool condition) {
  if (!condition) abort();
}

static bool are_same_text(const char *a, const char *b) {
  return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool are_same_value(const plim_value *a, const plim_value *b) {
  if (a->kind != b->kind) return false;
  bool is_same_real = a->real == b->real || (isnan(a->real) && isnan(b->real));
  return a->flag == b->flag && a->integer == b->integer && is_same_real &&
         are_same_text(a->text, b->text);
}

// The effective value of a setting: its own value, or that of its root.
static const plim_value *resolved(const plim_settings *s, const plim_setting *setting) {
  const plim_setting *root = setting->root ? plim_settings_find(s, setting->root) : NULL;
  return root ? &root->value : &setting->value;
}

static bool are_same(const plim_setting *a, const plim_setting *b) {
  return strcmp(a->key, b->key) == 0 && are_same_value(&a->value, &b->value) &&
         are_same_text(a->root, b->root) && strcmp(a->comment, b->comment) == 0;
}

static void check_setting(const plim_settings *s, size_t i) {
  const plim_setting *at = &s->at.at[i];
  expect(at->key[0] && at->span.begin <= at->span.end && at->span.end <= s->size);
  expect(at->line >= 1 && (size_t)at->line <= s->size + 1);
  bool has_text = at->value.kind == PLIM_VALUE_TEXT || at->value.kind == PLIM_VALUE_DERIVED;
  expect(has_text == (at->value.text != NULL));
  const plim_setting *root = at->root ? plim_settings_find(s, at->root) : NULL;
  expect(!at->root || (root && root->value.kind != PLIM_VALUE_DERIVED));
}

// Applies the edit and reads the result; the caller clears both.
static char *apply(const plim_settings *s, const plim_edit *edit, plim_settings *out) {
  char *text;
  size_t size, added = strlen(edit->text), rest = s->size - edit->span.end;
  expect(!plim_edits_apply(s->text, s->size, edit, 1, &text, &size, NULL));
  expect(size == edit->span.begin + added + rest);
  expect(memcmp(text, s->text, edit->span.begin) == 0);
  expect(memcmp(text + size - rest, s->text + edit->span.end, rest) == 0);
  expect(!plim_settings_read(s->format, text, size, out, NULL));
  return text;
}

static void check_change(const plim_settings *s, size_t i, const plim_value *value) {
  plim_settings after;
  plim_edit edit;
  plim_error error = {0};
  plim_err failed = plim_settings_change(s, &s->at.at[i], value, &edit, &error);
  expect(failed == error.code && (!failed || error.message[0]));
  if (failed) return;
  char *text = apply(s, &edit, &after);
  expect(after.at.len == s->at.len);
  for (size_t j = 0; j < after.at.len; j++) {
    plim_setting wanted = s->at.at[j];
    if (i == j) wanted.value = *value;
    expect(are_same(&wanted, &after.at.at[j]));
    bool is_moved = wanted.root && strcmp(wanted.root, s->at.at[i].key) == 0;
    expect(i == j || is_moved ||
           are_same_value(resolved(s, &wanted), resolved(&after, &after.at.at[j])));
  }
  plim_settings_clear(&after);
  free(edit.text);
  free(text);
}

static void check_insert(const plim_settings *s, const char *key, const plim_value *value) {
  plim_settings after;
  plim_edit edit;
  plim_error error = {0};
  plim_err failed = plim_settings_insert(s, key, value, &edit, &error);
  expect(failed == error.code && (!failed || error.message[0]));
  if (failed) return;
  char *text = apply(s, &edit, &after);
  const plim_setting *found = plim_settings_find(&after, key);
  expect(found && are_same_value(&found->value, value));
  plim_settings_clear(&after);
  free(edit.text);
  free(text);
}

static void check_all(const plim_settings *s) {
  static const plim_value values[] = {
      {.kind = PLIM_VALUE_NULL},
      {.kind = PLIM_VALUE_BOOL, .flag = true},
      {.kind = PLIM_VALUE_INTEGER, .integer = -1234567},
      {.kind = PLIM_VALUE_REAL, .real = 2.5e-5},
      {.kind = PLIM_VALUE_TEXT, .text = "words"},
      {.kind = PLIM_VALUE_TEXT, .text = "- a: {b}, # 'c' \"d\"\n\\"},
      {.kind = PLIM_VALUE_TEXT, .text = "no"},
  };
  enum { VALUES = sizeof values / sizeof *values };
  for (size_t i = 0; i < s->at.len; i++) check_setting(s, i);
  for (size_t n = 0; n < s->at.len && n < MAX_CHANGED; n++)
    check_change(s, (n + s->size) % s->at.len, &values[(n + s->size / 2) % VALUES]);
  for (size_t n = 0; n < s->at.len && n < MAX_CHANGED; n++)
    check_removal(s, (n + s->size) % s->at.len);
  check_insert(s, "new", &values[s->size % VALUES]);
  check_insert(s, "a.new.b", &values[3]);
}

static int check_text(plim_format format, const uint8_t *data, size_t size) {
  plim_settings s;
  plim_error error = {0};
  plim_err failed = plim_settings_read(format, (const char *)data, size, &s, &error);
  expect(failed == error.code && (!failed || error.message[0]));
  if (failed) {
    expect(error.byte == PLIM_UNKNOWN || error.byte <= size);
    return 0;
  }
  check_all(&s);
  plim_settings_clear(&s);
  return 0;
}

#endif
