// Short checks of the settings that an editor reads and writes.
#ifndef PLIM_TESTS_EDITING_H
#define PLIM_TESTS_EDITING_H

#include <stdlib.h>

#include "formats.h"
#include "settings.h"
#include "test.h"

static plim_settings editing;
static plim_error editing_error;
static char *edited;

static void editing_close(void) {
  plim_settings_clear(&editing);
  free(edited);
  edited = NULL;
}

static plim_err editing_open(plim_format format, const char *text) {
  editing_close();
  editing_error = (plim_error){0};
  return plim_settings_read(format, text, strlen(text), &editing, &editing_error);
}

static void editing_apply(plim_edit *edit) {
  size_t size;
  free(edited);
  plim_edits_apply(editing.text, editing.size, edit, 1, &edited, &size, &editing_error);
  free(edit->text);
}

// Both leave the new text in `edited`.
static plim_err change(const char *key, plim_value value) {
  plim_edit edit;
  const plim_setting *setting = plim_settings_find(&editing, key);
  editing_error = (plim_error){0};
  if (!setting) return plim_fail(&editing_error, PLIM_ERR_ARGUMENT, "there is no %s", key);
  plim_err err = plim_settings_change(&editing, setting, &value, &edit, &editing_error);
  if (!err) editing_apply(&edit);
  return err;
}

static plim_err insert(const char *key, plim_value value) {
  plim_edit edit;
  editing_error = (plim_error){0};
  plim_err err = plim_settings_insert(&editing, key, &value, &edit, &editing_error);
  if (!err) editing_apply(&edit);
  return err;
}

static inline plim_value integer(int64_t i) {
  return (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = i};
}
static inline plim_value real(double r) { return (plim_value){.kind = PLIM_VALUE_REAL, .real = r}; }
static inline plim_value flag(bool b) { return (plim_value){.kind = PLIM_VALUE_BOOL, .flag = b}; }
static inline plim_value words(const char *t) {
  return (plim_value){.kind = PLIM_VALUE_TEXT, .text = t};
}
static inline plim_value null(void) { return (plim_value){.kind = PLIM_VALUE_NULL}; }

// The effective setting as "2048", "true", "\"text\"", "null" or "=source"; "none" if there is none.
static const char *shown(const char *key) {
  static char text[256];
  const plim_setting *s = plim_settings_find(&editing, key);
  if (!s) return "none";
  switch (s->value.kind) {
  case PLIM_VALUE_NULL: return "null";
  case PLIM_VALUE_BOOL: return s->value.flag ? "true" : "false";
  case PLIM_VALUE_INTEGER: snprintf(text, sizeof text, "%lld", (long long)s->value.integer); break;
  case PLIM_VALUE_REAL: snprintf(text, sizeof text, "%.15gr", s->value.real); break;
  case PLIM_VALUE_TEXT: snprintf(text, sizeof text, "\"%s\"", s->value.text); break;
  default: snprintf(text, sizeof text, "=%s", s->value.text);
  }
  return text;
}

static inline const char *root_of(const char *key) {
  const plim_setting *s = plim_settings_find(&editing, key);
  return s && s->root ? s->root : "none";
}

#endif
