// Conditions of scripts that the command line decides: `if args.lora:`, started with --lora.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "conditions.h"
#include "project_impl.h"
#include "python_code.h"

static const plim_value unknown = {.kind = PLIM_VALUE_DERIVED, .text = ""};

// A flag alone turns its default around: store_true and store_false. "--lora false" is a text, read by
// whatever type the argument has.
static plim_value given_by(const plim_setting *flag, const plim_value *otherwise) {
  bool is_alone = flag->span.begin == flag->span.end;
  bool is_switch = otherwise->kind == PLIM_VALUE_BOOL;
  if (is_alone && is_switch) return (plim_value){.kind = PLIM_VALUE_BOOL, .flag = !otherwise->flag};
  if (flag->value.kind != PLIM_VALUE_TEXT || !is_switch) return flag->value;
  bool is_true = strcasecmp(flag->value.text, "true") == 0 || strcmp(flag->value.text, "1") == 0;
  bool is_false = strcasecmp(flag->value.text, "false") == 0 || strcmp(flag->value.text, "0") == 0;
  return is_true || is_false ? (plim_value){.kind = PLIM_VALUE_BOOL, .flag = is_true} : unknown;
}

static const plim_setting *root_in(const plim_settings *s, const plim_setting *setting) {
  const plim_setting *root = setting->root ? plim_settings_find(s, setting->root) : NULL;
  return root ? root : setting;
}

// --lora, or argparse.BooleanOptionalAction's --no-lora.
static bool find_given(const plim_project *p, const char *argument, const plim_value *otherwise,
                       plim_value *out) {
  char opposite[PLIM_KEY_BYTES];
  plim_knob_place flag;
  snprintf(opposite, sizeof opposite, "no-%s", argument);
  if (plim_project_flag(p, argument, &flag)) {
    const plim_settings *s = &p->files.at[flag.file]->settings;
    *out = given_by(root_in(s, flag.setting), otherwise);
    if (plim_project_rival_flag(p, argument, &flag)) *out = unknown;
    return true;
  }
  *out = (plim_value){.kind = PLIM_VALUE_BOOL};
  return plim_project_flag(p, opposite, &flag);
}

static void give_value(plim_condition *c, plim_value value) {
  c->given = value;
  c->is_given = true;
}

static const plim_value *value_in(const plim_settings *s, const plim_setting *setting) {
  const plim_setting *root = root_in(s, setting);
  return root->value.kind == PLIM_VALUE_DERIVED && root->computed.kind != PLIM_VALUE_NULL
             ? &root->computed
             : &root->value;
}

// A field of a dataclass is set by a flag of its name, or by a file that HfArgumentParser reads.
static bool find_field(const plim_project *p, const char *key, const plim_value *otherwise,
                       plim_value *out) {
  const char *name = strrchr(key, '.');
  if (!name || *key < 'A' || *key > 'Z') return false;
  if (find_given(p, name + 1, otherwise, out)) return true;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_settings *s = &p->files.at[i]->settings;
    bool is_tree = s->format == PLIM_FORMAT_YAML || s->format == PLIM_FORMAT_JSON;
    const plim_setting *setting = is_tree ? plim_settings_find(s, name + 1) : NULL;
    if (setting) *out = *value_in(s, setting);
    if (setting) return true;
  }
  return false;
}

// What is in force instead of the default that stands at `key` of a script.
static bool find_instead(const plim_project *p, const char *key, const plim_value *otherwise,
                         plim_value *out) {
  const char *argument = strstr(key, ".--");
  return argument ? find_given(p, argument + 3, otherwise, out)
                  : find_field(p, key, otherwise, out);
}

// What the place says, or what is in force instead; DERIVED: it is not known.
static plim_value value_at(const plim_project *p, const plim_knob_place *at) {
  const plim_settings *s = &p->files.at[at->file]->settings;
  plim_value value = *value_in(s, at->setting), instead;
  bool is_script = s->format == PLIM_FORMAT_PYTHON;
  return is_script && find_instead(p, at->setting->key, &value, &instead) ? instead : value;
}

// A condition on what no literal of this file says.
static void give_from_others(const plim_project *p, const plim_settings *s, plim_condition *c) {
  plim_knob_place at;
  switch (plim_project_lookup(p, s, c->name, &at)) {
  case PLIM_NAME_FOUND: give_value(c, value_at(p, &at)); break;
  case PLIM_NAME_FILLED: give_value(c, (plim_value){.kind = PLIM_VALUE_BOOL, .flag = true}); break;
  case PLIM_NAME_MISSING:
    if (c->has_otherwise) give_value(c, c->otherwise);
    break;
  case PLIM_NAME_UNKNOWN: break;
  }
}

// Another script has the name in its code.
static bool is_used_elsewhere(const plim_project *p, const plim_settings *s, const char *name) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool is_other = &f->settings != s && f->settings.format == PLIM_FORMAT_PYTHON;
    if (is_other && plim_python_has(f->text, f->size, name)) return true;
  }
  return false;
}

static void give(const plim_project *p, const plim_settings *s, plim_condition *c) {
  const plim_setting *root = c->root ? plim_settings_find(s, c->root) : NULL;
  if (c->elsewhere && is_used_elsewhere(p, s, c->elsewhere))
    give_value(c, (plim_value){.kind = PLIM_VALUE_BOOL, .flag = true});
  if (root && find_instead(p, c->root, &root->value, &c->given)) c->is_given = true;
  else if (root && root->is_required) give_value(c, unknown);
  else if (!root && c->name && !c->is_given) give_from_others(p, s, c);
}

// What settings of a script copy from other files.
static void fill(const plim_project *p, plim_settings *s) {
  plim_knob_place at;
  for (size_t i = 0; i < s->at.len; i++) {
    plim_setting *x = &s->at.at[i];
    if (!x->reference || plim_project_lookup(p, s, x->reference, &at) != PLIM_NAME_FOUND) continue;
    plim_value value = value_at(p, &at);
    if (value.kind != PLIM_VALUE_DERIVED) x->computed = value;
  }
}

void plim_project_decide_conditions(plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) {
    plim_settings *s = &p->files.at[i]->settings;
    for (size_t k = 0; k < s->conditions.len; k++) give(p, s, &s->conditions.at[k]);
    plim_conditions_decide(s);
    fill(p, s);
  }
}
