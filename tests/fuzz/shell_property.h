// A property of every change of a script or a Dockerfile: bytes outside the span of the value stay, its key has the
// new value, and all other settings are unchanged.
#ifndef PLIM_FUZZ_SHELL_PROPERTY_H
#define PLIM_FUZZ_SHELL_PROPERTY_H

#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "quoting.h"
#include "remove_property.h"
#include "settings.h"

#define TRIED 3 // settings of one input

static void expect(bool condition) {
  if (!condition) abort();
}

static void check_settings(const plim_settings *s) {
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *a = &s->at.at[i];
    expect(a->key[0] && a->comment && a->line >= 1);
    expect(a->span.begin <= a->span.end && a->span.end <= s->size);
    expect(i == 0 || s->at.at[i - 1].span.begin <= a->span.begin);
    bool has_text = a->value.kind == PLIM_VALUE_TEXT || a->value.kind == PLIM_VALUE_DERIVED;
    expect(has_text == (a->value.text != NULL));
    if (a->root) expect(plim_settings_find(s, a->root) != NULL);
  }
}

static bool is_kept(const plim_setting *a, const plim_setting *b) {
  return strcmp(a->key, b->key) == 0 && a->value.kind == b->value.kind &&
         plim_values_equal(&a->value, &b->value);
}

static const plim_value *resolved(const plim_settings *s, const plim_setting *setting) {
  const plim_setting *root = setting->root ? plim_settings_find(s, setting->root) : NULL;
  return root ? &root->value : &setting->value;
}

// Only settings whose root is the changed setting may change.
static void check_resolved(const plim_settings *before, const plim_setting *a,
                           const plim_settings *after, const plim_setting *b, const char *changed) {
  if (!a->root || strcmp(a->root, changed) == 0) return;
  expect(b->root && strcmp(a->root, b->root) == 0);
  expect(plim_values_equal(resolved(before, a), resolved(after, b)));
}

// Compares keys without the number of their command.
static bool is_same_name(const char *a, const char *b) {
  size_t n = strcspn(a + 1, "#"), m = strcspn(b + 1, "#");
  return n == m && memcmp(a, b, n + 1) == 0;
}

static void check_others(const plim_settings *before, const plim_settings *after, size_t changed,
                         const plim_value *value) {
  size_t gone = before->at.len - after->at.len;
  expect(gone == 0 || (gone == 1 && value->kind == PLIM_VALUE_BOOL && !value->flag));
  for (size_t i = 0, k = 0; i < before->at.len; i++) {
    const plim_setting *a = &before->at.at[i];
    if (i == changed && gone) continue;
    const plim_setting *b = &after->at.at[k++];
    if (i == changed) expect(strcmp(a->key, b->key) == 0 && plim_values_equal(&b->value, value));
    else if (!gone || !is_same_name(a->key, before->at.at[changed].key)) {
      expect(is_kept(a, b));
      check_resolved(before, a, after, b, before->at.at[changed].key);
    }
  }
}

static void check_change(const plim_settings *s, size_t index, const plim_value *value) {
  const plim_setting *setting = &s->at.at[index];
  plim_error error = {0};
  plim_settings after;
  plim_edit edit;
  char *text;
  size_t size;
  if (plim_settings_change(s, setting, value, &edit, &error)) {
    expect(error.message[0] && !edit.text);
    return;
  }
  bool is_bare = setting->span.begin == setting->span.end;
  expect(is_bare || (edit.span.begin == setting->span.begin && edit.span.end == setting->span.end));
  expect(edit.span.end <= setting->span.end);
  expect(!plim_edits_apply(s->text, s->size, &edit, 1, &text, &size, &error));
  expect(memcmp(text, s->text, edit.span.begin) == 0);
  size_t kept = s->size - edit.span.end;
  expect(kept <= size && memcmp(text + size - kept, s->text + edit.span.end, kept) == 0);
  expect(!plim_settings_read(s->format, text, size, &after, &error));
  check_others(s, &after, index, value);
  plim_settings_clear(&after);
  free(text);
  free(edit.text);
}

static void check_insert(const plim_settings *s, const char *key, const plim_value *value) {
  plim_error error = {0};
  plim_settings after;
  plim_edit edit;
  char *text;
  size_t size;
  if (plim_settings_insert(s, key, value, &edit, &error)) {
    expect(error.message[0] && !edit.text);
    return;
  }
  expect(edit.span.begin == edit.span.end);
  expect(!plim_edits_apply(s->text, s->size, &edit, 1, &text, &size, &error));
  expect(!plim_settings_read(s->format, text, size, &after, &error));
  const plim_setting *new = plim_settings_find(&after, key);
  expect(new &&plim_values_equal(&new->value, value) && after.at.len == s->at.len + 1);
  plim_settings_clear(&after);
  free(text);
  free(edit.text);
}

static const plim_value tried_values[] = {
    {.kind = PLIM_VALUE_INTEGER, .integer = -12},
    {.kind = PLIM_VALUE_REAL, .real = 2.5e-7},
    {.kind = PLIM_VALUE_BOOL, .flag = false},
    {.kind = PLIM_VALUE_BOOL, .flag = true},
    {.kind = PLIM_VALUE_TEXT, .text = "it's a $HOME \"of\" `words` \\ and } so"},
    {.kind = PLIM_VALUE_TEXT, .text = "--other"},
    {.kind = PLIM_VALUE_TEXT, .text = ""},
    {.kind = PLIM_VALUE_NULL},
};

static int check_all(plim_format format, const uint8_t *data, size_t size) {
  plim_settings s;
  plim_error error = {0};
  size_t values = sizeof tried_values / sizeof *tried_values;
  plim_err failed = plim_settings_read(format, (const char *)data, size, &s, &error);
  if (failed) {
    expect(failed == error.code && error.message[0]);
    expect(error.byte == PLIM_UNKNOWN || error.byte <= size);
    return 0;
  }
  check_settings(&s);
  for (size_t i = 0; i < s.at.len && i < TRIED; i++) {
    size_t index = (i * 7919 + size) % s.at.len;
    check_change(&s, index, &tried_values[(i + size) % values]);
    check_change(&s, index, &tried_values[0]);
    check_removal(&s, index);
  }
  check_insert(&s, "--zz-new", &tried_values[size % values]);
  check_insert(&s, "$ZZ_NEW", &tried_values[(size + 4) % values]);
  check_insert(&s, "zz.new", &tried_values[(size + 2) % values]);
  plim_settings_clear(&s);
  return 0;
}

#endif
