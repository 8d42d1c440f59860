// Edits JSON: writes values so that json.load reads them back as intended.
#include "edit_json.h"

#include <math.h>
#include <string.h>

#include "spell.h"
#include "tree.h"

static bool spell(const plim_tree *t, uint32_t like, const plim_value *value, int way, FILE *out) {
  plim_span span = like == PLIM_NO_NODE ? (plim_span){0} : t->at.at[like].span;
  const char *old = t->text + span.begin;
  size_t size = span.end - span.begin;
  if (way > 0) return false;
  switch (value->kind) {
  case PLIM_VALUE_NULL: fputs("null", out); break;
  case PLIM_VALUE_BOOL: fputs(value->flag ? "true" : "false", out); break;
  case PLIM_VALUE_INTEGER: plim_spell_integer(value->integer, "", 0, out); break;
  case PLIM_VALUE_REAL:
    if (!isfinite(value->real)) return false; // Python would accept it, but it is not valid JSON
    plim_spell_real(value->real, old, *old == '"' ? 0 : size, false, out);
    break;
  default: plim_spell_quoted(value->text, out);
  }
  return true;
}

static const plim_tree_format json = {.is_json = true, .parse = plim_json_parse, .spell = spell};

static plim_err read(plim_settings *s, plim_error *error) {
  return plim_tree_read(&json, s, error);
}

static plim_err change(const plim_settings *s, const plim_setting *setting, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  return plim_tree_change(&json, s, setting, value, out, error);
}

static plim_err insert(const plim_settings *s, const char *key, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  return plim_tree_insert(&json, s, key, value, out, error);
}

static plim_err remove_entry(const plim_settings *s, const plim_setting *setting, plim_edit *out,
                             plim_error *error) {
  return plim_tree_remove(&json, s, setting, out, error);
}

static plim_err remove_all(const plim_settings *s, const plim_setting *first, const char *roof,
                           plim_edit *out, plim_error *error) {
  return plim_tree_remove_all(&json, s, first, roof, out, error);
}

const plim_editor plim_json_editor = {read, change, insert, remove_entry, remove_all};
