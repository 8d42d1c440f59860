// The answer to "does it fit": a prediction compared with a card, and a budget by purpose.
//
//   plim_estimate e;
//   plim_err err = plim_estimate_make(&job, &target, &e, &error);
//   e.fits, e.device_bytes, e.component_bytes[PLIM_COMPONENT_LOGITS];
#ifndef PLIM_CORE_ESTIMATE_H
#define PLIM_CORE_ESTIMATE_H

#include "predict.h"

// The lines of the budget: the purposes of allocations, then memory that no tensor uses.
typedef enum {
  PLIM_COMPONENT_FRAGMENTATION = PLIM_PURPOSES, // reserved but not in use at the peak
  PLIM_COMPONENT_CONTEXT,                       // of CUDA, outside PyTorch's allocator
  PLIM_COMPONENTS
} plim_component;

extern const char *const plim_component_names[PLIM_COMPONENTS]; // "weights", "adapters", ...

// The card to run on.
typedef struct {
  const plim_gpu *gpu;   // NULL: not known; kernels then run as on an H200
  uint64_t budget_bytes; // memory of the whole card; PLIM_UNKNOWN: not known
  uint64_t limit_bytes;  // the most that the allocator may reserve; PLIM_UNKNOWN: no limit
  // The limit is the memory that the card has: the driver refuses more. Otherwise it is that of
  // set_per_process_memory_fraction, which PyTorch compares with a request before it rounds the request up to pages of
  // an expandable segment, so reserved memory can exceed the limit by a page.
  bool limit_is_card;
  const plim_alloc_conf *conf; // NULL: PyTorch's defaults
  // A run that needs more than this ends there, and what it would need stays 0. The limit: only the verdict is wanted.
  uint64_t most_bytes; // 0: how much it needs is wanted in any case
} plim_target;

// A card of the catalogue; a card of which only the size is known; an unknown card. For the last two, kernels and times
// are those of an H200, on which the measurements were made.
plim_target plim_target_gpu(const plim_gpu *gpu);
plim_target plim_target_size(uint64_t bytes);
plim_target plim_target_any(void);

enum { PLIM_MAX_REASONS = 22 };

typedef struct {
  plim_prediction p;      // the run that fits, or the run on a card that is large enough
  plim_prediction capped; // the run under the limit; equal to p unless it runs out
  bool has_verdict, fits;
  bool
      keeps_large_blocks; // max_split_size_mb with expandable segments: large blocks are not reused
  uint64_t context_bytes;
  uint64_t device_bytes; // reserved memory and context
  uint64_t budget_bytes; // PLIM_UNKNOWN: not known
  uint64_t interval_bytes[2];
  uint64_t component_bytes[PLIM_COMPONENTS]; // add up to device_bytes
  double step_seconds, tokens_per_second;    // NaN: not known
  double tokens_per_text;                    // on average
  double pass_seconds; // of one forward and backward that is followed by another; NaN: not known
  const char *unverified[PLIM_MAX_REASONS];
  size_t unverified_count;
} plim_estimate;

plim_err plim_estimate_make(const plim_job *job, const plim_target *target, plim_estimate *out,
                            plim_error *error);

// Whether loading the model is what does not fit: it needs more memory than training holds afterwards.
bool plim_fails_loading(const plim_estimate *e);
// What a training step needs, without what loading left behind if that did not fit.
uint64_t plim_step_bytes(const plim_estimate *e);
// Memory with which the run certainly works: what a step needs, or loading the model if that is more. Near a limit,
// PyTorch gives cached memory back, so a little less may do.
uint64_t plim_needed_bytes(const plim_estimate *e);

#endif
