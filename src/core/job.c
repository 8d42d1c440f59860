#include "job.h"

#include "family.h"

static plim_model *build(plim_tape *t, const plim_job *job) {
  plim_tape_set_sdpa(t, job->sdpa);
  plim_model *m = job->model.family->build(t, &job->model, job->dtype);
  if (m && job->lora.rank) m->add_lora(t, m, &job->lora);
  return m;
}

// ---- rehearsal --------------------------------------------------------------------------------------

// What lives on the rehearsal's tape, by number; 0 once it is gone.
typedef struct {
  vec(uint64_t) bytes;
  bool failed;
} living;

static void follow(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  living *l = context;
  if (kind != PLIM_STREAM_ALLOC && id < l->bytes.len) l->bytes.at[id] = 0;
  if (kind == PLIM_STREAM_ALLOC && !vec_push(&l->bytes, bytes)) l->failed = true;
}

static void copy_layers(const plim_model *from, plim_model *to) {
  for (size_t i = 0; i < to->parameters.len; i++)
    to->parameters.at[i]->layer = from->parameters.at[i]->layer;
  for (size_t i = 0; i < to->frozen.len; i++) to->frozen.at[i]->layer = from->frozen.at[i]->layer;
}

// What a model holds beside its parameters when it is built.
static bool find_buffers(const plim_model *built, living *l, plim_model *m) {
  bool ok = true;
  for (size_t i = 0; i < built->parameters.len; i++)
    l->bytes.at[built->parameters.at[i]->storage->id] = 0;
  for (size_t i = 0; i < built->frozen.len; i++) l->bytes.at[built->frozen.at[i]->storage->id] = 0;
  for (size_t i = 0; i < l->bytes.len; i++)
    if (l->bytes.at[i]) ok = ok && vec_push(&m->buffer_bytes, l->bytes.at[i]);
  return ok;
}

// Which layer uses which parameter, and which buffers there are: a rehearsal on a tape of its own.
static bool rehearse(const plim_job *job, plim_model *m) {
  living l = {0};
  plim_tape *t = plim_tape_new((plim_tape_sink){follow, &l});
  plim_model *rehearsed = t ? build(t, job) : NULL;
  bool ok = rehearsed && !l.failed && find_buffers(rehearsed, &l, m);
  plim_tensor *logits = NULL;
  plim_batch batch = {.attention = job->recipe.attention};
  if (ok) {
    set(t, &batch.ids, empty(t, dims(1, 8), PLIM_I64));
    set(t, &batch.labels, batch.ids);
    plim_consume(t, rehearsed->forward(t, rehearsed, &batch, &logits));
    copy_layers(rehearsed, m);
  }
  ok = ok && !plim_tape_failed(t) && !l.failed;
  plim_model_delete(rehearsed);
  plim_tape_delete(t);
  vec_free(&l.bytes);
  return ok;
}

plim_model *plim_job_load(plim_tape *t, const plim_job *job) {
  plim_model *m = build(t, job);
  if (!m || job->sharding.strategy == PLIM_SHARD_NONE) return m;
  if (rehearse(job, m) && plim_shard(t, m, &job->sharding)) return m;
  plim_model_delete(m);
  return NULL;
}
