// Finds the place for a key that has to be inserted.
#include <stdio.h>
#include <string.h>

#include "project_places.h"

static bool is_argument(plim_dialect dialect, const plim_setting *setting) {
  if (setting->is_faint || *setting->key == '$')
    return false;                                // a shell variable is not an argument
  if (strstr(setting->key, ".--")) return false; // the parser's arguments are passed on to them
  for (; dialect != PLIM_DIALECTS; dialect = plim_dialect_table[dialect].base)
    for (const plim_key *key = plim_dialect_table[dialect].keys; key->key; key++)
      if (key->flags & PLIM_KEY_ADDABLE && plim_key_is_of(key, setting, true)) return true;
  return false;
}

static size_t roof_size(const char *key) {
  const char *dot = strrchr(key, '.');
  return dot ? (size_t)(dot - key) : 0;
}

static bool is_under_one_roof(const plim_setting *a, const plim_setting *b) {
  size_t n = roof_size(a->key);
  return n == roof_size(b->key) && memcmp(a->key, b->key, n) == 0;
}

// An argument of TrainingArguments in this file next to which `key` can be inserted. `*rival` is one in another place;
// NULL: none.
static const plim_setting *argument_of(const plim_project_file *f, const char *key,
                                       const plim_setting **rival) {
  const plim_setting *found = NULL;
  *rival = NULL;
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_setting *setting = &f->settings.at.at[i];
    if (found && is_under_one_roof(found, setting)) continue;
    if (!is_argument(f->recipe.dialect, setting)) continue;
    if (!plim_call_takes(f, setting->key, key)) continue;
    if (found) return *rival = setting, found;
    found = setting;
  }
  return found;
}

// An argument of a call that does not accept the key; NULL: none.
static const plim_setting *closed_argument(const plim_project_file *f, const char *key) {
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_setting *setting = &f->settings.at.at[i];
    if (is_argument(f->recipe.dialect, setting) && !plim_call_takes(f, setting->key, key))
      return setting;
  }
  return NULL;
}

void plim_project_why_no_place(const plim_project_file *f, const char *key, char *why,
                               size_t size) {
  const plim_setting *rival, *first = argument_of(f, key, &rival);
  const plim_setting *closed = first ? NULL : closed_argument(f, key);
  if (rival)
    snprintf(why, size, "it could be inserted next to %.60s or next to %.60s", first->key,
             rival->key);
  else if (closed) plim_call_refuses(closed->key, key, why, size);
}

static bool is_dashed(const char *key) {
  while (*key == '-') key++;
  return strchr(key, '-') != NULL && !strchr(key, '_');
}

// The full key in the same section as `beside`, in the same spelling.
static void name_beside(const char *beside, const char *key, char out[PLIM_KEY_BYTES]) {
  const char *dot = strrchr(beside, '.');
  size_t roof = dot ? (size_t)(dot - beside) + 1 : strspn(beside, "-");
  size_t used =
      (size_t)snprintf(out, PLIM_KEY_BYTES, "%.*s", (int)(roof < 128 ? roof : 128), beside);
  snprintf(out + used, PLIM_KEY_BYTES - used, "%.100s", key);
  for (size_t i = used; is_dashed(beside) && out[i]; i++)
    if (out[i] == '_') out[i] = '-';
}

bool plim_project_place(const plim_project_file *f, const char *key, bool is_nested,
                        char out[PLIM_KEY_BYTES]) {
  plim_format format = f->settings.format;
  bool is_tree =
      format == PLIM_FORMAT_YAML || format == PLIM_FORMAT_JSON || format == PLIM_FORMAT_TOML;
  const plim_setting *rival, *beside = argument_of(f, key, &rival);
  bool is_flat = is_tree && !plim_dialect_table[f->recipe.dialect].is_nested;
  if (is_flat) snprintf(out, PLIM_KEY_BYTES, "%.200s", key);
  else if (is_nested && beside && !rival) name_beside(beside->key, key, out);
  else return false;
  return plim_project_knows_flag(f, out);
}

// model.model_args.pretrained_model_name_or_path=..., an override of Hydra's.
static bool is_of_model(const plim_setting *setting) {
  static const char name[] = ".pretrained_model_name_or_path";
  size_t n = strlen(setting->key), end = sizeof name - 1;
  return n > end && strcmp(setting->key + n - end, name) == 0 && !strchr("-$", *setting->key) &&
         !setting->is_aside;
}

bool plim_project_place_of_model(const plim_project_file *f, const char *key,
                                 char out[PLIM_KEY_BYTES]) {
  const plim_setting *beside = NULL;
  if (!plim_is_command(f)) return false;
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_setting *setting = &f->settings.at.at[i];
    if (!is_of_model(setting)) continue;
    if (beside && !is_under_one_roof(beside, setting)) return false;
    beside = setting;
  }
  if (beside) name_beside(beside->key, key, out);
  return beside;
}

int plim_project_rank(const plim_project *p, size_t file) {
  const plim_project_file *f = p->files.at[file];
  if (f->recipe.dialect == PLIM_DIALECTS) return 3;
  if (plim_is_command(f)) return 1;
  return f->recipe.dialect == p->dialect ? 0 : 2;
}
