// DeepSpeed's engine with a model from a checkpoint, in a loop and in Trainer (scripts/zero_init.py): loading and the
// creation of the engine event by event, and the memory of training.
#include <string.h>

#include "cases.h"
#include "predict.h"
#include "test.h"
#include "truth.h"

enum {
  SMALLEST = 1024, // bytes; constants of rotary embeddings, here computed on the card, are smaller
  SUM_OF_LOSSES = 512, // of Trainer, allocated when training begins
};

typedef struct {
  bool is_alloc;
  uint64_t bytes;
} stream_event;

typedef vec(stream_event) stream;

typedef struct {
  plim_job job;
  stream loading; // until the engine is created
  bool is_made;
  uint64_t made_bytes, made_reserved_bytes, made_peak_bytes;
  plim_prediction prediction;
} run;

static void append(stream *s, bool is_alloc, uint64_t bytes) {
  if (bytes >= SMALLEST && !vec_push(s, ((stream_event){is_alloc, bytes}))) test_failed = true;
}

// Stages 1 and 2 reset torch's peaks when they empty the cache.
static void resolve(void *context, const plim_tape *t, const plim_allocator *a,
                    plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  run *r = context;
  uint64_t now = plim_allocator_stats(a)->now.allocated_bytes;
  (void)t, (void)id;
  if (r->is_made) return;
  bool resets = kind == PLIM_STREAM_EMPTY_CACHE && r->job.sharding.strategy != PLIM_SHARD_ZERO3;
  if (resets || now > r->made_peak_bytes) r->made_peak_bytes = now;
  r->made_bytes = now;
  r->made_reserved_bytes = plim_allocator_stats(a)->now.reserved_bytes;
  if (kind != PLIM_STREAM_EMPTY_CACHE) append(&r->loading, kind == PLIM_STREAM_ALLOC, bytes);
}

static void note_made(void *context, plim_tape *t) {
  run *r = context;
  (void)t;
  r->is_made = true;
}

static bool run_case(const json_t *row, run *r) {
  if (!case_job(json_object_get(row, "case"), json_object_get(row, "config"), &r->job))
    return false;
  plim_observer around = {.event = resolve, .is_loaded = note_made, .context = r};
  plim_predict_request request = {
      .job = &r->job, .limit_bytes = PLIM_UNKNOWN, .observer = &around, .runs_all = true};
  return plim_predict(&request, &r->prediction, NULL) == PLIM_OK;
}

// ---- loading ----------------------------------------------------------------------------------------

static bool recorded(const truth_file *file, stream *out) {
  plim_trace trace;
  if (!truth_load(file, &trace)) return false;
  for (size_t i = 0; i < trace.events.len; i++) {
    const plim_event *e = &trace.events.at[i];
    bool is_alloc = e->action == PLIM_EV_ALLOC;
    if (is_alloc || e->action == PLIM_EV_FREE || e->action == PLIM_EV_FREE_REQUESTED)
      append(out, is_alloc, e->bytes);
  }
  plim_trace_clear(&trace);
  return true;
}

static bool loads_as_recorded(const truth_file *file, const run *r) {
  stream truth = {0};
  bool ok = recorded(file, &truth);
  size_t i = 0;
  while (ok && i < r->loading.len && i < truth.len &&
         r->loading.at[i].is_alloc == truth.at[i].is_alloc &&
         r->loading.at[i].bytes == truth.at[i].bytes)
    i++;
  ok = ok && i == r->loading.len;
  if (!ok)
    printf("  %s: %zu of %zu events of loading agree; then recorded %" PRIu64
           " bytes, tape %" PRIu64 " bytes\n",
           file->name, i, r->loading.len, i < truth.len ? truth.at[i].bytes : 0,
           i < r->loading.len ? r->loading.at[i].bytes : 0);
  vec_free(&truth);
  return ok;
}

// ---- bytes ------------------------------------------------------------------------------------------

typedef struct {
  size_t rows, loading, made, made_reserved, made_peak, allocated, reserved;
  double worst, worst_reserved;
} score;

static double percent_off(const char *what, const json_t *row, uint64_t predicted,
                          uint64_t measured) {
  double off = 100 * ((double)predicted / (double)measured - 1);
  if (predicted != measured)
    printf("  %s: %s %" PRIu64 ", measured %" PRIu64 " (%+.4f %%)\n", case_text(row, "id", "?"),
           what, predicted, measured, off);
  return off < 0 ? -off : off;
}

static bool is_same(const char *what, const json_t *row, const char *key, uint64_t predicted) {
  return percent_off(what, row, predicted, (uint64_t)case_integer(row, key, 0)) == 0;
}

// The tape's events of ZeRO-3 are not DeepSpeed's one by one: with these settings, blocks of 26 MiB are placed elsewhere.
static const test_exception otherwise_placed[] = {
    {"init-mistral-lora-reentrant", "reserved is 0.84 % higher"},
};

static void judge(const json_t *row, const run *r, score *s) {
  const plim_prediction *p = &r->prediction;
  uint64_t beside = r->job.recipe.is_trainer ? SUM_OF_LOSSES : 0;
  double off = percent_off("allocated", row, p->peak_allocated_bytes,
                           (uint64_t)case_integer(row, "peak_alloc", 0));
  double off_reserved = percent_off("reserved", row, p->peak_reserved_bytes,
                                    (uint64_t)case_integer(row, "peak_reserved", 0));
  s->rows++;
  s->made += is_same("made", row, "made_alloc", r->made_bytes + beside);
  s->made_reserved += is_same("made, reserved", row, "made_reserved", r->made_reserved_bytes);
  s->made_peak += is_same("peak until made", row, "made_peak", r->made_peak_bytes);
  s->allocated += off == 0;
  s->reserved += off_reserved == 0;
  if (off > s->worst) s->worst = off;
  bool is_known = test_is_known(case_text(row, "id", ""), otherwise_placed, 1);
  if (off_reserved > s->worst_reserved && !is_known) s->worst_reserved = off_reserved;
}

static score judge_all(void) {
  score s = {0};
  const char *folder = "zero_init";
  truth_files files = truth_list(&folder, 1);
  for (size_t i = 0; i < files.len; i++) {
    run r = {0};
    json_t *row = json_loads(truth_json(files.at[i].name), 0, NULL);
    if (run_case(row, &r)) judge(row, &r, &s);
    s.loading += loads_as_recorded(&files.at[i], &r);
    vec_free(&r.loading);
    json_decref(row);
  }
  vec_free(&files);
  return s;
}

TEST(zero_with_a_checkpoint_is_predicted) {
  score s = judge_all();
  printf("  %zu rows, equal: loading %zu, made %zu, reserved then %zu, peak until then %zu, "
         "allocated %zu, reserved "
         "%zu\n",
         s.rows, s.loading, s.made, s.made_reserved, s.made_peak, s.allocated, s.reserved);
  CHECK(s.rows >= 31, "%zu rows", s.rows);
  CHECK(s.loading == s.rows, "loading as recorded in %zu", s.loading);
  CHECK(s.made == s.rows && s.made_reserved == s.rows, "made exact in %zu and %zu", s.made,
        s.made_reserved);
  CHECK(s.made_peak == s.rows, "peak until made exact in %zu", s.made_peak);
  CHECK(s.allocated + 4 >= s.rows && s.reserved + 5 >= s.rows, "exact in %zu and %zu", s.allocated,
        s.reserved);
  CHECK(s.worst <= 0.001 && s.worst_reserved <= 0.13, "%f %%, %f %%", s.worst, s.worst_reserved);
}

// ---- whole models -----------------------------------------------------------------------------------

// scripts/timing_offload.py empties the cache when the engine is created.
static void empty_cache(void *context, plim_tape *t) {
  (void)context;
  plim_tape_empty_cache(t);
}

static void judge_whole(const json_t *row, const json_t *models, score *s) {
  const json_t *c = json_object_get(row, "case");
  plim_job job;
  plim_prediction p;
  plim_observer around = {.is_loaded = empty_cache};
  plim_predict_request request = {.job = &job, .limit_bytes = PLIM_UNKNOWN, .observer = &around};
  if (!case_job(c, json_object_get(models, case_text(c, "model", "")), &job)) return;
  if (plim_predict(&request, &p, NULL)) return;
  double off = percent_off("allocated", row, p.peak_allocated_bytes,
                           (uint64_t)case_integer(row, "peak_alloc", 0));
  double off_reserved = percent_off("reserved", row, p.peak_reserved_bytes,
                                    (uint64_t)case_integer(row, "peak_reserved", 0));
  s->rows++;
  s->reserved += off_reserved <= 0.1;
  if (off > s->worst) s->worst = off;
  if (off_reserved > s->worst_reserved) s->worst_reserved = off_reserved;
}

// Nothing was fitted to these runs. Memory that a second stream used is free again when that stream is done, which
// takes long if it waits for the host: three runs need more than predicted.
TEST(whole_models_on_one_gpu_are_predicted) {
  score s = {0};
  json_t *models = json_load_file(TEST_ROOT "/truth/models.json", 0, NULL);
  json_t *rows = json_load_file(TEST_ROOT "/truth/zero_one_gpu.json", 0, NULL);
  for (size_t i = 0; i < json_array_size(rows); i++)
    judge_whole(json_array_get(rows, i), models, &s);
  json_decref(rows);
  json_decref(models);
  CHECK(s.rows == 11 && s.reserved >= 8, "%zu rows, reserved of %zu", s.rows, s.reserved);
  CHECK(s.worst <= 0.03, "worst %f %%", s.worst);
  CHECK(s.worst_reserved <= 4.1, "worst of reserved %f %%", s.worst_reserved);
}

TEST_MAIN
