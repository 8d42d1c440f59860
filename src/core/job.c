#include "job.h"

#include "family.h"

// transformers' caching_allocator_warmup: one block for all parameters, freed at once, so that they
// come to lie in one segment.
static void warm_up(plim_tape *t, const plim_model *m) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < m->parameters.len; i++) bytes += m->parameters.at[i]->storage->bytes;
  plim_consume(t, scratch(t, bytes / 2 * 2)); // in units of float16
}

static void move(plim_tape *t, const plim_model *m, plim_load load) {
  plim_tape_end_host(t);
  if (load == PLIM_LOAD_DEVICE_MAP) warm_up(t, m);
  plim_tape_move_to_device(t);
}

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

plim_model *plim_job_load(plim_tape *t, const plim_job *job) {
  plim_tape_set_sdpa(t, job->sdpa);
  plim_tape_set_phase(t, PLIM_PHASE_LOAD, 0);
  plim_tape_purpose(t, PLIM_FOR_WEIGHTS);
  if (job->load != PLIM_LOAD_INIT) plim_tape_begin_host(t);
  plim_model *m = job->model.family->build(t, &job->model, job->dtype);
  // Trainer moves the model when it has its adapters; who moves it himself does so before.
  bool moves_late = job->load == PLIM_LOAD_PRETRAINED && job->recipe.is_trainer;
  if (m && !moves_late) move(t, m, job->load);
  if (m && job->lora.rank) add_adapters(t, m, &job->lora);
  if (m && moves_late) move(t, m, job->load);
  plim_tape_purpose(t, PLIM_FOR_ACTIVATIONS);
  return m;
}
