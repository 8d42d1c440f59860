// What the parts of the planner share: plan.c (the search), plan_values.c (knobs as numbers).
#ifndef PLIM_CORE_PLAN_IMPL_H
#define PLIM_CORE_PLAN_IMPL_H

#include "plan.h"

typedef struct {
  int64_t strategy, offload;
} plim_knob_pair;

extern const plim_knob_pair plim_sharding_order[];
extern const size_t plim_sharding_order_count;

plim_choice plim_choice_of(const plim_plan_request *r); // the user's own settings
// The micro batch of a loss that compares within it (plan_anchors.c).
bool plim_batch_changes_learning(const plim_plan_request *r, plim_knob knob);
// Smaller micro batches than the user's, the largest first, behind the user's own.
plim_domain plim_smaller_batches(const plim_plan_request *r);
// The user's number per anchor, and fewer.
plim_domain plim_fewer_per_anchor(int64_t own);

// Whether a knob that is allowed has a value so far from the user's own, or the first step is taken.
bool plim_reach_counts(const plim_plan_request *r, int reach);

plim_domain plim_knob_domain(const plim_plan_request *r, plim_knob knob);

#endif
