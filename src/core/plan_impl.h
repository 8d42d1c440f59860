// What the parts of the planner share: plan.c (the search), plan_values.c (knobs as numbers).
#ifndef PLIM_CORE_PLAN_IMPL_H
#define PLIM_CORE_PLAN_IMPL_H

#include "plan.h"

plim_choice plim_choice_of(const plim_plan_request *r); // the user's own settings
plim_domain plim_knob_domain(const plim_plan_request *r, plim_knob knob);

#endif
