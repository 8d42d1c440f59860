#include "edit_toml.h"

#include <stdio.h>
#include <string.h>

#include "key_names.h"
#include "removal.h"
#include "text.h"
#include "toml_reader.h"
#include "toml_scalar.h"

static plim_err read(plim_settings *s, plim_error *error) {
  plim_toml_reader reader;
  plim_err err = plim_toml_read(&reader, s, NULL, error);
  plim_toml_reader_free(&reader);
  return err;
}

static char first_byte(const plim_settings *s, const plim_setting *setting) {
  return s->text[setting->span.begin];
}

static bool is_quote(char c) { return c == '"' || c == '\''; }

// The quotes that the file uses.
static char quote_of(const plim_settings *s) {
  for (size_t i = 0; i < s->at.len; i++)
    if (is_quote(first_byte(s, &s->at.at[i]))) return first_byte(s, &s->at.at[i]);
  return '"';
}

static plim_err finish(plim_chars *text, plim_span span, plim_edit *out, plim_error *error) {
  plim_err err =
      vec_push(text, 0) ? plim_edit_make(span, text->at, out, error) : plim_no_memory(error);
  vec_free(text);
  return err;
}

// ---- changes ----------------------------------------------------------------------------------------

static plim_err change(const plim_settings *s, const plim_setting *setting, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  plim_chars text = {0};
  const char *old = s->text + setting->span.begin;
  if (setting->value.kind == PLIM_VALUE_TEXT && !is_quote(*old)) {
    plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                             "%.96s is a date; dates cannot be changed", setting->key);
    plim_error_at(error, setting->span.begin);
    return err;
  }
  plim_err err = plim_toml_encode(value, old, setting->span.end - setting->span.begin, quote_of(s),
                                  &text, error);
  if (!err) return finish(&text, setting->span, out, error);
  vec_free(&text);
  return err;
}

// ---- insertions -------------------------------------------------------------------------------------

static bool is_bare(const char *text, size_t size) {
  for (size_t i = 0; i < size; i++) {
    char c = text[i] | 0x20;
    bool is_fine = (text[i] >= '0' && text[i] <= '9') || (c >= 'a' && c <= 'z') || text[i] == '_' ||
                   text[i] == '-';
    if (!is_fine) return false;
  }
  return size > 0;
}

static plim_err add_key(const char *part, plim_chars *out, plim_error *error) {
  plim_chars text = {0};
  bool ok = true;
  for (; ok && *part; part++) {
    if (*part == '\\' && part[1]) part++;
    ok = vec_push(&text, *part);
  }
  ok = ok && vec_push(&text, 0);
  plim_value key = {.kind = PLIM_VALUE_TEXT, .text = text.at};
  plim_err err = PLIM_OK;
  if (!ok) err = plim_no_memory(error);
  else if (!is_bare(text.at, text.len - 1)) err = plim_toml_encode(&key, "", 0, '"', out, error);
  else if (!plim_chars_add_text(out, text.at)) err = plim_no_memory(error);
  vec_free(&text);
  return err;
}

static plim_err add_entry(const plim_settings *s, const plim_toml_place *p, const char *part,
                          const plim_value *value, plim_chars *out, plim_error *error) {
  bool is_first = p->kind != PLIM_TOML_BEHIND_ENTRY && (p->kind != PLIM_TOML_INLINE || p->is_empty);
  plim_err err = PLIM_OK;
  if (!plim_chars_add(out, s->text + p->prefix.begin, p->prefix.end - p->prefix.begin))
    return plim_no_memory(error);
  err = add_key(part, out, error);
  if (err) return err;
  if (((is_first || p->spaced_before) && !vec_push(out, ' ')) || !vec_push(out, '=') ||
      ((is_first || p->spaced_behind) && !vec_push(out, ' ')))
    return plim_no_memory(error);
  return plim_toml_encode(value, "", 0, quote_of(s), out, error);
}

static const char *line_end_of(const plim_settings *s, size_t at) {
  const char *found = memchr(s->text + at, '\n', s->size - at);
  if (!found && s->size) found = memchr(s->text, '\n', s->size);
  return found && found > s->text && found[-1] == '\r' ? "\r\n" : "\n";
}

static size_t end_of_line(const plim_settings *s, size_t at) {
  while (at < s->size && s->text[at] != '\n') at++;
  return at < s->size && at && s->text[at - 1] == '\r' ? at - 1 : at;
}

static bool add_indent(const plim_settings *s, size_t at, plim_chars *out) {
  size_t begin = at;
  while (begin && (s->text[begin - 1] == ' ' || s->text[begin - 1] == '\t')) begin--;
  return plim_chars_add(out, s->text + begin, at - begin);
}

// Inserts the key on its own line, after the line of the last entry or of the header.
static plim_err insert_line(const plim_settings *s, const plim_toml_place *p, const char *part,
                            const plim_value *value, plim_edit *out, plim_error *error) {
  plim_chars text = {0};
  size_t at = end_of_line(s, p->end);
  bool ok = plim_chars_add_text(&text, line_end_of(s, p->end)) && add_indent(s, p->begin, &text);
  plim_err err = ok ? add_entry(s, p, part, value, &text, error) : plim_no_memory(error);
  if (!err) return finish(&text, (plim_span){at, at}, out, error);
  vec_free(&text);
  return err;
}

// Inserts the key into an inline table: { a = 1 } becomes { a = 1, b = 2 }, {} becomes { b = 2 }.
static plim_err insert_inline(const plim_settings *s, const plim_toml_place *p, const char *part,
                              const plim_value *value, plim_edit *out, plim_error *error) {
  plim_chars text = {0};
  plim_err err =
      plim_chars_add_text(&text, p->is_empty ? " " : ", ") ? PLIM_OK : plim_no_memory(error);
  if (!err) err = add_entry(s, p, part, value, &text, error);
  bool is_tight = p->is_empty && s->text[p->end] == '}';
  if (!err && is_tight && !vec_push(&text, ' ')) err = plim_no_memory(error);
  if (!err) return finish(&text, (plim_span){p->end, p->end}, out, error);
  vec_free(&text);
  return err;
}

// Inserts at the first line of the file, because there is no other key outside of tables.
static plim_err insert_first(const plim_settings *s, const char *part, const plim_value *value,
                             plim_edit *out, plim_error *error) {
  plim_chars text = {0};
  plim_toml_place place = {.kind = PLIM_TOML_NO_PLACE};
  size_t at = s->size >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  plim_err err = add_entry(s, &place, part, value, &text, error);
  if (!err && !plim_chars_add_text(&text, line_end_of(s, 0))) err = plim_no_memory(error);
  if (!err) return finish(&text, (plim_span){at, at}, out, error);
  vec_free(&text);
  return err;
}

static plim_err refuse(const char *key, const char *why, plim_error *error) {
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "%.96s cannot be added: %s", key, why);
}

static plim_err insert_at(const plim_settings *s, const plim_toml_place *p, const char *key,
                          const plim_value *value, plim_edit *out, plim_error *error) {
  const char *part = key + plim_key_last_part(key);
  switch (p->kind) {
  case PLIM_TOML_INLINE: return insert_inline(s, p, part, value, out, error);
  case PLIM_TOML_BEHIND_HEADER:
  case PLIM_TOML_BEHIND_ENTRY: return insert_line(s, p, part, value, out, error);
  default:
    return part == key ? insert_first(s, part, value, out, error)
                       : refuse(key, "the file does not have its table", error);
  }
}

// Reads the text with the new key again. An empty table or array is not a setting, but its name cannot be used twice.
static plim_err check_insertion(const plim_settings *s, const char *key, const plim_edit *edit,
                                plim_error *error) {
  char *text;
  size_t size;
  plim_settings after;
  plim_err err = plim_edits_apply(s->text, s->size, edit, 1, &text, &size, error);
  if (err) return err;
  err = plim_settings_read_like(s, text, size, &after, error);
  if (!err) plim_settings_clear(&after);
  else if (err == PLIM_ERR_PARSE) err = refuse(key, "it is already set", error);
  free(text);
  return err;
}

static plim_err insert(const plim_settings *s, const char *key, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  size_t part = plim_key_last_part(key);
  if (plim_settings_find(s, key)) return refuse(key, "it is already set", error);
  plim_settings again = {.format = s->format, .text = s->text, .size = s->size};
  char *path = malloc(part + 1);
  if (!path) return plim_no_memory(error);
  snprintf(path, part + 1, ".%s", key);
  plim_toml_reader reader;
  plim_err err = plim_toml_read(&reader, &again, path, error);
  if (!err) err = insert_at(s, &reader.place, key, value, out, error);
  if (!err && (err = check_insertion(s, key, out, error))) {
    free(out->text);
    *out = (plim_edit){0};
  }
  if (error) plim_text_disarm(error->message);
  plim_settings_clear(&again);
  plim_toml_reader_free(&reader);
  free(path);
  return err;
}

// ---- removals ---------------------------------------------------------------------------------------

// The entry of a setting, from the beginning of its key to the end of its value.
static plim_span entry_of(const plim_settings *s, const plim_setting *setting) {
  size_t sign = setting->span.begin;
  while (sign && s->text[sign - 1] != '=' && s->text[sign - 1] != '\n') sign--;
  size_t begin = sign;
  while (begin && !memchr("{,\n", s->text[begin - 1], 3)) begin--;
  while (begin < sign && memchr(" \t\xef\xbb\xbf", s->text[begin], 5)) begin++;
  return (plim_span){begin, setting->span.end};
}

static plim_err remove_entry(const plim_settings *s, const plim_setting *setting, plim_edit *out,
                             plim_error *error) {
  return plim_entry_remove(s, setting, entry_of(s, setting), false, out, error);
}

const plim_editor plim_toml_editor = {read, change, insert, remove_entry, NULL};
