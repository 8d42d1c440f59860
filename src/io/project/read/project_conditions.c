// Decides conditions of scripts from the command line: `if args.lora:` in a script started with --lora.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conditions.h"
#include "project_impl.h"
#include "python_code.h"
#include "sort.h"

static const plim_value unknown = {.kind = PLIM_VALUE_DERIVED, .text = ""};

// A flag without a value inverts its default (store_true, store_false). In "--lora false" the value is text, which is
// read according to the argument's type.
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

// The value that replaces the default at `key` of a script.
static bool find_instead(const plim_project *p, const char *key, const plim_value *otherwise,
                         plim_value *out) {
  const char *argument = strstr(key, ".--");
  return argument ? find_given(p, argument + 3, otherwise, out)
                  : find_field(p, key, otherwise, out);
}

// The value at the place, or the value that replaces it; DERIVED: not known.
static plim_value value_at(const plim_project *p, const plim_knob_place *at) {
  const plim_settings *s = &p->files.at[at->file]->settings;
  plim_value value = *value_in(s, at->setting), instead;
  bool is_script = s->format == PLIM_FORMAT_PYTHON;
  return is_script && find_instead(p, at->setting->key, &value, &instead) ? instead : value;
}

// A condition on a value that is not a literal of this file.
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

// Whether another script uses the name in its code.
static bool is_used_elsewhere(const plim_project *p, const plim_settings *s, const char *name) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool is_other = &f->settings != s && f->settings.format == PLIM_FORMAT_PYTHON;
    if (is_other && plim_python_has(&f->code, name)) return true;
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

// Fills in the values that settings of a script copy from other files.
static void fill(const plim_project *p, plim_settings *s) {
  plim_knob_place at;
  for (size_t i = 0; i < s->at.len; i++) {
    plim_setting *x = &s->at.at[i];
    if (!x->reference || plim_project_lookup(p, s, x->reference, &at) != PLIM_NAME_FOUND) continue;
    plim_value value = value_at(p, &at);
    if (value.kind != PLIM_VALUE_DERIVED) x->computed = value;
  }
}

// f(**config) with config loaded from a file of the project: the keys of that file are read on their own.
static void know_rest(const plim_project *p, plim_settings *s) {
  for (size_t i = 0; i < s->at.len; i++) {
    plim_setting *x = &s->at.at[i];
    if (x->is_rest && x->reference && plim_project_is_loaded(p, s, x->reference))
      x->is_rest = false;
  }
}

// ---- settings that only adapters use ----------------------------------------------------------------

// A setting of another file that a script copies.
typedef struct {
  size_t file;
  const plim_setting *setting;
  plim_truth truth; // whether the condition under which it is copied holds
  const char *doubt;
  bool is_of_configuration;
} copy;

typedef vec(copy) copies;

static int by_setting(const void *x, const void *y) {
  const copy *a = x, *b = y;
  return (a->setting > b->setting) - (a->setting < b->setting);
}

static void find_copies(const plim_project *p, const plim_settings *s, copies *out) {
  plim_knob_place at;
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *x = &s->at.at[i];
    if (!x->reference || plim_project_lookup(p, s, x->reference, &at) != PLIM_NAME_FOUND) continue;
    if (&p->files.at[at.file]->settings == s) continue;
    copy c = {at.file, at.setting, plim_setting_counts(s, x), plim_setting_doubt(s, x),
              plim_key_is_of_configuration(x->key)};
    vec_push(out, c); // if memory runs out, it counts without a condition
  }
}

// If the adapters are not created, their rank does not count.
static void put_under(plim_project *p, const copy *c, plim_truth truth) {
  plim_settings *s = &p->files.at[c->file]->settings;
  plim_setting *x = &s->at.at[c->setting - s->at.at];
  plim_condition own = {.kind = PLIM_IF_TRUE,
                        .text = c->doubt,
                        .is_given = true,
                        .is_of_other_file = true,
                        .given = {.kind = PLIM_VALUE_BOOL}};
  if (truth == PLIM_MAYBE) own.given = unknown;
  uint32_t number = plim_condition_add(s, own);
  plim_condition both = {PLIM_IF_BOTH, .a = x->condition, .b = number, .is_of_other_file = true};
  if (number && x->condition) number = plim_condition_add(s, both);
  if (number) x->condition = number;
}

static void settle_copies(plim_project *p, copies *all) {
  if (all->len) plim_sort(all->at, all->len, sizeof *all->at, by_setting);
  for (size_t i = 0, end; i < all->len; i = end) {
    plim_truth best = PLIM_NO;
    bool is_of_configuration = false;
    for (end = i; end < all->len && all->at[end].setting == all->at[i].setting; end++) {
      if (all->at[end].truth > best) best = all->at[end].truth;
      is_of_configuration |= all->at[end].is_of_configuration;
    }
    if (is_of_configuration && best != PLIM_YES) put_under(p, &all->at[i], best);
  }
}

void plim_project_decide_conditions(plim_project *p) {
  copies all = {0};
  for (size_t i = 0; i < p->files.len; i++) {
    plim_settings *s = &p->files.at[i]->settings;
    for (size_t k = 0; k < s->conditions.len; k++) give(p, s, &s->conditions.at[k]);
    plim_conditions_decide(s);
    fill(p, s);
    know_rest(p, s);
    find_copies(p, s, &all);
  }
  settle_copies(p, &all);
  for (size_t i = 0; i < p->files.len && all.len; i++)
    plim_conditions_decide(&p->files.at[i]->settings);
  vec_free(&all);
}
