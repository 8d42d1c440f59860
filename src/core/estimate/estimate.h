// The answer to "does it fit": a prediction held against a card, in the lines of a budget.
//
//   plim_estimate e;
//   plim_err err = plim_estimate_make(&job, &target, &e, &error);
//   e.fits, e.device_bytes, e.component_bytes[PLIM_COMPONENT_LOGITS];
#ifndef PLIM_CORE_ESTIMATE_H
#define PLIM_CORE_ESTIMATE_H

#include "predict.h"

// The lines of the budget: what memory is for, and what nobody asked for.
typedef enum {
  PLIM_COMPONENT_FRAGMENTATION = PLIM_PURPOSES, // reserved and not in use at the peak
  PLIM_COMPONENT_CONTEXT,                       // of CUDA, outside PyTorch's allocator
  PLIM_COMPONENTS
} plim_component;

extern const char *const plim_component_names[PLIM_COMPONENTS]; // "weights", "adapters", ...

// The card it is to run on.
typedef struct {
  const plim_gpu *gpu;         // NULL: not known; kernels then run as on an H200
  uint64_t budget_bytes;       // of the whole card; PLIM_UNKNOWN: not known
  uint64_t limit_bytes;        // that the allocator may take; PLIM_UNKNOWN: any
  const plim_alloc_conf *conf; // NULL: PyTorch's defaults
  bool
      is_verdict_enough; // a run that runs out ends there, and what it would need stays 0: that is faster
} plim_target;

// A card of the catalogue; one of which only the size is known, and one of which nothing is: kernels and
// times are then those of an H200, which the measurements are from.
plim_target plim_target_gpu(const plim_gpu *gpu);
plim_target plim_target_size(uint64_t bytes);
plim_target plim_target_any(void);

enum { PLIM_MAX_REASONS = 20 };

typedef struct {
  plim_prediction p;      // of the run that fits, or else of one on a card that is large enough
  plim_prediction capped; // of the run under the limit; the same if it never came near it
  bool has_verdict, fits;
  uint64_t context_bytes;
  uint64_t device_bytes; // reserved and context
  uint64_t budget_bytes; // PLIM_UNKNOWN: not known
  uint64_t interval_bytes[2];
  uint64_t component_bytes[PLIM_COMPONENTS]; // they add up to device_bytes
  double step_seconds, tokens_per_second;    // NaN: not known
  double pass_seconds; // of a forward and backward that another one follows; NaN: not known
  const char *unverified[PLIM_MAX_REASONS];
  size_t unverified_count;
} plim_estimate;

plim_err plim_estimate_make(const plim_job *job, const plim_target *target, plim_estimate *out,
                            plim_error *error);

// What a card has to have for it: more than training takes where memory runs out while the model is loaded.
uint64_t plim_needed_bytes(const plim_estimate *e);

#endif
