#include "job_needs.h"

#include <stdio.h>

#include "units.h"

// Reserved memory that exceeds the memory in use by less than this is ordinary fragmentation.
#define GROWTH 1.1

// If large blocks are never reused, reserved memory grows until a limit is reached. Then only the memory in use can be
// reported. What loading reserved does not grow.
bool estimate_is_endless(const plim_estimate *e) {
  bool is_too_much = e->has_verdict && !e->fits;
  uint64_t in_use = e->p.peak_allocated_bytes, loading = e->p.loading_bytes;
  double kept = (double)(in_use > loading ? in_use : loading);
  return is_too_much && e->keeps_large_blocks && (double)e->p.peak_reserved_bytes > GROWTH * kept;
}

static uint64_t loading_bytes(const plim_estimate *e) {
  return e->p.loading_bytes + e->context_bytes;
}

plim_estimate estimate_shown(const plim_estimate *e) {
  plim_estimate shown = *e;
  uint64_t unused = shown.component_bytes[PLIM_COMPONENT_FRAGMENTATION];
  if (!estimate_is_endless(e) && plim_step_bytes(e) == e->device_bytes) return shown;
  shown.device_bytes -= unused;
  shown.component_bytes[PLIM_COMPONENT_FRAGMENTATION] = 0;
  return shown;
}

uint64_t estimate_needed_bytes(const plim_estimate *e) {
  if (!estimate_is_endless(e)) return plim_needed_bytes(e);
  return plim_fails_loading(e) ? loading_bytes(e) : estimate_shown(e).device_bytes;
}

// Of what is in use: with less of it, the allocator also reserves less.
bool estimate_may_fit(const plim_estimate *e, uint64_t saved) {
  uint64_t step = e->p.peak_allocated_bytes, loading = e->p.loading_in_use_bytes;
  uint64_t most = (step > loading ? step : loading) + e->context_bytes;
  if (!saved || saved == PLIM_UNKNOWN) return saved;
  return most <= saved || most - saved <= e->budget_bytes;
}

const char *estimate_other(bool errs_low) { return errs_low ? "more or less" : "less"; }

uint64_t estimate_spare_bytes(const plim_estimate *e) {
  uint64_t loading = e->p.loading_in_use_bytes + e->context_bytes;
  uint64_t most = loading > e->device_bytes ? loading : e->device_bytes;
  return e->budget_bytes > most ? e->budget_bytes - most : 0;
}

// Whether a part of what loading reserves is only cached, so that a smaller card may do.
#define CACHED 1.02
static bool may_do_with_less(const plim_estimate *e) {
  return (double)e->p.loading_bytes > CACHED * (double)e->p.loading_in_use_bytes;
}

void estimate_needs(const plim_estimate *e, char *text, size_t size) {
  units_text needed = units_bytes(estimate_needed_bytes(e));
  bool is_loading = !e->fits && estimate_needed_bytes(e) == loading_bytes(e);
  if (is_loading)
    snprintf(text, size, "%s%s while loading the model", may_do_with_less(e) ? "up to " : "",
             needed.text);
  else if (estimate_is_endless(e))
    snprintf(text, size, "at least %s%s", needed.text,
             estimate_needed_bytes(e) > e->budget_bytes ? ""
                                                        : ", and reserved memory keeps growing");
  else snprintf(text, size, "%s", needed.text);
}

// How to load it in parts; NULL: there is no way, as for quantised weights.
static const char *loading_help(const plim_job *job) {
  plim_strategy strategy = job->sharding.strategy;
  if (job->weights != PLIM_WEIGHTS_PLAIN || plim_job_loads_in_parts(job)) return NULL;
  if (strategy == PLIM_SHARD_ZERO3)
    return "Load the model under HfDeepSpeedConfig, which never puts all of it on one GPU, and "
           "add --load sharded";
  return strategy == PLIM_SHARD_FSDP2 ? "Load the model on the CPU, so that each GPU gets only its "
                                        "part from FSDP2, and add --load pretrained"
                                      : NULL;
}

void estimate_loading(const plim_estimate *e, const plim_job *job, const char *help, char *text,
                      size_t size) {
  char larger[160];
  if (!help) help = loading_help(job);
  uint64_t step = estimate_shown(e).device_bytes;
  *text = 0;
  if (!plim_fails_loading(e) || step > e->budget_bytes) return;
  snprintf(larger, sizeof larger, "A GPU with %s is enough%s", units_bytes(loading_bytes(e)).text,
           may_do_with_less(e) ? "; a little less may do, because PyTorch gives cached memory back "
                                 "near its limit"
                               : "");
  snprintf(text, size, "loading the model needs %s%s at once; a training step then needs %s %s. %s",
           may_do_with_less(e) ? "up to " : "", units_bytes(loading_bytes(e)).text,
           plim_step_bytes(e) < e->device_bytes ? "at least" : "only", units_bytes(step).text,
           help ? help : larger);
}

void job_note_loading(const job_request *r, const plim_estimate *e, plim_notes *notes) {
  bool is_out = e->capped.runs_out && e->capped.runs_out_at.phase == PLIM_PHASE_LOAD;
  if (!r->load_help || !is_out) return;
  plim_note_add(notes, "reads.loading", NULL, "loading the model needs %s%s. %s",
                units_bytes(loading_bytes(e)).text,
                plim_fails_loading(e) ? ", more than a training step" : "", r->load_help);
}

void estimate_growth(const plim_estimate *e, char *text, size_t size) {
  *text = 0;
  if (estimate_is_endless(e))
    snprintf(text, size,
             "with max_split_size_mb and expandable_segments together, the allocator never reuses "
             "large blocks, so reserved memory keeps growing: remove max_split_size_mb");
}
