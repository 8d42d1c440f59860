// Knobs with custom names: plimsoll.yaml and --set knob=file:key.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_impl.h"
#include "suggest.h"
#include "text_file.h"

// ---- bindings ---------------------------------------------------------------------------------------

static void free_binding(plim_binding *b) {
  if (!b) return;
  for (size_t i = 0; i < b->words.len; i++) {
    free((char *)b->words.at[i].file);
    free((char *)b->words.at[i].knob);
  }
  vec_free(&b->words);
  free(b->path);
  free(b->name);
  free(b);
}

void plim_bindings_clear(plim_project *p) {
  for (size_t i = 0; i < p->bindings.len; i++) free_binding(p->bindings.at[i]);
  vec_free(&p->bindings);
}

static plim_binding *bind(plim_project *p, plim_knob knob, const char *path, size_t path_size,
                          const char *name, bool is_from_names) {
  plim_binding *b = calloc(1, sizeof *b);
  if (!b) return NULL;
  b->path = plim_copy_of(path, path_size);
  b->name = strdup(name);
  b->key = plim_natural_keys[knob];
  b->is_from_names = is_from_names;
  if (b->path && b->name && vec_push(&p->bindings, b)) return b;
  free_binding(b);
  return NULL;
}

plim_err plim_project_bind(plim_project *p, plim_knob knob, const char *path, const char *key,
                           plim_error *error) {
  bool ok = bind(p, knob, path, strlen(path), key, false) != NULL;
  return ok ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

// ---- plimsoll.yaml ----------------------------------------------------------------------------------

bool plim_is_names(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  return strcmp(name, "plimsoll.yaml") == 0 || strcmp(name, "plimsoll.yml") == 0;
}

static const plim_project_file *names_of(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (plim_is_names(p->files.at[i]->path)) return p->files.at[i];
  return NULL;
}

static bool starts_with(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

// Removes the escapes of a key: "a\.b" becomes "a.b".
static void unescape(const char *key, char *out, size_t size) {
  size_t used = 0;
  for (; *key && used + 1 < size; key++)
    if (*key != '\\' || key[1] != '.') out[used++] = *key;
  out[used] = 0;
}

plim_dialect plim_names_dialect(const plim_project *p, const char *path) {
  const plim_project_file *names = names_of(p);
  for (size_t i = 0; names && i < names->settings.at.len; i++) {
    const plim_setting *setting = &names->settings.at.at[i];
    char file[256];
    if (!starts_with(setting->key, "files.") || setting->value.kind != PLIM_VALUE_TEXT) continue;
    unescape(setting->key + strlen("files."), file, sizeof file);
    size_t at;
    if (!plim_project_find(p, file, &at, NULL) && strcmp(p->files.at[at]->path, path) == 0)
      return plim_dialect_named(setting->value.text);
  }
  return PLIM_DIALECTS;
}

static plim_err unknown_knob(const char *name, plim_error *error) {
  const char *known[PLIM_KNOBS];
  for (int i = 0; i < PLIM_KNOBS; i++) known[i] = plim_knob_table[i].name;
  const char *close = plim_suggest(name, known, PLIM_KNOBS);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "there is no knob %.80s", name);
  if (close) plim_error_hint(error, "%s", close);
  return err;
}

// Reads a place such as "config.py:BATCH" under knobs.NAME or knobs.NAME.0.
static plim_err read_short(plim_project *p, plim_knob knob, const plim_setting *setting,
                           plim_error *error) {
  const char *text = setting->value.kind == PLIM_VALUE_TEXT ? setting->value.text : "";
  const char *colon = strchr(text, ':');
  if (!colon || colon == text || !colon[1]) {
    plim_err err =
        plim_fail(error, PLIM_ERR_PARSE, "%.80s is not of the form FILE:KEY", setting->key);
    plim_error_at(error, setting->span.begin);
    return err;
  }
  bool ok = bind(p, knob, text, (size_t)(colon - text), colon + 1, true) != NULL;
  return ok ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

static bool add_word(plim_binding *b, const char *file, const char *knob) {
  plim_word word = {strdup(file), strdup(knob)};
  if (word.file && word.knob && vec_push(&b->words, word)) return true;
  free((char *)word.file);
  free((char *)word.knob);
  return false;
}

// Reads knobs.NAME.values.FILE_WORD: KNOB_WORD.
static bool read_values(plim_binding *b, const plim_settings *s, const char *prefix) {
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *setting = &s->at.at[i];
    char word[128], knob[64];
    if (!starts_with(setting->key, prefix)) continue;
    unescape(setting->key + strlen(prefix), word, sizeof word);
    plim_value_print(&setting->value, knob, sizeof knob);
    bool is_flag = setting->value.kind == PLIM_VALUE_BOOL; // on and off are booleans in YAML
    if (!add_word(b, word, is_flag ? (setting->value.flag ? "on" : "off") : knob)) return false;
  }
  if (!b->words.len) return true;
  if (!vec_push(&b->words, (plim_word){0})) return false;
  b->key.words = b->words.at;
  b->key.how = PLIM_AS_WORDS;
  return true;
}

// Reads knobs.NAME.file and knobs.NAME.key.
static plim_err read_long(plim_project *p, plim_knob knob, const plim_settings *s, const char *name,
                          const plim_setting *file, plim_error *error) {
  char key[128];
  snprintf(key, sizeof key, "knobs.%.64s.key", name);
  const plim_setting *found = plim_settings_find(s, key);
  bool is_text =
      found && found->value.kind == PLIM_VALUE_TEXT && file->value.kind == PLIM_VALUE_TEXT;
  if (!is_text) return plim_fail(error, PLIM_ERR_PARSE, "knobs.%.64s has a file but no key", name);
  plim_binding *b =
      bind(p, knob, file->value.text, strlen(file->value.text), found->value.text, true);
  snprintf(key, sizeof key, "knobs.%.64s.values.", name);
  bool ok = b && read_values(b, s, key);
  return ok ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

static plim_err read_entry(plim_project *p, const plim_settings *s, const plim_setting *setting,
                           plim_error *error) {
  char name[65];
  const char *from = setting->key + strlen("knobs.");
  size_t size = strcspn(from, ".");
  snprintf(name, sizeof name, "%.*s", (int)(size < 64 ? size : 64), from);
  const char *rest = from + size;
  plim_knob knob = plim_knob_named(name);
  if (knob == PLIM_KNOBS) return unknown_knob(name, error);
  if (strcmp(rest, ".file") == 0) return read_long(p, knob, s, name, setting, error);
  if (strcmp(rest, ".key") == 0 || starts_with(rest, ".values.")) return PLIM_OK;
  return read_short(p, knob, setting, error);
}

// A file that was not given is accepted; an ambiguous name is not.
static plim_err check_file(const plim_project *p, const plim_setting *setting, plim_error *error) {
  char file[256];
  size_t at;
  plim_error why = {0};
  unescape(setting->key + strlen("files."), file, sizeof file);
  plim_err err = plim_project_find(p, file, &at, &why);
  if (at == SIZE_MAX) return PLIM_OK;
  if (err && error) *error = why;
  return err;
}

// Refuses a knob outside the section knobs:, or an unknown section.
static plim_err refuse_section(const plim_setting *setting, plim_error *error) {
  static const char *const sections[] = {"knobs", "files"};
  char name[65];
  size_t size = strcspn(setting->key, ".");
  snprintf(name, sizeof name, "%.*s", (int)(size < 64 ? size : 64), setting->key);
  bool is_knob = plim_knob_named(name) != PLIM_KNOBS;
  const char *close = plim_suggest(name, sections, 2);
  plim_err err =
      is_knob ? plim_fail(error, PLIM_ERR_PARSE, "%s is outside the section knobs:", name)
              : plim_fail(error, PLIM_ERR_PARSE,
                          "there is no section %s; the sections are knobs: and files:", name);
  plim_error_at(error, setting->span.begin);
  if (is_knob)
    plim_error_hint(error, "write \"knobs:\" on a line above it and indent it: \"  %s: ...\"",
                    name);
  else if (close) plim_error_hint(error, "%s:", close);
  return err;
}

static plim_err read_setting(plim_project *p, const plim_settings *s, const plim_setting *setting,
                             plim_error *error) {
  if (starts_with(setting->key, "knobs.")) return read_entry(p, s, setting, error);
  if (starts_with(setting->key, "files.")) return check_file(p, setting, error);
  bool is_empty = strcmp(setting->key, "knobs") == 0 || strcmp(setting->key, "files") == 0;
  return is_empty ? PLIM_OK : refuse_section(setting, error);
}

plim_err plim_names_read(plim_project *p, plim_error *error) {
  const plim_project_file *names = names_of(p);
  plim_err err = PLIM_OK;
  for (size_t i = 0; names && i < names->settings.at.len && !err; i++)
    err = read_setting(p, &names->settings, &names->settings.at.at[i], error);
  return err ? plim_error_file(error, err, names->path) : PLIM_OK;
}

// ---- resolving --------------------------------------------------------------------------------------

static bool is_number(const plim_setting *setting) {
  return setting->value.kind == PLIM_VALUE_INTEGER || setting->value.kind == PLIM_VALUE_REAL;
}

// Lists the keys that could be meant; for a number, only keys with numbers.
static void list_keys(const plim_project_file *f, const plim_binding *b, char *out, size_t size) {
  size_t used = 0;
  *out = 0;
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_setting *setting = &f->settings.at.at[i];
    if (b->key.how == PLIM_AS_NUMBER && !is_number(setting)) continue;
    int n = snprintf(out + used, size - used, "%s%s", used ? ", " : "", setting->key);
    if (n < 0 || (size_t)n + sizeof ", ..." > size - used) {
      snprintf(out + used, size - used, "%s...", used ? ", " : "");
      return;
    }
    used += (size_t)n;
  }
}

// A key that this one may be a misspelling of; NULL: none.
static const char *close_key(const plim_project_file *f, const char *name) {
  const char **known = malloc((f->settings.at.len + 1) * sizeof *known);
  for (size_t i = 0; known && i < f->settings.at.len; i++) known[i] = f->settings.at.at[i].key;
  const char *close = known ? plim_suggest(name, known, f->settings.at.len) : NULL;
  free(known);
  return close;
}

static plim_err no_key(const plim_project_file *f, const plim_binding *b, plim_error *error) {
  char keys[240];
  const char *close = close_key(f, b->name);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "the file has no key %.120s", b->name);
  list_keys(f, b, keys, sizeof keys);
  if (close) plim_error_hint(error, "did you mean %.200s?", close);
  else if (*keys)
    plim_error_hint(error, "keys in %.80s%s: %s", f->path,
                    b->key.how == PLIM_AS_NUMBER ? " whose value is a number" : "", keys);
  return plim_error_file(error, err, f->path);
}

// A value that the knob could have there.
static plim_value sample_of(const plim_key *key) {
  plim_value value = {.kind = PLIM_VALUE_INTEGER, .integer = 1}, out;
  if (key->how == PLIM_AS_NUMBER) return value;
  value = (plim_value){.kind = PLIM_VALUE_TEXT, .text = "on"};
  return plim_key_inverse(key, &value, &out) ? out : value;
}

// Whether the key can be added to the file: nothing sets the knob, no existing key is similar, and there is a place for
// it.
static bool can_be_added(const plim_project *p, const plim_project_file *f, const plim_binding *b) {
  plim_value sample = sample_of(&b->key);
  plim_edit edit;
  bool is_explicit = p->knobs[b->key.knob].origin >= PLIM_UNCLEAR;
  if (is_explicit || close_key(f, b->name)) return false;
  if (plim_settings_insert(&f->settings, b->name, &sample, &edit, NULL)) return false;
  free(edit.text);
  return true;
}

const plim_binding *plim_binding_to_add(const plim_project *p, plim_knob knob, size_t *file) {
  for (size_t i = 0; i < p->bindings.len; i++) {
    const plim_binding *b = p->bindings.at[i];
    if (b->key.knob != knob || plim_project_find(p, b->path, file, NULL)) continue;
    if (!plim_settings_find(&p->files.at[*file]->settings, b->name)) return b;
  }
  return NULL;
}

// Whether the missing key is the one that the file's ecosystem has for this knob.
static bool is_own_key(const plim_project_file *f, const plim_binding *b) {
  for (plim_dialect at = f->recipe.dialect; at != PLIM_DIALECTS; at = plim_dialect_table[at].base)
    for (const plim_key *key = plim_dialect_table[at].keys; key->key; key++)
      if (key->knob == b->key.knob && key->flags & PLIM_KEY_ADDABLE &&
          strcmp(key->key, b->name) == 0)
        return true;
  return false;
}

static void agree(plim_project *p, plim_project_knob *k, plim_knob_place place,
                  const plim_reading *r) {
  bool is_first = !k->place_count;
  plim_knob_add_place(k, place);
  if (is_first) {
    k->origin = r->origin, k->value = r->value, k->is_fixed = r->is_fixed;
    memcpy(k->why, r->why, sizeof k->why);
  } else if (k->origin == PLIM_EXPLICIT && !plim_value_same(&k->value, &r->value)) {
    k->origin = PLIM_UNCLEAR, k->value = (plim_value){0};
    k->is_fixed = k->differs = true;
    snprintf(k->why, sizeof k->why, "%.90s and %.90s differ", p->files.at[k->places[0].file]->path,
             p->files.at[place.file]->path);
  }
}

plim_err plim_bindings_decide(plim_project *p, plim_knob knob, plim_error *error) {
  plim_project_knob decided = {0};
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < p->bindings.len && !err; i++) {
    const plim_binding *b = p->bindings.at[i];
    if (b->key.knob != knob) continue;
    size_t file;
    err = plim_project_find(p, b->path, &file, error);
    if (err) return err;
    plim_project_file *f = p->files.at[file];
    const plim_setting *setting = plim_settings_find(&f->settings, b->name);
    if (!setting && is_own_key(f, b)) continue; // it can be inserted without a binding
    if (!setting && can_be_added(p, f, b)) continue;
    if (!setting) return no_key(f, b, error);
    plim_reading r;
    err = plim_reading_of(&f->settings, setting, &b->key, &r, error);
    if (!err) agree(p, &decided, (plim_knob_place){file, r.setting, &b->key, r.value}, &r);
  }
  if (!err && decided.place_count) p->knobs[knob] = decided;
  return err;
}
