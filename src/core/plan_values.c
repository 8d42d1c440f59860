// Knobs as numbers: what the user's job has, what the planner may try, and what a choice means.
#include <math.h>
#include <string.h>

#include "family.h"
#include "liger.h"
#include "plan_impl.h"

const plim_knob plim_plan_knobs[] = {
    PLIM_KNOB_MICRO_BATCH, PLIM_KNOB_ACCUMULATE,   PLIM_KNOB_PRECISION,    PLIM_KNOB_DTYPE,
    PLIM_KNOB_CHECKPOINT,  PLIM_KNOB_CHUNKED_LOSS, PLIM_KNOB_LIGER,        PLIM_KNOB_ALLOC_CONF,
    PLIM_KNOB_OPTIMIZER,   PLIM_KNOB_ATTENTION,    PLIM_KNOB_STRATEGY,     PLIM_KNOB_OFFLOAD,
    PLIM_KNOB_SEQUENCE,    PLIM_KNOB_LORA_RANK,    PLIM_KNOB_QUANTISATION, PLIM_KNOB_POSITIVES,
    PLIM_KNOB_NEGATIVES,
};
const size_t plim_plan_knob_count = sizeof plim_plan_knobs / sizeof *plim_plan_knobs;

// ---- names ------------------------------------------------------------------------------------------

enum { CONF_AS_IS, CONF_EXPANDABLE };
enum { OFFLOAD_NONE, OFFLOAD_OPTIMIZER, OFFLOAD_PARAMETERS };

static const char *const switches[] = {"off", "on"};
static const char *const confs[] = {"as it is", "expandable_segments:True"};
static const char *const offloads[] = {"none", "optimizer", "parameters"};
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

// Other words for a value.
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
    {PLIM_KNOB_ALLOC_CONF, "default", "as it is"},
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

bool plim_knob_value_of(plim_knob knob, const char *text, int64_t *value) {
  if (knob == PLIM_KNOB_CHUNKED_LOSS && strcmp(text, "off") == 0) text = "0";
  if (knob != PLIM_KNOB_OPTIMIZER && !names_of(knob).count) return count_of(text, value);
  const char *name;
  text = usual_name(knob, text);
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
  choice.at[PLIM_KNOB_CHECKPOINT] = c->checkpoint;
  choice.at[PLIM_KNOB_CHUNKED_LOSS] = c->loss == PLIM_LOSS_CHUNKED ? c->loss_chunk : 0;
  choice.at[PLIM_KNOB_LIGER] = c->uses_liger;
  choice.at[PLIM_KNOB_ATTENTION] = c->attention;
  choice.at[PLIM_KNOB_OPTIMIZER] = optimizer_place(c->optimizer);
  choice.at[PLIM_KNOB_SEQUENCE] = c->length;
  choice.at[PLIM_KNOB_LORA_RANK] = r->job.lora.rank;
  choice.at[PLIM_KNOB_QUANTISATION] = r->job.weights;
  choice.at[PLIM_KNOB_POSITIVES] = r->positives;
  choice.at[PLIM_KNOB_NEGATIVES] = r->negatives;
  choice.at[PLIM_KNOB_STRATEGY] = r->job.sharding.strategy;
  choice.at[PLIM_KNOB_OFFLOAD] = r->job.sharding.offloads_parameters  ? OFFLOAD_PARAMETERS
                                 : r->job.sharding.offloads_optimizer ? OFFLOAD_OPTIMIZER
                                                                      : OFFLOAD_NONE;
  plim_precision_of(&r->job, &choice);
  return choice;
}

// A chunked loss is computed by the training loop itself: it runs as the plain loop does.
static void set_loss(plim_recipe *c, int64_t chunk) {
  if (chunk) {
    c->loss = PLIM_LOSS_CHUNKED;
    c->loss_chunk = chunk;
  } else if (c->loss == PLIM_LOSS_CHUNKED) c->loss = PLIM_LOSS_FULL;
}

// Its modules, and its cross entropy with them: what use_liger_kernel turns on.
static void set_liger(plim_recipe *c, bool on) {
  if (c->uses_liger == on) return;
  c->uses_liger = on;
  if (on) c->loss = PLIM_LOSS_FUSED;
  else if (c->loss == PLIM_LOSS_FUSED) c->loss = PLIM_LOSS_FULL;
}

// FSDP2's offload takes parameters and optimizer along.
static void set_sharding(const plim_plan_request *r, plim_job *job, plim_strategy strategy,
                         int64_t offload) {
  bool is_fsdp = strategy == PLIM_SHARD_FSDP2;
  job->sharding.strategy = strategy;
  job->sharding.world = strategy == PLIM_SHARD_NONE ? 1 : r->world;
  job->sharding.offloads_optimizer = offload >= OFFLOAD_OPTIMIZER;
  job->sharding.offloads_parameters =
      offload == OFFLOAD_PARAMETERS || (is_fsdp && offload == OFFLOAD_OPTIMIZER);
}

plim_job plim_choice_job(const plim_plan_request *r, const plim_choice *choice) {
  plim_job job = r->job;
  plim_recipe *c = &job.recipe;
  c->batch = choice->at[PLIM_KNOB_MICRO_BATCH] * plim_choice_sequences(choice);
  c->accumulate = (int)choice->at[PLIM_KNOB_ACCUMULATE];
  c->checkpoint = (plim_checkpoint_kind)choice->at[PLIM_KNOB_CHECKPOINT];
  c->attention = (plim_attention_kind)choice->at[PLIM_KNOB_ATTENTION];
  c->optimizer = plim_optimizer_named(
      plim_knob_value_name(PLIM_KNOB_OPTIMIZER, choice->at[PLIM_KNOB_OPTIMIZER]));
  c->length = choice->at[PLIM_KNOB_SEQUENCE];
  set_loss(c, choice->at[PLIM_KNOB_CHUNKED_LOSS]);
  set_liger(c, choice->at[PLIM_KNOB_LIGER]);
  if (!job.lora.rank) job.lora.targets = PLIM_ALL_LINEAR;
  job.lora.rank = choice->at[PLIM_KNOB_LORA_RANK];
  job.weights = (plim_weights_kind)choice->at[PLIM_KNOB_QUANTISATION];
  job.prepares_kbit = job.weights != PLIM_WEIGHTS_PLAIN;
  set_sharding(r, &job, (plim_strategy)choice->at[PLIM_KNOB_STRATEGY],
               choice->at[PLIM_KNOB_OFFLOAD]);
  plim_precision_set(choice, &job);
  return job;
}

const char *plim_choice_conf(const plim_plan_request *r, const plim_choice *choice) {
  return choice->at[PLIM_KNOB_ALLOC_CONF] == CONF_EXPANDABLE ? confs[CONF_EXPANDABLE]
         : r->alloc_conf                                     ? r->alloc_conf
                                                             : "";
}

// ---- what may be tried ------------------------------------------------------------------------------

static void push(plim_domain *d, int64_t value) {
  for (int i = 0; i < d->count; i++)
    if (d->at[i] == value) return;
  if (d->count < PLIM_MAX_VALUES) d->at[d->count++] = value;
}

static void micro_batches(const plim_plan_request *r, plim_domain *d) {
  uint64_t per_gpu = r->effective_batch / (uint64_t)r->world;
  for (int64_t b = 1; !r->effective_batch && b <= 256; b *= 2) push(d, b);
  for (uint64_t b = 1; b <= per_gpu && b <= 512; b++)
    if (per_gpu % b == 0) push(d, (int64_t)b);
}

// Shares of a length or a rank that keep it a multiple of 8.
static void shares(int64_t whole, plim_domain *d) {
  static const int eighths[] = {8, 6, 4, 3, 2, 1};
  for (size_t i = 0; i < sizeof eighths / sizeof *eighths; i++)
    if (whole * eighths[i] / 8 >= 8) push(d, whole * eighths[i] / 64 * 8);
}

// From the one that sends least to the one that keeps least.
const plim_knob_pair plim_sharding_order[] = {
    {PLIM_SHARD_DDP, OFFLOAD_NONE},         {PLIM_SHARD_ZERO1, OFFLOAD_NONE},
    {PLIM_SHARD_ZERO2, OFFLOAD_NONE},       {PLIM_SHARD_FSDP2, OFFLOAD_NONE},
    {PLIM_SHARD_ZERO3, OFFLOAD_NONE},       {PLIM_SHARD_ZERO2, OFFLOAD_OPTIMIZER},
    {PLIM_SHARD_FSDP2, OFFLOAD_PARAMETERS}, {PLIM_SHARD_ZERO3, OFFLOAD_PARAMETERS},
};
const size_t plim_sharding_order_count = sizeof plim_sharding_order / sizeof *plim_sharding_order;

static bool has_causal_head(const plim_job *job) {
  return job->model.head == PLIM_HEAD_CAUSAL && !job->model.relative_buckets;
}

// There are logits to save: the loss is computed from all of them.
static bool has_logits(const plim_job *job) {
  return job->recipe.loss == PLIM_LOSS_FULL && has_causal_head(job);
}

static bool may_be(const plim_domain *d, int64_t value) {
  for (int i = 0; i < d->count; i++)
    if (d->at[i] == value) return true;
  return !d->count;
}

static bool can_use_liger(const plim_plan_request *r) {
  bool is_open = r->offers_liger && may_be(&r->domains[PLIM_KNOB_LIGER], true);
  return is_open && r->world == 1 && has_logits(&r->job) &&
         plim_liger_knows(r->job.model.family->model_type);
}

// Where one's own files can turn Liger on, nobody has to write a loss of one's own.
static void chunks(const plim_plan_request *r, plim_domain *d) {
  if (r->world > 1 || !has_logits(&r->job) || can_use_liger(r)) return;
  push(d, r->chunk_tokens ? r->chunk_tokens : 512); // as measured: tests/truth/seeds_chunked.json
}

// The planner's own choice of values, those first that change least.
static plim_domain all_values(const plim_plan_request *r, plim_knob knob) {
  plim_domain d = r->domains[knob];
  plim_choice own = plim_plan_own_choice(r);
  if (d.count) return d;
  if (knob == PLIM_KNOB_MICRO_BATCH && (!r->is_contrastive || r->allowed[knob])) {
    micro_batches(r, &d);
    return d;
  }
  push(&d, own.at[knob]);
  if (knob == PLIM_KNOB_MICRO_BATCH) return d; // it is what a sequence is compared with
  if (plim_knob_changes_learning(r, knob) ? !r->allowed[knob] : r->holds_others) return d;
  switch (knob) {
  case PLIM_KNOB_PRECISION: push(&d, plim_precision_offered(r)); break;
  case PLIM_KNOB_DTYPE: push(&d, plim_dtype_offered(r)); break;
  case PLIM_KNOB_CHECKPOINT:
    push(&d, PLIM_CHECKPOINT_OFF);
    if (!r->job.model.cannot_checkpoint) push(&d, PLIM_CHECKPOINT_ON);
    break;
  case PLIM_KNOB_CHUNKED_LOSS: chunks(r, &d); break;
  case PLIM_KNOB_LIGER: push(&d, own.at[knob] || can_use_liger(r)); break;
  case PLIM_KNOB_ALLOC_CONF: push(&d, CONF_EXPANDABLE); break;
  case PLIM_KNOB_ATTENTION:
    if (own.at[knob] == PLIM_ATTENTION_EAGER) push(&d, PLIM_ATTENTION_SDPA);
    break;
  case PLIM_KNOB_NEGATIVES: return plim_fewer_per_anchor(own.at[knob]);
  case PLIM_KNOB_SEQUENCE: shares(own.at[knob], &d); break;
  case PLIM_KNOB_LORA_RANK:
    if (own.at[knob]) shares(own.at[knob], &d);
    else
      for (int64_t rank = 64; rank >= 8; rank /= 2) push(&d, rank); // adapters alone
    break;
  case PLIM_KNOB_QUANTISATION:
    if (own.at[PLIM_KNOB_LORA_RANK]) push(&d, PLIM_WEIGHTS_NF4_DOUBLE);
    break;
  default: break;
  }
  return d;
}

plim_domain plim_knob_domain(const plim_plan_request *r, plim_knob knob) {
  plim_domain d = all_values(r, knob);
  bool is_bounded =
      r->reach && knob != PLIM_KNOB_MICRO_BATCH && plim_knob_changes_learning(r, knob);
  if (is_bounded && !r->domains[knob].count && d.count > r->reach + 1) d.count = r->reach + 1;
  return d;
}

bool plim_choice_is_sound(const plim_plan_request *r, const plim_choice *choice) {
  bool has_two_losses = choice->at[PLIM_KNOB_CHUNKED_LOSS] && choice->at[PLIM_KNOB_LIGER];
  return !has_two_losses && plim_precision_is_sound(r, choice);
}
