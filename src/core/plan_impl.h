// What the parts of the planner share: plan.c (the search), plan_values.c (knobs as numbers),
// plan_precision.c (types of numbers), plan_check.c (a look from outside).
#ifndef PLIM_CORE_PLAN_IMPL_H
#define PLIM_CORE_PLAN_IMPL_H

#include "plan.h"

typedef struct {
  int64_t strategy, offload;
} plim_knob_pair;

extern const plim_knob_pair plim_sharding_order[];
extern const size_t plim_sharding_order_count;

// Smaller micro batches than the user's, the largest first, behind the user's own.
plim_domain plim_smaller_batches(const plim_plan_request *r);
// The user's number per anchor, and fewer.
plim_domain plim_fewer_per_anchor(int64_t own);

// Whether a knob that is allowed has a value so far from the user's own, or the first step is taken.
bool plim_reach_counts(const plim_plan_request *r, int reach);

plim_domain plim_knob_domain(const plim_plan_request *r, plim_knob knob);
// The choice makes sense as a whole: its knobs do not contradict each other.
bool plim_choice_is_sound(const plim_plan_request *r, const plim_choice *choice);

// Turning it changes what is learned, in this job.
bool plim_knob_changes_learning(const plim_plan_request *r, plim_knob knob);

// Of the knobs precision and dtype.
void plim_precision_of(const plim_job *job, plim_choice *choice);
void plim_precision_set(const plim_choice *choice, plim_job *job); // after the strategy is set
int64_t plim_precision_offered(const plim_plan_request *r);        // beside the user's own
int64_t plim_dtype_offered(const plim_plan_request *r);            // the same
bool plim_precision_is_sound(const plim_plan_request *r, const plim_choice *choice);

#endif
