// plimsoll plan FILES --prove: the plan, run on a simulated GPU.
#ifndef PLIM_CLI_PLAN_PROVE_H
#define PLIM_CLI_PLAN_PROVE_H

#include "plan_options.h"
#include "plan_result.h"

// Refuses --prove where there is nothing to run, before the search.
plim_err plan_check_prove(const cli_call *call, const plan_args *args, plim_error *error);
// Runs the plan, which must fit, and sets r->proof to `proof`, which the caller clears in any case.
plim_err plan_prove_files(plan_result *r, const plan_args *args, plan_proof *proof,
                          plim_error *error);

#endif
