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

static uint64_t used_bytes(const plim_estimate *e) {
  return e->device_bytes - e->component_bytes[PLIM_COMPONENT_FRAGMENTATION];
}

bool estimate_fails_loading(const plim_estimate *e) {
  bool runs_out = e->capped.runs_out && e->capped.runs_out_at.phase == PLIM_PHASE_LOAD;
  return runs_out && loading_bytes(e) > used_bytes(e);
}

// Whether the step's reserved memory contains what loading reserved and the step does not use.
static bool has_leftovers(const plim_estimate *e) {
  return estimate_fails_loading(e) && e->device_bytes >= loading_bytes(e);
}

plim_estimate estimate_shown(const plim_estimate *e) {
  plim_estimate shown = *e;
  if (!estimate_is_endless(e) && !has_leftovers(e)) return shown;
  shown.device_bytes = used_bytes(e);
  shown.component_bytes[PLIM_COMPONENT_FRAGMENTATION] = 0;
  return shown;
}

uint64_t estimate_needed_bytes(const plim_estimate *e) {
  return estimate_fails_loading(e) ? loading_bytes(e) : estimate_shown(e).device_bytes;
}

void estimate_needs(const plim_estimate *e, char *text, size_t size) {
  units_text needed = units_bytes(estimate_needed_bytes(e));
  if (estimate_fails_loading(e)) snprintf(text, size, "%s while loading the model", needed.text);
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
  char larger[72];
  if (!help) help = loading_help(job);
  uint64_t step = estimate_shown(e).device_bytes;
  *text = 0;
  if (!estimate_fails_loading(e) || step > e->budget_bytes) return;
  snprintf(larger, sizeof larger, "Use a GPU with at least %s", units_bytes(loading_bytes(e)).text);
  snprintf(text, size, "loading the model needs %s at once; a training step then needs %s %s. %s",
           units_bytes(loading_bytes(e)).text, has_leftovers(e) ? "at least" : "only",
           units_bytes(step).text, help ? help : larger);
}

void job_note_loading(const job_request *r, const plim_estimate *e, plim_notes *notes) {
  if (!r->load_help || !estimate_fails_loading(e)) return;
  plim_note_add(notes, "reads.loading", NULL,
                "loading the model needs %s, more than a training step. %s",
                units_bytes(loading_bytes(e)).text, r->load_help);
}

void estimate_growth(const plim_estimate *e, char *text, size_t size) {
  *text = 0;
  if (estimate_is_endless(e))
    snprintf(text, size,
             "with max_split_size_mb and expandable_segments together, the allocator never reuses "
             "large blocks, so reserved memory keeps growing: remove max_split_size_mb");
}
