// plimsoll plan -- COMMAND: a plan by prediction, proved by a simulated run.
#ifndef PLIM_CLI_PLAN_PROOF_H
#define PLIM_CLI_PLAN_PROOF_H

#include "options.h"
#include "trial.h"

typedef struct {
  const cli_call *call;
  trial_program *program;
  trial_search *search; // after the first run
  trial_watch *watch;
  bool is_done;  // the plan was found, proved and shown
  int status;    // then: the exit code
  char why[480]; // else: why the plan must be searched by simulated runs
} plan_proof_try;

// Fails only if memory runs out.
plim_err plan_prove(plan_proof_try *t, plim_error *error);

#endif
