#include "plan_result.h"

#include <math.h>
#include <stdlib.h>

void plan_proof_clear(plan_proof *proof) {
  free(proof->command);
  free(proof->log);
  free(proof->help);
  *proof = (plan_proof){0};
}

bool plan_proof_agrees(const plan_proof *proof, const plim_estimate *e) {
  return proof->needs_bytes >= e->interval_bytes[0] && proof->needs_bytes <= e->interval_bytes[1];
}

uint64_t plan_steps(const plan_result *r, const plim_rung *rung) {
  if (r->samples == PLIM_UNKNOWN) return 0;
  const int64_t *at = rung->choice.at;
  double batch =
      (double)(at[PLIM_KNOB_MICRO_BATCH] * at[PLIM_KNOB_ACCUMULATE] * r->cards[0].asked.world);
  return (uint64_t)ceil(ceil((double)r->samples / batch) * r->epochs); // as Trainer counts them
}

double plan_hours(const plan_result *r, const plim_rung *rung) {
  uint64_t steps = plan_steps(r, rung);
  return steps ? (double)steps * rung->step_seconds / 3600 : NAN;
}

double plan_price(const plan_result *r, const plan_for_card *c, const plim_rung *rung) {
  return plan_hours(r, rung) * r->price_per_hour * c->asked.world;
}
