// For tests of editors: one change or insertion, with the result as text.
#ifndef PLIM_TESTS_EDITED_H
#define PLIM_TESTS_EDITED_H

#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "settings.h"

// Values for tables; elsewhere use (plim_value)INT(4).
// clang-format off
#define INT(n) {.kind = PLIM_VALUE_INTEGER, .integer = n}
#define REAL(x) {.kind = PLIM_VALUE_REAL, .real = x}
#define BOOL(b) {.kind = PLIM_VALUE_BOOL, .flag = b}
#define TEXT(t) {.kind = PLIM_VALUE_TEXT, .text = t}
#define NONE {.kind = PLIM_VALUE_NULL}
// clang-format on

typedef struct {
  const char *before, *key;
  plim_value value;
  const char *after; // NULL: refused
  int gone, come;    // numbers of arguments that programs no longer get, and of new ones
} edit_row;

// The text with the key changed, or inserted if it is missing; freed by the caller. NULL if that is refused, with the
// reason in *error.
static inline char *edited(plim_format format, const edit_row *row, plim_error *error) {
  plim_settings s;
  plim_edit edit;
  char *text = NULL;
  size_t size;
  *error = (plim_error){0};
  if (plim_settings_read(format, row->before, strlen(row->before), &s, error)) return NULL;
  const plim_setting *setting = plim_settings_find(&s, row->key);
  plim_err err = setting ? plim_settings_change(&s, setting, &row->value, &edit, error)
                         : plim_settings_insert(&s, row->key, &row->value, &edit, error);
  if (!err) err = plim_edits_apply(s.text, s.size, &edit, 1, &text, &size, error);
  if (!err) free(edit.text);
  plim_settings_clear(&s);
  return text;
}

#endif
