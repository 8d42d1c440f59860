// Changes values in shell scripts and Dockerfiles. Every change is checked by reading the changed text again.
#include <string.h>

#include "shell_value.h"

#define MAX_BYTES (16u << 20) // size of a script or a Dockerfile

// ---- reading ----------------------------------------------------------------------------------------

static plim_err refuse_odd(const plim_settings *s, plim_error *error) {
  const char *zero = s->size ? memchr(s->text, 0, s->size) : NULL;
  if (s->size > MAX_BYTES)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED, "this %s file is larger than 16 MiB",
                     plim_format_names[s->format]);
  if (!zero) return PLIM_OK;
  plim_err err =
      plim_fail(error, PLIM_ERR_PARSE, "this is not a text file: it contains a zero byte");
  plim_error_at(error, (uint64_t)(zero - s->text));
  return err;
}

plim_err plim_shell_value_read(plim_settings *s, plim_find find, plim_error *error) {
  plim_shell_scanner f = {.s = s};
  plim_err err = refuse_odd(s, error);
  if (!err) err = find(&f, error);
  if (!err) err = plim_scanner_finish(&f, error);
  plim_scanner_clear(&f);
  return err;
}

// ---- checking ---------------------------------------------------------------------------------------

static bool is_same(const plim_setting *a, const plim_setting *b) {
  return strcmp(a->key, b->key) == 0 && a->value.kind == b->value.kind &&
         plim_values_equal(&a->value, &b->value);
}

// Whether only the flag `gone` was lost. The same command must not have it twice; the numbers of the same flag of other
// commands may change.
static bool lost_only(const plim_settings *before, const plim_settings *after, size_t gone) {
  const char *key = before->at.at[gone].key;
  size_t name = strcspn(key + 1, "#") + 1;
  for (size_t i = 0; i < after->at.len; i++) {
    plim_setting a = before->at.at[i < gone ? i : i + 1], b = after->at.at[i];
    bool is_named = strncmp(a.key, key, name) == 0 && (!a.key[name] || a.key[name] == '#');
    if (is_named && strcmp(a.key, key) == 0) return false;
    if (is_named) a.key = b.key;
    if (!is_same(&a, &b)) return false;
  }
  return true;
}

// Whether the settings differ only in one: `changed` has the value, is gone, or (SIZE_MAX) was added.
static bool differs_only_in(const plim_settings *before, const plim_settings *after,
                            const char *key, size_t changed, const plim_value *value) {
  bool is_new = changed == SIZE_MAX, is_there = false;
  bool is_one_less = after->at.len + 1 == before->at.len;
  if (!is_new && is_one_less && value->kind == PLIM_VALUE_BOOL && !value->flag)
    return lost_only(before, after, changed);
  if (after->at.len != before->at.len + is_new) return false;
  for (size_t i = 0, k = 0; k < after->at.len; k++) {
    const plim_setting *now = &after->at.at[k];
    bool has_value = strcmp(now->key, key) == 0 && plim_values_equal(&now->value, value);
    bool is_wanted = (is_new || i == changed) && !is_there && has_value;
    is_there |= is_wanted;
    if (is_wanted && is_new) continue;
    if (i >= before->at.len || (!is_wanted && !is_same(&before->at.at[i], now))) return false;
    i++;
  }
  return is_there;
}

static size_t index_of(const plim_settings *s, const plim_setting *setting) {
  for (size_t i = 0; setting && i < s->at.len; i++)
    if (s->at.at[i].span.begin == setting->span.begin && s->at.at[i].key == setting->key) return i;
  return SIZE_MAX;
}

plim_err plim_edit_check(const plim_settings *s, const char *key, const plim_setting *changed,
                         const plim_value *value, plim_edit *edit, plim_error *error) {
  plim_settings after;
  plim_error ignored;
  char *text = NULL;
  size_t size = 0, index = index_of(s, changed);
  plim_err err = plim_edits_apply(s->text, s->size, edit, 1, &text, &size, error);
  if (!err && plim_settings_read_like(s, text, size, &after, &ignored) == PLIM_OK) {
    if (!differs_only_in(s, &after, key, index, value)) err = PLIM_ERR_UNSUPPORTED;
    plim_settings_clear(&after);
  } else if (!err) err = PLIM_ERR_UNSUPPORTED;
  if (err == PLIM_ERR_UNSUPPORTED) {
    plim_fail(error, err, "this value of %.96s cannot be written here", key);
    plim_error_at(error, edit->span.begin);
  }
  if (err) free(edit->text), *edit = (plim_edit){0};
  free(text);
  return err;
}

// ---- changing ---------------------------------------------------------------------------------------

// The present text of the value, whose spelling is imitated.
static void old_text(const plim_shell_value *found, const char *text, plim_bytes *out) {
  bool is_out;
  plim_bytes read = {0};
  out->len = 0;
  if (!found->is_bare && plim_word_read(found->place, text, found->span, &read, &is_out)) {
    vec_free(out);
    *out = read;
  } else {
    vec_free(&read);
    if (!vec_push(out, 0)) return;
  }
}

// Another flag of the same command whose value is a word for true or false; NULL if there is none.
static const plim_shell_value *flag_with_bool(const plim_shell_scanner *f, size_t group) {
  for (size_t i = 0; i < f->at.len; i++) {
    const plim_shell_value *found = &f->at.at[i];
    if (found->kind == PLIM_FOUND_FLAG && found->group == group && !found->is_bare &&
        found->value.kind == PLIM_VALUE_BOOL)
      return found;
  }
  return NULL;
}

// Adds a value after a flag that had none.
static plim_err give_value(const plim_shell_value *found, const plim_bytes *text, plim_edit *out,
                           plim_error *error) {
  plim_bytes all = {0}, written = {0};
  bool is_out = false;
  plim_err err;
  if (!plim_word_write(found->place, "", 0, text->at, &written, &is_out))
    err = is_out ? plim_no_memory(error)
                 : plim_fail(error, PLIM_ERR_UNSUPPORTED, "%.96s cannot be written here", text->at);
  else if (!vec_reserve(&all, written.len + 2)) err = plim_no_memory(error);
  else {
    strcpy(all.at, found->place == PLIM_WORD_ELEMENT ? ", " : " ");
    strcat(all.at, written.at);
    err = plim_edit_make(found->span, all.at, out, error);
  }
  vec_free(&all);
  vec_free(&written);
  return err;
}

static plim_err change_bare(const plim_settings *s, const plim_shell_scanner *f,
                            const plim_shell_value *found, const plim_value *value, plim_edit *out,
                            plim_error *error) {
  const plim_shell_value *model = flag_with_bool(f, found->group);
  plim_bytes old = {0}, text = {0};
  bool is_out = false;
  plim_err err;
  if (value->kind == PLIM_VALUE_BOOL && value->flag)
    return plim_edit_make(found->span, "", out, error);
  if (value->kind == PLIM_VALUE_BOOL && !model)
    return plim_edit_make(plim_shell_value_words(s, found), "", out, error);
  if (model) old_text(model, s->text, &old);
  if (plim_value_to_text(value, old.len ? old.at : "", &text, &is_out))
    err = give_value(found, &text, out, error);
  else
    err = is_out ? plim_no_memory(error)
                 : plim_fail(error, PLIM_ERR_UNSUPPORTED, "a flag cannot have this value");
  vec_free(&old);
  vec_free(&text);
  return err;
}

static plim_err change_written(const plim_settings *s, const plim_shell_value *found,
                               const plim_value *value, plim_edit *out, plim_error *error) {
  plim_bytes spelling = {0}, text = {0}, written = {0};
  size_t size = found->span.end - found->span.begin;
  const char *old = s->text + found->span.begin;
  bool is_out = false, is_override = found->kind == PLIM_FOUND_OVERRIDE;
  plim_err err;
  if (found->is_several || (is_override && !found->is_joined)) {
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%.96s is not a single value here", found->name);
    plim_error_at(error, found->span.begin);
    return err;
  }
  old_text(found, s->text, &spelling);
  bool is_explicit = spelling.len && (is_override ? plim_override_text : plim_value_to_text)(
                                         value, spelling.at, &text, &is_out);
  if (is_explicit && plim_word_write(found->place, old, size, text.at, &written, &is_out))
    err = plim_edit_make(found->span, written.at, out, error);
  else if (is_out) err = plim_no_memory(error);
  else {
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "this value of %.96s cannot be written here",
                    found->name);
    plim_error_at(error, found->span.begin);
  }
  vec_free(&spelling);
  vec_free(&text);
  vec_free(&written);
  return err;
}

const plim_shell_value *plim_shell_value_again(const plim_shell_scanner *f,
                                               const plim_setting *setting) {
  for (size_t i = 0; i < f->at.len; i++)
    if (f->at.at[i].span.begin == setting->span.begin &&
        f->at.at[i].span.end == setting->span.end &&
        strncmp(f->at.at[i].name, setting->key, strlen(f->at.at[i].name)) == 0)
      return &f->at.at[i];
  return NULL;
}

plim_err plim_shell_value_change(const plim_settings *s, const plim_setting *setting,
                                 plim_find find, const plim_value *value, plim_edit *out,
                                 plim_error *error) {
  plim_settings again = {.format = s->format, .text = s->text, .size = s->size};
  plim_shell_scanner f = {.s = &again};
  plim_err err = find(&f, error);
  const plim_shell_value *found = err ? NULL : plim_shell_value_again(&f, setting);
  if (!err && !found)
    err = plim_fail(error, PLIM_ERR_ARGUMENT, "%.96s is not a setting of this file", setting->key);
  if (!err && found->is_bare) err = change_bare(s, &f, found, value, out, error);
  else if (!err) err = change_written(s, found, value, out, error);
  if (!err) err = plim_edit_check(s, setting->key, setting, value, out, error);
  plim_scanner_clear(&f);
  plim_settings_clear(&again);
  return err;
}

// ---- overrides --------------------------------------------------------------------------------------

static bool append(plim_bytes *out, const char *text, bool *is_out) {
  size_t n = strlen(text);
  if (!vec_reserve(out, n + 1)) return *is_out = true, false;
  memcpy(out->at + out->len, text, n + 1);
  out->len += n;
  return true;
}

static bool needs_quotes(const char *text) {
  size_t n = strlen(text);
  bool is_list = n >= 2 && *text == '[' && text[n - 1] == ']';
  bool is_dict = n >= 2 && *text == '{' && text[n - 1] == '}';
  if (is_list || is_dict) return false;
  return !*text || strpbrk(text, ",()[]{}'\"=\\ \t\n") || strcmp(text, "null") == 0;
}

bool plim_override_text(const plim_value *value, const char *old, plim_bytes *out, bool *is_out) {
  bool was_quoted = strlen(old) >= 2 && strchr("'\"", *old);
  const char *text = value->text;
  out->len = 0;
  *is_out = false;
  if (value->kind == PLIM_VALUE_NULL) return append(out, "null", is_out);
  if (value->kind != PLIM_VALUE_TEXT) return plim_value_to_text(value, old, out, is_out);
  if (!was_quoted && !needs_quotes(text)) return append(out, text, is_out);
  const char *quote = (was_quoted && *old == '"') || strchr(text, '\'') ? "\"" : "'";
  if (strchr(text, *quote) || strchr(text, '\\')) return false;
  return append(out, quote, is_out) && append(out, text, is_out) && append(out, quote, is_out);
}
