// Reads the files that other files refer to.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "project_impl.h"
#include "python_code.h"
#include "text_file.h"

// Far more than a training run has; reading that many takes seconds.
enum { MAX_FILES = 2048 };

static bool is_readable(const char *name) {
  plim_format format;
  return plim_format_of(name, "", 0, &format);
}

// ---- reading one ------------------------------------------------------------------------------------

static plim_err read_named(plim_project *p, const plim_naming *by, const char *found,
                           plim_error *error) {
  plim_error why = {0};
  char tidy[PLIM_PATH_BYTES], path[PLIM_PATH_BYTES];
  if (plim_project_has(p, found) || !plim_path_tidy(found, tidy)) return PLIM_OK;
  plim_path_shorten(tidy, path);
  plim_err err = p->files.len >= MAX_FILES
                     ? plim_fail(&why, PLIM_ERR_UNSUPPORTED, "at most %d files are read", MAX_FILES)
                     : plim_project_read(p, path, &why);
  if (!err) return PLIM_OK;
  if (err != PLIM_ERR_NOMEM)
    return by->matters ? plim_unread_add(p, by, path, &why, error) : PLIM_OK;
  if (error) *error = why;
  return err;
}

plim_err plim_follow_name(plim_project *p, const plim_naming *by, const char *name,
                          plim_error *error) {
  char path[PLIM_PATH_BYTES];
  if (!is_readable(name) || !plim_lookup_file(by->from->path, name, path)) return PLIM_OK;
  return read_named(p, by, path, error);
}

static plim_err follow_shipped(plim_project *p, const plim_naming *by, const char *name,
                               plim_error *error) {
  const char *trainer = plim_shipped_by(name), *from = by->from->path;
  int line = plim_line_at(&p->lines, by->from->text, by->byte);
  if (plim_project_has(p, name)) return PLIM_OK;
  plim_note_add(&p->notes, "assumed.file", NULL,
                "%s is not here: assuming the file of that name that %s ships", name, trainer);
  plim_note_at(&p->notes, from, line);
  return plim_project_add_shipped(p, name, error);
}

// Reads a configuration that the run needs; if it is not found under its path, it is searched by the end of the path.
static plim_err follow_needed(plim_project *p, const plim_naming *by, const char *name,
                              plim_error *error) {
  char path[PLIM_PATH_BYTES], found[PLIM_PATH_BYTES];
  const char *from = by->from->path;
  if (!is_readable(name) || strpbrk(name, "{}$%*")) return PLIM_OK;
  if (plim_lookup_file(from, name, path)) return read_named(p, by, path, error);
  if (plim_lookup_end(from, name, found) && plim_path_tidy(found, path)) {
    plim_note_add(&p->notes, "missing.file", NULL,
                  "%s names %s, which does not exist: reading %s instead", from, name, path);
    plim_note_at(&p->notes, from, 0);
    return read_named(p, by, path, error);
  }
  if (plim_shipped_by(name)) return follow_shipped(p, by, name, error);
  plim_note_add(&p->notes, "missing.file", NULL, "%s names %s, which does not exist", from, name);
  plim_note_at(&p->notes, from, 0);
  plim_project_miss(p, name);
  return plim_unread_add(p, by, name, NULL, error);
}

// ---- how a file is referred to ----------------------------------------------------------------------

static bool has_end(const char *name, size_t size, const char *end) {
  size_t n = strlen(end);
  return size > n && memcmp(name + size - n, end, n) == 0;
}

static bool is_yaml(const char *name, size_t size) {
  return has_end(name, size, ".yaml") || has_end(name, size, ".yml");
}

static bool is_tree(const char *name, size_t size) {
  return is_yaml(name, size) || has_end(name, size, ".toml");
}

static bool has_word(const char *name, const char *const *words, size_t count) {
  const char *slash = strrchr(name, '/');
  for (size_t i = 0; i < count; i++)
    if (strcasestr(slash ? slash : name, words[i])) return true;
  return false;
}

// Whether a JSON or TOML file is a configuration by its name; such files are more often data.
static bool is_other_configuration(const char *name, size_t size) {
  static const char *const words[] = {"conf", "cfg", "setting", "param", "args", "train"};
  char copy[256];
  bool is_kind = has_end(name, size, ".json") || has_end(name, size, ".toml");
  if (!is_kind || size >= sizeof copy) return false;
  snprintf(copy, sizeof copy, "%.*s", (int)size, name);
  return has_word(copy, words, sizeof words / sizeof *words);
}

// Whether the file is certainly a configuration; train.json may as well be data.
static bool is_surely_configuration(const char *name) {
  static const char *const words[] = {"conf", "cfg", "setting", "param", "args", "deepspeed"};
  size_t size = strlen(name);
  return is_tree(name, size) || has_word(name, words, sizeof words / sizeof *words);
}

static bool names_a_part(const char *key) {
  return strstr(key, "deepspeed") || strstr(key, "ds_config") || strstr(key, "fsdp_config") ||
         strcmp(key, "dist_config.config_file") == 0;
}

// Hydra's own flags are looked up where its script says (project_hydra.c).
static bool is_about_configuration(const char *key) {
  bool is_of_data = strstr(key, "data") || strstr(key, "token") || strstr(key, "generation");
  bool is_hydra = strcmp(key, "--config-name") == 0 || strcmp(key, "--config-path") == 0;
  return !is_of_data && !is_hydra &&
         (strstr(key, "config") || strstr(key, "deepspeed") || strstr(key, "cfg"));
}

static bool is_for_sharing(const char *key) {
  return names_a_part(key) || strcmp(key, "--config_file") == 0;
}

// A file with the setting that each of its bytes is a value of. Finding it for each word of a large file among all settings
// would take too long.
typedef struct {
  const plim_project_file *f;
  uint32_t *owners; // by byte: the number of the setting, plus one; 0: none
} valued_file;

// The first byte from `at` on that has no owner yet; next[] skips those that have one.
static size_t next_free(uint32_t *next, size_t at) {
  while (next[at] != at) {
    next[at] = next[next[at]];
    at = next[at];
  }
  return at;
}

// Where values overlap, the byte belongs to the first setting. Free the owners.
static plim_err find_owners(const plim_project_file *f, valued_file *out, plim_error *error) {
  uint32_t *next = malloc((f->size + 1) * sizeof *next);
  *out = (valued_file){f, calloc(f->size + 1, sizeof *out->owners)};
  bool ok = next && out->owners;
  for (size_t i = 0; ok && i <= f->size; i++) next[i] = (uint32_t)i;
  for (size_t i = 0; ok && i < f->settings.at.len; i++) {
    plim_span span = f->settings.at.at[i].span;
    for (size_t at = next_free(next, span.begin); at < span.end; at = next_free(next, at)) {
      out->owners[at] = (uint32_t)i + 1;
      next[at] = (uint32_t)at + 1;
    }
  }
  free(next);
  if (!ok) free(out->owners);
  return ok ? PLIM_OK : plim_no_memory(error);
}

// The setting with its value at this byte; NULL: none.
static const plim_setting *setting_at(const valued_file *v, size_t byte) {
  return v->owners[byte] ? &v->f->settings.at.at[v->owners[byte] - 1] : NULL;
}

// Whether the byte is in a comment of a command; asked for one byte after the other.
typedef struct {
  size_t at;
  bool is_inside;
} comment_state;

static bool is_in_comment(comment_state *state, const char *text, size_t byte) {
  for (; state->at < byte; state->at++) {
    size_t at = state->at;
    if (text[at] == '\n') state->is_inside = false;
    if (text[at] == '#' && (at == 0 || strchr(" \t\n", text[at - 1]))) state->is_inside = true;
  }
  return state->is_inside;
}

// A word of a command. After a flag, it is a configuration if the flag's name says so, and may be one if it looks like
// one. A word without a flag is the program that is run, or its configuration.
static plim_naming naming_in_command(const valued_file *v, size_t byte, const char *name) {
  plim_naming by = {.from = v->f, .byte = byte, .part = PLIM_UNREAD_PART};
  const plim_setting *s = setting_at(v, byte);
  size_t size = strlen(name);
  if (s && is_about_configuration(s->key)) {
    by.matters = true;
    by.part = PLIM_UNREAD_DECIDES;
    by.shares = is_for_sharing(s->key);
    return by;
  }
  by.matters = has_end(name, size, ".json") ? !s && is_surely_configuration(name)
                                            : !s || is_tree(name, size);
  if (!s && (is_tree(name, size) || has_end(name, size, ".py"))) by.part = PLIM_UNREAD_DECIDES;
  return by;
}

// ---- commands ---------------------------------------------------------------------------------------

// Follows the module of python -m: pkg.train is pkg/train.py or pkg/train/__main__.py.
static plim_err follow_started(plim_project *p, const plim_project_file *f, const char *at,
                               size_t size, plim_error *error) {
  static const char *const ends[] = {".py", "/__main__.py"};
  char module[256], path[300];
  plim_err err = PLIM_OK;
  if (size >= sizeof module) return PLIM_OK;
  snprintf(module, sizeof module, "%.*s", (int)size, at);
  for (char *dot = module; (dot = strchr(dot, '.'));) *dot = '/';
  const plim_naming by = {
      .from = f, .byte = (size_t)(at - f->text), .matters = true, .part = PLIM_UNREAD_DECIDES};
  for (size_t i = 0; i < sizeof ends / sizeof *ends && !err; i++) {
    snprintf(path, sizeof path, "%s%s", module, ends[i]);
    err = plim_follow_name(p, &by, path, error);
  }
  return err;
}

// The script that a typed command starts must be here. One in a file may be elsewhere: the file is known to exist.
static void miss_script(plim_project *p, const plim_project_file *f, const char *name) {
  char path[PLIM_PATH_BYTES];
  bool is_script = f->is_typed && has_end(name, strlen(name), ".py") && !strpbrk(name, "$*");
  if (is_script && !plim_lookup_file(f->path, name, path)) plim_project_miss(p, name);
}

// Follows the words of a command, which are separated by blanks, quotes and "=". A word of a comment is read if it exists.
static plim_err follow_words(plim_project *p, const plim_project_file *f, plim_error *error) {
  char name[512];
  valued_file v;
  comment_state comment = {0};
  bool has_script = false, is_module = false; // after a script, -m is an option of its own
  plim_err err = find_owners(f, &v, error);
  if (err) return err;
  for (const char *text = f->text; *text && !err;) {
    size_t size = strcspn(text, " \t\r\n\"'=,[](){};|&<>"), byte = (size_t)(text - f->text);
    if (is_module && size && *text != '-') err = follow_started(p, f, text, size, error);
    if (size) is_module = !has_script && size == 2 && memcmp(text, "-m", 2) == 0;
    has_script = (has_script || has_end(text, size, ".py")) && text[size] != '\n';
    if (err) break;
    text += size + (text[size] != 0);
    if (size <= 3 || size >= sizeof name) continue;
    snprintf(name, sizeof name, "%.*s", (int)size, f->text + byte);
    if (!is_readable(name)) continue;
    const plim_naming by = is_in_comment(&comment, f->text, byte)
                               ? (plim_naming){.from = f, .byte = byte, .part = PLIM_UNREAD_PART}
                               : naming_in_command(&v, byte, name);
    err = plim_follow_name(p, &by, name, error);
    if (by.part == PLIM_UNREAD_DECIDES && by.matters) miss_script(p, f, name);
  }
  free(v.owners);
  return err;
}

// Follows values such as --config training/a.yaml that are not found under that path.
static plim_err follow_lost_values(plim_project *p, const plim_project_file *f, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < f->settings.at.len && !err; i++) {
    const plim_setting *s = &f->settings.at.at[i];
    if (s->value.kind != PLIM_VALUE_TEXT || !is_about_configuration(s->key)) continue;
    const plim_naming by = {f, s->span.begin, true, PLIM_UNREAD_DECIDES, is_for_sharing(s->key)};
    err = follow_needed(p, &by, s->value.text, error);
  }
  return err;
}

// ---- scripts ----------------------------------------------------------------------------------------

static plim_err follow_module(plim_project *p, const plim_naming *by, const char *name, int dots,
                              plim_error *error) {
  char root[PLIM_PATH_BYTES], path[PLIM_PATH_BYTES];
  size_t before = p->files.len;
  if (!plim_lookup_module(p, by->from, name, dots, root, path)) return PLIM_OK;
  plim_err err = read_named(p, by, path, error);
  if (err || p->files.len == before) return err;
  p->files.at[before]->import_root = strdup(root);
  return p->files.at[before]->import_root ? PLIM_OK : plim_no_memory(error);
}

// State while walking the imports or strings of a script; keeps the first error.
typedef struct {
  plim_project *p;
  const plim_project_file *script;
  plim_error *error;
  plim_err err;
  valued_file values; // of the script; for its strings
} following;

// config.base is config/base.py or config/base/__init__.py.
static void take_module(void *context, const plim_python_module *module) {
  following *f = context;
  char name[256];
  if (f->err || module->size >= sizeof name) return;
  const plim_naming by = {.from = f->script, .byte = module->byte, .matters = true};
  snprintf(name, sizeof name, "%.*s", (int)module->size, module->name);
  for (char *at = name; *at; at++)
    if (*at == '.') *at = '/';
  f->err = follow_module(f->p, &by, name, module->dots, f->error);
}

static plim_err follow_imports(plim_project *p, const plim_project_file *f, plim_error *error) {
  following all = {p, f, error, PLIM_OK, {0}};
  plim_err err = plim_python_modules(&f->code, take_module, &all);
  return err ? plim_no_memory(error) : all.err;
}

// Whether open(" or load(" precedes it, so the file is read.
static bool is_opened(const char *text, const char *quote) {
  static const char *const calls[] = {"open(", "load("};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    size_t n = strlen(calls[i]);
    if ((size_t)(quote - text) >= n && memcmp(quote - n, calls[i], n) == 0) return true;
  }
  return false;
}

// Follows a text in a script that is the name of a configuration next to it: open("config.yaml").
static plim_err follow_text(plim_project *p, const valued_file *v, const char *quote,
                            const char *name, bool is_whole, plim_error *error) {
  const plim_project_file *f = v->f;
  const plim_setting *s = setting_at(v, (size_t)(quote - f->text));
  bool is_needed = is_whole && is_opened(f->text, quote);
  bool is_named = s && is_about_configuration(s->key);
  plim_naming by = {f, (size_t)(quote - f->text), is_surely_configuration(name) || is_named,
                    is_needed || is_named ? PLIM_UNREAD_DECIDES : PLIM_UNREAD_PART,
                    s && is_for_sharing(s->key)};
  if (is_needed && by.matters) return follow_needed(p, &by, name, error);
  return plim_follow_name(p, &by, name, error);
}

static void take_string(void *context, const char *text, size_t size) {
  following *f = context;
  char name[256];
  bool is_one = is_yaml(text, size) || is_other_configuration(text, size);
  if (f->err || !is_one || size >= sizeof name) return;
  snprintf(name, sizeof name, "%.*s", (int)size, text);
  bool is_whole = !strpbrk(name, "{}$%"); // no f-string
  f->err = follow_text(f->p, &f->values, text - 1, name, is_whole, f->error);
}

static plim_err follow_texts(plim_project *p, const plim_project_file *f, plim_error *error) {
  following all = {p, f, error, PLIM_OK, {0}};
  plim_err err = find_owners(f, &all.values, error);
  if (err) return err;
  plim_python_strings(&f->code, (plim_span){0, f->size}, take_string, &all);
  free(all.values.owners);
  return all.err;
}

// Follows values of a configuration that are paths: deepspeed: ds.json, deepspeed_config_file: ...
static plim_err follow_values(plim_project *p, const plim_project_file *f, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < f->settings.at.len && !err; i++) {
    const plim_setting *s = &f->settings.at.at[i];
    if (s->value.kind != PLIM_VALUE_TEXT || !names_a_part(s->key)) continue;
    const plim_naming by = {f, s->span.begin, true, PLIM_UNREAD_DECIDES, true};
    err = follow_needed(p, &by, s->value.text, error);
  }
  return err;
}

// ---- plimsoll.yaml ----------------------------------------------------------------------------------

static bool has_names(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (plim_is_names(p->files.at[i]->path)) return true;
  return false;
}

// Finds plimsoll.yaml next to one of the files or in a folder above. Fails if it cannot be read, because its
// entries would be missing.
static plim_err find_names(plim_project *p, plim_error *error) {
  static const char *const names[] = {"plimsoll.yaml", "plimsoll.yml"};
  char path[PLIM_PATH_BYTES];
  for (size_t i = 0; i < p->files.len && !has_names(p); i++)
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
      if (plim_lookup_file(p->files.at[i]->path, names[k], path))
        return plim_project_read(p, path, error);
  return PLIM_OK;
}

// Follows the files in "conf/stage1.yaml:negatives" and {file: conf/stage1.yaml}.
static plim_err follow_places(plim_project *p, const plim_project_file *f, plim_error *error) {
  plim_err err = PLIM_OK;
  char name[512];
  for (size_t i = 0; i < f->settings.at.len && !err; i++) {
    const plim_setting *setting = &f->settings.at.at[i];
    if (strncmp(setting->key, "knobs.", 6) != 0 || setting->value.kind != PLIM_VALUE_TEXT) continue;
    size_t size = strcspn(setting->value.text, ":");
    if (size >= sizeof name) continue;
    snprintf(name, sizeof name, "%.*s", (int)size, setting->value.text);
    const plim_naming by = {f, setting->span.begin, true, PLIM_UNREAD_DECIDES, false};
    err = plim_follow_name(p, &by, name, error);
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
  for (size_t i = 0; i < p->files.len && !err; i++) { // files that are found are appended
    const plim_project_file *f = p->files.at[i];
    switch (f->settings.format) {
    case PLIM_FORMAT_SHELL:
    case PLIM_FORMAT_DOCKERFILE:
      err = follow_words(p, f, error);
      if (!err) err = follow_lost_values(p, f, error);
      break;
    case PLIM_FORMAT_PYTHON:
      err = follow_imports(p, f, error);
      if (!err) err = follow_texts(p, f, error);
      if (!err) err = follow_values(p, f, error);
      if (!err) err = plim_follow_hydra(p, f, error);
      break;
    default: err = follow_tree(p, f, error);
    }
  }
  return err;
}
