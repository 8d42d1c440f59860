// Knobs as numbers: the values of the user's job, and the job of a choice.
#include <stdio.h>
#include <string.h>

#include "plan_impl.h"
#include "suggest.h"

const plim_knob plim_plan_knobs[] = {
    PLIM_KNOB_MICRO_BATCH, PLIM_KNOB_ACCUMULATE,   PLIM_KNOB_PRECISION,    PLIM_KNOB_DTYPE,
    PLIM_KNOB_CHECKPOINT,  PLIM_KNOB_CHUNKED_LOSS, PLIM_KNOB_LIGER,        PLIM_KNOB_ALLOC_CONF,
    PLIM_KNOB_OPTIMIZER,   PLIM_KNOB_ATTENTION,    PLIM_KNOB_STRATEGY,     PLIM_KNOB_OFFLOAD,
    PLIM_KNOB_SEQUENCE,    PLIM_KNOB_LORA_RANK,    PLIM_KNOB_QUANTISATION, PLIM_KNOB_POSITIVES,
    PLIM_KNOB_NEGATIVES,   PLIM_KNOB_CACHED_BATCH,
};
const size_t plim_plan_knob_count = sizeof plim_plan_knobs / sizeof *plim_plan_knobs;

// ---- names ------------------------------------------------------------------------------------------

static const char *const switches[] = {"off", "on"};
static const char *const confs[] = {"unchanged", "expandable_segments:True"};
static const char *const offloads[PLIM_OFFLOADS] = {"none", "optimizer", "parameters",
                                                    "activations"};
static const char *const precisions[] = {"none", "bf16", "fp16"};
static const char *const dtypes[] = {"fp32", "bf16", "fp16"};

typedef struct {
  const char *const *names;
  int64_t count;
} name_list;

#define LIST(a) ((name_list){a, sizeof(a) / sizeof *(a)})

static name_list names_of(plim_knob knob) {
  switch (knob) {
  case PLIM_KNOB_CHECKPOINT: return (name_list){plim_checkpoint_names, PLIM_CHECKPOINT_KINDS};
  case PLIM_KNOB_LIGER: return LIST(switches);
  case PLIM_KNOB_ATTENTION: return (name_list){plim_attention_names, PLIM_ATTENTION_KINDS};
  case PLIM_KNOB_ALLOC_CONF: return LIST(confs);
  case PLIM_KNOB_STRATEGY: return (name_list){plim_strategy_names, PLIM_STRATEGIES};
  case PLIM_KNOB_OFFLOAD: return LIST(offloads);
  case PLIM_KNOB_PRECISION: return LIST(precisions);
  case PLIM_KNOB_DTYPE: return LIST(dtypes);
  case PLIM_KNOB_QUANTISATION: return (name_list){plim_weights_names, PLIM_WEIGHTS_COUNT};
  default: return (name_list){NULL, 0};
  }
}

const char *plim_knob_value_name(plim_knob knob, int64_t value) {
  if (knob == PLIM_KNOB_OPTIMIZER) return value < 0 ? NULL : plim_optimizer_name((size_t)value);
  name_list list = names_of(knob);
  return value >= 0 && value < list.count ? list.names[value] : NULL;
}

static bool count_of(const char *text, int64_t *value) {
  int64_t n = 0;
  if (!*text) return false;
  for (; *text; text++) {
    if (*text < '0' || *text > '9' || n > 1 << 28) return false;
    n = 10 * n + (*text - '0');
  }
  *value = n;
  return true;
}

// Other names of values.
static const struct {
  plim_knob knob;
  const char *word, *name;
} synonyms[] = {
    {PLIM_KNOB_CHECKPOINT, "true", "on"},
    {PLIM_KNOB_CHECKPOINT, "false", "off"},
    {PLIM_KNOB_CHECKPOINT, "yes", "on"},
    {PLIM_KNOB_CHECKPOINT, "no", "off"},
    {PLIM_KNOB_LIGER, "true", "on"},
    {PLIM_KNOB_LIGER, "false", "off"},
    {PLIM_KNOB_ALLOC_CONF, "default", "unchanged"},
    {PLIM_KNOB_ALLOC_CONF, "as it is", "unchanged"}, // of plans saved by older versions
    {PLIM_KNOB_CHUNKED_LOSS, "off", "0"},
    {PLIM_KNOB_CACHED_BATCH, "off", "0"},
    {PLIM_KNOB_CHUNKED_LOSS, "full", "0"},
    {PLIM_KNOB_CHUNKED_LOSS, "chunked", "512"},
    {PLIM_KNOB_PRECISION, "no", "none"},
    {PLIM_KNOB_PRECISION, "fp32", "none"},
    {PLIM_KNOB_PRECISION, "float32", "none"},
    {PLIM_KNOB_PRECISION, "bfloat16", "bf16"},
    {PLIM_KNOB_PRECISION, "float16", "fp16"},
    {PLIM_KNOB_DTYPE, "float32", "fp32"},
    {PLIM_KNOB_DTYPE, "bfloat16", "bf16"},
    {PLIM_KNOB_DTYPE, "float16", "fp16"},
};

static const char *usual_name(plim_knob knob, const char *text) {
  for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
    if (synonyms[i].knob == knob && strcmp(synonyms[i].word, text) == 0) return synonyms[i].name;
  return text;
}

// Counts for which 0 has a name.
static bool has_off(plim_knob knob) {
  return knob == PLIM_KNOB_CHUNKED_LOSS || knob == PLIM_KNOB_CACHED_BATCH;
}

static int64_t least_count(plim_knob knob) {
  bool may_be_none = has_off(knob) || knob == PLIM_KNOB_LORA_RANK || knob == PLIM_KNOB_POSITIVES ||
                     knob == PLIM_KNOB_NEGATIVES;
  return may_be_none ? 0 : 1;
}

void plim_knob_value_text(plim_knob knob, int64_t value, char *text, size_t size) {
  const char *name = plim_knob_value_name(knob, value);
  if (name) snprintf(text, size, "%s", name);
  else if (has_off(knob) && !value) snprintf(text, size, "off");
  else snprintf(text, size, "%lld", (long long)value);
}

void plim_knob_values_text(plim_knob knob, char *text, size_t size) {
  size_t used = 0;
  const char *name = plim_knob_value_name(knob, 0);
  if (!name)
    snprintf(text, size, "%s from %d to %d", has_off(knob) ? "off, or a number" : "a number",
             has_off(knob) ? 1 : (int)least_count(knob), PLIM_MAX_BATCH);
  for (int64_t i = 0; used < size && (name = plim_knob_value_name(knob, i)); i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", name);
}

const char *plim_knob_value_near(plim_knob knob, const char *text) {
  const char *names[64];
  size_t count = 0;
  while (count < 64 && (names[count] = plim_knob_value_name(knob, (int64_t)count))) count++;
  return plim_suggest(text, names, count);
}

bool plim_knob_value_of(plim_knob knob, const char *text, int64_t *value) {
  text = usual_name(knob, text);
  const char *own = knob == PLIM_KNOB_OPTIMIZER ? plim_optimizer_own_name(text) : NULL;
  if (own) text = own; // TrainingArguments uses other names
  if (knob != PLIM_KNOB_OPTIMIZER && !names_of(knob).count)
    return count_of(text, value) && *value >= least_count(knob) && *value <= PLIM_MAX_BATCH;
  const char *name;
  for (int64_t i = 0; (name = plim_knob_value_name(knob, i)); i++)
    if (strcmp(name, text) == 0) {
      *value = i;
      return true;
    }
  return false;
}

// ---- the user's own settings ------------------------------------------------------------------------

static int64_t optimizer_place(const plim_optimizer *o) {
  const char *name;
  for (int64_t i = 0; (name = plim_optimizer_name((size_t)i)); i++)
    if (plim_optimizer_named(name) == o) return i;
  return 0;
}

plim_choice plim_plan_own_choice(const plim_plan_request *r) {
  const plim_recipe *c = &r->job.recipe;
  plim_choice choice = {0};
  choice.at[PLIM_KNOB_MICRO_BATCH] = c->batch;
  choice.at[PLIM_KNOB_ACCUMULATE] = c->accumulate > 1 ? c->accumulate : 1;
  choice.at[PLIM_KNOB_CHECKPOINT] = c->asked_checkpoint ? c->asked_checkpoint : c->checkpoint;
  choice.at[PLIM_KNOB_CHUNKED_LOSS] = c->loss == PLIM_LOSS_CHUNKED ? c->loss_chunk : 0;
  choice.at[PLIM_KNOB_CACHED_BATCH] = c->cached_batch;
  choice.at[PLIM_KNOB_LIGER] = c->uses_liger;
  choice.at[PLIM_KNOB_ATTENTION] = c->attention;
  choice.at[PLIM_KNOB_OPTIMIZER] = optimizer_place(c->optimizer);
  choice.at[PLIM_KNOB_SEQUENCE] = c->length;
  choice.at[PLIM_KNOB_LORA_RANK] = r->job.lora.rank;
  choice.at[PLIM_KNOB_QUANTISATION] = r->job.weights;
  choice.at[PLIM_KNOB_POSITIVES] = r->positives;
  choice.at[PLIM_KNOB_NEGATIVES] = r->negatives;
  choice.at[PLIM_KNOB_STRATEGY] = r->job.sharding.strategy;
  choice.at[PLIM_KNOB_OFFLOAD] = r->job.sharding.offloads_parameters  ? PLIM_OFFLOAD_PARAMETERS
                                 : r->job.sharding.offloads_optimizer ? PLIM_OFFLOAD_OPTIMIZER
                                 : c->saving                          ? PLIM_OFFLOAD_ACTIVATIONS
                                                                      : PLIM_OFFLOAD_NONE;
  plim_precision_of(&r->job, &choice);
  return choice;
}

// A chunked loss is computed by the training loop itself, so it runs like the plain loop.
static void set_loss(plim_recipe *c, int64_t chunk) {
  if (chunk) {
    c->loss = PLIM_LOSS_CHUNKED;
    c->loss_chunk = chunk;
  } else if (c->loss == PLIM_LOSS_CHUNKED) c->loss = PLIM_LOSS_FULL;
}

// What use_liger_kernel turns on: Liger's modules and its cross entropy, which does not suit a loop that needs the logits.
static void set_liger(plim_recipe *c, bool on) {
  if (c->uses_liger == on) return;
  c->uses_liger = on;
  if (on && !c->scores_again) c->loss = PLIM_LOSS_FUSED;
  else if (c->loss == PLIM_LOSS_FUSED) c->loss = PLIM_LOSS_FULL;
}

// FSDP2 offloads parameters and optimizer together. With a sharding strategy the plain loop is the minimal one.
static void set_sharding(const plim_plan_request *r, plim_job *job, plim_strategy strategy,
                         int64_t offload) {
  bool is_fsdp = strategy == PLIM_SHARD_FSDP2;
  bool is_shared = offload == PLIM_OFFLOAD_OPTIMIZER || offload == PLIM_OFFLOAD_PARAMETERS;
  plim_recipe_offload(&job->recipe, offload == PLIM_OFFLOAD_ACTIVATIONS);
  job->sharding.strategy = strategy;
  job->sharding.world = strategy == PLIM_SHARD_NONE ? 1 : r->world;
  job->sharding.offloads_optimizer = is_shared;
  if (strategy != PLIM_SHARD_NONE && !job->recipe.is_trainer) job->recipe.is_bare = true;
  job->sharding.offloads_parameters =
      offload == PLIM_OFFLOAD_PARAMETERS || (is_fsdp && offload == PLIM_OFFLOAD_OPTIMIZER);
}

// The texts of a contrastive loss are columns with their own forward; for other losses they are additional sequences.
static void set_batch(plim_recipe *c, const plim_choice *choice) {
  bool is_contrastive = c->loss == PLIM_LOSS_CONTRASTIVE;
  c->batch = choice->at[PLIM_KNOB_MICRO_BATCH];
  if (!is_contrastive) c->batch *= plim_choice_sequences(choice);
  if (!is_contrastive) return;
  c->columns = plim_choice_sequences(choice);
  c->cached_batch = choice->at[PLIM_KNOB_CACHED_BATCH];
}

// GaLore, APOLLO and LOMO step during backward by settings of their own, which other optimizers do not follow.
static void set_optimizer(plim_recipe *c, const plim_optimizer *o) {
  bool is_by_own = plim_optimizer_lags(c->optimizer) || plim_optimizer_projects(c->optimizer);
  if (is_by_own && !plim_optimizer_lags(o) && !plim_optimizer_projects(o))
    c->steps_in_backward = false;
  c->optimizer = o;
}

// Adapters in a run that has none. The model without them is then the reference, unless a script loads a second one. Those of
// torchtune have the model's type, and its functions for them may make more tables. No recipe for adapters steps in
// backward (recipes/lora_*.py).
static void add_adapters(plim_job *job) {
  plim_rope_tables *tables = job->rope_tables;
  bool has_second =
      plim_method_has_reference(job->recipe.method) && job->recipe.reference == PLIM_REFERENCE_OWN;
  job->lora.targets = PLIM_ALL_LINEAR;
  if (has_second && !job->recipe.passes_reference) job->recipe.reference = PLIM_REFERENCE_ADAPTER;
  if (!job->is_torchtune) return;
  job->lora.keeps_dtype = true;
  job->recipe.steps_in_backward = false;
  tables[0].count = tables[0].with_adapters;
  if (has_second) tables[1] = (plim_rope_tables){0};
}

// A framework that makes trained parameters float32, except under ZeRO 3.
static void set_width(const plim_plan_request *r, plim_job *job) {
  bool was_left = r->job.sharding.strategy == PLIM_SHARD_ZERO3;
  bool is_left = job->sharding.strategy == PLIM_SHARD_ZERO3;
  if (!job->widens_but_stage_3 || job->lora.rank || was_left == is_left) return;
  plim_dtype loaded = was_left ? r->job.dtype : r->job.loaded_dtype;
  job->dtype = is_left ? loaded : PLIM_FP32;
  job->loaded_dtype = is_left ? PLIM_BOOL : loaded;
}

plim_job plim_choice_job(const plim_plan_request *r, const plim_choice *choice) {
  plim_job job = r->job;
  plim_recipe *c = &job.recipe;
  set_batch(c, choice);
  c->accumulate = (int)choice->at[PLIM_KNOB_ACCUMULATE];
  c->checkpoint = (plim_checkpoint_kind)choice->at[PLIM_KNOB_CHECKPOINT];
  c->attention = (plim_attention_kind)choice->at[PLIM_KNOB_ATTENTION];
  set_optimizer(c, plim_optimizer_named(
                       plim_knob_value_name(PLIM_KNOB_OPTIMIZER, choice->at[PLIM_KNOB_OPTIMIZER])));
  c->length = choice->at[PLIM_KNOB_SEQUENCE];
  set_loss(c, choice->at[PLIM_KNOB_CHUNKED_LOSS]);
  set_liger(c, choice->at[PLIM_KNOB_LIGER]);
  if (!job.lora.rank && choice->at[PLIM_KNOB_LORA_RANK]) add_adapters(&job);
  job.lora.rank = choice->at[PLIM_KNOB_LORA_RANK];
  job.weights = (plim_weights_kind)choice->at[PLIM_KNOB_QUANTISATION];
  set_sharding(r, &job, (plim_strategy)choice->at[PLIM_KNOB_STRATEGY],
               choice->at[PLIM_KNOB_OFFLOAD]);
  plim_precision_set(choice, &job);
  set_width(r, &job);
  if (job.mapped_under) job.load = plim_job_usual_load(&job);
  if (job.lora.rank && job.loaded_dtype != PLIM_BOOL) job.dtype = job.loaded_dtype;
  return job;
}

const char *plim_choice_conf(const plim_plan_request *r, const plim_choice *choice) {
  return choice->at[PLIM_KNOB_ALLOC_CONF] == PLIM_CONF_EXPANDABLE ? confs[PLIM_CONF_EXPANDABLE]
         : r->alloc_conf                                          ? r->alloc_conf
                                                                  : "";
}
