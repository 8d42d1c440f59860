// Turns a sharding strategy off by removing the keys that turned it on.
#include <stdio.h>
#include <string.h>

#include "key_names.h"
#include "project_share.h"
#include "project_steps.h"

static const struct {
  plim_share_kind kind;
  const char *name;
} keys[] = {
    {PLIM_SHARE_ZERO, "deepspeed"},
    {PLIM_SHARE_FSDP, "fsdp"},
    {PLIM_SHARE_FSDP, "fsdp_config"},
    {PLIM_SHARE_FSDP, "fsdp_version"}, // Axolotl's
    {PLIM_SHARE_FSDP, "fsdp_min_num_params"},
    {PLIM_SHARE_FSDP, "fsdp_transformer_layer_cls_to_wrap"},
};
enum { KEYS = sizeof keys / sizeof *keys };

// ---- finding ----------------------------------------------------------------------------------------

// Whether the key is among the run's settings: at the top of a configuration, a flag of a command, or next to a
// key that is read. my_tags.deepspeed is not.
static bool is_at_home(const plim_project_file *f, const char *key) {
  size_t above = plim_key_last_part(key);
  if (!strchr(key, '.') && f->settings.format != PLIM_FORMAT_PYTHON) return true;
  for (int i = 0; i < PLIM_KNOBS; i++) {
    const plim_setting *read = f->recipe.knobs[i].setting;
    if (read && plim_key_last_part(read->key) == above && memcmp(read->key, key, above) == 0)
      return true;
  }
  return false;
}

static const plim_setting *last_of(const plim_project_file *f, const char *name) {
  for (size_t i = f->settings.at.len; i-- > 0;) {
    const plim_setting *setting = &f->settings.at.at[i];
    if (!setting->is_aside && plim_key_is_called(setting->key, name) && is_at_home(f, setting->key))
      return setting;
  }
  return NULL;
}

bool plim_share_roof(const plim_project_file *f, const char *name, char roof[PLIM_KEY_BYTES]) {
  size_t n = strlen(name);
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const char *key = f->settings.at.at[i].key, *at = key;
    for (; (at = strstr(at, name)) != NULL; at++) {
      if ((at > key && at[-1] != '.') || at[n] != '.') continue;
      snprintf(roof, PLIM_KEY_BYTES, "%.*s", (int)(at - key + (ptrdiff_t)n), key);
      if (is_at_home(f, roof)) return true;
    }
  }
  return false;
}

bool plim_share_is_key(const char *key) {
  for (int i = 0; i < KEYS; i++) {
    const char *at = strstr(key, keys[i].name);
    if (at && (at == key || strchr(".-", at[-1]))) return true;
  }
  return false;
}

// Whether the value turns something on; null, false and an empty text do not.
static bool is_turned_on(const plim_setting *setting) {
  const plim_value *v = &setting->value;
  if (v->kind == PLIM_VALUE_TEXT) return *v->text;
  return v->kind != PLIM_VALUE_NULL && (v->kind != PLIM_VALUE_BOOL || v->flag);
}

// ---- removing ---------------------------------------------------------------------------------------

// Finds what to remove for a key; false if there is nothing.
static bool find(const plim_project_file *f, const char *name, const plim_setting **one,
                 char roof[PLIM_KEY_BYTES]) {
  *one = last_of(f, name);
  if (*one && is_turned_on(*one)) return true;
  *one = NULL;
  return plim_share_roof(f, name, roof);
}

static plim_err take_one(const plim_project *p, size_t file, const char *name, bool *is_there,
                         plim_edit_set *out, plim_error *error) {
  plim_project_file now;
  const plim_setting *one;
  plim_edit edit;
  char roof[PLIM_KEY_BYTES];
  plim_err err = plim_step_begin(p, file, out, &now, error);
  if (err) return err;
  *is_there = find(&now, name, &one, roof);
  if (*is_there)
    err = one ? plim_settings_remove(&now.settings, one, &edit, error)
              : plim_settings_remove_all(&now.settings, roof, &edit, error);
  if (!err && *is_there) err = plim_step_add(&now, file, edit, out, error);
  plim_step_end(&now);
  return err;
}

// Removes the key, also if it occurs twice.
static plim_err take(const plim_project *p, size_t file, const char *name, plim_edit_set *out,
                     plim_error *error) {
  bool is_there = true;
  plim_err err = PLIM_OK;
  while (is_there && !err) err = take_one(p, file, name, &is_there, out, error);
  return err;
}

static plim_err note_unnamed(const plim_project *p, plim_dialect dialect, plim_edit_set *out,
                             plim_error *error) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->is.dialect == dialect && !vec_push(&out->unnamed, i))
      return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  return PLIM_OK;
}

plim_err plim_share_take_keys(const plim_project *p, plim_share_kind kind, plim_edit_set *out,
                              plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < p->files.len && !err; i++)
    for (int k = 0; k < KEYS && !err; k++)
      if (keys[k].kind != kind && plim_share_is_trainer(p->files.at[i]->recipe.dialect))
        err = take(p, i, keys[k].name, out, error);
  if (!err && kind != PLIM_SHARE_ZERO) err = note_unnamed(p, PLIM_DIALECT_DEEPSPEED, out, error);
  if (!err && kind != PLIM_SHARE_FSDP) err = note_unnamed(p, PLIM_DIALECT_FSDP, out, error);
  return err;
}

plim_err plim_share_take_blocks(const plim_project *p, size_t file, plim_edit_set *out,
                                plim_error *error) {
  plim_err err = take(p, file, "deepspeed_config", out, error);
  return err ? err : take(p, file, "fsdp_config", out, error);
}
