// Index of settings by name over all files, because conditions and references of scripts look up many of them.
#include <string.h>

#include "hash.h"
#include "literals.h"
#include "project_impl.h"

#define NONE UINT32_MAX

static uint64_t hash_of(plim_name_kind_of kind, const char *name) {
  return plim_text_hash((uint64_t)kind, name, strlen(name));
}

// Two settings of the same name in one file are enough: it is not known which one counts. All settings of commands are
// kept.
static bool is_enough(const plim_setting_names *names, plim_name_kind_of kind, uint32_t first,
                      uint32_t file) {
  if (kind == PLIM_NAME_OF_FLAG || first == NONE) return false;
  uint32_t second = names->at.at[first].next;
  return names->at.at[first].file == file && second != NONE && names->at.at[second].file == file;
}

static bool add(plim_setting_names *names, plim_name_kind_of kind, const char *name, size_t file,
                size_t setting) {
  uint64_t hash = hash_of(kind, name);
  const uint32_t *found = plim_hash_find(&names->first, hash);
  uint32_t first = found ? *found : NONE;
  if (is_enough(names, kind, first, (uint32_t)file)) return true;
  plim_named_setting entry = {(uint32_t)file, (uint32_t)setting, first};
  return vec_push(&names->at, entry) &&
         plim_hash_put(&names->first, hash, (uint32_t)names->at.len - 1);
}

// Indexes --batch-size#2 of a command as batch_size, and -b as it is.
static bool add_flag(plim_setting_names *names, const plim_setting *x, size_t file,
                     size_t setting) {
  char name[PLIM_KEY_BYTES];
  if (x->key[0] != '-' || x->is_aside) return true;
  if (x->key[1] == '-') plim_key_name(x->key, name);
  else snprintf(name, sizeof name, "%s", x->key);
  name[strcspn(name, "#")] = 0;
  return add(names, PLIM_NAME_OF_FLAG, name, file, setting);
}

// Indexes parser.--use-lora of a script, and Class.use_lora, as use_lora.
static bool add_argument(plim_setting_names *names, const plim_setting *x, size_t file,
                         size_t setting) {
  char name[PLIM_KEY_BYTES];
  const char *flag = strstr(x->key, ".--"), *dot = strchr(x->key, '.');
  bool ok = true;
  if (flag) plim_key_name(flag + 3, name);
  if (flag) ok = add(names, PLIM_NAME_OF_ARGUMENT, name, file, setting);
  if (ok && flag && x->alias) ok = add(names, PLIM_NAME_OF_ALIAS, flag + 3, file, setting);
  bool is_field = !flag && dot && *x->key >= 'A' && *x->key <= 'Z';
  return ok && (!is_field || add(names, PLIM_NAME_OF_ARGUMENT, dot + 1, file, setting));
}

plim_err plim_project_index(plim_project *p, plim_error *error) {
  bool ok = true;
  plim_project_index_clear(p);
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_settings *s = &p->files.at[i]->settings;
    bool is_script = s->format == PLIM_FORMAT_PYTHON, is_command = plim_is_command(p->files.at[i]);
    for (size_t k = 0; k < s->at.len && ok && is_script; k++)
      ok = add_argument(&p->names, &s->at.at[k], i, k);
    for (size_t k = 0; k < s->at.len && ok && is_command; k++)
      ok = add_flag(&p->names, &s->at.at[k], i, k);
  }
  return ok ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

void plim_project_index_clear(plim_project *p) {
  vec_free(&p->names.at);
  plim_hash_free(&p->names.first);
  p->names = (plim_setting_names){0};
}

const plim_named_setting *plim_project_named(const plim_project *p, plim_name_kind_of kind,
                                             const char *name) {
  const uint32_t *found = plim_hash_find(&p->names.first, hash_of(kind, name));
  return found ? &p->names.at.at[*found] : NULL;
}

const plim_named_setting *plim_project_next_named(const plim_project *p,
                                                  const plim_named_setting *at) {
  return at->next == NONE ? NULL : &p->names.at.at[at->next];
}
