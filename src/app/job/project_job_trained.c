// Parameters that the files train by name: Axolotl's unfrozen_parameters, LLaMA-Factory's freeze tuning.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "key_names.h"
#include "lora_pattern.h"
#include "project_job.h"

#define note(p, ...) plim_note_add(&(p)->notes, __VA_ARGS__)

// ---- a text that grows --------------------------------------------------------------------------------

enum { DTYPE_BF16 = 1 }; // in job_dtypes

typedef vec(char) text;

static bool put(text *t, const char *what, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (!vec_push(t, what[i])) return false;
  return true;
}

static bool put_text(text *t, const char *what) { return put(t, what, strlen(what)); }

// A dot of a name is a dot.
static bool put_plain(text *t, const char *name, size_t size) {
  bool ok = true;
  for (size_t i = 0; ok && i < size; i++)
    ok = (name[i] != '.' || vec_push(t, '\\')) && vec_push(t, name[i]);
  return ok;
}

// ---- settings -------------------------------------------------------------------------------------------

typedef void each_setting(void *context, const plim_setting *setting);

// The settings with this key, or elements of a list with this key.
static const plim_setting *each(const project_job *p, const char *key, each_setting *visit,
                                void *context) {
  char name[PLIM_KEY_BYTES], element[64];
  const plim_setting *first = NULL;
  snprintf(element, sizeof element, "%s.*", key);
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_settings *s = &p->project.files.at[i]->settings;
    for (size_t k = 0; k < s->at.len; k++) {
      plim_key_name(s->at.at[k].key, name);
      if (!plim_key_fits(name, key, true) && !plim_key_fits(name, element, true)) continue;
      if (!first) first = &s->at.at[k];
      if (visit) visit(context, &s->at.at[k]);
    }
  }
  return first;
}

static const plim_setting *one(const project_job *p, const char *key) {
  return each(p, key, NULL, NULL);
}

static bool is_text(const plim_setting *s, const char *value) {
  return s && s->value.kind == PLIM_VALUE_TEXT && strcmp(s->value.text, value) == 0;
}

static bool is_on(const plim_setting *s) {
  return s && s->value.kind == PLIM_VALUE_BOOL && s->value.flag;
}

// ---- Axolotl: unfrozen_parameters -----------------------------------------------------------------------

// utils/freeze.py: from the beginning of a name; dots are dots, except in ".+"; a range of rows at the end only sets the
// gradients of other rows to zero.
static void add_unfrozen(void *context, const plim_setting *setting) {
  text *t = context;
  if (setting->value.kind != PLIM_VALUE_TEXT) return;
  const char *pattern = setting->value.text, *range = strrchr(pattern, '[');
  size_t size = strlen(pattern);
  bool is_range = range && range > pattern && pattern[size - 1] == ']' &&
                  strspn(range + 1, "0123456789:") == (size_t)(pattern + size - range) - 2;
  if (is_range) size = (size_t)(range - pattern);
  if (t->len) put_text(t, " ");
  put_text(t, "^");
  for (size_t i = *pattern == '^'; i < size; i++) {
    if (pattern[i] == '.' && pattern[i + 1] != '+') put_text(t, "\\");
    put(t, &pattern[i], 1);
  }
}

// train.py: enable_input_require_grads() if the embedding or the head is named.
static void find_ends(void *context, const plim_setting *setting) {
  bool is_end =
      setting->value.kind == PLIM_VALUE_TEXT &&
      (strstr(setting->value.text, "lm_head") || strstr(setting->value.text, "embed_tokens"));
  *(bool *)context |= is_end;
}

// With adapters, the names begin with base_model.model, and the expressions are compared with their beginning.
static bool fits_adapters(const char *patterns) {
  static const char name[] =
      "base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight";
  char pattern[256];
  for (size_t size; *patterns; patterns += size + (patterns[size] == ' ')) {
    size = strcspn(patterns, " ");
    snprintf(pattern, sizeof pattern, "%.*s", (int)size, patterns);
    if (size && plim_lora_pattern_occurs(pattern, name)) return true;
  }
  return false;
}

static void fill_axolotl(project_job *p, job_args *a, text *t) {
  bool has_ends = false;
  if (!each(p, "unfrozen_parameters", add_unfrozen, t)) return;
  each(p, "unfrozen_parameters", find_ends, &has_ends);
  if (has_ends) a->trained_by = JOB_TRAINED_BY_INPUTS;
}

// ---- LLaMA-Factory: freeze tuning ---------------------------------------------------------------------

typedef struct {
  text *out;
  char layers[1024]; // "3|4|5"; "": the modules are not in layers
} modules;

// Names separated by commas, or one of a list.
static void add_modules(void *context, const plim_setting *setting) {
  const modules *m = context;
  if (setting->value.kind != PLIM_VALUE_TEXT) return;
  for (const char *at = setting->value.text; *at;) {
    at += strspn(at, ", ");
    size_t size = strcspn(at, ", ");
    if (!size) continue;
    bool is_all = size == 3 && memcmp(at, "all", 3) == 0;
    if (m->out->len) put_text(m->out, " ");
    if (*m->layers) put_text(m->out, "\\.("), put_text(m->out, m->layers), put_text(m->out, ")\\.");
    if (!is_all || !*m->layers) put_plain(m->out, at, size);
    at += size;
  }
}

// The layers that are trained: the last, the first for a negative number, or every nth one (LLaMA-Pro).
static void list_layers(int64_t count, int64_t trained, bool is_spread, char *out, size_t size) {
  int64_t stride = is_spread && trained > 0 ? count / trained : 1;
  int64_t first = is_spread ? stride - 1 : trained > 0 ? count - trained : 0;
  int64_t end = trained > 0 ? count : -trained < count ? -trained : count;
  if (first < 0) first = 0;
  size_t used = 0;
  for (int64_t i = first; i < end && stride > 0 && used + 8 < size; i += stride)
    used += (size_t)snprintf(out + used, size - used, "%s%lld", used ? "|" : "", (long long)i);
}

// v1 leaves frozen parameters in the checkpoint's dtype (peft.py, get_freeze_model).
static void fill_version_1(const project_job *p, job_args *a) {
  const plim_setting *cast = one(p, "peft_config.cast_trainable_params_to_fp32");
  a->widens_trained = !cast || is_on(cast);
  if (!job_is_typed(a, &a->dtype)) a->dtype = DTYPE_BF16;
}

static void fill_factory(const project_job *p, job_args *a, bool is_v1, text *t) {
  const plim_setting *type = one(p, is_v1 ? "peft_config.name" : "finetuning_type");
  const plim_setting *layers =
      one(p, is_v1 ? "peft_config.freeze_trainable_layers" : "freeze_trainable_layers");
  const char *names = is_v1 ? "peft_config.freeze_trainable_modules" : "freeze_trainable_modules";
  const char *extra = is_v1 ? "peft_config.freeze_extra_modules" : "freeze_extra_modules";
  plim_model_source source;
  bool freezes = is_text(type, "freeze"), is_spread = is_on(one(p, "use_llama_pro"));
  if ((!freezes && !is_spread) || !a->model || plim_model_find(a->model, &source, NULL)) return;
  int64_t trained = layers && layers->value.kind == PLIM_VALUE_INTEGER ? layers->value.integer : 2;
  modules m = {.out = t};
  list_layers(source.config.layers, trained, is_spread, m.layers, sizeof m.layers);
  if (!freezes) { // adapters in the layers that were added
    for (char *c = m.layers; *c; c++) put(t, *c == '|' ? "," : c, 1);
    return;
  }
  if (!each(p, names, add_modules, &m))
    put_text(t, "\\.("), put_text(t, m.layers), put_text(t, ")\\.");
  *m.layers = 0;
  each(p, extra, add_modules, &m);
  if (is_v1) fill_version_1(p, a);
  else a->trained_by = JOB_TRAINED_BY_FACTORY;
}

// ---- LLaMA-Factory: frozen towers -----------------------------------------------------------------------

// get_forbidden_modules of model_utils/visual.py: by default, what sees images and its projector, of the models that it knows
// as composite. _setup_full_tuning of model/adapter.py converts the others to float32 and leaves these as they were loaded.
static void fill_frozen_towers(project_job *p, job_args *a, text *t) {
  const plim_setting *type = one(p, "finetuning_type");
  const plim_setting *projector = one(p, "freeze_multi_modal_projector");
  const plim_setting *language = one(p, "freeze_language_model");
  bool is_other = (projector && !is_on(projector)) || is_on(language) || p->is_megatron;
  plim_model_source source;
  if (!is_text(type, "full") || !a->freezes_towers || is_other || a->lora_rank || !a->model ||
      plim_model_find(a->model, &source, NULL))
    return;
  const plim_family *outer = source.config.outer;
  if (!outer || outer->factory_adapts_towers) return;
  put_text(t, "."); // all that have a name here, as towers have none
  a->trained_by = JOB_TRAINED_BY_FACTORY;
  if (a->widens_all) a->dtype = 0;
  a->widens_all = a->widens_but_stage_3 = false;
}

// ---- LLaMA-Factory: BAdam -------------------------------------------------------------------------------

bool project_job_rotates(const project_job *p) {
  const plim_setting *mode = one(p, "badam_mode");
  return p->project.dialect == PLIM_DIALECT_LLAMA_FACTORY && is_on(one(p, "use_badam")) &&
         (!mode || is_text(mode, "layer"));
}

// One layer at a time is trained. The first one needs most memory: its backward pass goes through all others, of which
// LLaMA-Factory checkpoints none.
static void fill_badam(project_job *p, job_args *a, text *t) {
  put_text(t, "\\.0\\.");
  a->trained_by = JOB_TRAINED_BY_FACTORY;
  if (!job_is_typed(a, &a->dtype)) a->dtype = DTYPE_BF16;
  note(p, "assumed.badam", "optimizer",
       "BAdam trains one layer at a time: predicted for the first layer, whose backward pass goes "
       "through all others");
}

// ---- all of it --------------------------------------------------------------------------------------------

void project_job_fill_trained(project_job *p, job_args *a) {
  plim_dialect dialect = p->project.dialect;
  bool is_v1 = dialect == PLIM_DIALECT_LLAMA_FACTORY_V1;
  text t = {0};
  if (a->trained || job_is_typed(a, &a->trained)) return;
  if (project_job_rotates(p) && !a->lora_rank) fill_badam(p, a, &t);
  else if (dialect == PLIM_DIALECT_LLAMA_FACTORY) fill_frozen_towers(p, a, &t);
  if (dialect == PLIM_DIALECT_AXOLOTL) fill_axolotl(p, a, &t);
  if (dialect == PLIM_DIALECT_LLAMA_FACTORY || is_v1) fill_factory(p, a, is_v1, &t);
  if (!t.len || !vec_push(&t, 0)) {
    p->notes.has_no_memory |= t.len > 0;
    vec_free(&t);
    return;
  }
  p->trained = t.at;
  if (!a->lora_rank) a->trained = p->trained;
  else a->trained_by = JOB_TRAINED_BY_LOOP;
  if (a->lora_rank && dialect != PLIM_DIALECT_AXOLOTL && !a->lora_layers)
    a->lora_layers = p->trained;
}

bool project_job_knows_trained(const project_job *p, const job_args *a) {
  return p->trained && (a->trained || !fits_adapters(p->trained));
}
