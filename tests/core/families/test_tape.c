// Compares the tape with PyTorch's recordings: every allocation and every free of a real training, in order and by
// size, and each free of the same allocation. The model is built and trained for two steps.
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "tape_state.h"
#include "test.h"
#include "truth.h"

static const char *const folders[] = {"accelerate",
                                      "adapters",
                                      "bare",
                                      "contrastive",
                                      "decoders",
                                      "encoders",
                                      "experts",
                                      "families",
                                      "flash",
                                      "heads",
                                      "kernels",
                                      "loading",
                                      "more",
                                      "offloading",
                                      "optimizers",
                                      "preferences",
                                      "programs",
                                      "qat",
                                      "quantised_shards",
                                      "saving",
                                      "sharded",
                                      "simulated",
                                      "two_models",
                                      "versions",
                                      "zoo"};

// Recordings that the tape does not support, or not to the last event.
static const test_exception exceptions[] = {
    {"accelerate/accel-llama-efficient", "cpu_ram_efficient_loading, which the tape does not have"},
    {"sharded/zero*", "DeepSpeed's peaks are compared alone, by test_sharded.c"},
};

enum { EXCEPTIONS = sizeof exceptions / sizeof *exceptions };

typedef struct {
  plim_stream_kind kind;
  uint32_t id; // allocations are numbered
  uint64_t bytes;
} stream_event;

typedef vec(stream_event) stream;

static void append(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  stream *s = context;
  if (kind == PLIM_STREAM_EMPTY_CACHE) return;
  if (!vec_push(s, (stream_event){kind, id, bytes})) test_failed = true;
}

// Numbers on which the program of a recording depends in addition to its job.
typedef vec(uint32_t) numbers;

static bool read_numbers(const json_t *list, numbers *out) {
  bool ok = true;
  for (size_t i = 0; ok && i < json_array_size(list); i++)
    ok = vec_push(out, (uint32_t)json_integer_value(json_array_get(list, i)));
  return ok;
}

// The job of a recording. False if it cannot be read.
static bool job_of(const char *name, plim_job *job, numbers *outliers, numbers *lengths) {
  const char *text = truth_json(name);
  json_t *json = text ? json_loads(text, 0, NULL) : NULL;
  bool ok = case_job(json_object_get(json, "case"), json_object_get(json, "config"), job);
  ok = ok && read_numbers(json_object_get(json, "outliers"), outliers);
  ok = ok && read_numbers(json_object_get(json, "mini_batch_lengths"), lengths);
  if (ok) job->recipe.cached_lengths = lengths->at, job->recipe.cached_length_count = lengths->len;
  json_decref(json);
  return ok;
}

// Leaves out the events before the training. A recording that starts behind loading begins with what is there then.
static void forget_loading(stream *s, size_t loaded) {
  uint32_t allocated = 0;
  for (size_t i = 0; i < loaded; i++) allocated += s->at[i].kind == PLIM_STREAM_ALLOC;
  for (size_t i = loaded; i < s->len; i++) {
    s->at[i - loaded] = s->at[i];
    s->at[i - loaded].id -= allocated;
  }
  s->len -= loaded;
}

static size_t first_of(const stream *s, uint64_t bytes) {
  size_t i = 0;
  while (i < s->len && s->at[i].bytes != bytes) i++;
  return i;
}

static bool run_tape(const plim_job *job, const numbers *outliers, bool trains, stream *out) {
  plim_tape *t = plim_tape_new((plim_tape_sink){append, out});
  if (t) case_begin(job, t);
  if (t) plim_state(t)->outliers = outliers->at, plim_state(t)->outlier_count = outliers->len;
  plim_model *m = t ? plim_job_load(t, job) : NULL;
  size_t loaded = out->len;
  bool ok = m && (!trains || plim_train(t, m, &job->recipe));
  if (job->is_torchtune) forget_loading(out, loaded); // scripts/tune.py
  plim_model_delete(m);
  plim_tape_delete(t);
  return ok;
}

static bool recorded(const char *name, stream *out) {
  truth_file file = {0};
  snprintf(file.path, sizeof file.path, TEST_ROOT "/truth/%s.pickle.xz", name);
  plim_trace trace;
  if (!truth_load(&file, &trace)) return false;
  vec(uint32_t) id_of = {0};
  bool ok = vec_reserve(&id_of, trace.block_slots + 1);
  for (size_t i = 0, next = 0; ok && i < trace.events.len; i++) {
    const plim_event *e = &trace.events.at[i];
    bool is_alloc = e->action == PLIM_EV_ALLOC;
    if (!is_alloc && e->action != PLIM_EV_FREE && e->action != PLIM_EV_FREE_REQUESTED) continue;
    if (is_alloc) id_of.at[e->block] = (uint32_t)next++;
    append(out, is_alloc ? PLIM_STREAM_ALLOC : PLIM_STREAM_FREE, id_of.at[e->block], e->bytes);
  }
  vec_free(&id_of);
  plim_trace_clear(&trace);
  return ok;
}

// Whether only the end of the program follows in the recording: frees, and one number per rank if Trainer adds up the
// operations (store_flos). LLaMA-Factory's trainer of pairs logs the averages of up to 12 numbers of the steps.
static bool only_end_follows(const stream *s, size_t from, const plim_job *job) {
  uint64_t logged = plim_method_is_of_factory(job->recipe.method) ? 12 : 1;
  uint64_t most = job->recipe.is_trainer ? 4 * logged * (uint64_t)job->sharding.world : 0;
  for (size_t i = from; i < s->len; i++)
    if (s->at[i].kind == PLIM_STREAM_ALLOC && s->at[i].bytes > most) return false;
  return true;
}

static int by_id(const void *x, const void *y) {
  const stream_event *a = x, *b = y;
  return (a->id > b->id) - (a->id < b->id);
}

// If the tape says that PyTorch's order is that of a hash table, both streams are sorted.
static void sort_unordered(const stream *tape, stream *a, stream *b) {
  for (size_t i = 0, end; i < tape->len; i = end) {
    for (end = i; end < tape->len && tape->at[end].kind == PLIM_STREAM_FREE_UNORDERED; end++) {}
    if (end > i && end <= b->len) {
      qsort(a->at + i, end - i, sizeof *a->at, by_id);
      qsort(b->at + i, end - i, sizeof *b->at, by_id);
    }
    end += end == i;
  }
}

static void remove_free(stream *s, uint32_t id) {
  size_t kept = 0;
  for (size_t i = 0; i < s->len; i++)
    if (s->at[i].kind == PLIM_STREAM_ALLOC || s->at[i].id != id) s->at[kept++] = s->at[i];
  s->len = kept;
}

// Frees whose time depends on another thread are not compared.
static void remove_timed(stream *tape, stream *truth) {
  for (size_t i = tape->len; i-- > 0;) {
    if (tape->at[i].kind != PLIM_STREAM_FREE_TIMED) continue;
    remove_free(truth, tape->at[i].id);
    remove_free(tape, tape->at[i].id);
  }
}

static bool same_event(const stream_event *a, const stream_event *b) {
  bool is_alloc = a->kind == PLIM_STREAM_ALLOC;
  return is_alloc == (b->kind == PLIM_STREAM_ALLOC) && a->id == b->id && a->bytes == b->bytes;
}

static void print_event(const char *who, const stream *s, size_t i) {
  if (i >= s->len) printf(" %s ends", who);
  else
    printf(" %s %s %u of %" PRIu64 " bytes", who,
           s->at[i].kind == PLIM_STREAM_ALLOC ? "alloc" : "free", s->at[i].id, s->at[i].bytes);
}

static int by_bytes(const void *x, const void *y) {
  const stream_event *a = x, *b = y;
  int order = (a->bytes > b->bytes) - (a->bytes < b->bytes);
  return order ? order : (a->kind > b->kind) - (a->kind < b->kind);
}

// Four threads of transformers load a checkpoint to the device in any order, so the events of loading are compared as
// a set.
static bool sort_loading(plim_job job, stream *a, stream *b) {
  if (job.load != PLIM_LOAD_DEVICE_MAP) return true;
  stream loading = {0};
  job.lora.rank = 0;
  job.sharding.strategy = PLIM_SHARD_NONE;
  bool ok = run_tape(&job, &(numbers){0}, false, &loading) && loading.len <= a->len &&
            loading.len <= b->len;
  for (stream *s = a; ok && s; s = s == a ? b : NULL) {
    qsort(s->at, loading.len, sizeof *s->at, by_bytes);
    for (size_t i = 0; i < loading.len; i++) s->at[i].id = 0;
  }
  vec_free(&loading);
  return ok;
}

static bool streams_agree(const char *name) {
  stream tape = {0}, truth = {0};
  numbers outliers = {0}, lengths = {0};
  plim_job job;
  bool ok = job_of(name, &job, &outliers, &lengths) && run_tape(&job, &outliers, true, &tape) &&
            recorded(name, &truth) && sort_loading(job, &tape, &truth);
  size_t i = 0;
  if (ok && job.is_torchtune) forget_loading(&truth, first_of(&truth, tape.at[0].bytes));
  remove_timed(&tape, &truth);
  sort_unordered(&tape, &tape, &truth);
  while (ok && i < tape.len && i < truth.len && same_event(&tape.at[i], &truth.at[i])) i++;
  ok = ok && i == tape.len && only_end_follows(&truth, i, &job);
  if (!ok && !test_is_known(name, exceptions, EXCEPTIONS)) {
    printf("  %s: %zu of %zu events agree; then", name, i, truth.len);
    print_event("recorded", &truth, i);
    print_event("tape", &tape, i);
    printf("\n");
  }
  vec_free(&outliers);
  vec_free(&lengths);
  vec_free(&tape);
  vec_free(&truth);
  return ok;
}

// RECORDINGS=part of a name: only those.
static bool is_asked_for(const char *name) {
  const char *part = getenv("RECORDINGS");
  return !part || strstr(name, part);
}

TEST(streams_are_those_that_pytorch_recorded) {
  truth_files files = truth_list(folders, sizeof folders / sizeof *folders);
  CHECK(files.len >= 200, "%zu recordings", files.len);
  size_t known = 0;
  for (size_t i = 0; i < files.len; i++) {
    const char *name = files.at[i].name;
    if (!is_asked_for(name)) continue;
    known += test_is_known(name, exceptions, EXCEPTIONS);
    test_count_unless(name, streams_agree(name), exceptions, EXCEPTIONS);
  }
  vec_free(&files);
  CHECK(known >= EXCEPTIONS || getenv("RECORDINGS"),
        "exceptions for recordings that are not there: %zu", known);
}

TEST_MAIN
