#include "predict.h"

#include <string.h>

#include "fold.h"
#include "pass_replay.h"
#include "predict_impl.h"

// ---- following the stream ---------------------------------------------------------------------------

static void note_peak(const follower *f, predict_device *l) {
  uint64_t peak = plim_allocator_stats(l->allocator)->peak.allocated_bytes;
  if (peak <= l->out->peak_allocated_bytes) return;
  l->out->peak_allocated_bytes = peak;
  l->out->peak_at = plim_tape_point(f->tape);
  l->out->peak_event = f->events;
  memcpy(l->out->live_bytes, plim_tape_live(f->tape), sizeof l->out->live_bytes);
}

// The run without a limit is of no interest beyond most_bytes. It has no limit of that size, because near a limit the
// allocator gives cached memory back, and then needs less than without.
static bool is_beyond_interest(const follower *f, const predict_device *l) {
  uint64_t most = f->request->most_bytes;
  return most && l != &f->devices[0] &&
         plim_allocator_stats(l->allocator)->now.reserved_bytes > most;
}

// What a handle of cuBLAS allocates: buffers of the sizes that its manual gives, as on an H200.
static uint64_t handle_bytes(const plim_gpu *gpu) {
  return (gpu->capability >= 90 ? 2 * 32768 : 2 * 4096 + 8 * 16) * 1024ull;
}

// Left out where recordings do not show it (tests/truth: contrastive, zero_init, zero_one_gpu). A model that comes from
// the host leaves gaps there, and loading maps more; what NCCL and DeepSpeed take is not known.
static void begin_context(const plim_job *job, const plim_gpu *gpu, predict_device *l) {
  if (job->load != PLIM_LOAD_INIT || job->sharding.strategy != PLIM_SHARD_NONE) return;
  plim_own_memory_begin(&l->driver, &l->addresses, gpu->multiprocessors, plim_gpu_threads(gpu));
}

// What writes to a new allocation may make the driver take memory, too.
static void launch(const follower *f, predict_device *l) {
  plim_own_memory *own = &l->driver;
  if (!own->threads) return;
  switch (plim_tape_pending(f->tape).writer) {
  case PLIM_BY_COPY: return;
  case PLIM_BY_RANDOM_KERNEL:
    plim_own_memory_launch(own, &l->addresses, PLIM_KERNEL_RANDOM);
    return;
  case PLIM_BY_CHECKING_KERNEL:
    plim_own_memory_launch(own, &l->addresses, PLIM_KERNEL_CHECKING);
    return;
  case PLIM_BY_CUDNN: plim_own_memory_cudnn(own, &l->addresses); return;
  default: plim_own_memory_launch(own, &l->addresses, PLIM_KERNEL_PLAIN);
  }
}

static void allocate(follower *f, predict_device *l, uint32_t id, uint64_t bytes) {
  if (l->driver.threads && plim_tape_pending(f->tape).writer == PLIM_BY_FIRST_PRODUCT)
    plim_own_memory_handle(&l->driver, &l->addresses, handle_bytes(plim_tape_gpu(f->tape)));
  uint32_t stream = plim_tape_stream(f->tape);
  plim_malloc_result got = plim_allocator_malloc(l->allocator, id, bytes, stream, 0);
  if (got == PLIM_MALLOC_NO_HOST_MEMORY) f->failed = true;
  if (got == PLIM_MALLOC_OK) {
    note_peak(f, l);
    launch(f, l);
  }
  if (got != PLIM_MALLOC_OOM && !is_beyond_interest(f, l)) return;
  l->out->runs_out = true;
  l->out->runs_out_at = plim_tape_point(f->tape);
  l->out->runs_out_bytes = bytes;
  l->out->runs_out_allocated_bytes = plim_allocator_stats(l->allocator)->now.allocated_bytes;
}

bool predict_collects_garbage(const follower *f) {
  return f->request->conf && f->request->conf->gc_threshold > 0;
}

// If a request may come near the limit, the run without a limit continues separately from here.
static void fork_if_near(follower *f, uint64_t bytes) {
  predict_device *near = &f->devices[0], *far = &f->devices[1];
  const plim_alloc_conf *conf = f->request->conf;
  uint64_t reserved = plim_allocator_stats(near->allocator)->now.reserved_bytes;
  if (conf && conf->expandable_segments) reserved += conf->large_segment_bytes; // rounding to pages
  if (!predict_collects_garbage(f) && // garbage collection starts long before the limit
      reserved + plim_allocator_segment_request(near->allocator, bytes) <= f->request->limit_bytes)
    return;
  far->out = f->unlimited;
  *far->out = *near->out;
  f->unlimited = NULL;
  f->count = 2;
  far->driver = near->driver;
  bool ok = plim_address_model_copy(&far->addresses, &near->addresses);
  far->allocator = plim_allocator_clone(near->allocator, plim_address_model_driver(&far->addresses),
                                        PLIM_UNKNOWN);
  if (ok && far->allocator) return;
  f->failed = true;
  plim_tape_stop(f->tape);
}

static bool all_ran_out(const follower *f) {
  for (int i = 0; i < f->count; i++)
    if (!f->devices[i].out->runs_out) return false;
  return true;
}

static void note_round(follower *f, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  if (kind == PLIM_STREAM_ALLOC) f->next_id = id + 1;
  for (int i = 0; i < PLIM_CYCLES && f->watches_rounds; i++)
    plim_rounds_note(&f->rounds[i], kind, plim_tape_stream(f->tape), id, bytes);
  if (f->loop_replay.is_on) loop_replay_note(f, kind, id, bytes);
}

// A program that runs out of memory ends there: its card ignores all further events.
static void follow(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  follower *f = context;
  const plim_observer *o = f->request->observer;
  if (plim_tape_failed(f->tape) || f->failed) return;
  if (f->unlimited && kind == PLIM_STREAM_ALLOC) fork_if_near(f, bytes);
  for (int i = 0; i < f->count && !f->failed; i++) {
    predict_device *l = &f->devices[i];
    if (l->out->runs_out) continue;
    if (kind == PLIM_STREAM_ALLOC) allocate(f, l, id, bytes);
    else if (kind == PLIM_STREAM_EMPTY_CACHE) plim_allocator_empty_cache(l->allocator);
    else plim_allocator_free(l->allocator, id);
  }
  if (f->failed) plim_tape_stop(f->tape);
  if (o && o->event) o->event(o->context, f->tape, f->devices[0].allocator, kind, id, bytes);
  f->events++;
  note_round(f, kind, id, bytes);
  if (all_ran_out(f)) plim_tape_stop(f->tape);
}

// ---- rounds that repeat -----------------------------------------------------------------------------

// With fewer rounds than this, looking for repetition costs more than it saves.
enum { MANY_ROUNDS = 8 };

static bool has_many_rounds(const plim_job *job) {
  return job->recipe.accumulate > MANY_ROUNDS || job->recipe.steps > MANY_ROUNDS;
}

static uint64_t retries_of(const predict_device *l) {
  return plim_allocator_stats(l->allocator)->retries + l->retries;
}

static sums sums_now(const follower *f) {
  sums now = {.events = f->events};
  for (int i = 0; i < f->count; i++) now.retries[i] = retries_of(&f->devices[i]);
  return now;
}

static void sum_up(follower *f, plim_cycle cycle, int rounds, int period) {
  sums *ends = f->ends[cycle], now = sums_now(f), *one = &f->period[cycle];
  const sums *then = &ends[(rounds + PLIM_LONGEST_PERIOD - period) % PLIM_LONGEST_PERIOD];
  *one = (sums){.events = now.events - then->events};
  for (int i = 0; i < f->count; i++) one->retries[i] = now.retries[i] - then->retries[i];
  ends[rounds % PLIM_LONGEST_PERIOD] = now;
}

// Garbage collection depends on the age of blocks, which is not part of the compared state. Below its threshold it does
// nothing, and a round that returns to its state stays below.
static bool may_collect(const follower *f) {
  uint64_t limit = f->request->limit_bytes;
  if (!predict_collects_garbage(f) || limit == PLIM_UNKNOWN) return false;
  double threshold = f->request->conf->gc_threshold * (double)limit;
  return (double)plim_allocator_stats(f->devices[0].allocator)->peak.reserved_bytes > threshold;
}

// Several times the longest periods seen, which were 10 passes and 2 steps.
static const int enough[PLIM_CYCLES] = {[PLIM_CYCLE_PASS] = 256, [PLIM_CYCLE_STEP] = 16};

static int repeats(void *context, plim_cycle cycle) {
  follower *f = context;
  plim_rounds *r = &f->rounds[cycle];
  uint64_t state = (uint64_t)f->count, level = 0;
  if (f->failed || may_collect(f)) return 0;
  for (int i = 0; i < f->count; i++) {
    const predict_device *l = &f->devices[i];
    const plim_allocator_stats_t *stats = plim_allocator_stats(l->allocator);
    state = 31 * state + plim_rounds_state(r, l->allocator, &l->addresses) + l->out->runs_out;
    level = 31 * level + stats->now.reserved_bytes + 7 * stats->peak.reserved_bytes +
            l->out->peak_allocated_bytes;
  }
  int rounds = r->rounds, period = plim_rounds_end(r, state, f->next_id);
  f->assumes = !period && plim_rounds_seem_settled(r, level, enough[cycle]);
  if (f->assumes) period = 1;
  sum_up(f, cycle, rounds, period);
  if (cycle == PLIM_CYCLE_STEP) f->rounds[PLIM_CYCLE_PASS] = (plim_rounds){.first = f->next_id};
  return period;
}

static void skip(void *context, plim_cycle cycle, uint64_t times) {
  follower *f = context;
  const plim_observer *o = f->request->observer;
  f->events += times * f->period[cycle].events;
  if (o && o->skips) o->skips(o->context, times * f->period[cycle].events);
  if (f->assumes)
    for (int i = 0; i < f->count; i++) f->devices[i].out->assumes_repetition = true;
  for (int i = 0; i < f->count; i++) f->devices[i].retries += times * f->period[cycle].retries[i];
}

static void pass_on(void *context, uint32_t id, plim_purpose purpose) {
  const plim_observer *o = ((follower *)context)->request->observer;
  if (o && o->repurpose) o->repurpose(o->context, id, purpose);
}

// PyTorch keeps what it has reserved, and its peak returns in every step.
static uint64_t room(void *context) {
  const follower *f = context;
  uint64_t limit = f->request->limit_bytes;
  uint64_t peak = plim_allocator_stats(f->devices[0].allocator)->peak.reserved_bytes;
  return limit == PLIM_UNKNOWN ? PLIM_UNKNOWN : limit > peak ? limit - peak : 0;
}

// ---- the run ----------------------------------------------------------------------------------------

static void note_loaded(const plim_model *m, predict_device *l) {
  l->out->parameters = m->elements;
  l->out->trainable = m->trainable;
  l->out->loaded_bytes = plim_allocator_stats(l->allocator)->now.allocated_bytes;
  const plim_usage *peak = &plim_allocator_stats(l->allocator)->peak;
  l->out->loading_bytes = peak->reserved_bytes;
  l->out->loading_in_use_bytes = peak->allocated_bytes;
  plim_allocator_reset_peaks(l->allocator);
  if (!l->out->runs_out) l->out->peak_allocated_bytes = 0;
}

static void note_end(const follower *f, const plim_model *m, predict_device *l) {
  const plim_allocator_stats_t *stats = plim_allocator_stats(l->allocator);
  l->out->events = f->events;
  l->out->folded_events = plim_fold_events(f->tape);
  l->out->peak_reserved_bytes = stats->peak.reserved_bytes;
  l->out->retries = retries_of(l);
  l->out->ran_math = plim_tape_ran_math(f->tape);
  l->out->host_bytes =
      plim_tape_host_peak(f->tape) + plim_host_bytes(m, f->request->job->recipe.optimizer);
  l->out->step = plim_clock_last_step(f->tape);
}

static bool train(follower *f, plim_model *m) {
  const plim_observer *o = f->request->observer;
  if (o && o->is_loaded) o->is_loaded(o->context, f->tape);
  for (int i = 0; i < f->count; i++) note_loaded(m, &f->devices[i]);
  if (!plim_train(f->tape, m, &f->request->job->recipe) && !all_ran_out(f)) return false;
  for (int i = 0; i < f->count; i++) note_end(f, m, &f->devices[i]);
  for (int i = 0; i < f->count; i++)
    if (plim_allocator_out_of_host_memory(f->devices[i].allocator)) return false;
  return true;
}

static bool run(follower *f) {
  const plim_observer *o = f->request->observer;
  plim_tape_sink sink = {follow, f, pass_on, repeats, skip, loop_replay_inner, loop_replay_again,
                         room};
  f->watches_rounds = !f->request->runs_all && has_many_rounds(f->request->job);
  if (!f->watches_rounds) sink.repeats = NULL;
  if (f->request->runs_all || plim_mini_batches(&f->request->job->recipe) <= MANY_ROUNDS)
    sink.inner_loop = NULL, sink.inner_loop_again = NULL;
  f->tape = plim_tape_new(sink);
  if (!f->tape) return false;
  if (f->folds) plim_tape_fold_loops(f->tape);
  if (f->folds && !f->watches_rounds) plim_tape_replay_passes(f->tape);
  if (f->request->gpu) plim_tape_set_gpu(f->tape, f->request->gpu);
  begin_context(f->request->job, plim_tape_gpu(f->tape), &f->devices[0]);
  if (o && o->begins) o->begins(o->context, f->tape);
  plim_model *m = plim_job_load(f->tape, f->request->job);
  f->trains_nothing = m && !m->trainable && !all_ran_out(f);
  bool ok = !f->trains_nothing && !f->failed && (all_ran_out(f) || (m && train(f, m)));
  f->fold_failed = plim_fold_failed(f->tape);
  plim_model_delete(m);
  plim_tape_delete(f->tape);
  return ok;
}

// ---- devices ----------------------------------------------------------------------------------------

static bool device_open(predict_device *l, const plim_predict_request *request,
                        plim_prediction *out) {
  static const uint64_t streams[PLIM_STREAMS] = {0, 1, 2, 3};
  plim_address_model_init(&l->addresses);
  plim_allocator_options options = {.streams = streams,
                                    .stream_count = PLIM_STREAMS,
                                    .driver = plim_address_model_driver(&l->addresses),
                                    .limit_bytes = request->limit_bytes,
                                    .capacity_bytes = request->limit_is_card ? request->limit_bytes
                                                                             : PLIM_UNKNOWN,
                                    .range_bytes = PLIM_UNKNOWN};
  uint16_t torch = plim_versions_used(&request->job->versions, PLIM_LIBRARY_TORCH);
  plim_block_order_of(plim_release_words(torch).text, &options.order);
  if (request->conf) options.conf = *request->conf;
  else plim_alloc_conf_parse("", &options.conf, NULL);
  *out = (plim_prediction){0};
  l->out = out;
  l->allocator = plim_allocator_new(&options);
  return l->allocator;
}

static plim_err predict_once(follower *f, plim_prediction *out, plim_error *error) {
  plim_job job = plim_job_in_effect(f->request->job);
  plim_predict_request request = *f->request;
  request.job = &job;
  f->request = &request;
  plim_err err = plim_job_check(&job, error);
  if (err) return err;
  f->count = 1;
  bool ok = device_open(&f->devices[0], &request, out) && run(f) && !f->failed;
  for (int i = 0; i < f->count; i++) {
    plim_allocator_delete(f->devices[i].allocator);
    plim_address_model_clear(&f->devices[i].addresses);
  }
  loop_replay_clear(f);
  if (f->trains_nothing) {
    err = plim_fail(
        error, PLIM_ERR_ARGUMENT,
        "the model has none of the layers in --lora-targets, so nothing would be trained");
    plim_error_hint(error, "--lora-targets all-linear");
    return err;
  }
  return ok ? PLIM_OK
            : plim_fail(error, PLIM_ERR_NOMEM, "this machine does not have enough memory");
}

// If a loop that was to be folded turns out to have rounds that differ, everything runs again, round by round.
static plim_err predict(follower *f, plim_prediction *out, plim_error *error) {
  const follower fresh = *f;
  f->folds = !f->request->runs_all && !f->request->observer;
  plim_err err = predict_once(f, out, error);
  if (!f->fold_failed) return err;
  *f = fresh;
  return predict_once(f, out, error);
}

plim_err plim_predict(const plim_predict_request *request, plim_prediction *out,
                      plim_error *error) {
  return predict(&(follower){.request = request}, out, error);
}

plim_err plim_predict_both(const plim_predict_request *request, plim_prediction *limited,
                           plim_prediction *unlimited, plim_error *error) {
  follower f = {.request = request, .unlimited = unlimited};
  plim_err err = predict(&f, limited, error);
  if (f.unlimited) *unlimited = *limited; // the run never came near the limit
  return err;
}
