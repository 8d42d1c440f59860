#include "job.h"

#include "family.h"

static plim_model *build(plim_tape *t, const plim_job *job) {
  plim_tape_set_sdpa(t, job->sdpa);
  plim_model *m = job->model.family->build(t, &job->model, job->dtype);
  if (m && job->lora.rank) m->add_lora(t, m, &job->lora);
  return m;
}

static void ignore(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  (void)context, (void)kind, (void)id, (void)bytes;
}

static void copy_layers(const plim_model *from, plim_model *to) {
  for (size_t i = 0; i < to->parameters.len; i++)
    to->parameters.at[i]->layer = from->parameters.at[i]->layer;
  for (size_t i = 0; i < to->frozen.len; i++) to->frozen.at[i]->layer = from->frozen.at[i]->layer;
}

// Which layer uses which parameter: a rehearsal on a tape of its own tells.
static bool find_layers(const plim_job *job, plim_model *m) {
  plim_tape *t = plim_tape_new((plim_tape_sink){ignore, NULL});
  plim_model *rehearsed = t ? build(t, job) : NULL;
  plim_tensor *logits = NULL;
  plim_batch batch = {.attention = job->recipe.attention};
  if (rehearsed) {
    set(t, &batch.ids, empty(t, dims(1, 8), PLIM_I64));
    set(t, &batch.labels, batch.ids);
    plim_consume(t, rehearsed->forward(t, rehearsed, &batch, &logits));
    copy_layers(rehearsed, m);
  }
  bool ok = rehearsed && !plim_tape_failed(t);
  plim_model_delete(rehearsed);
  plim_tape_delete(t);
  return ok;
}

plim_model *plim_job_load(plim_tape *t, const plim_job *job) {
  plim_model *m = build(t, job);
  if (!m || job->sharding.strategy == PLIM_SHARD_NONE) return m;
  if (find_layers(job, m) && plim_shard(t, m, &job->sharding)) return m;
  plim_model_delete(m);
  return NULL;
}
