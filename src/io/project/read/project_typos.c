// Finds unknown keys that are one or two letters away from a known key.
#include <stdio.h>
#include <string.h>

#include "project_impl.h"
#include "project_keys.h"
#include "suggest.h"

enum { LONG = 10, VERY_LONG = 16 }; // letters; shorter names may be similar by chance

static const char *last_part(const char *key) {
  const char *dot = strrchr(key, '.');
  return dot ? dot + 1 : key;
}

static bool is_row_of(const plim_key *keys, const char *name) {
  for (const plim_key *key = keys; key->key; key++) {
    const char *last = last_part(key->key);
    if (*last != '*' && plim_key_fits(name, last, true)) return true;
  }
  return false;
}

// Whether any ecosystem has the key.
static bool is_known(const char *name) {
  for (int i = 0; i < PLIM_DIALECTS; i++)
    if (is_row_of(plim_dialect_table[i].keys, name)) return true;
  return is_row_of(plim_launch_keys, name);
}

static size_t gap(size_t a, size_t b) { return a > b ? a - b : b - a; }

static bool is_near(const char *name, const char *key) {
  size_t size = strlen(key), most = size >= VERY_LONG ? 2 : 1;
  if (size < LONG || strpbrk(key, "*?$") || gap(size, strlen(name)) > most) return false;
  return plim_edit_distance(name, key) <= most;
}

// The word of a list of keys, separated by blanks, whose last part is near the name; it is written to `out`.
static const char *near_in(const char *keys, const char *name, char out[PLIM_KEY_BYTES]) {
  for (size_t n; *(keys += strspn(keys, " ")); keys += n) {
    n = strcspn(keys, " ");
    snprintf(out, PLIM_KEY_BYTES, "%.*s", (int)n, keys);
    if (is_near(name, last_part(out))) return last_part(out);
  }
  return NULL;
}

static const char *meant(plim_dialect at, const char *name, char out[PLIM_KEY_BYTES]) {
  plim_dialect own = at;
  for (; at != PLIM_DIALECTS; at = plim_dialect_table[at].base)
    for (const plim_key *key = plim_dialect_table[at].keys; key->key; key++)
      if (is_near(name, last_part(key->key))) return last_part(key->key);
  for (size_t i = 0; i < PLIM_KEY_TABLES && plim_tables_of_dialect[own][i]; i++)
    for (const plim_other_key *row = plim_tables_of_dialect[own][i]; row->keys; row++) {
      const char *found = near_in(row->keys, name, out);
      if (found) return found;
    }
  return NULL;
}

// Keys of trees, and flags that a command gives to an ecosystem's own parser.
static bool is_read_by_others(const plim_project_file *f, const plim_setting *setting) {
  if (f->settings.format <= PLIM_FORMAT_TOML) return true;
  return setting->group && !setting->is_aside && !f->flags && strncmp(setting->key, "--", 2) == 0;
}

const char *plim_project_meant_key(const plim_project_file *f, const plim_setting *setting,
                                   char out[PLIM_KEY_BYTES]) {
  char name[PLIM_KEY_BYTES];
  const plim_other_key *row;
  plim_dialect dialect = f->recipe.dialect;
  bool has_keys = dialect != PLIM_DIALECTS && dialect != PLIM_DIALECT_HOME;
  if (!has_keys || !is_read_by_others(f, setting)) return NULL;
  plim_key_name(setting->key, name);
  if (setting->group) name[strcspn(name, "#")] = 0;
  const char *word = last_part(name);
  if (strlen(word) + 1 < LONG || is_known(word)) return NULL;
  const char *key = meant(dialect, word, out);
  return key && plim_project_key_kind(f, setting, &row) == PLIM_KEY_UNKNOWN ? key : NULL;
}

void plim_project_note_typos(plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    for (size_t k = 0; k < f->settings.at.len; k++) {
      const plim_setting *setting = &f->settings.at.at[k];
      char meant[PLIM_KEY_BYTES];
      const char *key = plim_project_meant_key(f, setting, meant);
      if (!key) continue;
      plim_note_add(&p->notes, "unknown.key", NULL, "%s is not a known key; did you mean %s?",
                    setting->key, key);
      plim_note_at(&p->notes, f->path, setting->line);
    }
  }
}
