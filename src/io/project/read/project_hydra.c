// Reads configurations that Hydra combines from several files.
#include <stdio.h>
#include <string.h>

#include "project_impl.h"

enum { NAME_BYTES = 256 };

static const char *text_of(const plim_project_file *f, const char *key) {
  const plim_setting *setting = plim_settings_find(&f->settings, key);
  return setting && setting->value.kind == PLIM_VALUE_TEXT ? setting->value.text : NULL;
}

// The value that a command line of the project sets; `otherwise` if none does.
static const char *chosen(const plim_project *p, const char *key, const char *otherwise) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool is_command =
        f->settings.format == PLIM_FORMAT_SHELL || f->settings.format == PLIM_FORMAT_DOCKERFILE;
    const char *text = is_command ? text_of(f, key) : NULL;
    if (text) return text;
  }
  return otherwise;
}

static bool has_ending(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

static plim_err follow_config(plim_project *p, const plim_project_file *from, size_t byte,
                              const char *folder, const char *name, plim_error *error) {
  const plim_naming by = {from, byte, .matters = true, .part = PLIM_UNREAD_DECIDES};
  char path[NAME_BYTES];
  int size = snprintf(path, sizeof path, "%s%s%s%s", folder, *folder ? "/" : "", name,
                      has_ending(name) ? "" : ".yaml");
  if (size < 0 || (size_t)size >= sizeof path) return PLIM_OK;
  return plim_follow_name(p, &by, path, error);
}

// Follows @hydra.main(config_path="conf", config_name="config"), which a command line may override.
static plim_err follow_main(plim_project *p, const plim_project_file *f, plim_error *error) {
  const char *folder = text_of(f, "hydra.main.config_path"),
             *name = text_of(f, "hydra.main.config_name");
  if (!folder && !name) return PLIM_OK;
  folder = chosen(p, "--config-path", folder ? folder : ".");
  name = chosen(p, "--config-name", name ? name : "config");
  return follow_config(p, f, 0, folder, name, error);
}

// The group of an entry in a defaults list: "trainer" for "override /trainer@cfg.trainer".
static void group_of(const char *key, char out[NAME_BYTES]) {
  static const char *const words[] = {"override ", "optional "};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strncmp(key, words[i], strlen(words[i])) == 0) key += strlen(words[i]);
  key += *key == '/';
  snprintf(out, NAME_BYTES, "%.*s", (int)strcspn(key, "@"), key);
}

// Remembers that the file of the model's group, which would name the model, does not exist.
static void miss_model(plim_project *p, const plim_project_file *f, const char *group,
                       const char *option) {
  char name[2 * NAME_BYTES];
  snprintf(name, sizeof name, "%s/%s%s", group, option, has_ending(option) ? "" : ".yaml");
  if (!plim_is_model_group(group, strlen(group)) || plim_project_finds(f->path, name)) return;
  plim_note_add(&p->notes, "missing.file", NULL, "%s names %s, which does not exist", f->path,
                name);
  plim_note_at(&p->notes, f->path, 0);
  plim_project_miss(p, name);
}

// Follows an entry of defaults: [base, {trainer: ddp}].
static plim_err follow_default(plim_project *p, const plim_project_file *f,
                               const plim_setting *setting, plim_error *error) {
  char group[NAME_BYTES] = "";
  const char *at = setting->key + strlen("defaults.");
  at += strspn(at, "0123456789");
  if (*at == '.') group_of(at + 1, group);
  const char *option = setting->value.text;
  if (*group) option = chosen(p, group, option);
  if (strcmp(option, "_self_") == 0) return PLIM_OK;
  miss_model(p, f, group, option);
  return follow_config(p, f, setting->span.begin, group, option, error);
}

static bool is_in_defaults(const plim_setting *setting) {
  return strncmp(setting->key, "defaults.", 9) == 0 && setting->value.kind == PLIM_VALUE_TEXT;
}

plim_err plim_follow_hydra(plim_project *p, const plim_project_file *f, plim_error *error) {
  if (f->settings.format == PLIM_FORMAT_PYTHON) return follow_main(p, f, error);
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < f->settings.at.len && !err; i++)
    if (is_in_defaults(&f->settings.at.at[i]))
      err = follow_default(p, f, &f->settings.at.at[i], error);
  return err;
}
