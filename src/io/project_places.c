// Where a key belongs that is not there yet.
#include <stdio.h>
#include <string.h>

#include "project_impl.h"

// A key of TrainingArguments in this file, wherever they are.
static const plim_setting *argument_of(const plim_project_file *f) {
  for (int i = 0; i < PLIM_KNOBS; i++) {
    const plim_reading *r = &f->recipe.knobs[i];
    bool is_argument = r->setting && r->key && r->key->flags & PLIM_KEY_ADDABLE &&
                       !r->setting->is_faint; // a variable is not beside arguments
    if (is_argument && plim_key_is_of(r->key, r->setting, true)) return r->setting;
  }
  return NULL;
}

static bool is_dashed(const char *key) {
  while (*key == '-') key++;
  return strchr(key, '-') != NULL && !strchr(key, '_');
}

// The key under the same roof as `beside`, in its spelling.
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
  const plim_setting *beside = argument_of(f);
  bool is_flat = is_tree && !plim_dialect_table[f->recipe.dialect].is_nested;
  if (is_flat) snprintf(out, PLIM_KEY_BYTES, "%.200s", key);
  else if (is_nested && beside) name_beside(beside->key, key, out);
  else return false;
  return true;
}

static bool is_command(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_SHELL || f->settings.format == PLIM_FORMAT_DOCKERFILE;
}

int plim_project_rank(const plim_project *p, size_t file) {
  const plim_project_file *f = p->files.at[file];
  if (f->recipe.dialect == PLIM_DIALECTS) return 3;
  if (is_command(f)) return 1;
  return f->recipe.dialect == p->dialect ? 0 : 2;
}
