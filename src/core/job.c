#include "job.h"

#include "family.h"
#include "liger.h"
#include "loading.h"

static void add_adapters(plim_tape *t, plim_model *m, const plim_lora *lora) {
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_ADAPTERS);
  m->add_lora(t, m, lora);
  plim_tape_purpose(t, was);
}

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

static void put_on_device(plim_tape *t, plim_model *m, const plim_job *job) {
  bool is_plain = job->weights == PLIM_WEIGHTS_PLAIN;
  if (job->load == PLIM_LOAD_DEVICE_MAP || !is_plain) plim_load_to_device(t, m, job->weights);
  else if (job->load == PLIM_LOAD_PRETRAINED) plim_move_model(t);
}

// Quantised weights are those of a checkpoint.
plim_model *plim_job_load(plim_tape *t, const plim_job *job) {
  bool is_plain = job->weights == PLIM_WEIGHTS_PLAIN;
  plim_tape_set_sdpa(t, job->sdpa);
  plim_tape_set_liger(t, job->recipe.uses_liger);
  plim_tape_set_phase(t, PLIM_PHASE_LOAD, 0);
  plim_tape_purpose(t, PLIM_FOR_WEIGHTS);
  if (job->load != PLIM_LOAD_INIT || !is_plain) plim_tape_begin_host(t);
  plim_model *m = job->model.family->build(t, &job->model, job->dtype);
  // Trainer moves the model when it has its adapters; who moves it himself does so before.
  bool moves_late = job->load == PLIM_LOAD_PRETRAINED && job->recipe.is_trainer && is_plain;
  if (m && !moves_late) put_on_device(t, m, job);
  if (m && job->prepares_kbit) plim_prepare_kbit(t, m);
  if (m && job->lora.rank) add_adapters(t, m, &job->lora);
  if (m && moves_late) put_on_device(t, m, job);
  plim_tape_purpose(t, PLIM_FOR_ACTIVATIONS);
  return m;
}
