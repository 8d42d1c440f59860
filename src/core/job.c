#include "job.h"

#include "family.h"

// peft 0.21 takes "all-linear" of a mixture of experts for its stacked experts and its router as
// well, as they were linear layers once: adapters that are merged into the weights in each forward.
static bool adapts_experts(const plim_job *job) {
  bool all_linear = job->lora.targets == (1u << PLIM_PROJECTIONS) - 1;
  return job->lora.rank && job->model.experts && all_linear;
}

plim_err plim_job_check(const plim_job *job, plim_error *error) {
  if (!adapts_experts(job)) return PLIM_OK;
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED,
                "\"all-linear\" puts adapters on the experts too, which is not modelled");
  plim_error_hint(error, "target_modules: [q_proj, k_proj, v_proj, o_proj]");
  return err;
}

plim_model *plim_job_load(plim_tape *t, const plim_job *job) {
  plim_tape_set_sdpa(t, job->sdpa);
  plim_model *m = job->model.family->build(t, &job->model, job->dtype);
  if (m && job->lora.rank) m->add_lora(t, m, &job->lora);
  return m;
}
