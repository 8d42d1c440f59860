// Runs a plan for the user's files on the simulated card: `plimsoll plan FILES --prove`.
//
//   plan_proof proof;
//   err = trial_plan_prove(&result, &request, watch, NULL, &proof, &error);
//   ... proof.end, proof.needs_bytes ...
//   plan_proof_clear(&proof);
#ifndef PLIM_APP_TRIAL_PLAN_H
#define PLIM_APP_TRIAL_PLAN_H

#include "plan_result.h"
#include "simulate.h"

// Runs the first rung of a plan for one card, which must have one, with the command that starts the training: the one that
// was typed, a shell script among the files, or the launch command of the plan. `request` has the card, the steps and what
// the program may do. If there is no command or it fails, the proof says so. Fails only if memory runs out or the simulation
// cannot be started. Clear the proof in any case.
plim_err trial_plan_prove(const plan_result *r, const simulate_request *request,
                          simulate_watch *watch, void *context, plan_proof *out, plim_error *error);

#endif
