#include "job.h"

#include "family.h"

plim_model *plim_job_load(plim_tape *t, const plim_job *job) {
  plim_tape_set_sdpa(t, job->sdpa);
  plim_model *m = job->model.family->build(t, &job->model, job->dtype);
  if (m && job->lora.rank) m->add_lora(t, m, &job->lora);
  return m;
}
