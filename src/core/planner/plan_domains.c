// The values of each knob that the planner may try: those that do not change what the model learns, and those that do.
#include <string.h>

#include "alloc_conf.h"
#include "family.h"
#include "liger.h"
#include "plan_impl.h"

void plim_domain_push(plim_domain *d, int64_t value) {
  for (int i = 0; i < d->count; i++)
    if (d->at[i] == value) return;
  if (d->count < PLIM_MAX_VALUES) d->at[d->count++] = value;
}

bool plim_may_be(const plim_domain *d, int64_t value) {
  for (int i = 0; i < d->count; i++)
    if (d->at[i] == value) return true;
  return !d->count;
}

#define push plim_domain_push

// ---- optimizers -------------------------------------------------------------------------------------

// Implementations of one algorithm: the fastest, which is also the smallest because it needs no temporaries of all
// parameters; with state in managed memory; with 8-bit state, which is rounded; and both.
enum { FASTEST, PAGED, ROUNDED, ROUNDED_PAGED, IMPLEMENTATIONS };
static const struct {
  const char *names[IMPLEMENTATIONS];
  const char *also[3];
} algorithms[] = {
    {{"adamw", "paged-adamw", "adamw-8bit", "paged-adamw-8bit"}, {"adamw-foreach", "adamw-loop"}},
    {{"lion", "paged-lion", "lion-8bit", "paged-lion-8bit"}, {"lion-bnb"}},
    {{"galore", "galore", "galore-8bit", "galore-8bit"}, {NULL}}, // galore-torch pages nothing
};

static int64_t place_of(const char *name) {
  int64_t place = 0;
  plim_knob_value_of(PLIM_KNOB_OPTIMIZER, name, &place);
  return place;
}

// The index of another implementation of the same algorithm; the optimizer itself if there is none.
static int64_t implemented(int64_t optimizer, int how) {
  const char *name = plim_optimizer_name((size_t)optimizer);
  for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
    bool is_it = false;
    for (int k = 0; k < IMPLEMENTATIONS; k++) is_it |= !strcmp(algorithms[i].names[k], name);
    for (int k = 0; k < 3 && algorithms[i].also[k]; k++)
      is_it |= !strcmp(algorithms[i].also[k], name);
    if (is_it) return place_of(algorithms[i].names[how]);
  }
  return optimizer;
}

static bool rounds(int64_t optimizer) {
  return plim_optimizer_rounds(plim_optimizer_named(plim_optimizer_name((size_t)optimizer)));
}

static bool is_paged(int64_t optimizer) {
  return plim_optimizer_is_paged(plim_optimizer_named(plim_optimizer_name((size_t)optimizer)));
}

// AdamW or Lion without rounded state: what a sharded run can keep on the host, where those with rounded state have no step.
static int64_t exact(int64_t optimizer) {
  int64_t other = implemented(optimizer, FASTEST);
  bool is_torchao = strstr(plim_optimizer_name((size_t)optimizer), "adamw-torchao") != NULL;
  return is_torchao ? place_of("adamw") : other;
}

int64_t plim_optimizer_on_card(int64_t optimizer) {
  if (!is_paged(optimizer)) return optimizer;
  return implemented(optimizer, rounds(optimizer) ? ROUNDED : FASTEST);
}

// ---- knobs that change what the model learns --------------------------------------------------------

// The order of concessions that people name: 8-bit optimizer state, which is nearly exact; adapters instead of all
// parameters; 4-bit weights below them; a shorter length; a lower rank.
const plim_knob plim_conceded_knobs[] = {
    PLIM_KNOB_OPTIMIZER, PLIM_KNOB_DTYPE,        PLIM_KNOB_MICRO_BATCH, PLIM_KNOB_NEGATIVES,
    PLIM_KNOB_POSITIVES, PLIM_KNOB_QUANTISATION, PLIM_KNOB_SEQUENCE,    PLIM_KNOB_LORA_RANK,
};
const size_t plim_conceded_knob_count = sizeof plim_conceded_knobs / sizeof *plim_conceded_knobs;

static bool estimates_divergence(const plim_recipe *r) {
  return r->method == PLIM_METHOD_KTO && !r->skips_divergence;
}

// torchtune's distillation (recipes/knowledge_distillation_*.py, train) adds up the means of the micro batches, in which a
// token of a short sample counts for more. Packed samples are all equally long.
static bool averages_batches(const plim_plan_request *r) {
  return r->job.recipe.distils && !r->packs_samples;
}

bool plim_plan_compares_batch(const plim_plan_request *r) {
  return r->is_contrastive || r->has_batch_norm || averages_batches(r) ||
         estimates_divergence(&r->job.recipe);
}

bool plim_knob_changes_learning(const plim_plan_request *r, plim_knob knob) {
  if (knob == PLIM_KNOB_DTYPE && plim_base_is_frozen(r)) return false;
  if (knob == PLIM_KNOB_MICRO_BATCH) return plim_plan_compares_batch(r);
  return knob == PLIM_KNOB_OPTIMIZER || plim_knob_table[knob].kind == PLIM_KNOB_QUALITY;
}

// Fractions of a length or a rank that are multiples of 8.
static void shares(int64_t whole, plim_domain *d) {
  static const int eighths[] = {6, 4, 3, 2, 1};
  for (size_t i = 0; i < sizeof eighths / sizeof *eighths; i++)
    if (whole * eighths[i] / 8 >= 8) push(d, whole * eighths[i] / 64 * 8);
}

static uint64_t per_gpu(const plim_plan_request *r) {
  return r->effective_batch / (uint64_t)r->world;
}

// Divisors below the user's own batch, each at most three quarters of the one before: fewer sequences to compare with.
static void smaller_batches(const plim_plan_request *r, int64_t own, plim_domain *d) {
  int64_t last = own;
  for (int64_t b = own - 1; b >= 1; b--)
    if (4 * b <= 3 * last && per_gpu(r) % (uint64_t)b == 0) push(d, last = b);
}

// Rounded states have no step on the host, so they would keep the rest of the model from going there.
static void offer_optimizer(int64_t own, plim_domain *d) {
  push(d, rounds(own) ? exact(own) : implemented(own, ROUNDED));
}

static void offer(const plim_plan_request *r, plim_knob knob, int64_t own, plim_domain *d) {
  switch (knob) {
  case PLIM_KNOB_OPTIMIZER: offer_optimizer(own, d); break;
  case PLIM_KNOB_DTYPE: push(d, plim_dtype_offered(r)); break;
  case PLIM_KNOB_MICRO_BATCH: smaller_batches(r, own, d); break;
  case PLIM_KNOB_QUANTISATION: // refused without adapters
    push(d, r->quantises_once ? PLIM_WEIGHTS_NF4 : PLIM_WEIGHTS_NF4_DOUBLE);
    break;
  case PLIM_KNOB_NEGATIVES: *d = plim_fewer_per_anchor(own); break;
  case PLIM_KNOB_SEQUENCE: shares(own, d); break;
  case PLIM_KNOB_LORA_RANK:
    if (own) shares(own, d);
    else
      // Ranks of adapters that replace full training.
      for (int64_t rank = 64; rank >= 8; rank /= 2) push(d, rank);
    break;
  default: break;
  }
}

// A larger count concedes less; rank 0 concedes least, because all parameters are trained.
static bool concedes_less(plim_knob knob, int64_t a, int64_t b) {
  bool is_count = knob == PLIM_KNOB_SEQUENCE || knob == PLIM_KNOB_LORA_RANK ||
                  knob == PLIM_KNOB_NEGATIVES || knob == PLIM_KNOB_MICRO_BATCH;
  if (knob == PLIM_KNOB_LORA_RANK && (!a || !b)) return !a && b;
  return is_count && a > b;
}

// The values that the user names: the own value first, then those that concede less, then in the order given. Of
// optimizers only one of each kind; the others of that kind are free.
static plim_domain named(const plim_plan_request *r, plim_knob knob, int64_t own) {
  const plim_domain *all = &r->domains[knob];
  plim_domain d = {0};
  if (plim_may_be(all, own)) push(&d, own);
  for (int i = 0; i < all->count; i++) {
    bool is_same = false;
    for (int k = 0; k < d.count && knob == PLIM_KNOB_OPTIMIZER; k++)
      is_same |= rounds(d.at[k]) == rounds(all->at[i]);
    if (!is_same) push(&d, all->at[i]);
  }
  for (int i = 1; i < d.count; i++)
    for (int k = i; k > 0 && d.at[k - 1] != own && concedes_less(knob, d.at[k], d.at[k - 1]); k--) {
      int64_t less = d.at[k];
      d.at[k] = d.at[k - 1], d.at[k - 1] = less;
    }
  return d;
}

plim_domain plim_knob_concessions(const plim_plan_request *r, plim_knob knob, bool is_offered) {
  plim_domain d = {0};
  int64_t own = plim_plan_own_choice(r).at[knob];
  if (!plim_knob_changes_learning(r, knob)) return d;
  if (r->domains[knob].count) return named(r, knob, own);
  push(&d, own);
  if (is_offered || r->allowed[knob]) offer(r, knob, own, &d);
  return d;
}

// ---- free knobs -------------------------------------------------------------------------------------

enum { MOST_SEQUENCES = 1 << 16 }; // if any batch is accepted; memory ends the search long before

static void micro_batches(const plim_plan_request *r, plim_domain *d) {
  for (int64_t b = 1; !r->effective_batch && b <= MOST_SEQUENCES; b *= 2) push(d, b);
  for (uint64_t b = 1; b <= per_gpu(r); b++)
    if (per_gpu(r) % b == 0) push(d, (int64_t)b);
}

static bool has_causal_head(const plim_job *job) {
  return job->model.head == PLIM_HEAD_CAUSAL && !job->model.family->is_encoder_decoder;
}

// Whether there are logits to save: the loss is computed from all of them.
static bool has_logits(const plim_job *job) {
  if (job->recipe.scores_again) return false; // the loop needs all of them
  if (job->qat.kind) return false;            // other losses take the head's weight unrounded
  return job->recipe.loss == PLIM_LOSS_FULL && has_causal_head(job) &&
         job->recipe.method == PLIM_METHOD_TEXTS && !job->recipe.distils;
}

bool plim_could_use_liger(const plim_plan_request *r) {
  bool is_open = !r->holds_others && plim_may_be(&r->domains[PLIM_KNOB_LIGER], true);
  return is_open && has_logits(&r->job) && plim_config_has_liger(&r->job.model);
}

bool plim_can_use_liger(const plim_plan_request *r) {
  return r->offers_liger && plim_could_use_liger(r);
}

static void chunks(const plim_concessions *l, plim_domain *d) {
  const plim_plan_request *r = l->r;
  if (!has_logits(&r->job)) return;
  // As in the measurements: tests/truth/seeds_chunked.json.
  push(d, r->chunk_tokens ? r->chunk_tokens : 512);
}

// Reentrant checkpoints save as much as others; they differ only in what they require of the model. Except with LLM.int8(), whose
// layers keep their inputs in an object of their own, which only a forward pass without gradients leaves out.
static bool save_more_if_reentrant(const plim_plan_request *r, int64_t own) {
  return own == PLIM_CHECKPOINT_ON && r->can_say_reentrant && r->world == 1 &&
         r->job.weights == PLIM_WEIGHTS_INT8;
}

static void checkpoints(const plim_concessions *l, int64_t own, plim_domain *d) {
  push(d, PLIM_CHECKPOINT_OFF);
  if (l->r->job.model.family->cannot_checkpoint) return;
  bool is_open = own == PLIM_CHECKPOINT_OFF || own == PLIM_CHECKPOINT_OFFLOADED;
  if (is_open) push(d, l->r->turns_on_reentrant ? PLIM_CHECKPOINT_REENTRANT : PLIM_CHECKPOINT_ON);
  if (save_more_if_reentrant(l->r, own)) push(d, PLIM_CHECKPOINT_REENTRANT);
  bool may_offload =
      l->scope.activations && l->r->world == 1 && !l->r->job.model.family->is_encoder_decoder;
  if (may_offload) push(d, PLIM_CHECKPOINT_OFFLOADED);
}

// bitsandbytes keeps states in float32, torch in the parameters' type, so torch's optimizer would keep less of them.
static bool keeps_wide_states(const plim_job *job, int64_t own) {
  bool has_wide = job->dtype == PLIM_FP32 ||
                  (job->lora.rank && !job->lora.keeps_dtype && !job->lora.casts_bf16) ||
                  job->sharding.strategy > PLIM_SHARD_DDP;
  const plim_optimizer *o = plim_optimizer_named(plim_optimizer_name((size_t)own));
  return plim_optimizer_is_bitsandbytes(o) && !plim_optimizer_rounds(o) && !has_wide;
}

// Optimizers of the level's kind: with rounded state or without.
static void optimizers(const plim_concessions *l, int64_t own, plim_domain *d) {
  const plim_domain *all = &l->r->domains[PLIM_KNOB_OPTIMIZER];
  bool is_rounded = rounds(l->at.at[PLIM_KNOB_OPTIMIZER]);
  for (int i = 0; i < all->count; i++)
    if (rounds(all->at[i]) == is_rounded) push(d, all->at[i]);
  if (all->count) return;
  bool is_held = l->r->holds_others || keeps_wide_states(&l->r->job, own);
  if (is_held && rounds(own) == is_rounded) push(d, own);
  else push(d, is_rounded ? implemented(own, ROUNDED) : exact(own));
  if (is_paged(own) && rounds(own) == is_rounded) push(d, own);
  if (!is_held && l->scope.optimizer && l->r->world == 1)
    push(d, implemented(own, is_rounded ? ROUNDED_PAGED : PAGED));
}

// At most this many mini batches: the more there are, the longer a forward pass takes to predict and to run.
enum { MOST_MINI_BATCHES = 512 };

// Fewer if the user would have to change the loss, because each mini batch is one more forward pass.
enum { MOST_OFFERED = 16 };

// Powers of two up to the batch, if the loss compares the whole batch. A larger mini batch is faster.
static void cached_batches(const plim_plan_request *r, int64_t own, plim_domain *d) {
  int64_t batch = r->job.recipe.batch, most = own ? MOST_MINI_BATCHES : MOST_OFFERED;
  if (r->job.recipe.loss != PLIM_LOSS_CONTRASTIVE || r->job.recipe.is_pairwise) return;
  for (int64_t b = 1; b <= batch; b *= 2)
    if (b * most >= batch) push(d, b);
}

static void free_values(const plim_concessions *l, plim_knob knob, int64_t own, plim_domain *d) {
  switch (knob) {
  case PLIM_KNOB_PRECISION: push(d, plim_precision_offered(l->r)); break;
  case PLIM_KNOB_DTYPE: push(d, plim_dtype_offered(l->r)); break;
  case PLIM_KNOB_CHECKPOINT: checkpoints(l, own, d); break;
  case PLIM_KNOB_CHUNKED_LOSS: chunks(l, d); break;
  case PLIM_KNOB_CACHED_BATCH: cached_batches(l->r, own, d); break;
  case PLIM_KNOB_LIGER: push(d, own || plim_can_use_liger(l->r)); break;
  default: break;
  }
}

bool plim_attention_is_refused(const plim_plan_request *r, plim_error *error) {
  plim_choice choice = plim_plan_own_choice(r);
  if (r->domains[PLIM_KNOB_ATTENTION].count ||
      choice.at[PLIM_KNOB_ATTENTION] == PLIM_ATTENTION_SDPA)
    return false;
  plim_job own = plim_choice_job(r, &choice);
  choice.at[PLIM_KNOB_ATTENTION] = PLIM_ATTENTION_SDPA;
  plim_job other = plim_choice_job(r, &choice);
  return plim_job_check(&own, error) && !plim_job_check(&other, NULL);
}

bool plim_plan_has_expandable(const plim_plan_request *r) {
  plim_alloc_conf own, expandable;
  return r->alloc_conf && !plim_alloc_conf_parse(r->alloc_conf, &own, NULL) &&
         !plim_alloc_conf_parse(plim_knob_value_name(PLIM_KNOB_ALLOC_CONF, PLIM_CONF_EXPANDABLE),
                                &expandable, NULL) &&
         plim_alloc_conf_equal(&own, &expandable);
}

// Whether a list of names, separated by spaces, has that of the value.
static bool is_listed(const char *list, plim_knob knob, int64_t value) {
  const char *name = plim_knob_value_name(knob, value), *at = list;
  size_t size = name ? strlen(name) : 0;
  while (size && (at = strstr(at, name))) {
    bool starts = at == list || at[-1] == ' ', ends = !at[size] || at[size] == ' ';
    if (starts && ends) return true;
    at += size;
  }
  return false;
}

static bool has_pair(const plim_refused_pair *pair, const plim_choice *choice) {
  return is_listed(pair->values[0], pair->knob[0], choice->at[pair->knob[0]]) &&
         is_listed(pair->values[1], pair->knob[1], choice->at[pair->knob[1]]);
}

// Without the values that the framework does not have; all of them if none is left.
static plim_domain without_refused(const plim_plan_request *r, plim_knob knob,
                                   const plim_domain *d) {
  plim_domain rest = {0};
  for (int i = 0; i < d->count; i++) {
    plim_choice alone = {0};
    bool is_refused = false;
    alone.at[knob] = d->at[i];
    for (size_t k = 0; k < r->refused_count; k++) {
      const plim_refused_pair *x = &r->refused[k];
      is_refused |= x->knob[0] == knob && x->knob[1] == knob && has_pair(x, &alone);
    }
    if (!is_refused) push(&rest, d->at[i]);
  }
  return rest.count ? rest : *d;
}

// How much of a part that is not predicted stays on each card, compared with other values of the knob: activations, gradients
// and optimizer states.
static int64_t kept(plim_knob knob, int64_t value) {
  static const int64_t by_checkpoint[] = {[PLIM_CHECKPOINT_OFFLOADED] = 0,
                                          [PLIM_CHECKPOINT_ON] = 1,
                                          [PLIM_CHECKPOINT_REENTRANT] = 1,
                                          [PLIM_CHECKPOINT_OFF] = 2};
  static const int64_t by_strategy[] = {
      [PLIM_SHARD_FSDP2] = 0, [PLIM_SHARD_ZERO3] = 0, [PLIM_SHARD_ZERO2] = 1,
      [PLIM_SHARD_ZERO1] = 2, [PLIM_SHARD_DDP] = 3,   [PLIM_SHARD_NONE] = 3};
  switch (knob) {
  case PLIM_KNOB_MICRO_BATCH: return value;
  case PLIM_KNOB_CHECKPOINT: return by_checkpoint[value];
  case PLIM_KNOB_STRATEGY: return by_strategy[value];
  default: return 0;
  }
}

// What is offloaded stays so; parameters go to the host with the optimizer.
static bool may_offload(int64_t own, int64_t value) {
  bool has_more = own == PLIM_OFFLOAD_OPTIMIZER && value == PLIM_OFFLOAD_PARAMETERS;
  return own == PLIM_OFFLOAD_NONE || own == value || has_more;
}

// Whether a value that nobody asked for keeps no more of what is not predicted than the user's own.
static bool may_keep(const plim_plan_request *r, plim_knob knob, int64_t value) {
  int64_t own = plim_plan_own_choice(r).at[knob];
  if (!r->omits_part || r->domains[knob].count) return true;
  return knob == PLIM_KNOB_OFFLOAD ? may_offload(own, value) : kept(knob, value) <= kept(knob, own);
}

static plim_domain without_more(const plim_plan_request *r, plim_knob knob, const plim_domain *d) {
  plim_domain rest = {0};
  for (int i = 0; i < d->count; i++)
    if (may_keep(r, knob, d->at[i])) push(&rest, d->at[i]);
  return rest;
}

plim_domain plim_concession_domain(const plim_concessions *l, plim_knob knob) {
  const plim_plan_request *r = l->r;
  plim_domain d = {0};
  int64_t own = plim_plan_own_choice(r).at[knob];
  bool is_held = r->holds_others;
  if (knob == PLIM_KNOB_OPTIMIZER) {
    optimizers(l, own, &d);
    return d;
  }
  if (plim_knob_changes_learning(r, knob)) return (plim_domain){1, {l->at.at[knob]}};
  if (r->domains[knob].count) return r->domains[knob];
  if (knob == PLIM_KNOB_MICRO_BATCH) {
    micro_batches(r, &d);
    return without_more(r, knob, &d);
  }
  // Eager attention never helps, but sdpa leaves out the soft cap of scores. Expandable segments nearly always help, and
  // the search notices where they do not.
  bool is_eager = own == PLIM_ATTENTION_EAGER && r->job.model.attention_softcap == 0;
  bool is_replaced = (is_eager && !is_held) || plim_attention_is_refused(r, NULL);
  if (knob == PLIM_KNOB_ATTENTION) push(&d, is_replaced ? PLIM_ATTENTION_SDPA : own);
  if (knob == PLIM_KNOB_ALLOC_CONF && !is_held && !plim_plan_has_expandable(r))
    push(&d, PLIM_CONF_EXPANDABLE);
  if (knob != PLIM_KNOB_ATTENTION) push(&d, own);
  if (!is_held) free_values(l, knob, own, &d);
  d = without_more(r, knob, &d);
  return without_refused(r, knob, &d);
}

// ---- sharding modes ---------------------------------------------------------------------------------

// From the one that communicates least to the one that keeps least on the card.
static const plim_sharing_mode modes[] = {
    {PLIM_SHARD_NONE, PLIM_OFFLOAD_NONE},        {PLIM_SHARD_NONE, PLIM_OFFLOAD_ACTIVATIONS},
    {PLIM_SHARD_DDP, PLIM_OFFLOAD_NONE},         {PLIM_SHARD_ZERO1, PLIM_OFFLOAD_NONE},
    {PLIM_SHARD_ZERO2, PLIM_OFFLOAD_NONE},       {PLIM_SHARD_FSDP2, PLIM_OFFLOAD_NONE},
    {PLIM_SHARD_ZERO3, PLIM_OFFLOAD_NONE},       {PLIM_SHARD_ZERO2, PLIM_OFFLOAD_OPTIMIZER},
    {PLIM_SHARD_FSDP2, PLIM_OFFLOAD_PARAMETERS}, {PLIM_SHARD_ZERO3, PLIM_OFFLOAD_PARAMETERS},
};
enum { WAYS = sizeof modes / sizeof *modes };

static int place_of_way(plim_sharing_mode w) {
  int i = 0;
  while (i < WAYS && (modes[i].strategy != w.strategy || modes[i].offload != w.offload)) i++;
  return i;
}

int plim_way_place(const plim_choice *choice) {
  return place_of_way(
      (plim_sharing_mode){choice->at[PLIM_KNOB_STRATEGY], choice->at[PLIM_KNOB_OFFLOAD]});
}

// Without sharding only activations can be offloaded; the other offloads require sharding.
static bool is_possible(plim_sharing_mode w) {
  if (w.offload == PLIM_OFFLOAD_ACTIVATIONS) return w.strategy == PLIM_SHARD_NONE;
  bool is_shared = w.strategy > PLIM_SHARD_DDP;
  bool has_parameters = w.strategy == PLIM_SHARD_ZERO3 || w.strategy == PLIM_SHARD_FSDP2;
  if (w.offload == PLIM_OFFLOAD_PARAMETERS) return has_parameters;
  return w.offload == PLIM_OFFLOAD_NONE || is_shared;
}

// On one GPU, DeepSpeed's strategies are tried only with offload. Named strategies are tried with any number of GPUs.
static bool is_of_size(const plim_plan_request *r, plim_sharing_mode w) {
  bool is_lone = w.strategy == PLIM_SHARD_NONE || (w.offload && w.strategy >= PLIM_SHARD_ZERO1);
  bool is_its_size = r->world == 1 ? is_lone : w.strategy != PLIM_SHARD_NONE;
  return r->domains[PLIM_KNOB_STRATEGY].count || is_its_size;
}

bool plim_plan_may_share(const plim_plan_request *r, int64_t strategy, int64_t offload) {
  plim_sharing_mode w = {strategy, offload};
  return place_of_way(w) < WAYS && is_of_size(r, w) &&
         plim_may_be(&r->domains[PLIM_KNOB_STRATEGY], strategy) &&
         plim_may_be(&r->domains[PLIM_KNOB_OFFLOAD], offload);
}

// Whether the level's offload scope includes the mode, or the user names it.
static bool is_reached(const plim_concessions *l, plim_sharing_mode w) {
  const bool reached[PLIM_OFFLOADS] = {true, l->scope.optimizer, l->scope.parameters,
                                       l->scope.activations};
  bool goes_there = l->r->domains[PLIM_KNOB_OFFLOAD].count || reached[w.offload];
  return goes_there && is_of_size(l->r, w);
}

static bool is_way(const plim_concessions *l, plim_sharing_mode w, plim_sharing_mode own) {
  const plim_plan_request *r = l->r;
  const plim_domain *strategies = &r->domains[PLIM_KNOB_STRATEGY],
                    *offloads = &r->domains[PLIM_KNOB_OFFLOAD];
  if (!plim_may_be(strategies, w.strategy) || !plim_may_be(offloads, w.offload)) return false;
  bool is_kept = w.strategy == own.strategy, is_own = is_kept && w.offload == own.offload;
  if (r->holds_others && !strategies->count && !is_kept) return false;
  if (r->holds_others && !offloads->count && w.offload != own.offload) return false;
  if (!may_keep(r, PLIM_KNOB_STRATEGY, w.strategy) || !may_keep(r, PLIM_KNOB_OFFLOAD, w.offload))
    return false;
  if (is_own) return r->holds_others || r->world == 1 || w.strategy != PLIM_SHARD_NONE;
  bool is_asked_for = (strategies->count || is_kept) && offloads->count;
  return is_possible(w) && (is_asked_for || (place_of_way(w) < WAYS && is_reached(l, w)));
}

size_t plim_concession_sharings(const plim_concessions *l,
                                plim_sharing_mode out[PLIM_MAX_SHARING_MODES]) {
  plim_choice choice = plim_plan_own_choice(l->r);
  plim_sharing_mode own = {choice.at[PLIM_KNOB_STRATEGY], choice.at[PLIM_KNOB_OFFLOAD]};
  size_t count = 0;
  for (int64_t s = 0; s < PLIM_STRATEGIES; s++)
    for (int64_t o = 0; o < PLIM_OFFLOADS; o++)
      if (is_way(l, (plim_sharing_mode){s, o}, own)) out[count++] = (plim_sharing_mode){s, o};
  return count;
}

// ---- choices ----------------------------------------------------------------------------------------

// Activations are sent to the host by one mechanism only, unless the user asks for both.
static bool is_sent_twice(const plim_plan_request *r, const plim_choice *choice) {
  return choice->at[PLIM_KNOB_OFFLOAD] == PLIM_OFFLOAD_ACTIVATIONS &&
         !r->domains[PLIM_KNOB_CHECKPOINT].count &&
         choice->at[PLIM_KNOB_CHECKPOINT] == PLIM_CHECKPOINT_OFFLOADED;
}

static bool has_own_package(int64_t optimizer) {
  const plim_optimizer *o = plim_optimizer_named(plim_optimizer_name((size_t)optimizer));
  return plim_optimizer_is_alone(o) || plim_optimizer_projects(o) || plim_optimizer_lags(o);
}

// Offloaded optimizer state is updated on the host: bitsandbytes' optimizers have no CPU step, and DeepSpeed refuses
// them, as it does those of other packages.
static bool has_no_step_there(const plim_plan_request *r, const plim_choice *choice) {
  int64_t offload = choice->at[PLIM_KNOB_OFFLOAD], optimizer = choice->at[PLIM_KNOB_OPTIMIZER];
  bool has_state = offload == PLIM_OFFLOAD_OPTIMIZER || offload == PLIM_OFFLOAD_PARAMETERS;
  bool is_replaced =
      choice->at[PLIM_KNOB_STRATEGY] >= PLIM_SHARD_ZERO1 && !r->keeps_host_optimizer &&
      !plim_optimizer_is_in_deepspeed(plim_optimizer_named(plim_optimizer_name((size_t)optimizer)));
  return has_state &&
         (is_paged(optimizer) || rounds(optimizer) || has_own_package(optimizer) || is_replaced);
}

const plim_refused_pair *plim_plan_refused(const plim_plan_request *r, const plim_choice *choice) {
  for (size_t i = 0; i < r->refused_count; i++)
    if (has_pair(&r->refused[i], choice)) return &r->refused[i];
  return NULL;
}

// Another way to share would be used beside the one that the files turn on.
static bool shares_twice(const plim_plan_request *r, const plim_choice *choice) {
  int64_t own = plim_plan_own_choice(r).at[PLIM_KNOB_STRATEGY],
          strategy = choice->at[PLIM_KNOB_STRATEGY];
  return r->shares_in_files && strategy != own &&
         r->by_hand[strategy][choice->at[PLIM_KNOB_OFFLOAD]];
}

bool plim_choice_is_sound(const plim_plan_request *r, const plim_choice *choice) {
  // Losses of preferences are never Liger's: with them it only replaces modules.
  bool has_two_losses = choice->at[PLIM_KNOB_CHUNKED_LOSS] && choice->at[PLIM_KNOB_LIGER] &&
                        r->job.recipe.method == PLIM_METHOD_TEXTS;
  return !has_two_losses && !is_sent_twice(r, choice) && !has_no_step_there(r, choice) &&
         !plim_plan_refused(r, choice) && !shares_twice(r, choice) &&
         plim_precision_is_sound(r, choice);
}
