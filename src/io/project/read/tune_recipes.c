// Keys that torchtune's recipes do not read, and knobs that plans may not set there for that reason.
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "project_impl.h"

enum { NAME_BYTES = 64 };

// torchtune 0.7, recipes/NAME_single_device.py and NAME_distributed.py: keys that neither of both reads. Recipes that are not
// named read all keys, as may one's own.
static const struct {
  const char *keys, *recipes; // separated by blanks
  plim_knob knob;             // plans do not give it this value there
  const char *value, *why;    // NULL: the keys concern no knob of plans
} unread[] = {
    {"enable_activation_offloading", "knowledge_distillation", PLIM_KNOB_OFFLOAD, "activations",
     "torchtune's recipes for distillation do not read enable_activation_offloading"},
    {"activation_offloading_use_streams ac_mode ac_option",
     "full_dpo lora_finetune lora_dpo knowledge_distillation qat_lora_finetune", PLIM_KNOBS, NULL,
     NULL},
    {"optimizer_in_bwd", "lora_finetune lora_dpo knowledge_distillation qat_lora_finetune",
     PLIM_KNOBS, NULL, NULL},
    {"clip_grad_norm", "lora_dpo", PLIM_KNOBS, NULL, NULL},
    {"enable_fp8_training",
     "full_dpo lora_finetune lora_dpo knowledge_distillation qat qat_lora_finetune", PLIM_KNOBS,
     NULL, NULL},
    {"tensor_parallel_dim context_parallel_dim data_parallel_shard_dim data_parallel_replicate_dim",
     "full_dpo lora_dpo knowledge_distillation qat_lora_finetune", PLIM_KNOBS, NULL, NULL},
    {"run_val_every_n_steps", "full_dpo lora_dpo knowledge_distillation", PLIM_KNOBS, NULL, NULL},
};
enum { UNREAD = sizeof unread / sizeof *unread };

static bool is_listed(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; *at; at += strspn(at, " ")) {
    size_t size = strcspn(at, " ");
    if (size == n && memcmp(at, name, n) == 0) return true;
    at += size;
  }
  return false;
}

static const char *text_at(const plim_project_file *f, const char *path) {
  const plim_setting *s = plim_settings_find(&f->settings, path);
  return s && s->value.kind == PLIM_VALUE_TEXT ? s->value.text : "";
}

static bool has_adapters(const plim_project_file *f) {
  static const char *const builders[] = {"*.lora_*", "*.qlora_*", "*.dora_*"};
  for (size_t i = 0; i < sizeof builders / sizeof *builders; i++)
    if (fnmatch(builders[i], text_at(f, "model._component_"), 0) == 0) return true;
  return false;
}

// The recipe that trains what the file describes.
static void usual_recipe(const plim_project_file *f, char name[NAME_BYTES]) {
  bool is_dpo = fnmatch("*.DPOLoss", text_at(f, "loss._component_"), 0) == 0;
  snprintf(name, NAME_BYTES, "%s_%s", has_adapters(f) ? "lora" : "full",
           is_dpo ? "dpo" : "finetune");
  if (*text_at(f, "teacher_model._component_"))
    snprintf(name, NAME_BYTES, "knowledge_distillation");
}

// The recipe: that of the command in the file's comment, unless that trains everything and the file has adapters. *end is where
// _single_device or _distributed begins in it; NULL: it is none of torchtune's.
static char *recipe_in_comment(const plim_project_file *f, char name[NAME_BYTES]) {
  static const char *const ends[] = {"_single_device", "_distributed"};
  char start[160], *end = NULL;
  bool has_command = plim_project_tune_start(f, start, sizeof start);
  char *last = has_command ? strrchr(start, ' ') : NULL;
  bool is_other = last && strncmp(last, " full_", 6) == 0 && has_adapters(f);
  if (!last || is_other) return NULL;
  snprintf(name, NAME_BYTES, "%s", last + 1);
  for (size_t i = 0; !end && i < sizeof ends / sizeof *ends; i++) end = strstr(name, ends[i]);
  return end;
}

// Without _single_device or _distributed.
static void recipe_of(const plim_project_file *f, char name[NAME_BYTES]) {
  char *end = recipe_in_comment(f, name);
  if (end) *end = 0;
  else usual_recipe(f, name);
}

bool plim_tune_recipe_fits(const plim_project *p, const plim_project_file *f,
                           const char *patterns) {
  char name[NAME_BYTES], pattern[NAME_BYTES];
  const plim_value *world = &p->knobs[PLIM_KNOB_WORLD].value;
  if (!recipe_in_comment(f, name)) {
    bool is_shared = world->kind == PLIM_VALUE_INTEGER && world->integer > 1;
    usual_recipe(f, name);
    strncat(name, is_shared ? "_distributed" : "_single_device", NAME_BYTES - strlen(name) - 1);
  }
  for (size_t n; patterns && *(patterns += strspn(patterns, " ")); patterns += n) {
    n = strcspn(patterns, " ");
    snprintf(pattern, sizeof pattern, "%.*s", (int)n, patterns);
    if (fnmatch(pattern, name, 0) == 0) return true;
  }
  return !patterns;
}

static bool is_tune(const plim_project_file *f) {
  return f->is.dialect == PLIM_DIALECT_TORCHTUNE && f->settings.format == PLIM_FORMAT_YAML;
}

static bool is_off(const plim_value *v) {
  return v->kind == PLIM_VALUE_NULL || (v->kind == PLIM_VALUE_BOOL && !v->flag);
}

static void leave_keys(plim_project *p, plim_project_file *f, const char *recipe) {
  for (size_t i = 0; i < f->settings.at.len; i++) {
    plim_setting *s = &f->settings.at.at[i];
    size_t row = 0;
    while (row < UNREAD &&
           !(is_listed(unread[row].keys, s->key) && is_listed(unread[row].recipes, recipe)))
      row++;
    if (row == UNREAD) continue;
    s->is_aside = true;
    if (is_off(&s->value)) continue;
    plim_note_add(&p->notes, "reads.recipe", NULL,
                  "torchtune's %s recipes do not read %s: it has no effect", recipe, s->key);
    plim_note_at(&p->notes, f->path, s->line);
  }
}

void plim_tune_leave_unread(plim_project *p) {
  char recipe[NAME_BYTES];
  for (size_t i = 0; i < p->files.len; i++) {
    if (!is_tune(p->files.at[i])) continue;
    recipe_of(p->files.at[i], recipe);
    leave_keys(p, p->files.at[i], recipe);
  }
}

size_t plim_tune_refused(const plim_project *p, plim_refused_pair *out, size_t max) {
  char recipe[NAME_BYTES];
  size_t count = 0;
  for (size_t i = 0; i < p->files.len; i++) {
    if (!is_tune(p->files.at[i])) continue;
    recipe_of(p->files.at[i], recipe);
    for (size_t row = 0; row < UNREAD && count < max; row++)
      if (unread[row].value && is_listed(unread[row].recipes, recipe))
        out[count++] = (plim_refused_pair){{unread[row].knob, unread[row].knob},
                                           {unread[row].value, unread[row].value},
                                           unread[row].why,
                                           NULL};
  }
  return count;
}
