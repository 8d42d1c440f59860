// Finds the model if no key names it directly: the default of an environment variable, or a file of a Hydra group.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "model_names.h"
#include "project_impl.h"

enum { TEXT_BYTES = 256, STEPS = 4 };

static void take(plim_project *p, size_t file, const char *model) {
  plim_project_knob *k = &p->knobs[PLIM_KNOB_MODEL];
  const char *text = plim_settings_keep(&p->files.at[file]->settings, model, strlen(model));
  if (!text) return;
  *k = (plim_project_knob){.origin = PLIM_DEFAULTED,
                           .value = {.kind = PLIM_VALUE_TEXT, .text = text}};
}

// ---- the environment --------------------------------------------------------------------------------

// The text before a variable's name; a comma and the default follow it.
static const char *const reads[] = {"os.environ.get(", "environ.get(", "os.getenv(", "getenv(",
                                    "${oc.env:"};

// Reads a word at `at`, in quotes or up to one of `ends`; returns the position after it, or NULL.
static const char *read_word(const char *at, const char *ends, char out[TEXT_BYTES]) {
  at += strspn(at, " \t\n");
  bool is_quoted = *at == '"' || *at == '\'';
  const char quote[2] = {is_quoted ? *at : 0, 0};
  at += is_quoted;
  size_t size = strcspn(at, is_quoted ? quote : ends);
  if (!size || size >= TEXT_BYTES || (is_quoted && !at[size])) return NULL;
  snprintf(out, TEXT_BYTES, "%.*s", (int)size, at);
  at += size + is_quoted;
  return at + strspn(at, " \t\n");
}

// Reads os.environ.get("MODEL", "gpt2") and similar calls; the default must be the end of the expression.
static bool reads_environment(const char *text, char variable[TEXT_BYTES],
                              char otherwise[TEXT_BYTES]) {
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
    size_t size = strlen(reads[i]);
    if (strncmp(text, reads[i], size) != 0) continue;
    const char *at = read_word(text + size, ",)}", variable);
    if (!at || *at != ',') return false;
    bool is_python = text[size - 1] == '(';
    at++;
    at += strspn(at, " \t\n");
    if (is_python && *at != '"' && *at != '\'') return false; // the default is computed
    at = read_word(at, "}", otherwise);
    return at && (*at == ')' || *at == '}') && !at[1];
  }
  return false;
}

// The value of a Python variable in its file: the last assignment to the name, in any function.
static const plim_setting *assigned(const plim_settings *s, const char *name) {
  size_t size = strlen(name);
  for (size_t i = s->at.len; size && i-- > 0;) {
    const char *key = s->at.at[i].key;
    size_t n = strlen(key);
    bool is_it = n >= size && strcmp(key + n - size, name) == 0;
    if (is_it && (n == size || key[n - size - 1] == '.')) return &s->at.at[i];
  }
  return NULL;
}

static bool is_name(const char *text) {
  while (isalnum((unsigned char)*text) || *text == '_') text++;
  return !*text;
}

// The expression to which a chain of names leads.
static const char *expression_of(const plim_settings *s, const plim_setting *setting) {
  for (int i = 0; i < STEPS && is_name(setting->value.text); i++) {
    const plim_setting *next = assigned(s, setting->value.text);
    if (!next || next == setting || next->value.kind != PLIM_VALUE_DERIVED) break;
    setting = next;
  }
  return setting->value.text;
}

// A command of the project that sets the variable; SIZE_MAX: none.
static size_t setter_of(const plim_project *p, const char *variable, const char **value) {
  char key[TEXT_BYTES + 1];
  snprintf(key, sizeof key, "$%s", variable);
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_settings *s = &p->files.at[i]->settings;
    const plim_setting *setting =
        plim_is_command(p->files.at[i]) ? plim_settings_find(s, key) : NULL;
    if (!setting || setting->is_unexported || setting->value.kind != PLIM_VALUE_TEXT) continue;
    *value = setting->value.text;
    return i;
  }
  return SIZE_MAX;
}

static void take_environment(plim_project *p) {
  plim_project_knob *k = &p->knobs[PLIM_KNOB_MODEL];
  char variable[TEXT_BYTES], otherwise[TEXT_BYTES];
  const char *set;
  if (k->origin != PLIM_UNCLEAR || k->place_count != 1) return;
  size_t file = k->places[0].file;
  const plim_setting *setting = k->places[0].setting;
  if (!setting || setting->value.kind != PLIM_VALUE_DERIVED) return;
  const char *expression = expression_of(&p->files.at[file]->settings, setting);
  if (!reads_environment(expression, variable, otherwise)) return;
  size_t setter = setter_of(p, variable, &set);
  if (setter != SIZE_MAX) {
    take(p, setter, set);
    return;
  }
  take(p, file, otherwise);
  snprintf(k->why, sizeof k->why,
           "%.80s is the default in %.48s; the environment variable %.32s overrides it", otherwise,
           p->files.at[file]->path, variable);
}

// ---- defaults in shell scripts ----------------------------------------------------------------------

// Notes a model that is a default in a shell script: MODEL=${MODEL:-gpt2}.
static void note_shell_default(plim_project *p) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_MODEL];
  const plim_setting *setting =
      k->origin == PLIM_EXPLICIT && k->place_count ? k->places[0].setting : NULL;
  const plim_project_file *f = setting ? p->files.at[k->places[0].file] : NULL;
  if (!f || f->settings.format != PLIM_FORMAT_SHELL || setting->key[0] != '$') return;
  size_t begin = setting->span.begin;
  bool is_default = begin >= 2 && begin <= f->size && strchr("-=", f->text[begin - 1]) &&
                    f->text[begin - 2] == ':';
  if (is_default)
    plim_note_add(&p->notes, "assumed.environment", "model",
                  "%s is the default; the environment variable %s overrides it",
                  setting->value.kind == PLIM_VALUE_TEXT ? setting->value.text : "the model",
                  setting->key + 1),
        plim_note_at(&p->notes, f->path, setting->line);
}

// ---- files of Hydra groups --------------------------------------------------------------------------

static const char *const groups[] = {"model", "models", "llm", "lm"};

bool plim_is_model_group(const char *name, size_t size) {
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (strlen(groups[i]) == size && memcmp(groups[i], name, size) == 0) return true;
  return false;
}

static const char *const keys[] = {"name",
                                   "model_name",
                                   "name_or_path",
                                   "model_name_or_path",
                                   "pretrained_model_name_or_path",
                                   "pretrained",
                                   "checkpoint",
                                   "model_id",
                                   "id",
                                   "path",
                                   "model"};

static bool is_in_group(const char *path) {
  plim_span folder = plim_path_folder(path);
  return plim_is_model_group(path + folder.begin, folder.end - folder.begin);
}

// Takes the model from a file that a defaults list selects, such as conf/model/llama.yaml: its keys are below "model".
static bool take_from(plim_project *p, size_t file) {
  const plim_project_file *f = p->files.at[file];
  if (f->settings.format != PLIM_FORMAT_YAML || !is_in_group(f->path)) return false;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const plim_setting *setting = plim_settings_find(&f->settings, keys[i]);
    bool is_text = setting && setting->value.kind == PLIM_VALUE_TEXT;
    if (!is_text || !plim_model_is_meant(setting->value.text)) continue;
    take(p, file, setting->value.text);
    return true;
  }
  return false;
}

static bool has_defaults(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_settings *s = &p->files.at[i]->settings;
    for (size_t k = 0; k < s->at.len; k++)
      if (strncmp(s->at.at[k].key, "defaults.", 9) == 0) return true;
  }
  return false;
}

static void take_group(plim_project *p) {
  if (p->knobs[PLIM_KNOB_MODEL].origin == PLIM_EXPLICIT || !has_defaults(p)) return;
  for (size_t i = 0; i < p->files.len; i++)
    if (take_from(p, i)) return;
}

// ---- values that are not models ---------------------------------------------------------------------

const plim_setting *plim_project_odd_model(const plim_project *p) {
  static const char *const names[] = {"model", "model._target_", "model.class_path", "model.type"};
  char name[PLIM_KEY_BYTES];
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_settings *s = &p->files.at[i]->settings;
    for (size_t k = 0; k < s->at.len; k++) {
      const plim_setting *setting = &s->at.at[k];
      if (setting->value.kind != PLIM_VALUE_TEXT || !*setting->value.text) continue;
      plim_key_name(setting->key, name);
      for (size_t j = 0; j < sizeof names / sizeof *names; j++)
        if (strcmp(name, names[j]) == 0) return setting;
    }
  }
  return NULL;
}

void plim_project_find_model(plim_project *p) {
  take_environment(p);
  note_shell_default(p);
  take_group(p);
  plim_project_take_shape(p);
}
