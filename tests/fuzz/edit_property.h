// A property of every editor: a change touches no byte outside of its span, and the new text reads like the old one
// with that one value changed. An insertion adds one setting and leaves the others.
#ifndef PLIM_FUZZ_EDIT_PROPERTY_H
#define PLIM_FUZZ_EDIT_PROPERTY_H

#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "remove_property.h"
#include "settings.h"

enum { MAX_TRIED = 6 }; // settings of one input

static const plim_value edit_values[] = {
    {.kind = PLIM_VALUE_INTEGER, .integer = -12345},
    {.kind = PLIM_VALUE_REAL, .real = 2.5e-5},
    {.kind = PLIM_VALUE_BOOL, .flag = true},
    {.kind = PLIM_VALUE_NULL},
    {.kind = PLIM_VALUE_TEXT, .text = "a'b\"c\\d\n\t#\xc3\xa9\\"},
    {.kind = PLIM_VALUE_TEXT, .text = "bf16"},
};
enum { EDIT_VALUES = sizeof edit_values / sizeof *edit_values };

static void expect(bool condition) {
  if (!condition) abort();
}

static bool same_value(const plim_value *a, const plim_value *b) {
  if (a->kind != b->kind) return false;
  switch (a->kind) {
  case PLIM_VALUE_NULL: return true;
  case PLIM_VALUE_BOOL: return a->flag == b->flag;
  case PLIM_VALUE_INTEGER: return a->integer == b->integer;
  case PLIM_VALUE_REAL: return a->real == b->real || (a->real != a->real && b->real != b->real);
  default: return strcmp(a->text, b->text) == 0;
  }
}

// Whether it is a literal, torch.bfloat16, or a choice between two values.
static bool is_final(const plim_setting *setting) {
  return setting->value.kind != PLIM_VALUE_DERIVED || setting->chooses ||
         strncmp(setting->value.text, "torch.", 6) == 0;
}

static void check_settings(const plim_settings *s) {
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *at = &s->at.at[i];
    expect(at->key && at->comment && at->line > 0);
    expect(at->span.begin <= at->span.end && at->span.end <= s->size);
    expect((at->value.kind < PLIM_VALUE_TEXT) == !at->value.text);
    const plim_setting *root = at->root ? plim_settings_find(s, at->root) : NULL;
    expect(!at->root || at->value.kind == PLIM_VALUE_DERIVED);
    expect(!at->root || (root && is_final(root)));
  }
}

// Whether a computed value contains the edit in its source.
static bool is_around(const plim_setting *setting, const plim_edit *edit) {
  return setting->value.kind == PLIM_VALUE_DERIVED && setting->span.begin <= edit->span.begin &&
         setting->span.end >= edit->span.end;
}

// The effective value of a setting: its own value, or that of its root.
static const plim_value *resolved(const plim_settings *s, const plim_setting *setting) {
  const plim_setting *root = setting->root ? plim_settings_find(s, setting->root) : NULL;
  return root ? &root->value : &setting->value;
}

// Only settings whose root is or contains the changed setting may change.
static void check_resolved(const plim_settings *s, const plim_setting *a,
                           const plim_settings *after, const plim_setting *b, const char *changed,
                           const plim_edit *edit) {
  if (!a->root || (changed && strcmp(a->root, changed) == 0)) return;
  expect(b->root && strcmp(a->root, b->root) == 0);
  expect(is_around(plim_settings_find(s, a->root), edit) ||
         same_value(resolved(s, a), resolved(after, b)));
}

// `changed` is the setting with the new value; -1: the setting with the key `added` is new.
static void check_after(const plim_settings *s, const plim_settings *after, const plim_edit *edit,
                        long changed, const char *added, const plim_value *value) {
  expect(after->at.len == s->at.len + (changed < 0));
  const plim_setting *found = added ? plim_settings_find(after, added) : NULL;
  expect(!added || (found && same_value(&found->value, value)));
  for (size_t i = 0, j = 0; i < s->at.len; i++, j++) {
    if (found == &after->at.at[j]) j++;
    const plim_setting *a = &s->at.at[i], *b = &after->at.at[j];
    expect(strcmp(a->key, b->key) == 0);
    check_resolved(s, a, after, b, changed < 0 ? added : s->at.at[changed].key, edit);
    if ((long)i == changed) expect(same_value(&b->value, value));
    else expect(is_around(a, edit) || same_value(&a->value, &b->value));
  }
}

static void check_edit(const plim_settings *s, plim_edit *edit, long changed, const char *added,
                       const plim_value *value) {
  char *text;
  size_t size, kept = s->size - edit->span.end;
  plim_settings after;
  plim_error error = {0};
  expect(!plim_edits_apply(s->text, s->size, edit, 1, &text, &size, &error));
  expect(size >= edit->span.begin + kept && memcmp(text, s->text, edit->span.begin) == 0);
  expect(memcmp(text + size - kept, s->text + edit->span.end, kept) == 0);
  expect(!plim_settings_read(s->format, text, size, &after, &error));
  check_settings(&after);
  check_after(s, &after, edit, changed, added, value);
  plim_settings_clear(&after);
  free(text);
  free(edit->text);
}

static void try_change(const plim_settings *s, size_t i, const plim_value *value) {
  plim_edit edit;
  plim_error error = {0};
  const plim_setting *setting = &s->at.at[i];
  if (plim_settings_change(s, setting, value, &edit, &error)) {
    expect(error.message[0]);
    return;
  }
  bool is_flag = setting->span.begin == setting->span.end;
  expect(is_flag || (edit.span.begin == setting->span.begin && edit.span.end == setting->span.end));
  check_edit(s, &edit, (long)i, NULL, value);
}

static void try_insertion(const plim_settings *s, const char *beside, const plim_value *value) {
  char key[600];
  const char *dot = strrchr(beside, '.');
  plim_edit edit;
  plim_error error = {0};
  size_t size = dot ? (size_t)(dot + 1 - beside) : 0;
  if (size > 500) return;
  memcpy(key, beside, size);
  memcpy(key + size, "new_one", 8);
  if (plim_settings_insert(s, key, value, &edit, &error)) expect(error.message[0]);
  else check_edit(s, &edit, -1, key, value);
}

static void check_editor(plim_format format, const uint8_t *data, size_t size) {
  plim_settings s;
  plim_error error = {0};
  char *text = malloc(size + 1);
  if (!text) return;
  memcpy(text, data, size);
  plim_err failed = plim_settings_read(format, text, size, &s, &error);
  if (failed) {
    expect(failed == error.code && error.message[0]);
    expect(error.byte == PLIM_UNKNOWN || error.byte <= size);
    free(text);
    return;
  }
  check_settings(&s);
  size_t step = s.at.len / MAX_TRIED + 1;
  for (size_t i = 0; i < s.at.len; i += step) {
    try_change(&s, i, &edit_values[(i + size) % EDIT_VALUES]);
    try_change(&s, i, &edit_values[(i + size + 4) % EDIT_VALUES]);
    try_insertion(&s, s.at.at[i].key, &edit_values[(i + size / 2) % EDIT_VALUES]);
    check_removal(&s, i);
  }
  plim_settings_clear(&s);
  free(text);
}

#endif
