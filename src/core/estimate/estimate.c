#include "estimate.h"

#include <math.h>

#include "unverified.h"

const char *const plim_component_names[PLIM_COMPONENTS] = {
    [PLIM_FOR_WEIGHTS] = "weights",         [PLIM_FOR_ADAPTERS] = "adapters",
    [PLIM_FOR_GRADIENTS] = "gradients",     [PLIM_FOR_OPTIMIZER] = "optimizer",
    [PLIM_FOR_ACTIVATIONS] = "activations", [PLIM_FOR_LOGITS] = "logits",
    [PLIM_FOR_WORKSPACE] = "workspace",     [PLIM_COMPONENT_FRAGMENTATION] = "fragmentation",
    [PLIM_COMPONENT_CONTEXT] = "context",
};

// ---- the card ---------------------------------------------------------------------------------------

plim_target plim_target_gpu(const plim_gpu *gpu) {
  uint64_t total = gpu->cuda_mib ? gpu->cuda_mib : gpu->memory_mib;
  return (plim_target){.gpu = gpu,
                       .budget_bytes = total * PLIM_MIB,
                       .limit_bytes = plim_gpu_usable_bytes(gpu),
                       .limit_is_card = true};
}

plim_target plim_target_any(void) {
  return (plim_target){
      .gpu = plim_gpu_named("H200"), .budget_bytes = PLIM_UNKNOWN, .limit_bytes = PLIM_UNKNOWN};
}

plim_target plim_target_size(uint64_t bytes) {
  uint64_t context = PLIM_CONTEXT_MIB * PLIM_MIB;
  return (plim_target){.gpu = plim_gpu_named("H200"),
                       .budget_bytes = bytes,
                       .limit_bytes = bytes > context ? bytes - context : 0,
                       .limit_is_card = true};
}

static uint64_t context_of(const plim_gpu *gpu) {
  return (gpu ? gpu->context_mib : PLIM_CONTEXT_MIB) * PLIM_MIB;
}

// ---- the answer -------------------------------------------------------------------------------------

// If the run under the limit runs out of memory, e->p is the prediction for a card that is large enough.
static plim_err predict_both(const plim_job *job, const plim_target *target, plim_estimate *e,
                             plim_error *error) {
  plim_predict_request request = {.job = job,
                                  .gpu = target->gpu,
                                  .conf = target->conf,
                                  .limit_bytes = target->limit_bytes,
                                  .limit_is_card = target->limit_is_card,
                                  .most_bytes = target->most_bytes};
  bool needs_both =
      target->limit_bytes != PLIM_UNKNOWN && target->most_bytes != target->limit_bytes;
  plim_err err = needs_both ? plim_predict_both(&request, &e->capped, &e->p, error)
                            : plim_predict(&request, &e->capped, error);
  if (!needs_both || !e->capped.runs_out) e->p = e->capped;
  return err;
}

// The time of a step whose batches have the length that they have on average.
static plim_err predict_typical(const plim_job *job, const plim_target *target, plim_step_time *out,
                                plim_error *error) {
  plim_job typical = *job;
  plim_prediction p;
  int64_t ranks = job->sharding.world > 1 ? job->sharding.world : 1; // all wait for the longest
  double length = plim_lengths_padded(job->lengths, job->recipe.batch * ranks, job->recipe.length);
  typical.lengths = NULL;
  typical.recipe.length = (int64_t)ceil(length);
  plim_predict_request request = {
      .job = &typical, .gpu = target->gpu, .conf = target->conf, .limit_bytes = PLIM_UNKNOWN};
  plim_err err = plim_predict(&request, &p, error);
  if (!err) *out = p.step;
  return err;
}

static plim_err fill_time(plim_estimate *e, const plim_job *job, const plim_target *target,
                          plim_error *error) {
  const plim_recipe *r = &job->recipe;
  if (!(e->p.step.seconds > 0)) return PLIM_OK;
  if (job->lengths) {
    plim_err err = predict_typical(job, target, &e->p.step, error);
    if (err) return err;
    e->tokens_per_text = plim_lengths_mean(job->lengths, r->length);
  }
  int64_t gpus = job->sharding.world > 1 ? job->sharding.world : 1;
  int64_t columns = plim_texts_per_sample(r);
  double tokens = (double)(r->batch * columns * gpus) * e->tokens_per_text *
                  (r->accumulate > 1 ? r->accumulate : 1);
  e->step_seconds = e->p.step.seconds;
  e->pass_seconds = e->p.step.pass_seconds;
  e->tokens_per_second = tokens / e->step_seconds;
  return PLIM_OK;
}

static void fill_budget(plim_estimate *e) {
  uint64_t in_use = 0;
  for (int i = 0; i < PLIM_PURPOSES; i++) {
    e->component_bytes[i] = e->p.live_bytes[i];
    in_use += e->p.live_bytes[i];
  }
  e->component_bytes[PLIM_COMPONENT_FRAGMENTATION] = e->p.peak_reserved_bytes - in_use;
  e->component_bytes[PLIM_COMPONENT_CONTEXT] = e->context_bytes;
  e->device_bytes = e->p.peak_reserved_bytes + e->context_bytes;
}

// Covers the differences between processes of one program: where the driver places segments, and which kernels are
// loaded (docs/accuracy.md).
#define VERIFIED_MARGIN 0.005
// Added for DistributedDataParallel: the smallest margin with which the interval contains 95 % of its recordings.
// tools/accuracy.py computes it, and fails if it differs from this.
#define DDP_MARGIN 0.080
// Added for each other unverified part. This is an allowance: nearly all measured runs with such a part are within half
// a percent (tools/accuracy.py fails if the interval contains less than 95 % of them), and for the rest (other cards,
// for example) there are no measurements.
#define UNVERIFIED_MARGIN 0.03

// The reasons are independent of each other, so their margins are added in quadrature.
static void fill_interval(plim_estimate *e, const plim_job *job) {
  bool is_ddp = job->sharding.strategy == PLIM_SHARD_DDP; // counted in unverified_count, too
  double others = (double)e->unverified_count - is_ddp;
  double squares =
      is_ddp * DDP_MARGIN * DDP_MARGIN + others * UNVERIFIED_MARGIN * UNVERIFIED_MARGIN;
  double margin = VERIFIED_MARGIN + sqrt(squares), bytes = (double)e->device_bytes;
  e->interval_bytes[0] = (uint64_t)(bytes * fmax(0, 1 - margin));
  e->interval_bytes[1] = (uint64_t)(bytes * (1 + margin));
}

enum { OTHER_REASONS = 8 }; // that are not of the job itself

static void fill_unverified(plim_estimate *e, const plim_job *job, const plim_gpu *gpu) {
  e->unverified_count = plim_job_unverified(job, e->unverified, PLIM_MAX_REASONS - OTHER_REASONS);
  if (e->unverified_count > PLIM_MAX_REASONS - OTHER_REASONS)
    e->unverified_count = PLIM_MAX_REASONS - OTHER_REASONS;
  if (gpu && !gpu->cuda_mib)
    e->unverified[e->unverified_count++] =
        "CUDA may offer up to 5 % less memory on this GPU than the driver's total";
  if (gpu && gpu->capability != 90)
    e->unverified[e->unverified_count++] = "nothing was measured on this GPU; its kernels are "
                                           "modelled from source code";
}

static void add_reason(plim_estimate *e, bool applies, const char *reason) {
  if (applies) e->unverified[e->unverified_count++] = reason;
}

// Uncertainty about the time does not widen the interval of the memory.
static void fill_unverified_time(plim_estimate *e, const plim_job *job) {
  const plim_sharding *s = &job->sharding;
  if (isnan(e->step_seconds)) return;
  add_reason(e, s->world > 1,
             "the time of communication between GPUs is computed with the bandwidths NCCL assumes, "
             "not measured");
  add_reason(
      e, s->nodes > 1 && !(s->network_gbs > 0),
      "the network between machines is assumed to have 12 GB/s (about 100 Gbit/s) per machine");
  add_reason(e, plim_job_moves_to_host(job),
             "the time of offload to the host was measured with one H200; other hosts differ");
  add_reason(e, plim_job_copies_pageable(job),
             "pin_memory is false: copies between the GPU and the host are counted at 8 and 15 "
             "GB/s, measured with one host; other hosts differ");
  bool is_uncounted = s->strategy == PLIM_SHARD_FSDP2 && !s->offloads_parameters;
  bool cuts_adapters = s->cuts_adapters && job->lora.rank;
  add_reason(e, is_uncounted && !cuts_adapters,
             "the time that the CPU spends in FSDP's own code is not counted: a step that waits "
             "for the CPU takes longer than predicted");
  add_reason(e, is_uncounted && cuts_adapters,
             "the time that the CPU spends in FSDP's own code is not counted: a step takes longer "
             "than predicted, because each matrix of the adapters is sharded on its own");
  add_reason(e, job->packages != 0,
             "the time of the kernels of flash-linear-attention and causal-conv1d is computed from "
             "the work that they do, not measured");
}

// Tensors have at most so many elements, so that no product of shapes overflows. Every address space ends long before,
// at 2^57 bytes.
#define MOST_ELEMENTS 0x1p60

static double larger(double a, double b) { return a > b ? a : b; }

// The widest tensors: scores of all pairs of tokens, what a layer or the head has for every token, similarities of all
// pairs of texts, and parameters.
static bool is_beyond(const plim_job *job) {
  const plim_config *m = &job->model;
  const plim_recipe *r = &job->recipe;
  double sequences = (double)r->batch * (r->columns > 1 ? (double)r->columns : 1);
  double length = larger((double)r->length, (double)r->target_length);
  double heads = (double)m->heads, width = larger((double)m->hidden, (double)m->vocabulary);
  width = larger(width, larger((double)m->intermediate, 3 * heads * (double)m->head_dim));
  width = larger(width, larger((double)m->expert_width, (double)m->shared_width));
  width = larger(width, heads * (double)(m->plain_width + m->value_dim));
  double per_token = 2 * width * larger(1, (double)m->experts_per_token);
  double pairs = sequences * heads * length * length, tokens = sequences * length;
  double parameters = 2 * width * (double)m->hidden * larger(1, (double)m->experts);
  double most = larger(larger(pairs, tokens * per_token), parameters);
  return larger(most, sequences * sequences) > MOST_ELEMENTS;
}

static plim_err refuse_size(plim_error *error) {
  return plim_fail(error, PLIM_ERR_ARGUMENT, "this run needs more memory than can be addressed");
}

// Growing a segment in place makes every large block larger than the requests that could reuse it (pytorch#123548).
static bool keeps_large_blocks(const plim_alloc_conf *conf) {
  return conf && conf->expandable_segments && conf->max_split_bytes != UINT64_MAX;
}

plim_err plim_estimate_make(const plim_job *job, const plim_target *target, plim_estimate *out,
                            plim_error *error) {
  *out = (plim_estimate){.context_bytes = context_of(target->gpu),
                         .budget_bytes = target->budget_bytes,
                         .has_verdict = target->limit_bytes != PLIM_UNKNOWN,
                         .keeps_large_blocks = keeps_large_blocks(target->conf),
                         .step_seconds = NAN,
                         .pass_seconds = NAN,
                         .tokens_per_second = NAN,
                         .tokens_per_text = (double)job->recipe.length};
  plim_err err = is_beyond(job) ? refuse_size(error) : predict_both(job, target, out, error);
  if (err || (target->most_bytes && out->p.runs_out)) return err;
  if (out->p.runs_out) return refuse_size(error);
  out->fits = !out->capped.runs_out;
  fill_unverified(out, job, target->gpu);
  fill_budget(out);
  fill_interval(out, job);
  err = fill_time(out, job, target, error);
  if (!err) fill_unverified_time(out, job);
  return err;
}

static uint64_t loading_bytes(const plim_estimate *e) {
  return e->p.loading_bytes + e->context_bytes;
}

static uint64_t used_bytes(const plim_estimate *e) {
  return e->device_bytes - e->component_bytes[PLIM_COMPONENT_FRAGMENTATION];
}

bool plim_fails_loading(const plim_estimate *e) {
  bool runs_out = e->capped.runs_out && e->capped.runs_out_at.phase == PLIM_PHASE_LOAD;
  return runs_out && loading_bytes(e) > used_bytes(e);
}

// The step's reserved memory then contains what loading reserved and the step does not use.
uint64_t plim_step_bytes(const plim_estimate *e) {
  bool has_leftovers = plim_fails_loading(e) && e->device_bytes >= loading_bytes(e);
  return has_leftovers ? used_bytes(e) : e->device_bytes;
}

uint64_t plim_needed_bytes(const plim_estimate *e) {
  uint64_t loading = loading_bytes(e), step = plim_step_bytes(e);
  return loading > step ? loading : step;
}
