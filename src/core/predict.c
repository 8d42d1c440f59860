#include "predict.h"

#include <string.h>

#include "driver.h"

// What follows the tape's stream.
typedef struct {
  plim_allocator *allocator;
  plim_tape *tape;
  const plim_observer *observer;
  plim_prediction *out;
  uint64_t events;
} follower;

// The program ends here: nothing of what the tape still does happens.
static void note_failure(follower *f, uint64_t bytes) {
  f->out->runs_out = true;
  f->out->runs_out_at = plim_tape_place(f->tape);
  f->out->runs_out_bytes = bytes;
  plim_tape_stop(f->tape);
}

static void note_peak(follower *f) {
  uint64_t peak = plim_allocator_stats(f->allocator)->peak.allocated_bytes;
  if (peak <= f->out->peak_allocated_bytes) return;
  f->out->peak_allocated_bytes = peak;
  f->out->peak_at = plim_tape_place(f->tape);
  f->out->peak_event = f->events;
  memcpy(f->out->live_bytes, plim_tape_live(f->tape), sizeof f->out->live_bytes);
}

static void follow(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  follower *f = context;
  if (f->out->runs_out) return;
  switch (kind) {
  case PLIM_STREAM_ALLOC:
    if (plim_allocator_malloc(f->allocator, id, bytes, plim_tape_stream(f->tape), 0) ==
        PLIM_MALLOC_OOM)
      note_failure(f, bytes);
    else note_peak(f);
    break;
  case PLIM_STREAM_EMPTY_CACHE: plim_allocator_empty_cache(f->allocator); break;
  default: plim_allocator_free(f->allocator, id);
  }
  if (f->observer && f->observer->event)
    f->observer->event(f->observer->context, f->tape, f->allocator, kind, id, bytes);
  f->events++;
}

static void pass_on(void *context, uint32_t id, plim_purpose purpose) {
  const plim_observer *o = ((follower *)context)->observer;
  if (o && o->repurpose) o->repurpose(o->context, id, purpose);
}

static bool train(plim_tape *t, plim_model *m, const plim_predict_request *request, follower *f) {
  plim_prediction *p = f->out;
  const plim_observer *o = request->observer;
  p->parameters = m->elements;
  p->trainable = m->trainable;
  if (o && o->is_loaded) o->is_loaded(o->context, t);
  p->loaded_bytes = plim_allocator_stats(f->allocator)->now.allocated_bytes;
  plim_allocator_reset_peaks(f->allocator);
  p->peak_allocated_bytes = 0;
  if (!plim_train(t, m, &request->job->recipe) && !p->runs_out) return false;
  p->events = f->events;
  p->peak_reserved_bytes = plim_allocator_stats(f->allocator)->peak.reserved_bytes;
  p->host_bytes = plim_tape_host_peak(t) + plim_host_bytes(m, request->job->recipe.optimizer);
  p->retries = plim_allocator_stats(f->allocator)->retries;
  p->step = plim_clock_last_step(t);
  return !plim_allocator_out_of_host_memory(f->allocator);
}

static bool run(const plim_predict_request *request, plim_allocator *a, plim_prediction *out) {
  follower f = {.allocator = a, .observer = request->observer, .out = out};
  plim_tape *t = plim_tape_new((plim_tape_sink){follow, &f, pass_on});
  if (!t) return false;
  f.tape = t;
  if (f.observer && f.observer->begins) f.observer->begins(f.observer->context, t);
  if (request->gpu) plim_tape_set_gpu(t, request->gpu);
  plim_model *m = plim_job_load(t, request->job);
  bool ok = (m && train(t, m, request, &f)) || out->runs_out;
  plim_model_delete(m);
  plim_tape_delete(t);
  return ok;
}

plim_err plim_predict(const plim_predict_request *request, plim_prediction *out,
                      plim_error *error) {
  *out = (plim_prediction){0};
  plim_err err = plim_job_check(request->job, error);
  if (err) return err;
  plim_address_model addresses;
  plim_address_model_init(&addresses);
  static const uint64_t streams[PLIM_STREAMS] = {0, 1, 2};
  plim_allocator_options options = {.streams = streams,
                                    .stream_count = PLIM_STREAMS,
                                    .driver = plim_address_model_driver(&addresses),
                                    .limit_bytes = request->limit_bytes,
                                    .capacity_bytes = PLIM_UNKNOWN,
                                    .range_bytes = PLIM_UNKNOWN};
  if (request->conf) options.conf = *request->conf;
  else plim_alloc_conf_parse("", &options.conf, NULL);
  plim_allocator *a = plim_allocator_new(&options);
  bool ok = a && run(request, a, out);
  plim_allocator_delete(a);
  plim_address_model_clear(&addresses);
  return ok ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "not enough memory on this machine");
}
