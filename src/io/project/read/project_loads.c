// Looks up names of a script that come from another file: cfg["lora"] with cfg loaded from train.yaml,
// cfg.train.lora in a Hydra application, args.lora with the arguments defined in another module.
#include <stdio.h>
#include <string.h>

#include "project_impl.h"

static bool is_tree(const plim_project_file *f) {
  plim_format format = f->settings.format;
  return format == PLIM_FORMAT_YAML || format == PLIM_FORMAT_JSON || format == PLIM_FORMAT_TOML;
}

static bool is_part(const plim_project_file *f) {
  plim_dialect d = f->is.dialect;
  return plim_is_names(f->path) || (d != PLIM_DIALECTS && plim_dialect_table[d].is_part);
}

// ---- files ------------------------------------------------------------------------------------------

// The only configuration of the project; SIZE_MAX: there is none, or several.
static size_t only_tree(const plim_project *p) {
  size_t found = SIZE_MAX;
  for (size_t i = 0; i < p->files.len; i++) {
    if (!is_tree(p->files.at[i]) || is_part(p->files.at[i])) continue;
    if (found != SIZE_MAX) return SIZE_MAX;
    found = i;
  }
  return found;
}

static size_t file_of_path(const plim_project *p, const char *path) {
  size_t file;
  const char *slash;
  while (strncmp(path, "./", 2) == 0 || strncmp(path, "../", 3) == 0) path = strchr(path, '/') + 1;
  if (!plim_project_find(p, path, &file, NULL)) return file;
  slash = strrchr(path, '/');
  return slash && !plim_project_find(p, slash + 1, &file, NULL) ? file : SIZE_MAX;
}

// The path in args.config: the value from a command, or the default.
static const char *path_of(const plim_project *p, const plim_settings *s, const plim_loaded *load) {
  const plim_setting *root = load->root ? plim_settings_find(s, load->root) : NULL;
  const char *argument = load->root ? strstr(load->root, ".--") : NULL;
  plim_knob_place flag;
  if (load->path) return load->path;
  if (argument && plim_project_flag(p, argument + 3, &flag))
    return flag.setting->value.kind == PLIM_VALUE_TEXT ? flag.setting->value.text : NULL;
  return root && root->value.kind == PLIM_VALUE_TEXT ? root->value.text : NULL;
}

static size_t file_of_load(const plim_project *p, const plim_settings *s, const plim_loaded *load) {
  const char *path = path_of(p, s, load);
  return path ? file_of_path(p, path) : only_tree(p);
}

// ---- keys -------------------------------------------------------------------------------------------

static bool lookup(const plim_project *p, size_t file, const char *prefix, const char *key,
                   plim_knob_place *out) {
  char whole[PLIM_KEY_BYTES];
  int size = snprintf(whole, sizeof whole, "%s%s", prefix, key);
  if (file == SIZE_MAX || size < 0 || (size_t)size >= sizeof whole) return false;
  const plim_setting *setting = plim_settings_find(&p->files.at[file]->settings, whole);
  *out = (plim_knob_place){.file = file, .setting = setting};
  return setting;
}

// Whether a mapping is not empty.
static bool has_below(const plim_settings *s, const char *prefix, const char *key) {
  char whole[PLIM_KEY_BYTES];
  int size = snprintf(whole, sizeof whole, "%s%s.", prefix, key);
  return size > 0 && (size_t)size < sizeof whole && plim_settings_has_below(s, whole);
}

static const plim_loaded *find_load(const plim_settings *s, const char *name, size_t size) {
  for (size_t i = s->loads.len; i-- > 0;)
    if (strlen(s->loads.at[i].name) == size && memcmp(s->loads.at[i].name, name, size) == 0)
      return &s->loads.at[i];
  return NULL;
}

// The load of that name: in this file, or in the only other one that has it.
static bool find_source(const plim_project *p, const plim_settings *s, const char *name,
                        size_t size, size_t *file, const char **prefix) {
  const plim_loaded *load = find_load(s, name, size);
  for (size_t i = 0; !load && i < p->files.len; i++)
    if ((load = find_load(&p->files.at[i]->settings, name, size))) s = &p->files.at[i]->settings;
  if (!load) return false;
  *file = file_of_load(p, s, load);
  *prefix = load->prefix;
  return true;
}

// ---- Hydra ------------------------------------------------------------------------------------------

static bool is_hydra(const plim_settings *s) { return plim_settings_has_below(s, "hydra.main."); }

// The keys of a Hydra file are below its group: model/small.yaml has keys of model.
static bool is_in_group(const char *path, const char *group, size_t size) {
  plim_span folder = plim_path_folder(path);
  return folder.end && folder.end - folder.begin == size &&
         memcmp(path + folder.begin, group, size) == 0;
}

static bool lookup_hydra(const plim_project *p, const char *key, plim_knob_place *out) {
  size_t group = strcspn(key, ".");
  for (int pass = 0; pass < 3; pass++)
    for (size_t i = 0; i < p->files.len; i++) {
      const plim_project_file *f = p->files.at[i];
      bool is_group = pass == 2 && key[group] && is_in_group(f->path, key, group);
      if (pass == 0 ? !plim_is_command(f) : !is_tree(f)) continue;
      if (pass < 2 && lookup(p, i, "", key, out)) return true;
      if (is_group && lookup(p, i, "", key + group + 1, out)) return true;
    }
  return false;
}

// ---- arguments of other modules ---------------------------------------------------------------------

// Whether the setting is the argument behind args.use_lora: "parser.--use-lora".
static bool is_argument(const plim_setting *setting, const char *name) {
  char have[PLIM_KEY_BYTES];
  const char *flag = strstr(setting->key, ".--");
  if (!flag) return false;
  plim_key_name(flag + 3, have);
  return strcmp(have, name) == 0;
}

// Whether the setting is this field of a dataclass: its key has one dot, after the name of a class.
static bool is_field(const plim_setting *setting, const char *name) {
  const char *dot = strchr(setting->key, '.');
  return dot && *setting->key >= 'A' && *setting->key <= 'Z' && strcmp(dot + 1, name) == 0;
}

// Looks only in other files; the asking file has already looked in its own settings.
static bool lookup_argument(const plim_project *p, const plim_settings *asking, const char *name,
                            plim_knob_place *out) {
  const plim_named_setting *at = plim_project_named(p, PLIM_NAME_OF_ARGUMENT, name);
  *out = (plim_knob_place){0};
  for (; at; at = plim_project_next_named(p, at)) {
    const plim_setting *x = plim_project_at(p, at);
    bool is_it = is_argument(x, name) || is_field(x, name);
    if (&p->files.at[at->file]->settings == asking || !is_it) continue;
    if (out->setting) return false; // it is ambiguous
    *out = (plim_knob_place){.file = at->file, .setting = x};
  }
  return out->setting;
}

// Whether a name usually holds arguments: args, model_args, cfg, config, hparams, opt.
static bool is_of_arguments(const char *name, size_t size) {
  static const char *const words[] = {"args", "cfg", "config", "hparams", "opt", "opts", "flags"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t n = strlen(words[i]);
    if (size >= n && memcmp(name + size - n, words[i], n) == 0) return true;
  }
  return false;
}

// ---- whole files ------------------------------------------------------------------------------------

static bool has_tree(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (is_tree(p->files.at[i]) && !is_part(p->files.at[i])) return true;
  return false;
}

// Whether the name is a dict of another module: RUN, settings.RUN.
static bool is_dict_elsewhere(const plim_project *p, const plim_settings *s, const char *name) {
  const char *dot = strchr(name, '.');
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_settings *other = &p->files.at[i]->settings;
    if (other == s || other->format != PLIM_FORMAT_PYTHON) continue;
    if (has_below(other, "", name) || (dot && has_below(other, "", dot + 1))) return true;
  }
  return false;
}

bool plim_project_is_loaded(const plim_project *p, const plim_settings *s, const char *name) {
  size_t size = strcspn(name, "."), file;
  const char *prefix;
  const plim_loaded *load = find_load(s, name, size);
  if (load && load->is_changed) return false;
  if (find_source(p, s, name, size, &file, &prefix)) return file != SIZE_MAX;
  return is_dict_elsewhere(p, s, name) || (is_hydra(s) && has_tree(p));
}

static void doubt_file(plim_project *p, size_t file, const char *script, const char *name) {
  for (int i = 0; i < PLIM_KNOBS; i++) {
    plim_project_knob *k = &p->knobs[i];
    if (k->origin != PLIM_EXPLICIT || !k->place_count || k->places[0].file != file) continue;
    k->origin = PLIM_UNCLEAR, k->is_fixed = true, k->value = (plim_value){0};
    snprintf(k->why, sizeof k->why, "%.70s loads %.40s from %.70s and then changes it", script,
             name, p->files.at[file]->path);
  }
}

void plim_project_doubt_loads(plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_settings *s = &p->files.at[i]->settings;
    for (size_t k = 0; k < s->loads.len; k++) {
      const plim_loaded *load = &s->loads.at[k];
      size_t file = load->is_changed ? file_of_load(p, s, load) : SIZE_MAX;
      if (file != SIZE_MAX) doubt_file(p, file, p->files.at[i]->path, load->name);
    }
  }
}

// ---- all of it --------------------------------------------------------------------------------------

plim_name_lookup plim_project_lookup(const plim_project *p, const plim_settings *s,
                                     const char *name, plim_knob_place *out) {
  if (strncmp(name, "self.", 5) == 0) name += 5;
  size_t size = strcspn(name, "."), file;
  const char *prefix, *key = name + size + 1;
  if (!name[size]) return PLIM_NAME_UNKNOWN;
  bool is_loaded = find_source(p, s, name, size, &file, &prefix);
  if (is_loaded && file == SIZE_MAX) return PLIM_NAME_UNKNOWN;
  if (is_loaded && lookup(p, file, prefix, key, out)) return PLIM_NAME_FOUND;
  if (is_loaded && has_below(&p->files.at[file]->settings, prefix, key)) return PLIM_NAME_FILLED;
  if (is_loaded) return PLIM_NAME_MISSING;
  if (is_hydra(s)) return lookup_hydra(p, key, out) ? PLIM_NAME_FOUND : PLIM_NAME_UNKNOWN;
  bool is_argument = !strchr(key, '.') && is_of_arguments(name, size);
  return is_argument && lookup_argument(p, s, key, out) ? PLIM_NAME_FOUND : PLIM_NAME_UNKNOWN;
}
