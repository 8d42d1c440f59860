#include "plan_result.h"

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
