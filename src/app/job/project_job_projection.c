// GaLore and APOLLO in the files: the rank, the modules whose gradients are projected, and whether each parameter is updated
// during the backward pass.
#include <stdlib.h>
#include <string.h>

#include "key_names.h"
#include "project_job.h"

#define note(p, ...) plim_note_add(&(p)->notes, __VA_ARGS__)

enum {
  RANK_OF_FACTORY = 16,
  WORD_BYTES = 128
}; // galore_rank and apollo_rank of finetuning_args.py

static const plim_setting *one(const project_job *p, const char *key) {
  char name[PLIM_KEY_BYTES];
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_settings *s = &p->project.files.at[i]->settings;
    for (size_t k = 0; k < s->at.len; k++) {
      plim_key_name(s->at.at[k].key, name);
      if (plim_key_fits(name, key, true)) return &s->at.at[k];
    }
  }
  return NULL;
}

static const char *text_of(const plim_setting *s) {
  bool is_text = s && (s->value.kind == PLIM_VALUE_TEXT || s->value.kind == PLIM_VALUE_DERIVED) &&
                 s->value.text;
  return is_text ? s->value.text : "";
}

static bool is_on(const plim_setting *s) {
  return s && s->value.kind == PLIM_VALUE_BOOL && s->value.flag;
}

static uint64_t count_of(const plim_setting *s, uint64_t otherwise) {
  return s && s->value.kind == PLIM_VALUE_INTEGER && s->value.integer > 0
             ? (uint64_t)s->value.integer
             : otherwise;
}

// ---- the modules ----------------------------------------------------------------------------------------

typedef vec(char) words;

// Names in any notation: "mlp,attn", ["mlp", "attn"]. They are parts of a module's name, in which dots are dots.
static bool add_names(words *out, const char *text) {
  static const char between[] = "[](),'\" \t\n";
  bool ok = true;
  for (text += strspn(text, between); ok && *text; text += strspn(text, between)) {
    size_t n = strcspn(text, between);
    if (out->len) ok = vec_push(out, ' ');
    for (size_t i = 0; ok && i < n; i++)
      ok = (text[i] != '.' || vec_push(out, '\\')) && vec_push(out, text[i]);
    text += n;
  }
  return ok;
}

static bool add_modules(const project_job *p, const char *key, words *out) {
  char name[PLIM_KEY_BYTES], element[64];
  bool ok = true;
  snprintf(element, sizeof element, "%s.*", key);
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_settings *s = &p->project.files.at[i]->settings;
    for (size_t k = 0; ok && k < s->at.len; k++) {
      plim_key_name(s->at.at[k].key, name);
      if (plim_key_fits(name, key, true) || plim_key_fits(name, element, true))
        ok = add_names(out, text_of(&s->at.at[k]));
    }
  }
  return ok;
}

// transformers' all-linear includes the head, LLaMA-Factory's all does not.
static void fill_modules(project_job *p, job_args *a, const char *key) {
  words found = {0};
  const char *whole = text_of(one(p, key));
  if (job_is_typed(a, &a->projected) || strcmp(whole, "all") == 0) return;
  bool is_all = strcmp(whole, "all-linear") == 0 || strcmp(whole, "all_linear") == 0;
  if (!(is_all ? vec_push(&found, '.') : add_modules(p, key, &found)) ||
      (found.len && !vec_push(&found, 0)))
    p->notes.has_no_memory = true;
  p->projected = found.at;
  a->projected = found.at;
}

// ---- transformers' Trainer, and what is built on it -----------------------------------------------------

// optim_args: "rank=64, update_proj_gap=100", or a key for each.
static void fill_trainer(project_job *p, job_args *a) {
  const char *options = text_of(one(p, "optim_args")), *rank = strstr(options, "rank");
  uint64_t typed = rank ? strtoull(rank + strcspn(rank, "0123456789"), NULL, 10) : 0;
  if (!job_is_typed(a, &a->projection_rank))
    a->projection_rank = typed ? typed : count_of(one(p, "optim_args.rank"), 0);
  bool is_whole = strstr(options, "scale_type=tensor") ||
                  strcmp(text_of(one(p, "optim_args.scale_type")), "tensor") == 0;
  if (is_whole && strcmp(a->optimizer, "apollo") == 0) a->optimizer = "apollo-mini";
  fill_modules(p, a, "optim_target_modules");
  if (!a->projected)
    note(p, "assumed.projected", "optimizer",
         "optim_target_modules is not set, and transformers refuses %s without it; predicted for "
         "all "
         "linear layers but the head",
         a->optimizer);
}

static const char *name_in_trainer(const project_job *p) {
  const char *name = text_of(one(p, "optim"));
  return *name ? name : text_of(one(p, "optimizer"));
}

// ---- LLaMA-Factory --------------------------------------------------------------------------------------

// train/trainer_utils.py, _create_galore_optimizer and _create_apollo_optimizer: other optimizers raise NotImplementedError.
// Trainer's default is adamw_torch_fused since torch 2.8 (training_args.py).
static void note_algorithm(project_job *p, const job_args *a, bool is_galore) {
  static const char *const those[] = {"adamw_torch", "adamw_8bit", "adamw_bnb_8bit",
                                      "paged_adamw_8bit", "adafactor"};
  const plim_setting *s = one(p, "optim");
  uint16_t torch = job_release(a, PLIM_LIBRARY_TORCH);
  const char *name = s ? text_of(s) : "adamw_torch_fused";
  size_t count = is_galore ? sizeof those / sizeof *those : 1;
  if (!s && torch && torch < PLIM_RELEASE(2, 8)) return;
  for (size_t i = 0; i < count; i++)
    if (strcmp(name, those[i]) == 0) return;
  note(p, "stops.optimizer", "optimizer",
       "LLaMA-Factory stops with NotImplementedError: %s does not work with optim %s%s; set optim: "
       "adamw_torch%s",
       is_galore ? "use_galore" : "use_apollo", name,
       s ? "" : ", the default of transformers with torch 2.8 and newer",
       is_galore ? " (or adamw_8bit, whose states have 8 bits)" : "");
}

// Its keys begin with the optimizer's name.
static void fill_factory(project_job *p, job_args *a, bool is_galore) {
  note_algorithm(p, a, is_galore);
  if (strcmp(text_of(one(p, "apollo_scale_type")), "tensor") == 0 && !is_galore)
    a->optimizer = "apollo-mini";
  if (!job_is_typed(a, &a->projection_rank))
    a->projection_rank =
        count_of(one(p, is_galore ? "galore_rank" : "apollo_rank"), RANK_OF_FACTORY);
  fill_modules(p, a, is_galore ? "galore_target" : "apollo_target");
}

void project_job_fill_projection(project_job *p, job_args *a) {
  const plim_optimizer *o = plim_optimizer_named(a->optimizer);
  if (!o || !plim_optimizer_projects(o) || job_is_typed(a, &a->optimizer)) return;
  bool is_factory = p->project.dialect == PLIM_DIALECT_LLAMA_FACTORY;
  bool is_galore = strncmp(a->optimizer, "galore", 6) == 0;
  bool is_layerwise = is_factory
                          ? is_on(one(p, is_galore ? "galore_layerwise" : "apollo_layerwise"))
                          : strstr(name_in_trainer(p), "layerwise") != NULL;
  if (is_factory && is_on(one(p, is_galore ? "use_galore" : "use_apollo")))
    fill_factory(p, a, is_galore);
  else fill_trainer(p, a);
  if (!is_layerwise) return;
  a->in_backward = true;
  a->no_clip = true; // there are no gradients left
}
