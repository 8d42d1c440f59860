#include "optimizer.h"

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "optimizer_impl.h"
#include "tape_state.h"
#include "work.h"
#include "wrapper.h"

#include "tape_names.h"

#define NORM_CHUNK 65536 // elements per block of the multi-tensor norm

// The norms of the gradients of one dtype, by one kernel: appended to `norms`. A tensor has as many partial sums as the
// largest; since torch 2.15 as many as it has chunks, with a list of where they begin.
static void norms_of(plim_tape *t, plim_tensor *const *parameters, size_t count, plim_dtype dtype,
                     plim_tensor **norms, size_t *made) {
  uint64_t most = 0, n = 0, all = 0;
  for (size_t i = 0; i < count; i++) {
    const plim_tensor *grad = parameters[i]->grad;
    if (!grad || grad->dtype != dtype) continue;
    uint64_t chunks = ((uint64_t)plim_numel(&grad->shape) + NORM_CHUNK - 1) / NORM_CHUNK;
    if (chunks > most) most = chunks;
    all += chunks;
    n++;
  }
  bool is_packed = plim_torch_from(t, 2, 15);
  plim_tensor *begins = is_packed ? scratch(t, (n + 1) * 8) : NULL;
  plim_tensor *buffer = scratch(t, (is_packed ? all : most * n) * 4);
  for (uint64_t i = 0; i < n; i++) norms[(*made)++] = empty(t, (plim_dims){0}, dtype);
  plim_consume(t, buffer);
  plim_consume(t, begins);
}

// The dtypes of the gradients, in the order in which they appear.
static size_t dtypes_of(plim_tensor *const *parameters, size_t count,
                        plim_dtype dtypes[PLIM_DTYPE_COUNT]) {
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if (!parameters[i]->grad) continue;
    size_t k = 0;
    while (k < found && dtypes[k] != parameters[i]->grad->dtype) k++;
    if (k == found) dtypes[found++] = (plim_dtype)parameters[i]->grad->dtype;
  }
  return found;
}

// DTensor reduces the partial norms of all ranks: powers, their sum, and the root.
static plim_tensor *reduce_norms(plim_tape *t, const plim_tensor *stacked) {
  plim_tensor *powers = empty(t, stacked->shape, (plim_dtype)stacked->dtype);
  plim_tensor *sums = empty(t, stacked->shape, (plim_dtype)stacked->dtype);
  plim_tensor *roots = empty(t, stacked->shape, (plim_dtype)stacked->dtype);
  plim_consume(t, powers);
  plim_consume(t, sums);
  return roots;
}

// Gradients are grouped by dtype in a hash table, which lists the group that was found last first.
static plim_tensor *total_norm(plim_tape *t, plim_tensor *const *parameters, size_t count,
                               plim_tensor **norms, size_t *n) {
  plim_dtype dtypes[PLIM_DTYPE_COUNT];
  size_t groups = dtypes_of(parameters, count, dtypes);
  plim_dtype dtype = groups == 1 ? dtypes[0] : PLIM_FP32;
  for (size_t i = groups; norms && i-- > 0;) norms_of(t, parameters, count, dtypes[i], norms, n);
  plim_tensor *stacked = empty(t, dims((int64_t)*n), dtype), *reduced = stacked;
  if (plim_state(t)->shards && plim_state(t)->shards->has_dtensors)
    reduced = reduce_norms(t, stacked);
  plim_tensor *total = empty(t, (plim_dims){0}, dtype);
  if (reduced != stacked) plim_consume(t, reduced);
  plim_consume(t, stacked);
  return total;
}

static void free_norms(plim_tape *t, plim_tensor **norms, size_t *n) {
  while (*n) plim_consume(t, norms[--*n]);
}

plim_tensor *plim_clip_grad_norm(plim_tape *t, plim_tensor *const *parameters, size_t count) {
  plim_work_parameters(t, count);
  plim_work_foreach(t, parameters, count, 1); // the norms
  plim_work_foreach(t, parameters, count, 2); // the gradients times the clamped coefficient
  plim_tensor **norms = calloc(count + 1, sizeof(plim_tensor *));
  if (!norms) plim_tape_stop(t);
  size_t n = 0;
  plim_tensor *total = total_norm(t, parameters, count, norms, &n);
  if (plim_torch_from(t, 2, 6)) free_norms(t, norms, &n); // get_total_norm returned
  plim_tensor *plus = k_unary(t, total), *inverse = k_unary(t, plus), *factor = k_unary(t, inverse);
  plim_consume(t, inverse);
  plim_consume(t, plus);
  plim_tensor *clamped = k_unary(t, factor);
  free_norms(t, norms, &n);
  free(norms);
  plim_consume(t, factor);
  plim_consume(t, clamped);
  return total;
}

// ---- the clock --------------------------------------------------------------------------------------

void update_in_place(plim_tape *t, const update *u, int kernels, double passes) {
  for (int k = 0; k < kernels; k++) plim_work_foreach(t, u->parameters, u->count, passes / kernels);
}

void update_one_by_one(plim_tape *t, const update *u, int kernels, double passes) {
  for (size_t i = 0; i < u->count; i++)
    update_in_place(t, &(update){.parameters = u->parameters + i, .count = 1}, kernels, passes);
}

// ---- the table ------------------------------------------------------------------------------------

static const plim_optimizer optimizers[] = {
    {.name = "adamw", step_adamw_fused, .moments = 2, .takes_scale = true, .in_deepspeed = true},
    {.name = "adamw-foreach", step_adamw_foreach, .moments = 2, .in_deepspeed = true},
    {.name = "adamw-loop", step_adamw_loop, .moments = 2, .in_deepspeed = true},
    {.name = "adamw-8bit", step_bitsandbytes, .moments = 2, .bits = 8},
    {.name = "paged-adamw", step_bitsandbytes, .moments = 2, .bits = 32, .is_paged = true},
    {.name = "paged-adamw-8bit", step_bitsandbytes, .moments = 2, .bits = 8, .is_paged = true},
    {.name = "lion", step_lion, .moments = 1, .in_deepspeed = true},
    {.name = "lion-bnb", step_bitsandbytes, .moments = 1, .bits = 32, .in_deepspeed = true},
    {.name = "lion-8bit", step_bitsandbytes, .moments = 1, .bits = 8},
    {.name = "paged-lion", step_bitsandbytes, .moments = 1, .bits = 32, .is_paged = true},
    {.name = "paged-lion-8bit", step_bitsandbytes, .moments = 1, .bits = 8, .is_paged = true},
    {.name = "sgd", step_sgd},
    {.name = "sgd-momentum", step_sgd_momentum, .moments = 1},
    {.name = "adafactor", step_adafactor},
    {.name = "rmsprop", step_adamw_foreach, .moments = 1},
    {.name = "rmsprop-bnb", step_bitsandbytes, .moments = 1, .bits = 32},
    {.name = "rmsprop-8bit", step_bitsandbytes, .moments = 1, .bits = 8},
    {.name = "ademamix", step_bitsandbytes, .moments = 2, .bits = 32, .doubles_first = true},
    {.name = "ademamix-8bit", step_bitsandbytes, .moments = 2, .bits = 8, .doubles_first = true},
    {.name = "paged-ademamix",
     step_bitsandbytes,
     .moments = 2,
     .bits = 32,
     .doubles_first = true,
     .is_paged = true},
    {.name = "paged-ademamix-8bit",
     step_bitsandbytes,
     .moments = 2,
     .bits = 8,
     .doubles_first = true,
     .is_paged = true},
    {.name = "schedule-free-adamw", step_adamw_foreach, .moments = 2},
    {.name = "schedule-free-radam", step_adamw_foreach, .moments = 2},
    {.name = "schedule-free-sgd", step_sgd_momentum, .moments = 1},
    {.name = "muon", step_muon, .moments = 1},
    {.name = "galore",
     step_low_rank,
     .moments = 2,
     .projects = true,
     .order = PLIM_STEPS_PROJECTED_LAST},
    {.name = "galore-8bit",
     step_low_rank_8bit,
     .moments = 2,
     .bits = 8,
     .measures_updates = true,
     .projects = true,
     .order = PLIM_STEPS_PROJECTED_LAST},
    {.name = "galore-adafactor",
     step_adafactor,
     .projects = true,
     .order = PLIM_STEPS_PROJECTED_LAST},
    {.name = "apollo",
     step_low_rank,
     .moments = 2,
     .projects = true,
     .draws_projection = true,
     .order = PLIM_STEPS_PROJECTED_LAST},
    {.name = "apollo-mini",
     step_low_rank,
     .moments = 2,
     .projects = true,
     .draws_projection = true,
     .scales_whole = true,
     .order = PLIM_STEPS_PROJECTED_LAST},
    {.name = "adam-mini",
     step_adam_mini,
     .moments = 1,
     .divides_blocks = true,
     .is_alone = true,
     .order = PLIM_STEPS_AS_LISTED},
    {.name = "badam",
     step_badam,
     begin_badam,
     .moments = 2,
     .is_alone = true,
     .order = PLIM_STEPS_AS_LISTED},
    {.name = "came", step_came, .moments = 1, .is_alone = true},
    {.name = "stable-adamw", step_stable_adamw, .moments = 2, .is_alone = true},
    {.name = "optimi-adamw", step_optimi, .moments = 2, .is_alone = true},
    {.name = "grokadamw", step_grokadamw, .is_alone = true},
    {.name = "lomo", step_lomo, .lags = true, .order = PLIM_STEPS_AS_LISTED},
    {.name = "adalomo",
     step_lomo,
     begin_adalomo,
     .lags = true,
     .has_factors = true,
     .order = PLIM_STEPS_AS_LISTED},
    {.name = "adamw-torchao-8bit", step_torchao, .moments = 2, .bits = 8, .is_compiled = true},
    {.name = "adamw-torchao-4bit", step_torchao, .moments = 2, .bits = 4, .is_compiled = true},
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

// The names in transformers' TrainingArguments.
static const struct {
  const char *name, *ours;
} aliases[] = {
    {"adamw_torch", "adamw-foreach"},
    {"adamw_torch_fused", "adamw"},
    {"adamw_bnb_8bit", "adamw-8bit"},
    {"adamw_8bit", "adamw-8bit"},
    {"paged_adamw_32bit", "paged-adamw"},
    {"paged_adamw_8bit", "paged-adamw-8bit"},
    {"lion_32bit", "lion-bnb"},
    {"lion_8bit", "lion-8bit"},
    {"paged_lion_32bit", "paged-lion"},
    {"paged_lion_8bit", "paged-lion-8bit"},
    {"sgd", "sgd"},
    {"adafactor", "adafactor"},
    {"rmsprop", "rmsprop"},
    {"rmsprop_bnb", "rmsprop-bnb"},
    {"rmsprop_bnb_32bit", "rmsprop-bnb"},
    {"rmsprop_bnb_8bit", "rmsprop-8bit"},
    {"ademamix", "ademamix"},
    {"ademamix_8bit", "ademamix-8bit"},
    {"paged_ademamix_32bit", "paged-ademamix"},
    {"paged_ademamix_8bit", "paged-ademamix-8bit"},
    {"schedule_free_adamw", "schedule-free-adamw"},
    {"schedule_free_radam", "schedule-free-radam"},
    {"schedule_free_sgd", "schedule-free-sgd"},
    {"adamw_torch_8bit", "adamw-torchao-8bit"},
    {"adamw_torch_4bit", "adamw-torchao-4bit"},
    {"came_pytorch", "came"},
    {"stable_adamw", "stable-adamw"},
    {"optimi_adamw", "optimi-adamw"},
    {"grokadamw", "grokadamw"},
    {"galore_adamw", "galore"},
    {"galore_adamw_layerwise", "galore"},
    {"galore_adamw_8bit", "galore-8bit"},
    {"galore_adamw_8bit_layerwise", "galore-8bit"},
    {"galore_adafactor", "galore-adafactor"},
    {"apollo_adamw", "apollo"},
    {"apollo_adamw_layerwise", "apollo"},
    {"ao_adamw_8bit", "adamw-torchao-8bit"},
    {"ao_adamw_4bit", "adamw-torchao-4bit"},
};

static const char *without_alias(const char *name) {
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (strcmp(aliases[i].name, name) == 0) return aliases[i].ours;
  return name;
}

const plim_optimizer *plim_optimizer_named(const char *name) {
  name = without_alias(name);
  for (size_t i = 0; i < OPTIMIZERS; i++)
    if (strcmp(optimizers[i].name, name) == 0) return &optimizers[i];
  return NULL;
}

const char *plim_optimizer_name(size_t index) {
  return index < OPTIMIZERS ? optimizers[index].name : NULL;
}

const char *plim_optimizer_own_name(const char *name) {
  const plim_optimizer *o = plim_optimizer_named(name);
  return o ? o->name : NULL;
}

const char *plim_optimizer_trainer_name(const char *own) {
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (strcmp(aliases[i].ours, own) == 0) return aliases[i].name;
  return NULL;
}

bool plim_optimizer_takes_scale(const plim_optimizer *o) { return o->takes_scale; }
bool plim_optimizer_is_paged(const plim_optimizer *o) { return o->is_paged; }
bool plim_optimizer_is_bitsandbytes(const plim_optimizer *o) {
  return o->step == step_bitsandbytes;
}
bool plim_optimizer_is_in_deepspeed(const plim_optimizer *o) { return o->in_deepspeed; }
bool plim_optimizer_rounds(const plim_optimizer *o) { return o->bits == 8 || o->bits == 4; }
bool plim_optimizer_projects(const plim_optimizer *o) { return o->projects; }
bool plim_optimizer_draws_projection(const plim_optimizer *o) { return o->draws_projection; }
plim_step_order plim_optimizer_order(const plim_optimizer *o) { return o->order; }
bool plim_optimizer_scales_loss(const plim_optimizer *o) { return o->has_factors; }
bool plim_optimizer_divides_blocks(const plim_optimizer *o) { return o->divides_blocks; }
bool plim_optimizer_is_alone(const plim_optimizer *o) { return o->is_alone; }
bool plim_optimizer_lags(const plim_optimizer *o) { return o->lags; }
bool plim_optimizer_is_compiled(const plim_optimizer *o) { return o->is_compiled; }
int plim_optimizer_moments(const plim_optimizer *o) { return o->moments; }

void plim_optimizer_begin(plim_tape *t, const plim_optimizer *o, plim_tensor *const *parameters,
                          size_t count, plim_tensor **state) {
  if (o->begin) o->begin(t, parameters, count, state);
}

void plim_optimizer_step(plim_tape *t, const plim_optimizer *o, plim_tensor *const *parameters,
                         size_t count, plim_tensor **state, bool widens_tables) {
  plim_tensor **shared = state + PLIM_OPTIMIZER_STATE * count;
  plim_work_parameters(t, count);
  o->step(t, o, &(update){parameters, state, shared, count, widens_tables});
}

void plim_optimizer_step_one(plim_tape *t, const plim_optimizer *o, plim_tensor *const *parameters,
                             size_t count, plim_tensor **state, size_t index, bool is_own) {
  plim_tensor **one = state + PLIM_OPTIMIZER_STATE * index;
  plim_tensor **shared = is_own ? one + OWN_SHARED : state + PLIM_OPTIMIZER_STATE * count;
  plim_work_parameters(t, 1);
  o->step(t, o, &(update){parameters + index, one, shared, 1, false});
}

void plim_zero_grad(plim_tape *t, plim_tensor *const *parameters, size_t count) {
  for (size_t i = 0; i < count; i++) drop(t, &parameters[i]->grad);
}
