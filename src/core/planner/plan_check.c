// Checks a plan independently: shares no code with the search.
#include "plan.h"

static plim_err check_batch(const plim_plan_request *r, const plim_choice *c, plim_error *error) {
  int64_t batch = c->at[PLIM_KNOB_MICRO_BATCH] * c->at[PLIM_KNOB_ACCUMULATE] * r->world;
  if (!r->effective_batch || batch == (int64_t)r->effective_batch) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_ARGUMENT, "the plan's batch is %lld, not %llu", (long long)batch,
                   (unsigned long long)r->effective_batch);
}

static plim_err check_budget(const plim_estimate *e, plim_error *error) {
  uint64_t sum = 0;
  for (int i = 0; i < PLIM_COMPONENTS; i++) sum += e->component_bytes[i];
  if (sum == e->device_bytes) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_ARGUMENT, "the plan's budget does not add up");
}

static plim_err check_fit(const plim_plan_request *r, const plim_estimate *e, plim_error *error) {
  uint64_t budget = r->target.budget_bytes;
  if (!e->has_verdict) return PLIM_OK;
  bool fits = e->fits && !e->capped.runs_out;
  if (budget != PLIM_UNKNOWN && r->margin < 0) fits = fits && e->interval_bytes[1] <= budget;
  if (budget != PLIM_UNKNOWN && r->margin >= 0)
    fits = fits && (double)e->device_bytes <= (double)budget * (1 - r->margin);
  return fits ? PLIM_OK : plim_fail(error, PLIM_ERR_ARGUMENT, "the plan does not fit");
}

// ---- settings ---------------------------------------------------------------------------------------

static bool is_named(const plim_domain *d, int64_t value) {
  for (int i = 0; i < d->count; i++)
    if (d->at[i] == value) return true;
  return false;
}

static bool rounds(int64_t optimizer) {
  return plim_optimizer_rounds(plim_optimizer_named(plim_optimizer_name((size_t)optimizer)));
}

// Whether changing the knob from a to b changes what the model learns.
static bool learns_else(const plim_plan_request *r, plim_knob knob, int64_t a, int64_t b) {
  if (knob == PLIM_KNOB_OPTIMIZER) return rounds(a) != rounds(b);
  if (knob == PLIM_KNOB_MICRO_BATCH) return a != b && plim_plan_compares_batch(r);
  bool is_frozen = r->job.lora.rank && !r->job.lora.keeps_dtype;
  if (knob == PLIM_KNOB_DTYPE && is_frozen) return false;
  return a != b && plim_knob_table[knob].kind == PLIM_KNOB_QUALITY;
}

static plim_err check_knob(const plim_plan_request *r, plim_knob knob, int64_t had, int64_t has,
                           plim_error *error) {
  const plim_domain *d = &r->domains[knob];
  const char *name = plim_knob_table[knob].name;
  if (d->count && !is_named(d, has))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "the plan's %s is not one of the values to try",
                     name);
  if (!d->count && !r->allowed[knob] && learns_else(r, knob, had, has))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "the plan changes %s, which is not allowed", name);
  return PLIM_OK;
}

// What is not predicted must not grow.
static plim_err check_omitted(const plim_plan_request *r, const plim_choice *had,
                              const plim_choice *has, plim_error *error) {
  const int64_t *a = had->at, *b = has->at;
  bool has_larger = !r->domains[PLIM_KNOB_MICRO_BATCH].count &&
                    b[PLIM_KNOB_MICRO_BATCH] > a[PLIM_KNOB_MICRO_BATCH];
  bool keeps_all = !r->domains[PLIM_KNOB_CHECKPOINT].count &&
                   a[PLIM_KNOB_CHECKPOINT] != PLIM_CHECKPOINT_OFF &&
                   b[PLIM_KNOB_CHECKPOINT] == PLIM_CHECKPOINT_OFF;
  if (!r->omits_part || !(has_larger || keeps_all)) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_ARGUMENT,
                   "the plan keeps more activations of a part that is not predicted");
}

static plim_err check_rung(const plim_plan_request *r, const plim_plan *plan, const plim_rung *rung,
                           plim_error *error) {
  plim_err err = check_batch(r, &rung->choice, error);
  if (!err) err = check_budget(&rung->e, error);
  if (!err) err = check_fit(r, &rung->e, error);
  if (!err) err = check_omitted(r, &plan->before_choice, &rung->choice, error);
  for (size_t i = 0; !err && i < plim_plan_knob_count; i++) {
    plim_knob knob = plim_plan_knobs[i];
    err = check_knob(r, knob, plan->before_choice.at[knob], rung->choice.at[knob], error);
  }
  return err;
}

plim_err plim_plan_check(const plim_plan_request *request, const plim_plan *plan,
                         plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < plan->rungs.len; i++) {
    const plim_rung *x = &plan->rungs.at[i], *above = i ? x - 1 : NULL;
    err = check_rung(request, plan, x, error);
    if (!err && above && plim_needed_bytes(&x->e) >= plim_needed_bytes(&above->e))
      err = plim_fail(error, PLIM_ERR_ARGUMENT,
                      "a fallback of the plan does not need less memory than the one above it");
    if (!err && above && x->evaluation_bytes > above->evaluation_bytes &&
        x->evaluation_bytes > plim_needed_bytes(&above->e))
      err =
          plim_fail(error, PLIM_ERR_ARGUMENT,
                    "evaluation with a fallback of the plan needs more memory than the one above");
  }
  return err;
}
