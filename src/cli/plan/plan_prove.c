#include "plan_prove.h"

#include <string.h>

#include "simulate_report.h"
#include "term.h"
#include "trial_plan.h"
#include "units.h"

plim_err plan_check_prove(const cli_call *call, const plan_args *args, plim_error *error) {
  bool has_files = call->words.len || args->command;
  const char *gpu = args->job.gpu;
  if (!has_files) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                             "--prove runs your training, and no file or command is given");
    plim_error_hint(error,
                    "plimsoll plan train.py --gpu 24GiB --prove --command \"python train.py\"");
    return err;
  }
  if (!gpu || !strchr(gpu, ',')) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "--prove: a plan is proved for one GPU at a time, not for %.80s", gpu);
  plim_error_hint(error, "--gpu \"%.*s\" --prove", (int)strcspn(gpu, ","), gpu);
  return err;
}

static void show_progress(void *context, const simulate_moment *now) {
  (void)context;
  if (now->used_bytes)
    term_progress("%s, proving the plan: %llu steps done, %s in use",
                  units_seconds(now->seconds).text, (unsigned long long)now->steps,
                  units_bytes(now->used_bytes).text);
  else term_progress("%s, proving the plan: starting", units_seconds(now->seconds).text);
}

plim_err plan_prove_files(plan_result *r, const plan_args *args, plan_proof *proof,
                          plim_error *error) {
  const plim_target *target = &r->cards[0].request.target;
  simulate_request request = {.gpu = target->gpu,
                              .total_bytes = target->budget_bytes,
                              .context_bytes = (uint64_t)target->gpu->context_mib * PLIM_MIB,
                              .steps = args->job.steps,
                              .has_network = args->is_online,
                              .is_unsandboxed = args->is_unsandboxed};
  plim_err err = trial_plan_prove(r, &request, show_progress, NULL, proof, error);
  term_progress_clear();
  if (!err && proof->end == PLAN_UNPROVED && proof->log && proof->needs_bytes == PLIM_UNKNOWN)
    simulate_print_log(proof->log);
  r->proof = proof;
  return err;
}
