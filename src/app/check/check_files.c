// Checks of files that settings name.
#include <string.h>

#include "check.h"
#include "formats.h"
#include "key_names.h"

static const char *const naming_keys[] = {"deepspeed", "deepspeed_config", "deepspeed_config_file",
                                          "config_file", "fsdp_config"};

static const char *last_part(const char *key) {
  const char *dot = strrchr(key, '.');
  return dot ? dot + 1 : key + strspn(key, "-");
}

static bool names_a_file(const plim_setting *setting) {
  plim_format format;
  bool is_text = setting->value.kind == PLIM_VALUE_TEXT && *setting->value.text != '/';
  if (!is_text || !plim_format_of(setting->value.text, "", 0, &format)) return false;
  for (size_t i = 0; i < sizeof naming_keys / sizeof *naming_keys; i++)
    if (strcmp(last_part(setting->key), naming_keys[i]) == 0) return true;
  return false;
}

static void check_named(check *c, const plim_project_file *f, const plim_setting *setting) {
  const char *name = setting->value.text;
  if (!names_a_file(setting) || plim_project_finds(f->path, name)) return;
  check_finding *finding =
      check_add(c, "files.missing", CHECK_WARNING, "%.200s is named, and is not here", name);
  check_at(finding, &(check_place){f, setting, setting->value});
  check_why(finding, "without it the run does not start, and what it says is not known here");
  check_fix(finding, "create it, or name another by its path from where the run starts");
}

void check_files(check *c) {
  const plim_project *p = &c->files.project;
  for (size_t i = 0; c->trains && i < p->files.len; i++)
    for (size_t k = 0; k < p->files.at[i]->settings.at.len; k++)
      check_named(c, p->files.at[i], &p->files.at[i]->settings.at.at[k]);
}
