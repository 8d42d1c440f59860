// The files that files name.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "project_impl.h"
#include "python_code.h"
#include "text_file.h"

enum { FOLDERS_UP = 4, MAX_FILES = 64 };

static bool is_readable(const char *name) {
  plim_format format;
  return plim_format_of(name, "", 0, &format);
}

// The file in the folder of `from`, or in one above it.
static bool find(const char *from, const char *name, char path[PLIM_PATH_BYTES]) {
  char folder[PLIM_PATH_BYTES];
  if (*name == '/')
    return snprintf(path, PLIM_PATH_BYTES, "%s", name) < PLIM_PATH_BYTES && plim_is_file(path);
  snprintf(folder, sizeof folder, "%s", from);
  for (int i = 0; i < FOLDERS_UP; i++) {
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    else snprintf(folder, sizeof folder, "%s", ".");
    if (plim_path_join(path, *folder ? folder : "/", name) && plim_is_file(path)) return true;
    if (!slash) return false;
  }
  return false;
}

// A path from another folder than the one it is in here: its end is looked for.
static bool find_end(const char *from, const char *name, char path[PLIM_PATH_BYTES]) {
  for (const char *end = strchr(name, '/'); end && strchr(end + 1, '/'); end = strchr(end + 1, '/'))
    if (find(from, end + 1, path)) return true;
  return false;
}

bool plim_project_finds(const char *from, const char *name) {
  char path[PLIM_PATH_BYTES];
  return find(from, name, path) || find_end(from, name, path);
}

plim_err plim_follow_name(plim_project *p, const char *from, const char *name, plim_error *error) {
  char path[PLIM_PATH_BYTES];
  if (!is_readable(name) || !find(from, name, path) || plim_project_has(p, path)) return PLIM_OK;
  if (p->files.len >= MAX_FILES) return PLIM_OK;
  plim_err err = plim_project_read(p, path, error);
  return err == PLIM_ERR_NOMEM ? err : PLIM_OK;
}

// Words of a command: between blanks, quotes and "=".
static plim_err follow_words(plim_project *p, const char *from, const char *text,
                             plim_error *error) {
  char name[512];
  plim_err err = PLIM_OK;
  while (*text && !err) {
    size_t size = strcspn(text, " \t\r\n\"'=,[](){};|&<>");
    if (size > 3 && size < sizeof name) {
      snprintf(name, sizeof name, "%.*s", (int)size, text);
      err = plim_follow_name(p, from, name, error);
    }
    text += size + (text[size] != 0);
  }
  return err;
}

static bool is_about_configuration(const char *key) {
  return strstr(key, "config") || strstr(key, "deepspeed") || strstr(key, "cfg");
}

// --config training/a.yaml, which is not found under that name.
static plim_err follow_lost(plim_project *p, const plim_project_file *f, const char *name,
                            plim_error *error) {
  char path[PLIM_PATH_BYTES], found[PLIM_PATH_BYTES];
  if (find_end(f->path, name, found) && plim_path_tidy(found, path)) {
    plim_project_note(p, "%s names %s, which is not here: %s is read for it", f->path, name, path);
    return plim_project_read(p, path, error) == PLIM_ERR_NOMEM ? PLIM_ERR_NOMEM : PLIM_OK;
  }
  plim_project_note(p, "%s names %s, which is not here", f->path, name);
  if (!p->missing) p->missing = strdup(name);
  return PLIM_OK;
}

static plim_err follow_lost_values(plim_project *p, const plim_project_file *f, plim_error *error) {
  char path[PLIM_PATH_BYTES];
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < f->settings.at.len && !err; i++) {
    const plim_setting *setting = &f->settings.at.at[i];
    bool is_name = setting->value.kind == PLIM_VALUE_TEXT && is_readable(setting->value.text) &&
                   is_about_configuration(setting->key);
    if (is_name && !find(f->path, setting->value.text, path))
      err = follow_lost(p, f, setting->value.text, error);
  }
  return err;
}

// What a script names, followed as it is found; the first error stays.
typedef struct {
  plim_project *p;
  const char *from, *text; // path and text of the script
  plim_error *error;
  plim_err err;
} following;

// "from config.config import ..." and "import settings" name config/config.py and settings.py.
static void follow_module(void *context, const char *module, size_t size) {
  following *f = context;
  char name[256];
  if (f->err || size > 200) return;
  snprintf(name, sizeof name, "%.*s", (int)size, module);
  for (char *at = name; *at; at++)
    if (*at == '.') *at = '/';
  snprintf(name + size, sizeof name - size, ".py");
  f->err = plim_follow_name(f->p, f->from, name, f->error);
}

static bool has_end(const char *name, size_t size, const char *end) {
  size_t n = strlen(end);
  return size > n && memcmp(name + size - n, end, n) == 0;
}

static bool is_yaml(const char *name, size_t size) {
  return has_end(name, size, ".yaml") || has_end(name, size, ".yml");
}

// Data are JSON more often than configurations are.
static bool is_other_configuration(const char *name, size_t size) {
  static const char *const words[] = {"conf", "cfg", "setting", "param", "args", "train"};
  char copy[256];
  bool is_kind = has_end(name, size, ".json") || has_end(name, size, ".toml");
  if (!is_kind || size >= sizeof copy) return false;
  snprintf(copy, sizeof copy, "%.*s", (int)size, name);
  const char *slash = strrchr(copy, '/');
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcasestr(slash ? slash : copy, words[i])) return true;
  return false;
}

// open(" or load(" stands before it: it is read, and in no other way.
static bool is_opened(const char *text, const char *quote) {
  static const char *const calls[] = {"open(", "load("};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    size_t n = strlen(calls[i]);
    if ((size_t)(quote - text) >= n && memcmp(quote - n, calls[i], n) == 0) return true;
  }
  return false;
}

static void miss(plim_project *p, const char *from, const char *name) {
  char path[PLIM_PATH_BYTES];
  if (find(from, name, path) || find_end(from, name, path)) return;
  plim_project_note(p, "%s reads %s, which is not here", from, name);
  if (!p->missing) p->missing = strdup(name);
}

// open("config.yaml"): a text in a script that is the name of a configuration beside it.
static void follow_text(void *context, const char *text, size_t size) {
  following *f = context;
  char name[256];
  bool is_one = is_yaml(text, size) || is_other_configuration(text, size);
  if (f->err || !is_one || size >= sizeof name) return;
  snprintf(name, sizeof name, "%.*s", (int)size, text);
  bool is_whole = !strpbrk(name, "{}$%"); // no f-string
  if (is_whole && is_opened(f->text, text - 1)) miss(f->p, f->from, name);
  f->err = plim_follow_name(f->p, f->from, name, f->error);
}

static plim_err follow_code(plim_project *p, const plim_project_file *script, plim_error *error) {
  following f = {p, script->path, script->text, error, PLIM_OK};
  plim_python_modules(script->text, script->size, follow_module, &f);
  plim_python_strings(script->text, script->size, follow_text, &f);
  return f.err;
}

static bool names_a_part(const char *key) {
  return strstr(key, "deepspeed") || strstr(key, "fsdp_config");
}

// Texts of a configuration that are paths: deepspeed: ds.json, deepspeed_config_file: ...
static plim_err follow_values(plim_project *p, const plim_project_file *f, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < f->settings.at.len && !err; i++) {
    const plim_setting *setting = &f->settings.at.at[i];
    if (setting->value.kind == PLIM_VALUE_TEXT && names_a_part(setting->key))
      err = plim_follow_name(p, f->path, setting->value.text, error);
  }
  return err;
}

// ---- plimsoll.yaml ----------------------------------------------------------------------------------

static bool has_names(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (plim_is_names(p->files.at[i]->path)) return true;
  return false;
}

// It lies beside one of the files, or in a folder above. One that cannot be read is an error: what it
// says would be missing.
static plim_err find_names(plim_project *p, plim_error *error) {
  static const char *const names[] = {"plimsoll.yaml", "plimsoll.yml"};
  char path[PLIM_PATH_BYTES];
  for (size_t i = 0; i < p->files.len && !has_names(p); i++)
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
      if (find(p->files.at[i]->path, names[k], path)) return plim_project_read(p, path, error);
  return PLIM_OK;
}

// "conf/stage1.yaml:negatives" and {file: conf/stage1.yaml}
static plim_err follow_places(plim_project *p, const plim_project_file *f, plim_error *error) {
  plim_err err = PLIM_OK;
  char name[512];
  for (size_t i = 0; i < f->settings.at.len && !err; i++) {
    const plim_setting *setting = &f->settings.at.at[i];
    if (strncmp(setting->key, "knobs.", 6) != 0 || setting->value.kind != PLIM_VALUE_TEXT) continue;
    size_t size = strcspn(setting->value.text, ":");
    if (size >= sizeof name) continue;
    snprintf(name, sizeof name, "%.*s", (int)size, setting->value.text);
    err = plim_follow_name(p, f->path, name, error);
  }
  return err;
}

static plim_err follow_tree(plim_project *p, const plim_project_file *f, plim_error *error) {
  if (plim_is_names(f->path)) return follow_places(p, f, error);
  plim_err err = follow_values(p, f, error);
  return err ? err : plim_follow_hydra(p, f, error);
}

plim_err plim_project_follow(plim_project *p, plim_error *error) {
  plim_err err = find_names(p, error);
  for (size_t i = 0; i < p->files.len && !err; i++) { // those that come join the end
    const plim_project_file *f = p->files.at[i];
    switch (f->settings.format) {
    case PLIM_FORMAT_SHELL:
    case PLIM_FORMAT_DOCKERFILE:
      err = follow_words(p, f->path, f->text, error);
      if (!err) err = follow_lost_values(p, f, error);
      break;
    case PLIM_FORMAT_PYTHON:
      err = follow_code(p, f, error);
      if (!err) err = follow_values(p, f, error);
      if (!err) err = plim_follow_hydra(p, f, error);
      break;
    default: err = follow_tree(p, f, error);
    }
  }
  return err;
}
