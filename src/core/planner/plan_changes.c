// The effect of each change in a plan: reverts one at a time.
#include <math.h>

#include "plan_impl.h"

// The knob that changes together with this one.
static plim_knob companion(const plim_choice *from, const plim_choice *to, plim_knob knob) {
  bool has_types = from->at[PLIM_KNOB_DTYPE] != to->at[PLIM_KNOB_DTYPE];
  bool is_shared = from->at[PLIM_KNOB_OFFLOAD] != to->at[PLIM_KNOB_OFFLOAD];
  bool is_split = from->at[PLIM_KNOB_ACCUMULATE] != to->at[PLIM_KNOB_ACCUMULATE];
  if (knob == PLIM_KNOB_MICRO_BATCH && is_split) return PLIM_KNOB_ACCUMULATE;
  if (knob == PLIM_KNOB_STRATEGY && is_shared) return PLIM_KNOB_OFFLOAD;
  bool is_quantised = from->at[PLIM_KNOB_QUANTISATION] != to->at[PLIM_KNOB_QUANTISATION];
  bool needs_adapters = !from->at[PLIM_KNOB_LORA_RANK] && is_quantised;
  if (knob == PLIM_KNOB_LORA_RANK && needs_adapters) return PLIM_KNOB_QUANTISATION;
  return knob == PLIM_KNOB_PRECISION && has_types ? PLIM_KNOB_DTYPE : PLIM_KNOBS;
}

plim_choice plim_reverted(const plim_search *s, const plim_choice *choice, plim_knob knob) {
  const plim_choice *own = &s->plan->before_choice;
  plim_choice back = *choice;
  plim_knob with = companion(own, choice, knob);
  back.at[knob] = own->at[knob];
  bool keeps_batch =
      knob == PLIM_KNOB_MICRO_BATCH && s->r->effective_batch && plim_set_accumulation(s->r, &back);
  if (with != PLIM_KNOBS && !keeps_batch) back.at[with] = own->at[with];
  return back;
}

bool plim_has_its_batch(const plim_plan_request *r, const plim_choice *c) {
  int64_t batch = c->at[PLIM_KNOB_MICRO_BATCH] * c->at[PLIM_KNOB_ACCUMULATE] * r->world;
  return !r->effective_batch || batch == (int64_t)r->effective_batch;
}

bool plim_follows(const plim_choice *own, const plim_choice *choice, plim_knob knob) {
  static const plim_knob leads[] = {PLIM_KNOB_MICRO_BATCH, PLIM_KNOB_PRECISION, PLIM_KNOB_STRATEGY,
                                    PLIM_KNOB_LORA_RANK};
  for (size_t i = 0; i < sizeof leads / sizeof *leads; i++)
    if (own->at[leads[i]] != choice->at[leads[i]] && companion(own, choice, leads[i]) == knob)
      return true;
  return false;
}

static int64_t batch_of(const plim_choice *c) {
  return c->at[PLIM_KNOB_MICRO_BATCH] * c->at[PLIM_KNOB_ACCUMULATE];
}

// Whether the user's own sharding fits as well, with other settings.
static bool is_other_way_of_it(const plim_plan *plan, plim_knob knob) {
  bool is_way = knob == PLIM_KNOB_STRATEGY || knob == PLIM_KNOB_OFFLOAD;
  return is_way && plan->own_sharding.e.device_bytes;
}

static void add_change(plim_search *s, plim_knob knob) {
  plim_plan *plan = s->plan;
  const plim_rung chosen = plan->rungs.at[0];
  const plim_choice *own = &plan->before_choice;
  plim_rung without;
  plim_plan_change change = {.knob = knob,
                             .with = companion(own, &chosen.choice, knob),
                             .from = own->at[knob],
                             .to = chosen.choice.at[knob]};
  if (knob == PLIM_KNOB_ATTENTION && *plan->own_refusal) {
    change.is_needed = change.cannot_run_otherwise = true;
    change.costs_seconds = change.gains_tokens = NAN;
    if (!vec_push(&plan->changes, change)) s->failed = true;
    return;
  }
  plim_choice back = plim_reverted(s, &chosen.choice, knob);
  if (*plan->own_refusal) back.at[PLIM_KNOB_ATTENTION] = chosen.choice.at[PLIM_KNOB_ATTENTION];
  if (!plim_search_show(s, &back, &without)) return;
  change.saves_bytes = (int64_t)without.e.device_bytes - (int64_t)chosen.e.device_bytes;
  bool compares = s->r->effective_batch || batch_of(&without.choice) == batch_of(&chosen.choice);
  change.costs_seconds = compares ? chosen.step_seconds - without.step_seconds : NAN;
  change.gains_tokens = chosen.tokens_per_second - without.tokens_per_second;
  change.is_asked = !plim_has_its_batch(s->r, &back);
  bool is_possible = plim_choice_is_sound(s->r, &back) || !plim_choice_is_sound(s->r, own);
  change.is_needed =
      !is_possible || (!plim_is_safe(s->r, &without.e) && !is_other_way_of_it(plan, knob));
  if (!vec_push(&plan->changes, change)) s->failed = true;
  if (s->failed || change.with == PLIM_KNOBS) return;
  plim_plan_change other = {.knob = change.with,
                            .with = knob,
                            .follows = true,
                            .from = own->at[change.with],
                            .to = chosen.choice.at[change.with],
                            .costs_seconds = NAN,
                            .gains_tokens = NAN,
                            .is_needed = change.is_needed};
  if (!vec_push(&plan->changes, other)) s->failed = true;
}

void plim_explain_changes(plim_search *s) {
  const plim_choice *own = &s->plan->before_choice;
  const plim_choice chosen = s->plan->rungs.at[0].choice;
  for (size_t i = 0; i < plim_plan_knob_count && !s->failed; i++) {
    plim_knob knob = plim_plan_knobs[i];
    if (own->at[knob] != chosen.at[knob] && !plim_follows(own, &chosen, knob)) add_change(s, knob);
  }
}
