// Defaults of a script's arguments that a command line overrides: --bs 4, if the script has
// add_argument("--bs", default=16).
#include <stdio.h>
#include <string.h>

#include "key_names.h"
#include "project_impl.h"

// The name after "parser.--"; NULL: it is not the default of an argument.
static const char *argument_of(const plim_setting *setting) {
  const char *flag = strstr(setting->key, ".--");
  return flag ? flag + 3 : NULL;
}

static bool is_flag(const plim_setting *setting, const char *argument) {
  char have[PLIM_KEY_BYTES], wanted[PLIM_KEY_BYTES];
  if (strncmp(setting->key, "--", 2) != 0 || setting->is_aside) return false;
  plim_key_name(setting->key, have);
  have[strcspn(have, "#")] = 0;
  plim_key_name(argument, wanted);
  return strcmp(have, wanted) == 0;
}

// "-b" if the script has add_argument("-b", "--batch-size"); NULL: there is no alias.
static const char *alias_of(const plim_project *p, const char *argument) {
  const char *alias = NULL;
  const plim_named_setting *at = plim_project_named(p, PLIM_NAME_OF_ALIAS, argument);
  for (; at; at = plim_project_next_named(p, at)) {
    const char *own = argument_of(plim_project_at(p, at));
    if (own && strcmp(own, argument) == 0) alias = plim_project_at(p, at)->alias;
  }
  return alias;
}

static bool is_alias(const plim_setting *setting, const char *alias) {
  size_t size = strlen(alias);
  return strncmp(setting->key, alias, size) == 0 &&
         (!setting->key[size] || setting->key[size] == '#');
}

// The last occurrence in the first file that has it.
static void take_named(const plim_project *p, const char *name, const char *argument,
                       const char *alias, plim_knob_place *out) {
  const plim_named_setting *at = plim_project_named(p, PLIM_NAME_OF_FLAG, name);
  for (; at; at = plim_project_next_named(p, at)) {
    const plim_setting *x = plim_project_at(p, at);
    if (alias ? !is_alias(x, alias) : !is_flag(x, argument)) continue;
    bool is_better =
        !out->setting || at->file < out->file || (at->file == out->file && x > out->setting);
    if (is_better) *out = (plim_knob_place){.file = at->file, .setting = x};
  }
}

bool plim_project_flag(const plim_project *p, const char *argument, plim_knob_place *out) {
  char name[PLIM_KEY_BYTES];
  const char *alias = alias_of(p, argument);
  plim_knob_place found = {0};
  plim_key_name(argument, name);
  take_named(p, name, argument, NULL, &found);
  if (alias) take_named(p, alias, argument, alias, &found);
  if (found.setting) *out = found;
  return found.setting;
}

const plim_setting *plim_project_rival_flag(const plim_project *p, const char *argument,
                                            const plim_knob_place *flag) {
  char name[PLIM_KEY_BYTES];
  const plim_setting *rival = NULL;
  plim_key_name(argument, name);
  const plim_named_setting *at = plim_project_named(p, PLIM_NAME_OF_FLAG, name);
  for (; at; at = plim_project_next_named(p, at)) {
    const plim_setting *other = plim_project_at(p, at);
    if (at->file != flag->file || other->group == flag->setting->group) continue;
    if (is_flag(other, argument) && !plim_value_same(&other->value, &flag->setting->value))
      rival = other;
  }
  return rival;
}

static void mark_two_commands(plim_project_knob *k, const plim_setting *a, const plim_setting *b) {
  char first[48], second[48];
  plim_value_print(&a->value, first, sizeof first);
  plim_value_print(&b->value, second, sizeof second);
  k->origin = PLIM_UNCLEAR, k->is_fixed = true, k->value = (plim_value){0};
  plim_settings_explain_two(a, first, b, second, k->why, sizeof k->why);
}

// A store_false flag turns off what is on by default.
static bool turns_off(const plim_setting *flag, const plim_setting *argument) {
  bool is_alone = flag->span.begin == flag->span.end;
  return is_alone && argument && argument->value.kind == PLIM_VALUE_BOOL && argument->value.flag;
}

// `argument` is the default in the script; NULL: none.
static plim_err take_flag(plim_project *p, plim_knob knob, plim_knob_place place,
                          const plim_setting *argument, plim_error *error) {
  plim_reading r;
  plim_settings *s = &p->files.at[place.file]->settings;
  plim_setting off = *place.setting;
  off.value = (plim_value){.kind = PLIM_VALUE_BOOL};
  bool is_off = turns_off(place.setting, argument);
  place.key = &plim_natural_keys[knob];
  plim_err err = plim_reading_of(s, is_off ? &off : place.setting, place.key, &r, error);
  if (err) return err;
  if (r.setting != &off) place.setting = r.setting;
  r.is_fixed |= is_off; // the flag has no value to change
  plim_project_knob *k = &p->knobs[knob];
  *k = (plim_project_knob){.origin = r.origin, .value = r.value, .is_fixed = r.is_fixed};
  memcpy(k->why, r.why, sizeof k->why);
  k->places[k->place_count++] = place;
  return PLIM_OK;
}

// A value that a script copies from another file is changed in that file.
static plim_err take_copied(plim_project *p, plim_knob knob, plim_error *error) {
  plim_project_knob before = p->knobs[knob];
  const plim_settings *s = &p->files.at[before.places[0].file]->settings;
  plim_knob_place at;
  bool is_found =
      plim_project_lookup(p, s, before.places[0].setting->reference, &at) == PLIM_NAME_FOUND;
  if (!is_found || p->files.at[at.file]->settings.format == PLIM_FORMAT_PYTHON) return PLIM_OK;
  plim_err err = take_flag(p, knob, at, NULL, error);
  bool is_same = p->knobs[knob].origin == PLIM_EXPLICIT &&
                 plim_value_same(&p->knobs[knob].value, &before.value);
  if (!is_same) p->knobs[knob] = before;
  return err;
}

// Whether the expression has the argument's name in it: args.bs.
static bool mentions(const char *expression, const char *argument) {
  char name[PLIM_KEY_BYTES], attribute[PLIM_KEY_BYTES + 1];
  plim_key_name(argument, name);
  snprintf(attribute, sizeof attribute, ".%s", name);
  const char *found = strstr(expression, attribute);
  char behind = found ? found[strlen(attribute)] : 0;
  return found && behind != '_' && !(behind >= 'a' && behind <= 'z');
}

// The default of an environment variable counts only if no command sets the variable.
static void doubt_environment(plim_project *p, plim_project_knob *k) {
  const plim_setting *computed = k->places[0].setting;
  char key[80];
  snprintf(key, sizeof key, "$%s", computed->environment);
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    const plim_setting *set = plim_is_command(f) ? plim_settings_find(&f->settings, key) : NULL;
    if (!set || set->is_unexported) continue;
    k->origin = PLIM_UNCLEAR, k->is_fixed = true, k->value = (plim_value){0};
    snprintf(k->why, sizeof k->why, "%.50s reads the environment variable %.50s, which %.50s sets",
             computed->key, computed->environment, f->path);
  }
}

// A value computed from an argument is unclear if a command overrides that argument.
static void doubt(plim_project *p, plim_project_knob *k) {
  const plim_setting *computed = k->places[0].setting;
  const plim_settings *s = &p->files.at[k->places[0].file]->settings;
  plim_knob_place flag;
  for (size_t i = 0; i < s->at.len; i++) {
    const char *argument = argument_of(&s->at.at[i]);
    if (!argument || !mentions(computed->value.text, argument)) continue;
    if (!plim_project_flag(p, argument, &flag)) continue;
    k->origin = PLIM_UNCLEAR, k->is_fixed = true, k->value = (plim_value){0};
    snprintf(k->why, sizeof k->why,
             "%.50s is computed from an argument (%.50s), and %.50s sets %.24s", computed->key,
             computed->value.text, p->files.at[flag.file]->path, flag.setting->key);
    return;
  }
}

// A place in the same file that sets the same knob but is not the default of an argument, so a command cannot override it;
// NULL: none.
static const plim_setting *other_place(const plim_project_knob *k) {
  for (size_t i = 0; i < k->place_count; i++)
    if (k->places[i].file == k->places[0].file && !argument_of(k->places[i].setting))
      return k->places[i].setting;
  return NULL;
}

static bool is_name(const char *text) {
  size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
  return size && !text[size] && !(*text >= '0' && *text <= '9');
}

// batch_size=bs, where bs is a parameter that click, typer or fire fills from a command.
static bool is_parameter(const plim_project *p, const plim_project_knob *k, plim_knob_place *flag) {
  const plim_setting *setting = k->place_count ? k->places[0].setting : NULL;
  return setting && k->origin == PLIM_UNCLEAR && setting->value.kind == PLIM_VALUE_DERIVED &&
         setting->value.text && is_name(setting->value.text) &&
         plim_project_has_parameters(p->files.at[k->places[0].file]) &&
         plim_project_flag(p, setting->value.text, flag);
}

plim_err plim_flags_decide(plim_project *p, plim_knob knob, plim_error *error) {
  plim_project_knob *k = &p->knobs[knob];
  const plim_setting *setting = k->place_count ? k->places[0].setting : NULL;
  plim_knob_place given;
  if (is_parameter(p, k, &given)) return take_flag(p, knob, given, NULL, error);
  bool is_open = setting && setting->is_open && k->origin == PLIM_UNCLEAR;
  if (!setting || (k->origin != PLIM_EXPLICIT && !is_open)) return PLIM_OK;
  const char *argument = argument_of(setting), *key = k->places[0].key ? k->places[0].key->key : "";
  plim_knob_place flag;
  plim_value before = k->value;
  const plim_setting *beside = other_place(k);
  if (*key && key[strlen(key) - 1] == '*') return PLIM_OK; // the row matches whatever the value is
  bool is_set = argument && plim_project_flag(p, argument, &flag);
  plim_err err = is_set ? take_flag(p, knob, flag, setting, error) : PLIM_OK;
  const plim_setting *rival = is_set && !err ? plim_project_rival_flag(p, argument, &flag) : NULL;
  if (is_set && !err && !rival && beside && !plim_value_same(&before, &k->value)) rival = beside;
  if (rival) mark_two_commands(k, rival, flag.setting);
  if (is_set) return err;
  if (setting->reference && !setting->environment) return take_copied(p, knob, error);
  if (setting->value.kind == PLIM_VALUE_DERIVED && !setting->chooses) doubt(p, k);
  if (k->origin == PLIM_EXPLICIT && setting->environment) doubt_environment(p, k);
  return PLIM_OK;
}
