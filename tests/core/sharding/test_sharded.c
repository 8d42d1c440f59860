// One rank of training on several GPUs, measured: bytes after load, peak allocated, peak reserved.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cases.h"
#include "predict.h"
#include "shared_job.h"
#include "test.h"
#include "truth.h"

static void begin(void *context, plim_tape *t) { case_begin(context, t); }

// The measuring program (scripts/dist.py) empties the cache when the model is wrapped; accelerate does not.
static void empty_cache(void *context, plim_tape *t) {
  const plim_job *job = context;
  if (!job->sharding.is_by_accelerate) plim_tape_empty_cache(t);
}

static plim_prediction predict(plim_job *job) {
  plim_prediction p;
  plim_observer around = {.begins = begin, .is_loaded = empty_cache, .context = job};
  plim_predict_request request = {.job = job, .limit_bytes = PLIM_UNKNOWN, .observer = &around};
  if (plim_predict(&request, &p, NULL)) test_failed = true;
  return p;
}

typedef struct {
  size_t rows, left_out, loaded_equal, allocated_equal, reserved_equal;
  size_t loaded_rows; // rows that contain the bytes after loading
  size_t of_loading;  // rows whose measured peak is not in training
  size_t short_of;    // rows for which less was predicted than needed
  double sum, worst, worst_reserved;
} score;

static double error_percent(uint64_t predicted, int64_t measured) {
  return 100 * fabs((double)predicted - (double)measured) / (double)measured;
}

// Whether the model is built on the card as a whole and then sharded: its peak is that of loading, which a prediction
// of training does not contain. The reserved memory stays and is compared.
static bool peaks_while_loading(const json_t *row) {
  return case_is(row, "id", "accel-llama-offload") || case_is(row, "id", "accel-mistral-w8");
}

static void judge(const json_t *row, const plim_prediction *p, score *s) {
  int64_t loaded = case_integer(row, "loaded_alloc", (int64_t)p->loaded_bytes),
          allocated = case_integer(row, "peak_alloc", 0),
          reserved = case_integer(row, "peak_reserved", 0);
  double off = error_percent(p->peak_allocated_bytes, allocated),
         off_reserved = error_percent(p->peak_reserved_bytes, reserved);
  s->rows++;
  s->loaded_rows += json_object_get(row, "loaded_alloc") != NULL;
  s->of_loading += peaks_while_loading(row);
  if (peaks_while_loading(row)) off = (int64_t)p->peak_allocated_bytes > allocated;
  s->loaded_equal += (int64_t)p->loaded_bytes == loaded;
  s->allocated_equal += (int64_t)p->peak_allocated_bytes == allocated;
  s->reserved_equal += (int64_t)p->peak_reserved_bytes == reserved;
  s->short_of += (int64_t)p->peak_allocated_bytes < allocated;
  s->short_of += (int64_t)p->peak_reserved_bytes < reserved;
  s->sum += off;
  s->worst = fmax(s->worst, off);
  s->worst_reserved = fmax(s->worst_reserved, off_reserved);
  if (off == 0 && off_reserved == 0 && (int64_t)p->loaded_bytes == loaded) return;
  printf("  %s: loaded %" PRIu64 " measured %" PRIi64 ", allocated %" PRIu64 " measured %" PRIi64
         " (%.4f %%), reserved %" PRIu64 " measured %" PRIi64 " (%.4f %%)\n",
         case_text(row, "id", "?"), p->loaded_bytes, loaded, p->peak_allocated_bytes, allocated,
         off, p->peak_reserved_bytes, reserved, off_reserved);
}

static void judge_row(const json_t *row, const json_t *config, score *s) {
  const json_t *c = json_object_get(row, "case");
  plim_job job;
  if (!case_job(c, config, &job)) {
    printf("  %s: left out\n", case_text(row, "id", "?"));
    s->left_out++;
    return;
  }
  plim_prediction p = predict(&job);
  judge(row, &p, s);
}

static void judge_file(const char *name, const json_t *models, score *s) {
  char path[512];
  snprintf(path, sizeof path, TEST_ROOT "/truth/%s.json", name);
  json_t *rows = json_load_file(path, 0, NULL);
  if (!rows) test_failed = true;
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i);
    const char *model = case_text(json_object_get(row, "case"), "model", "");
    judge_row(row, json_object_get(models, model), s);
  }
  json_decref(rows);
}

static void print_score(const score *s) {
  printf("  %zu rows (%zu left out): loaded equal in %zu, allocated in %zu, reserved in %zu\n"
         "  mean error %.4f %%, worst %.4f %%, worst of reserved %.4f %%\n",
         s->rows, s->left_out, s->loaded_equal, s->allocated_equal, s->reserved_equal,
         s->sum / (double)(s->rows ? s->rows : 1), s->worst, s->worst_reserved);
}

static score judge_recordings_of(const char *folder, const char *prefix) {
  score s = {0};
  truth_files files = truth_list(&folder, 1);
  for (size_t i = 0; i < files.len; i++) {
    if (strncmp(files.at[i].name + strlen(folder) + 1, prefix, strlen(prefix)) != 0) continue;
    json_t *row = json_loads(truth_json(files.at[i].name), 0, NULL);
    judge_row(row, json_object_get(row, "config"), &s);
    json_decref(row);
  }
  vec_free(&files);
  print_score(&s);
  return s;
}

static score judge_recordings(const char *prefix) { return judge_recordings_of("sharded", prefix); }

// Segment addresses come from the driver model, not from the recording, which matters for uneven shards.
TEST(fsdp_of_small_models_is_predicted) {
  score s = judge_recordings("fsdp");
  CHECK(s.rows >= 21 && s.left_out == 0, "%zu rows", s.rows);
  CHECK(s.loaded_equal + 1 >= s.rows, "bytes after load exact in %zu", s.loaded_equal);
  CHECK(s.allocated_equal + 1 >= s.rows, "allocated exact in %zu", s.allocated_equal);
  CHECK(s.worst <= 0.2 && s.worst_reserved <= 0.5, "%f %%, %f %%", s.worst, s.worst_reserved);
}

// In one case (trainer-mistral-ckpt), blocks that are split elsewhere make a difference of 1 MiB.
TEST(accelerates_fsdp_of_small_models_is_predicted) {
  score s = judge_recordings_of("accelerate", "");
  CHECK(s.rows >= 24 && s.left_out == 0, "%zu rows", s.rows);
  CHECK(s.loaded_equal == s.rows && s.loaded_rows >= 17, "bytes after load exact in %zu of %zu",
        s.loaded_equal - (s.rows - s.loaded_rows), s.loaded_rows);
  CHECK(s.of_loading == 2, "%zu peaks of loading", s.of_loading);
  CHECK(s.allocated_equal + s.of_loading + 1 >= s.rows, "allocated exact in %zu",
        s.allocated_equal);
  CHECK(s.worst <= 0.03, "worst %f %%", s.worst);
  CHECK(s.reserved_equal == s.rows, "reserved exact in %zu", s.reserved_equal);
}

// The layers gather their parameters and reduce their gradients one by one also where a reentrant checkpoint runs them.
// torch 2.11 on 8 simulated ranks: 2.57 GiB with reentrant checkpoints, 2.56 GiB with others.
TEST(reentrant_checkpoints_under_fsdp2_need_no_more_than_others) {
  plim_job job = shared_job("llama-3.2-1b", 512, PLIM_SHARD_FSDP2, 8);
  uint64_t peaks[2];
  for (int i = 0; i < 2; i++) {
    job.recipe.checkpoint = i ? PLIM_CHECKPOINT_REENTRANT : PLIM_CHECKPOINT_ON;
    peaks[i] = predict_on(&job, "H200").peak_allocated_bytes;
  }
  CHECK(peaks[1] < peaks[0] + peaks[0] / 50, "reentrant %" PRIu64 ", others %" PRIu64, peaks[1],
        peaks[0]);
}

TEST(zero_1_and_2_of_small_models_are_predicted) {
  for (int stage = 1; stage <= 2; stage++) {
    score s = judge_recordings(stage == 1 ? "zero1" : "zero2");
    CHECK(s.rows >= 4 && s.left_out == 0, "%zu rows", s.rows);
    CHECK(s.loaded_equal == s.rows, "bytes after load exact in %zu", s.loaded_equal);
    CHECK(s.allocated_equal == s.rows, "allocated exact in %zu", s.allocated_equal);
    CHECK(s.worst_reserved <= 0.1, "%f %%", s.worst_reserved);
  }
}

TEST(zero_3_of_small_models_is_predicted) {
  score s = judge_recordings("zero3");
  CHECK(s.rows >= 5 && s.left_out == 0, "%zu rows", s.rows);
  CHECK(s.loaded_equal == s.rows, "bytes after load exact in %zu", s.loaded_equal);
  CHECK(s.worst <= 0.04 && s.worst_reserved <= 0.05, "%f %%, %f %%", s.worst, s.worst_reserved);
}

// NCCL keeps the bucket of the first backward pass for some milliseconds (src/core/sharding/ddp.c). In recordings of
// very short steps it may live longer than assumed; in full-size steps it did not.
TEST(ddp_of_small_models_is_loaded_as_predicted) {
  score s = judge_recordings("ddp");
  CHECK(s.rows >= 11 && s.left_out == 0, "%zu rows", s.rows);
  CHECK(s.loaded_equal == s.rows, "bytes after load exact in %zu", s.loaded_equal);
}

TEST(ddp_needs_no_more_than_predicted) {
  score s = {0};
  json_t *models = json_load_file(TEST_ROOT "/truth/models.json", 0, NULL);
  CHECK(models, "models.json");
  judge_file("sharded_ddp", models, &s);
  json_decref(models);
  print_score(&s);
  CHECK(s.rows == 5 && s.left_out == 0, "%zu rows", s.rows);
  CHECK(s.loaded_equal == s.rows, "bytes after load exact in %zu", s.loaded_equal);
  CHECK(s.allocated_equal >= 3 && s.reserved_equal >= 3, "exact in %zu and %zu", s.allocated_equal,
        s.reserved_equal);
  CHECK(s.short_of == 0, "%zu rows need more", s.short_of);
}

TEST(one_rank_is_predicted) {
  score s = {0};
  json_t *models = json_load_file(TEST_ROOT "/truth/models.json", 0, NULL);
  CHECK(models, "models.json");
  judge_file("sharded", models, &s);
  judge_file("sharded_more", models, &s);
  json_decref(models);
  print_score(&s);
  CHECK(s.rows >= 15 && s.left_out == 0, "%zu rows", s.rows);
  CHECK(s.loaded_equal + 1 >= s.rows, "bytes after load exact in %zu", s.loaded_equal);
  CHECK(s.allocated_equal + 1 >= s.rows, "allocated exact in %zu", s.allocated_equal);
  CHECK(s.worst <= 0.01, "worst %f %%", s.worst);
  CHECK(s.worst_reserved <= 0.3, "worst of reserved %f %%", s.worst_reserved);
}

TEST_MAIN
