// The JSON file that a trainer's fsdp_config refers to.
#include <string.h>

#include "key_names.h"
#include "project_impl.h"

const plim_setting *plim_project_setting(const plim_project_file *f, const char *name) {
  for (size_t i = f->settings.at.len; i-- > 0;) {
    const plim_setting *setting = &f->settings.at.at[i];
    if (!setting->is_aside && plim_key_is_called(setting->key, name)) return setting;
  }
  return NULL;
}

static bool is_called(const plim_project_file *f, const char *name) {
  while (strncmp(name, "./", 2) == 0 || strncmp(name, "../", 3) == 0) name = strchr(name, '/') + 1;
  size_t size = strlen(f->path), end = strlen(name);
  return end && end <= size && strcmp(f->path + size - end, name) == 0 &&
         (end == size || f->path[size - end - 1] == '/');
}

bool plim_is_fsdp_file(const plim_project *p, const plim_project_file *f) {
  for (size_t i = 0; f->settings.format == PLIM_FORMAT_JSON && i < p->files.len; i++) {
    const plim_project_file *from = p->files.at[i];
    const plim_setting *names = from == f ? NULL : plim_project_setting(from, "fsdp_config");
    if (names && names->value.kind == PLIM_VALUE_TEXT && is_called(f, names->value.text))
      return true;
  }
  return false;
}

void plim_fsdp_refine(plim_project *p) {
  plim_project_knob *k = &p->knobs[PLIM_KNOB_STRATEGY];
  bool is_open = k->origin == PLIM_EXPLICIT && k->value.kind == PLIM_VALUE_TEXT &&
                 strcmp(k->value.text, "fsdp") == 0;
  for (size_t i = 0; is_open && i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (f->is.dialect != PLIM_DIALECT_FSDP) continue;
    const plim_reading *r = &f->recipe.knobs[PLIM_KNOB_STRATEGY];
    if (r->origin == PLIM_EXPLICIT) k->value = r->value;
  }
}
