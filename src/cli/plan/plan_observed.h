// A plan by prediction for a program that was observed while it ran, on a simulated GPU or on a real one.
//
//   plan_observed o;
//   plan_observed_begin(&o, call, args, &program);
//   err = plan_observed_make(&o, process, &error);
//   if (!err) err = plan_observed_edits(&o, &edits, &error);
//   ... o.result.cards[0].plan.rungs.at[0], and edits.writes: what it changes ...
//   plan_observed_end(&o);
#ifndef PLIM_CLI_PLAN_OBSERVED_H
#define PLIM_CLI_PLAN_OBSERVED_H

#include "plan_edits.h"
#include "plan_make.h"
#include "trial.h"

typedef struct {
  trial_program *program;
  const simulate_process *seen;
  const plan_args *given; // the GPU, --fix, --try and --allow
  plan_args args;
  job_args before; // args.job before files were read
  cli_call typed;  // what was observed counts as typed
  plan_result result;
  char effective[24], fixed[40];
} plan_observed;

void plan_observed_begin(plan_observed *o, const cli_call *call, const plan_args *given,
                         trial_program *program);
// Plans for one GPU. Fails with the reason if plimsoll cannot predict such a program.
plim_err plan_observed_make(plan_observed *o, const simulate_process *seen, plim_error *error);
// Plans again, with what cannot be written or needs a package that is not installed held, until the whole plan can be
// written into command and files.
plim_err plan_observed_edits(plan_observed *o, plan_edits *edits, plim_error *error);
// Whether the program's environment has the packages that these settings need.
bool plan_observed_has_packages(const plan_observed *o, const plim_choice *x);
void plan_observed_end(plan_observed *o);

#endif
