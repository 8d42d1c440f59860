// Turns on Liger-Kernel in Axolotl: a plugin and a key for each kernel. Existing keys stay.
#include <stdlib.h>
#include <string.h>

#include "project_change_impl.h"
#include "project_steps.h"

#define PLUGIN "axolotl.integrations.liger.LigerPlugin"

static const char *const kernels[] = {"liger_rope", "liger_rms_norm", "liger_glu_activation",
                                      "liger_fused_linear_cross_entropy"};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static bool is_block_style(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_YAML &&
         f->text[strspn(f->text, " \t\r\n\xef\xbb\xbf")] != '{' && !strstr(f->text, "\n...");
}

static plim_err refuse(const plim_project *p, size_t file, const char *why, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s", why);
  plim_error_hint(error, "add " PLUGIN " to plugins, and liger_rope, "
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

// ---- the plugin -------------------------------------------------------------------------------------

static bool has_plugin(const plim_project_file *f, const plim_setting **last) {
  *last = NULL;
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_setting *setting = &f->settings.at.at[i];
    if (strncmp(setting->key, "plugins.", 8) != 0) continue;
    if (setting->value.kind == PLIM_VALUE_TEXT && strcmp(setting->value.text, PLUGIN) == 0)
      return true;
    *last = setting;
  }
  return false;
}

static size_t line_begin(const char *text, size_t at) {
  while (at && text[at - 1] != '\n') at--;
  return at;
}

// A new item after the last one of the list, with the same dash; NULL if the last one does not have its own line.
static char *item_like(const plim_project_file *f, const plim_setting *last, size_t *at) {
  size_t begin = line_begin(f->text, last->span.begin), dash = begin;
  const char *end = memchr(f->text + last->span.end, '\n', f->size - last->span.end);
  char *text = NULL;
  while (dash < last->span.begin && f->text[dash] == ' ') dash++;
  if (!end || f->text[dash] != '-') return NULL;
  *at = (size_t)(end + 1 - f->text);
  int size = asprintf(&text, "%.*s" PLUGIN "\n", (int)(last->span.begin - begin), f->text + begin);
  return size < 0 ? NULL : text;
}

static bool plugin_edit(const plim_project_file *f, const plim_setting *last, plim_edit *out) {
  bool ends_in_line = !f->size || f->text[f->size - 1] == '\n';
  size_t at = f->size;
  out->text = last
                  ? item_like(f, last, &at)
                  : strdup(ends_in_line ? "plugins:\n  - " PLUGIN "\n" : "\nplugins:\n  - " PLUGIN);
  out->text = plim_broken_like(f, out->text);
  out->span = (plim_span){at, at};
  return out->text;
}

static plim_err add_plugin(const plim_project *p, size_t file, plim_edit_set *out,
                           plim_error *error) {
  plim_project_file now;
  const plim_setting *last;
  plim_edit edit;
  plim_err err = plim_step_begin(p, file, out, &now, error);
  if (err) return err;
  bool is_there = has_plugin(&now, &last) || plim_settings_find(&now.settings, "plugins");
  if (!is_there && !plugin_edit(&now, last, &edit))
    err = refuse(p, file, "plimsoll could not find where to insert the plugin", error);
  else if (!is_there) err = plim_step_add(&now, file, edit, out, error);
  plim_step_end(&now);
  return err;
}

// ---- its kernels ------------------------------------------------------------------------------------

static bool is_on(const plim_setting *setting) {
  return setting && setting->value.kind == PLIM_VALUE_BOOL && setting->value.flag;
}

static plim_err add_kernel(const plim_project *p, size_t file, const char *key, plim_edit_set *out,
                           plim_error *error) {
  static const plim_value on = {.kind = PLIM_VALUE_BOOL, .flag = true};
  plim_project_file now;
  plim_edit edit;
  plim_err err = plim_step_begin(p, file, out, &now, error);
  if (err) return err;
  const plim_setting *setting = plim_settings_find(&now.settings, key);
  if (!is_on(setting)) {
    err = setting ? plim_settings_change(&now.settings, setting, &on, &edit, error)
                  : plim_settings_insert(&now.settings, key, &on, &edit, error);
    if (!err) err = plim_step_add(&now, file, edit, out, error);
  }
  plim_step_end(&now);
  return err;
}

// Another loss that needs no logits is kept.
static bool has_own_loss(const plim_project *p) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_CHUNKED_LOSS];
  return k->origin == PLIM_EXPLICIT && k->value.kind == PLIM_VALUE_TEXT;
}

plim_err plim_project_add_liger(const plim_project *p, plim_edit_set *out, plim_error *error) {
  size_t file = axolotl_file(p);
  if (!is_block_style(p->files.at[file]))
    return refuse(p, file, "it is not clear where to insert its keys", error);
  plim_err err = add_plugin(p, file, out, error);
  int count = has_own_loss(p) ? KERNELS - 1 : KERNELS;
  for (int i = 0; i < count && !err; i++) err = add_kernel(p, file, kernels[i], out, error);
  return err;
}
