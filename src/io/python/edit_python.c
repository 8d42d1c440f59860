#include "edit_python.h"

#include <stdio.h>
#include <string.h>

#include "key_names.h"
#include "python_literal.h"
#include "python_reader.h"
#include "removal.h"
#include "text.h"

static plim_err read(plim_settings *s, plim_error *error) {
  plim_py_reader reader;
  plim_err err = plim_py_read(&reader, s, NULL, NULL, error);
  plim_py_reader_free(&reader);
  return err;
}

// The quotes that the file uses for its settings. Defaults that are not written in the file are skipped.
static char quote_of(const plim_settings *s) {
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *at = &s->at.at[i];
    bool is_written = at->value.kind == PLIM_VALUE_TEXT && at->span.end > at->span.begin;
    char last = is_written ? s->text[at->span.end - 1] : 0;
    if (last == '"' || last == '\'') return last;
  }
  return '"';
}

// ---- new entries ------------------------------------------------------------------------------------

// Reads the text again to find the place for a new entry `part` below `path`.
static plim_err find_place(const plim_settings *s, const char *path, const char *part,
                           plim_py_reader *reader, plim_error *error) {
  plim_settings again = {.format = s->format, .text = s->text, .size = s->size};
  plim_err err = plim_py_read(reader, &again, path, part, error);
  plim_settings_clear(&again);
  return err;
}

static bool is_line_end(char c) { return c == '\n' || c == '\r'; }

// The line end and the indentation before the last item; empty if the item is not the first on its line.
static plim_span line_start(const plim_settings *s, const plim_py_place *p) {
  size_t begin = p->last_begin;
  while (begin > p->open_end && (s->text[begin - 1] == ' ' || s->text[begin - 1] == '\t')) begin--;
  if (begin <= p->open_end || !is_line_end(s->text[begin - 1])) return (plim_span){0, 0};
  begin--;
  if (begin > p->open_end && s->text[begin] == '\n' && s->text[begin - 1] == '\r') begin--;
  return (plim_span){begin, p->last_begin};
}

// The end of the comment that follows `at` on the same line; `at` if there is none.
static size_t behind_comment(const plim_settings *s, size_t at) {
  size_t end = at;
  while (end < s->size && (s->text[end] == ' ' || s->text[end] == '\t')) end++;
  bool has_comment = end < s->size && s->text[end] == '#';
  while (has_comment && end < s->size && !is_line_end(s->text[end])) end++;
  return has_comment ? end : at;
}

// Places the new entry between the text before it and the text after it.
static plim_err make_edit(const plim_settings *s, const plim_py_place *p, const plim_chars *entry,
                          plim_edit *out, plim_error *error) {
  plim_chars text = {0};
  plim_span line = line_start(s, p);
  bool has_line = line.end > line.begin, ok = true;
  size_t begin = !p->items ? p->open_end : p->comma_end ? p->comma_end : p->last_end, end = begin;
  if (p->items && !p->comma_end) ok = vec_push(&text, ',');
  if (has_line) {
    end = behind_comment(s, begin);
    ok = ok && plim_chars_add(&text, s->text + begin, end - begin) &&
         plim_chars_add(&text, s->text + line.begin, line.end - line.begin);
  } else if (p->items) ok = ok && vec_push(&text, ' ');
  ok = ok && plim_chars_add(&text, entry->at, entry->len);
  if (p->comma_end) ok = ok && vec_push(&text, ',');
  ok = ok && vec_push(&text, 0);
  plim_span span = {begin, end};
  plim_err err = ok ? plim_edit_make(span, text.at, out, error) : plim_no_memory(error);
  vec_free(&text);
  return err;
}

static plim_err add_value(const plim_settings *s, const plim_py_place *p, const plim_value *value,
                          plim_chars *entry, plim_error *error) {
  bool ok = (!p->spaced_before || vec_push(entry, ' ')) &&
            vec_push(entry, p->is_call ? '=' : ':') && (!p->spaced_behind || vec_push(entry, ' '));
  if (!ok) return plim_no_memory(error);
  return plim_py_encode(value, "", 0, p->quote ? p->quote : quote_of(s), entry, error);
}

// ---- changes ----------------------------------------------------------------------------------------

// Adds default=... to an add_argument that has none.
static plim_err add_default(const plim_settings *s, const plim_setting *setting,
                            const plim_value *value, plim_edit *out, plim_error *error) {
  plim_py_reader reader;
  plim_chars entry = {0};
  plim_err err = find_place(s, setting->key, "default", &reader, error);
  const plim_py_place *p = &reader.place;
  if (!err && (!p->is_found || p->last_end != setting->span.begin || p->unpacks_mapping)) {
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%.96s has no value here that could be changed",
                    setting->key);
    plim_error_at(error, setting->span.begin);
  }
  if (!err && !plim_chars_add_text(&entry, "default")) err = plim_no_memory(error);
  if (!err) err = add_value(s, p, value, &entry, error);
  if (!err) err = make_edit(s, p, &entry, out, error);
  vec_free(&entry);
  plim_py_reader_free(&reader);
  return err;
}

static plim_err change(const plim_settings *s, const plim_setting *setting, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  size_t size = setting->span.end - setting->span.begin;
  if (!size) return add_default(s, setting, value, out, error);
  plim_chars text = {0};
  const char *old = s->text + setting->span.begin;
  plim_err err = plim_py_encode(value, old, size, quote_of(s), &text, error);
  if (!err && !vec_push(&text, 0)) err = plim_no_memory(error);
  if (!err) err = plim_edit_make(setting->span, text.at, out, error);
  vec_free(&text);
  return err;
}

// ---- insertions -------------------------------------------------------------------------------------

static bool is_identifier(const char *text) {
  bool is_word = false;
#define IS_WORD(word) is_word |= strcmp(text, #word) == 0;
  PLIM_PY_WORDS(IS_WORD)
  is_word &= strcmp(text, "match") != 0 && strcmp(text, "case") != 0 && strcmp(text, "type") != 0;
  bool is_fine = *text && !(*text >= '0' && *text <= '9');
  for (; *text; text++)
    is_fine &= *text == '_' || ((*text | 0x20) >= 'a' && (*text | 0x20) <= 'z') ||
               (*text >= '0' && *text <= '9');
  return is_fine && !is_word;
}

static bool is_whole_number(const char *text) {
  size_t digits = strspn(text, "0123456789");
  return digits && digits < 18 && !text[digits] && (text[0] != '0' || digits == 1);
}

static plim_err add_dict_key(const char *part, const plim_py_place *p, char quote,
                             plim_chars *entry, plim_error *error) {
  if (p->items && !p->has_text_keys && is_whole_number(part))
    return plim_chars_add_text(entry, part) ? PLIM_OK : plim_no_memory(error);
  plim_chars text = {0};
  bool ok = true;
  for (; ok && *part; part++) {
    if (*part == '\\' && part[1]) part++;
    ok = vec_push(&text, *part);
  }
  ok = ok && vec_push(&text, 0);
  plim_value key = {.kind = PLIM_VALUE_TEXT, .text = text.at};
  plim_err err = ok ? plim_py_encode(&key, "", 0, quote, entry, error) : plim_no_memory(error);
  vec_free(&text);
  return err;
}

static plim_err refuse(const char *key, const char *why, plim_error *error) {
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "%.96s cannot be added: %s", key, why);
}

static plim_err check_place(const plim_py_reader *r, const char *key, const char *part,
                            plim_error *error) {
  const plim_py_place *p = &r->place;
  if (!p->is_found) return refuse(key, "the file has no such call or dict literal", error);
  if (p->is_uncertain) return refuse(key, "that dict may not be the one that takes effect", error);
  if (p->has_part) return refuse(key, "it is already set", error);
  if (!p->is_call) return PLIM_OK;
  if (plim_py_is_class(&r->names, r->wanted, strlen(r->wanted)))
    return refuse(key, "the class does not declare this field", error);
  if (p->unpacks_mapping)
    return refuse(key, "the call unpacks a mapping (**) that may already contain it", error);
  if (p->is_generator) return refuse(key, "the call's only argument is a generator", error);
  return is_identifier(part) ? PLIM_OK : refuse(key, "it is not a valid argument name", error);
}

static plim_err insert_into(const plim_settings *s, const plim_py_reader *r, const char *key,
                            const char *part, const plim_value *value, plim_edit *out,
                            plim_error *error) {
  const plim_py_place *p = &r->place;
  plim_chars entry = {0};
  plim_err err = check_place(r, key, part, error);
  if (!err && p->is_call && !plim_chars_add_text(&entry, part)) err = plim_no_memory(error);
  if (!err && !p->is_call)
    err = add_dict_key(part, p, p->quote ? p->quote : quote_of(s), &entry, error);
  if (!err) err = add_value(s, p, value, &entry, error);
  if (!err) err = make_edit(s, p, &entry, out, error);
  vec_free(&entry);
  return err;
}

// Reads the text with the new entry again. The reader knows less than Python: if it does not find the new entry,
// there is no safe place for it.
static plim_err check_insertion(const plim_settings *s, const char *key, const plim_edit *edit,
                                plim_error *error) {
  char *text;
  size_t size;
  plim_settings after;
  plim_err err = plim_edits_apply(s->text, s->size, edit, 1, &text, &size, error);
  if (err) return err;
  err = plim_settings_read_like(s, text, size, &after, error);
  const plim_setting *found = err ? NULL : plim_settings_find(&after, key);
  bool is_there = found && found->value.kind != PLIM_VALUE_DERIVED && after.at.len == s->at.len + 1;
  if (!err) plim_settings_clear(&after);
  free(text);
  if (err == PLIM_ERR_NOMEM) return err;
  return is_there ? PLIM_OK : refuse(key, "plimsoll does not understand the code around it", error);
}

static plim_err insert(const plim_settings *s, const char *key, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  size_t part = plim_key_last_part(key);
  if (plim_settings_find(s, key)) return refuse(key, "it is already set", error);
  if (!part) return refuse(key, "there is no safe place for a new constant", error);
  if (key[part] == '-') return refuse(key, "there is no safe place for a new argument", error);
  char *path = plim_copy_of(key, part - 1);
  if (!path) return plim_no_memory(error);
  plim_py_reader reader;
  plim_err err = find_place(s, path, key + part, &reader, error);
  if (!err) err = insert_into(s, &reader, key, key + part, value, out, error);
  if (!err && (err = check_insertion(s, key, out, error))) {
    free(out->text);
    *out = (plim_edit){0};
  }
  if (error) plim_text_disarm(error->message);
  plim_py_reader_free(&reader);
  free(path);
  return err;
}

// ---- removals ---------------------------------------------------------------------------------------

static bool is_name_byte(char c) {
  return c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9') ||
         (unsigned char)c >= 0x80;
}

static size_t back_over_blanks(const plim_settings *s, size_t at) {
  while (at && (s->text[at - 1] == ' ' || s->text[at - 1] == '\t')) at--;
  return at;
}

// The beginning of the key that ends at `at`: a name, a number, or a string on one line. `at` if it is anything else.
static size_t begin_of_key(const plim_settings *s, size_t at) {
  size_t begin = at;
  char quote = at ? s->text[at - 1] : 0;
  if (quote != '"' && quote != '\'') {
    while (begin && is_name_byte(s->text[begin - 1])) begin--;
    return begin;
  }
  for (begin = at - 1; begin && s->text[begin - 1] != quote; begin--)
    if (is_line_end(s->text[begin - 1])) return at;
  return begin ? begin - 1 : at;
}

// Whether the value at `at` ends as an argument or an item does: with , ) or } after any line ends and comments.
static bool is_in_brackets(const plim_settings *s, size_t at) {
  while (at < s->size) {
    size_t end = behind_comment(s, at);
    if (end == at && !memchr(" \t\r\n\\", s->text[at], 5)) break;
    at = end > at ? end : at + 1;
  }
  return at < s->size && memchr(",)}", s->text[at], 3) != NULL;
}

// The entry (key and value) that a value belongs to: an argument or an item of a dict. False if it is neither.
static bool entry_of(const plim_settings *s, plim_span value, plim_span *out) {
  size_t sign = back_over_blanks(s, value.begin);
  bool has_sign = sign && (s->text[sign - 1] == '=' || s->text[sign - 1] == ':');
  size_t key = has_sign ? back_over_blanks(s, sign - 1) : 0;
  size_t begin = key ? begin_of_key(s, key) : 0;
  *out = (plim_span){begin, value.end};
  return key && begin != key && is_in_brackets(s, value.end);
}

static plim_err refuse_entry(const plim_setting *setting, plim_error *error) {
  return plim_removal_refuse(setting, "it is neither an argument of a call nor an item of a dict",
                             error);
}

// Refuses to remove constants, because they are used elsewhere.
static plim_err remove_entry(const plim_settings *s, const plim_setting *setting, plim_edit *out,
                             plim_error *error) {
  plim_span entry;
  if (!entry_of(s, setting->span, &entry)) return refuse_entry(setting, error);
  return plim_entry_remove(s, setting, entry, false, out, error);
}

// The position of the bracket that opens a dict, found backwards from its first value; `at` if there is none.
static size_t opening_before(const plim_settings *s, size_t at) {
  size_t begin = at;
  while (begin && !memchr("{(\n", s->text[begin - 1], 3)) begin--;
  while (begin && is_line_end(s->text[begin - 1])) begin = back_over_blanks(s, begin - 1);
  return begin && memchr("{(", s->text[begin - 1], 2) ? begin - 1 : at;
}

// The position after the bracket that closes the one at `at`; 0 if it is never closed.
static size_t closing_after(const plim_settings *s, size_t at) {
  char quote = 0;
  for (int depth = 0; at < s->size; at++) {
    char c = s->text[at];
    if (quote && c == '\\') at++;
    else if (quote) quote = c == quote ? 0 : quote;
    else if (c == '"' || c == '\'') quote = c;
    else if (c == '#') at = behind_comment(s, at) - 1;
    else if (memchr("{([", c, 3)) depth++;
    else if (memchr("})]", c, 3) && --depth == 0) return at + 1;
  }
  return 0;
}

// Removes a dict literal, or dict(...), that is itself an argument or an item.
static plim_err remove_all(const plim_settings *s, const plim_setting *first, const char *roof,
                           plim_edit *out, plim_error *error) {
  size_t begin = opening_before(s, first->span.begin);
  size_t end = begin < first->span.begin ? closing_after(s, begin) : 0;
  bool is_call =
      end && s->text[begin] == '(' && begin >= 4 && memcmp(s->text + begin - 4, "dict", 4) == 0;
  plim_span entry;
  if (!end || !entry_of(s, (plim_span){begin - (is_call ? 4 : 0), end}, &entry))
    return refuse_entry(first, error);
  return plim_roof_remove(s, first, roof, entry, false, out, error);
}

const plim_editor plim_python_editor = {read, change, insert, remove_entry, remove_all};
