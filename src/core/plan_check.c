// Looks at a plan from outside.
#include "plan.h"

static plim_err check_rung(const plim_plan_request *r, const plim_rung *rung, plim_error *error) {
  const plim_choice *c = &rung->choice;
  int64_t batch = c->at[PLIM_KNOB_MICRO_BATCH] * c->at[PLIM_KNOB_ACCUMULATE] * r->world;
  uint64_t sum = 0;
  for (int i = 0; i < PLIM_COMPONENTS; i++) sum += rung->e.component_bytes[i];
  if (r->effective_batch && batch != (int64_t)r->effective_batch)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "the plan's batch is %lld, not %llu",
                     (long long)batch, (unsigned long long)r->effective_batch);
  if (sum != rung->e.device_bytes)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "the plan's budget does not add up");
  if (r->target.budget_bytes != PLIM_UNKNOWN && rung->e.device_bytes > r->target.budget_bytes)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "the plan does not fit");
  return PLIM_OK;
}

plim_err plim_plan_check(const plim_plan_request *request, const plim_plan *plan,
                         plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < plan->rungs.len; i++) {
    err = check_rung(request, &plan->rungs.at[i], error);
    if (i && plan->rungs.at[i].e.device_bytes >= plan->rungs.at[i - 1].e.device_bytes)
      err = plim_fail(error, PLIM_ERR_ARGUMENT, "a rung of the plan is not below the one above");
  }
  return err;
}
