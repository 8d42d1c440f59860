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
