#include "job.h"

#include "family.h"
#include "liger.h"
#include "loading.h"

plim_model *plim_job_load(plim_tape *t, const plim_job *job) {
  plim_tape_set_sdpa(t, job->sdpa);
  plim_tape_set_liger(t, job->recipe.uses_liger);
  bool is_plain = job->weights == PLIM_WEIGHTS_PLAIN;
  plim_tape_set_meta(t, !is_plain);
  plim_model *m = job->model.family->build(t, &job->model, job->dtype);
  plim_tape_set_meta(t, false);
  if (m && !is_plain) plim_load_quantised(t, m, job->weights);
  if (m && job->prepares_kbit) plim_prepare_kbit(t, m);
  if (m && job->lora.rank) m->add_lora(t, m, &job->lora);
  return m;
}
