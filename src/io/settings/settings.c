#include "settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "key_names.h"
#include "sort.h"

const char *const plim_format_names[PLIM_FORMATS] = {"YAML",   "JSON",  "TOML",
                                                     "Python", "shell", "Dockerfile"};

// ---- settings ---------------------------------------------------------------------------------------

typedef struct {
  const char *key;
  uint32_t at;
} sorted_key;

static int by_key(const void *x, const void *y) {
  const sorted_key *a = x, *b = y;
  int order = strcmp(a->key, b->key);
  return order ? order : (a->at > b->at) - (a->at < b->at);
}

bool plim_settings_sort(plim_settings *s) {
  s->by_key.len = 0;
  sorted_key *sorted = malloc((s->at.len + 1) * sizeof *sorted);
  bool ok = sorted && vec_reserve(&s->by_key, s->at.len);
  for (size_t i = 0; ok && i < s->at.len; i++)
    sorted[i] = (sorted_key){s->at.at[i].key, (uint32_t)i};
  if (ok) plim_sort(sorted, s->at.len, sizeof *sorted, by_key);
  for (size_t i = 0; ok && i < s->at.len; i++) s->by_key.at[s->by_key.len++] = sorted[i].at;
  free(sorted);
  return ok;
}

static plim_err sort_keys(plim_settings *s, plim_error *error) {
  bool ok = s->by_key.len == s->at.len || plim_settings_sort(s);
  return ok ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

plim_err plim_settings_read_by(const plim_editor *editor, plim_format format, const char *text,
                               size_t size, plim_settings *out, plim_error *error) {
  *out = (plim_settings){.format = format, .editor = editor, .text = text, .size = size};
  plim_err err = editor->read(out, error);
  if (!err) err = sort_keys(out, error);
  if (err) plim_settings_clear(out);
  return err;
}

// In trees. Which commands of a script do not train shows in the text.
static void adopt_aside(plim_settings *s, const plim_settings *like) {
  if (s->format > PLIM_FORMAT_TOML) return;
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *had = plim_settings_find(like, s->at.at[i].key);
    s->at.at[i].is_aside = had && had->is_aside;
  }
}

plim_err plim_settings_read_like(const plim_settings *like, const char *text, size_t size,
                                 plim_settings *out, plim_error *error) {
  plim_err err = plim_settings_read_by(like->editor, like->format, text, size, out, error);
  if (!err) adopt_aside(out, like);
  return err;
}

void plim_settings_clear(plim_settings *s) {
  for (size_t i = 0; i < s->strings.len; i++) free(s->strings.at[i]);
  vec_free(&s->strings);
  vec_free(&s->at);
  vec_free(&s->by_key);
  vec_free(&s->conditions);
  vec_free(&s->loads);
}

size_t plim_settings_below(const plim_settings *s, const char *prefix, size_t size) {
  size_t low = 0, high = s->by_key.len;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strncmp(s->at.at[s->by_key.at[middle]].key, prefix, size) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

bool plim_settings_has_below(const plim_settings *s, const char *prefix) {
  size_t size = strlen(prefix), low = plim_settings_below(s, prefix, size);
  return low < s->by_key.len && strncmp(s->at.at[s->by_key.at[low]].key, prefix, size) == 0;
}

// Searches linearly: settings are not sorted while they are being read.
static const plim_setting *find_unsorted(const plim_settings *s, const char *key) {
  for (size_t i = s->at.len; i-- > 0;)
    if (strcmp(s->at.at[i].key, key) == 0) return &s->at.at[i];
  return NULL;
}

const plim_setting *plim_settings_find(const plim_settings *s, const char *key) {
  if (s->by_key.len != s->at.len) return find_unsorted(s, key);
  size_t low = 0, high = s->at.len; // searches the first setting with a greater key
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(s->at.at[s->by_key.at[middle]].key, key) <= 0) low = middle + 1;
    else high = middle;
  }
  const plim_setting *last = low ? &s->at.at[s->by_key.at[low - 1]] : NULL;
  return last && strcmp(last->key, key) == 0 ? last : NULL;
}

plim_err plim_settings_change(const plim_settings *s, const plim_setting *setting,
                              const plim_value *value, plim_edit *out, plim_error *error) {
  *out = (plim_edit){0};
  if (setting->value.kind != PLIM_VALUE_DERIVED)
    return s->editor->change(s, setting, value, out, error);
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED, "%.96s is computed, not a plain value: %.96s",
                setting->key, setting->value.text);
  if (setting->root)
    plim_error_hint(error, "it is computed from %s: change that instead", setting->root);
  plim_error_at(error, setting->span.begin);
  return err;
}

plim_err plim_settings_insert(const plim_settings *s, const char *key, const plim_value *value,
                              plim_edit *out, plim_error *error) {
  *out = (plim_edit){0};
  return s->editor->insert(s, key, value, out, error);
}

plim_err plim_settings_remove(const plim_settings *s, const plim_setting *setting, plim_edit *out,
                              plim_error *error) {
  *out = (plim_edit){0};
  return s->editor->remove(s, setting, out, error);
}

bool plim_key_is_below(const char *key, const char *roof) {
  size_t n = strlen(roof);
  return strncmp(key, roof, n) == 0 && key[n] == '.';
}

plim_err plim_settings_remove_all(const plim_settings *s, const char *roof, plim_edit *out,
                                  plim_error *error) {
  const plim_setting *first = NULL;
  *out = (plim_edit){0};
  for (size_t i = s->at.len; i-- > 0;)
    if (plim_key_is_below(s->at.at[i].key, roof)) first = &s->at.at[i];
  if (first && s->editor->remove_all) return s->editor->remove_all(s, first, roof, out, error);
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "%.96s cannot be removed", roof);
}

// ---- edits ------------------------------------------------------------------------------------------

static int by_begin(const void *x, const void *y) {
  const plim_edit *a = x, *b = y;
  return (a->span.begin > b->span.begin) - (a->span.begin < b->span.begin);
}

static bool are_apart(const plim_edit *edits, size_t count, size_t size) {
  for (size_t i = 0; i < count; i++) {
    if (edits[i].span.begin > edits[i].span.end || edits[i].span.end > size) return false;
    if (i && edits[i - 1].span.end > edits[i].span.begin) return false;
  }
  return true;
}

// Writes the edited text; `edits` are in the order of the text.
static size_t write_edited(const char *text, size_t size, const plim_edit *edits, size_t count,
                           char *out) {
  size_t from = 0, used = 0;
  for (size_t i = 0; i < count; i++) {
    size_t kept = edits[i].span.begin - from, added = strlen(edits[i].text);
    if (out) memcpy(out + used, text + from, kept);
    if (out) memcpy(out + used + kept, edits[i].text, added);
    used += kept + added;
    from = edits[i].span.end;
  }
  if (out) memcpy(out + used, text + from, size - from);
  return used + size - from;
}

plim_err plim_edits_apply(const char *text, size_t size, const plim_edit *edits, size_t count,
                          char **out, size_t *out_size, plim_error *error) {
  plim_err err = PLIM_OK;
  plim_edit *sorted = malloc((count + 1) * sizeof *sorted);
  *out = NULL;
  if (!sorted) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (count) memcpy(sorted, edits, count * sizeof *sorted);
  plim_sort(sorted, count, sizeof *sorted, by_begin);
  if (!are_apart(sorted, count, size))
    err = plim_fail(error, PLIM_ERR_ARGUMENT, "two changes overlap");
  else {
    *out_size = write_edited(text, size, sorted, count, NULL);
    *out = malloc(*out_size + 1);
    if (!*out) err = plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
    else (*out)[write_edited(text, size, sorted, count, *out)] = 0;
  }
  free(sorted);
  return err;
}

// ---- for editors ------------------------------------------------------------------------------------

const char *plim_settings_keep(plim_settings *s, const char *text, size_t size) {
  char *copy = plim_copy_of(text, size);
  if (copy && vec_push(&s->strings, copy)) return copy;
  s->has_failed = true;
  free(copy);
  return NULL;
}

bool plim_settings_add(plim_settings *s, plim_setting setting) {
  return setting.key && setting.comment && vec_push(&s->at, setting);
}

plim_err plim_edit_make(plim_span span, const char *text, plim_edit *out, plim_error *error) {
  *out = (plim_edit){span, strdup(text)};
  return out->text ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

// ---- in words ---------------------------------------------------------------------------------------

void plim_setting_label(const plim_setting *setting, char *out, size_t size) {
  char label[PLIM_KEY_BYTES];
  size_t used = 0;
  for (const char *at = setting->key; *at && used + 1 < sizeof label; at++) {
    if (*at == '#' && at > setting->key && isdigit((unsigned char)at[1])) {
      while (isdigit((unsigned char)at[1])) at++;
      continue;
    }
    label[used++] = *at;
  }
  label[used] = 0;
  bool is_long = used >= size;
  const char *tail = is_long ? label + used - (size - 1) : label;
  const char *dot = is_long ? strchr(tail, '.') : NULL;
  if (dot && dot[1]) tail = dot + 1;
  while (is_long && ((unsigned char)*tail & 0xC0) == 0x80) tail++; // inside of a character
  snprintf(out, size, "%s", tail);
}

void plim_settings_explain_two(const plim_setting *a, const char *first, const plim_setting *b,
                               const char *second, char *out, size_t size) {
  char one[64], other[64];
  plim_setting_label(a, one, sizeof one);
  plim_setting_label(b, other, sizeof other);
  if (strcmp(one, other) == 0)
    snprintf(out, size, "%s is %.40s in line %d and %.40s in line %d", one, first, a->line, second,
             b->line);
  else
    snprintf(out, size, "%s is %.30s in line %d, but %s is %.30s in line %d", one, first, a->line,
             other, second, b->line);
}
