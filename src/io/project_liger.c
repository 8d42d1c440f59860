// Axolotl's Liger-Kernel: a plugin, and a key for each of its kernels.
#include <stdlib.h>
#include <string.h>

#include "project_impl.h"

#define BLOCK                                                                                      \
  "plugins:\n"                                                                                     \
  "  - axolotl.integrations.liger.LigerPlugin\n"                                                   \
  "liger_rope: true\n"                                                                             \
  "liger_rms_norm: true\n"                                                                         \
  "liger_glu_activation: true\n"                                                                   \
  "liger_fused_linear_cross_entropy: true\n"

static bool has_part(const plim_project_file *f) {
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const char *key = f->settings.at.at[i].key;
    if (strncmp(key, "plugins", 7) == 0 || strncmp(key, "liger", 5) == 0) return true;
  }
  return false;
}

static bool is_block_style(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_YAML && !memchr(f->text, '\r', f->size) &&
         f->text[strspn(f->text, " \t\n")] != '{' && !strstr(f->text, "\n...");
}

static plim_err refuse(const plim_project *p, size_t file, const char *why, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "liger cannot become on: %s", why);
  plim_error_hint(error, "add axolotl.integrations.liger.LigerPlugin to plugins, and liger_rope, "
                         "liger_rms_norm, liger_glu_activation, liger_fused_linear_cross_entropy: "
                         "true");
  return plim_error_file_of(p, file, err, error);
}

static size_t axolotl_file(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->recipe.dialect == PLIM_DIALECT_AXOLOTL &&
        p->files.at[i]->settings.format == PLIM_FORMAT_YAML)
      return i;
  return SIZE_MAX;
}

bool plim_project_takes_liger(const plim_project *p, const plim_knob_change *c) {
  return c->knob == PLIM_KNOB_LIGER && c->value.kind == PLIM_VALUE_TEXT &&
         strcmp(c->value.text, "on") == 0 && axolotl_file(p) != SIZE_MAX;
}

plim_err plim_project_add_liger(const plim_project *p, plim_edit_set *out, plim_error *error) {
  size_t file = axolotl_file(p);
  const plim_project_file *f = p->files.at[file];
  if (has_part(f)) return refuse(p, file, "plugins or some of its keys are there", error);
  if (!is_block_style(f)) return refuse(p, file, "there is no sure place for its keys", error);
  bool ends_in_line = !f->size || f->text[f->size - 1] == '\n';
  plim_edit edit = {{f->size, f->size}, strdup(ends_in_line ? BLOCK : "\n" BLOCK)};
  if (edit.text && vec_push(&out->at, (plim_file_edit){file, edit})) return PLIM_OK;
  free(edit.text);
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}
