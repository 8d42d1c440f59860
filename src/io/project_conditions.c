// Conditions of scripts that the command line decides: `if args.lora:`, started with --lora.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "conditions.h"
#include "project_impl.h"

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

static void give(const plim_project *p, const plim_settings *s, plim_condition *c) {
  const char *argument = c->root ? strstr(c->root, ".--") : NULL;
  const plim_setting *root = argument ? plim_settings_find(s, c->root) : NULL;
  if (root && find_given(p, argument + 3, &root->value, &c->given)) c->is_given = true;
}

void plim_project_decide_conditions(plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) {
    plim_settings *s = &p->files.at[i]->settings;
    for (size_t k = 0; k < s->conditions.len; k++) give(p, s, &s->conditions.at[k]);
    plim_conditions_decide(s);
  }
}
