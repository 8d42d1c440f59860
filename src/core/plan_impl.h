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
plim_domain plim_knob_domain(const plim_plan_request *r, plim_knob knob);

#endif
