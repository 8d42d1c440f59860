// Seconds per optimizer step on an H200 with nothing else running (timing.json and timing_more.json) against the
// clock. Steps that wait for the CPU take up to twice as long in one run as in another (timing_again.json holds
// the same steps in other runs), the others vary by a few per cent.
#include <math.h>
#include <string.h>

#include "cases.h"
#include "predict.h"
#include "test.h"

static plim_step_time predict(const plim_job *job, const plim_gpu *gpu) {
  plim_prediction p;
  plim_predict_request request = {.job = job, .gpu = gpu, .limit_bytes = PLIM_UNKNOWN};
  if (plim_predict(&request, &p, NULL)) test_failed = true;
  return p.step;
}

// ---- the rows ---------------------------------------------------------------------------------------

enum { MOST_ROWS = 64 };

typedef struct {
  const char *id;
  double predicted, measured, tokens;
  double fastest, slowest; // of all runs
} timing;

typedef struct {
  json_t *models, *rows, *again;
  timing at[MOST_ROWS];
  size_t count, left_out;
} timings;

static bool job_of(const timings *all, const json_t *c, plim_job *job) {
  return case_job(c, json_object_get(all->models, case_text(c, "model", "")), job);
}

static void widen(timing *row, const json_t *again) {
  size_t i, k;
  json_t *runs, *seconds;
  row->fastest = row->slowest = row->measured;
  json_array_foreach(again, i, runs) {
    if (strcmp(case_text(runs, "id", ""), row->id) != 0) continue;
    json_array_foreach(json_object_get(runs, "step_seconds"), k, seconds) {
      row->fastest = fmin(row->fastest, json_number_value(seconds));
      row->slowest = fmax(row->slowest, json_number_value(seconds));
    }
  }
}

static timing time_row(const json_t *row, const plim_job *job) {
  plim_step_time p = predict(job, plim_gpu_named("H200"));
  timing r = {.id = case_text(row, "id", "?"),
              .predicted = p.seconds,
              .measured = case_number(row, "step_seconds", 0),
              .tokens = (double)job->recipe.batch * (double)job->recipe.length *
                        (job->recipe.accumulate > 1 ? job->recipe.accumulate : 1)};
  printf("  %-42s %.4f s, measured %.4f (%+.1f %%); the card computes for %.4f\n", r.id,
         r.predicted, r.measured, 100 * (r.predicted / r.measured - 1), p.busy_seconds);
  return r;
}

static void time_all(timings *all, const char *name) {
  char path[512];
  snprintf(path, sizeof path, TEST_ROOT "/truth/%s.json", name);
  all->models = json_load_file(TEST_ROOT "/truth/models.json", 0, NULL);
  all->rows = json_load_file(path, 0, NULL);
  all->again = json_load_file(TEST_ROOT "/truth/timing_again.json", 0, NULL);
  if (!all->models || !all->rows || !all->again) test_failed = true;
  for (size_t i = 0; i < json_array_size(all->rows) && all->count < MOST_ROWS; i++) {
    const json_t *row = json_array_get(all->rows, i);
    plim_job job;
    if (case_is(row, "status", "oom")) continue;
    if (!job_of(all, json_object_get(row, "case"), &job)) {
      all->left_out++;
      continue;
    }
    all->at[all->count] = time_row(row, &job);
    widen(&all->at[all->count++], all->again);
  }
}

static void clear(timings *all) {
  json_decref(all->models);
  json_decref(all->rows);
  json_decref(all->again);
}

// ---- error and order --------------------------------------------------------------------------------

static double mean_error(const timings *all) {
  double sum = 0;
  for (size_t i = 0; i < all->count; i++)
    sum += fabs(all->at[i].predicted / all->at[i].measured - 1);
  return sum / (double)all->count;
}

typedef struct {
  size_t pairs, wrong, undecided;
} ranking;

#define CLEARLY 1.01 // two steps that differ by less are equal

// Whether a's time, times `scale`, is clearly the smaller one in every pair of runs.
static bool always_faster(const timing *a, const timing *b, double scale) {
  return scale * a->slowest * CLEARLY < b->fastest;
}

// A scale of 1 orders by seconds; the ratio of their tokens orders by throughput.
static void rank_pair(const timing *a, const timing *b, double scale, ranking *r) {
  bool faster = always_faster(a, b, scale), slower = always_faster(b, a, 1 / scale);
  r->undecided += !faster && !slower;
  if (!faster && !slower) return;
  r->pairs++;
  if (faster ? scale * a->predicted < b->predicted : scale * a->predicted > b->predicted) return;
  r->wrong++;
  printf("  %s takes %.2f times as long as %s for the same work, measured %.2f\n", a->id,
         scale * a->predicted / b->predicted, b->id, scale * a->measured / b->measured);
}

// Ranks all pairs within the same scenario ("p0-...").
static ranking rank_all(const timings *all, bool by_throughput) {
  ranking r = {0};
  for (size_t i = 0; i < all->count; i++)
    for (size_t k = 0; k < i; k++) {
      const timing *a = &all->at[i], *b = &all->at[k];
      if (strncmp(a->id, b->id, 3) == 0)
        rank_pair(a, b, by_throughput ? b->tokens / a->tokens : 1, &r);
    }
  return r;
}

static void check_order(const timings *all) {
  for (int by_throughput = 0; by_throughput <= 1; by_throughput++) {
    ranking r = rank_all(all, by_throughput);
    printf("  by %s: %zu of %zu pairs in order, %zu change places from run to run\n",
           by_throughput ? "throughput" : "seconds", r.pairs - r.wrong, r.pairs, r.undecided);
    CHECK(r.wrong == 0, "%zu of %zu pairs", r.wrong, r.pairs);
    CHECK(r.pairs > 3 * r.undecided, "%zu decided, %zu not", r.pairs, r.undecided);
  }
}

static void check_mean(const timings *all, size_t count) {
  printf("  %zu rows (%zu left out): mean error %.1f %%\n", all->count, all->left_out,
         100 * mean_error(all));
  CHECK(all->count == count && all->left_out == 0, "%zu rows", all->count);
  CHECK(mean_error(all) <= 0.15, "mean error %f", mean_error(all));
}

TEST(step_times_are_those_measured) {
  timings all = {0};
  time_all(&all, "timing");
  check_mean(&all, 23);
  check_order(&all);
  clear(&all);
}

// Models and recipes to which the clock's constants were not fitted; only the common factor of all host times was
// chosen with these runs in view (docs/measurements.md).
TEST(step_times_of_unseen_runs) {
  timings all = {0};
  time_all(&all, "timing_more");
  check_mean(&all, 22);
  check_order(&all);
  clear(&all);
}

// Settings that plans chose and settings near them, measured after the clock was finished: nothing was fitted to them.
// Most have accumulation, and adapters on every layer. There is one run of each, so the order is not checked.
TEST(step_times_of_plans) {
  timings all = {0};
  time_all(&all, "plans");
  check_mean(&all, 28);
  clear(&all);
}

// The script of the first example project, as `apply` edited it. The CPU time of Liger's kernels was fitted to two of
// these three runs.
TEST(step_times_of_the_first_seed) {
  timings all = {0};
  time_all(&all, "applied");
  for (size_t i = 0; i < all.count; i++)
    CHECK(fabs(all.at[i].predicted / all.at[i].measured - 1) <= 0.05, "%s", all.at[i].id);
  CHECK(all.count == 3 && all.left_out == 0, "%zu rows", all.count);
  clear(&all);
}

// A cached loss runs the forward pass twice. Steps that include the tokenizer are not compared.
TEST(step_times_of_contrastive_runs) {
  json_t *rows = json_load_file(TEST_ROOT "/truth/contrastive.json", 0, NULL);
  double error = 0;
  int count = 0;
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i);
    plim_job job;
    if (!json_object_get(row, "step_seconds")) continue;
    if (!case_job(json_object_get(row, "case"), json_object_get(row, "config"), &job)) continue;
    timing r = time_row(row, &job);
    error += fabs(r.predicted / r.measured - 1);
    count++;
  }
  json_decref(rows);
  CHECK(count == 6, "%d rows", count);
  CHECK(error / count <= 0.1, "mean error %f", error / count);
}

// ---- properties that do not depend on measurements --------------------------------------------------

static plim_job small_job(int64_t batch, plim_checkpoint_kind checkpoint) {
  plim_job job = {.dtype = PLIM_BF16,
                  .recipe = {.batch = batch,
                             .length = 1024,
                             .steps = 3,
                             .optimizer = plim_optimizer_named("adamw"),
                             .attention = PLIM_ATTENTION_SDPA,
                             .mask = PLIM_MASK_NONE,
                             .autocast = PLIM_BOOL,
                             .checkpoint = checkpoint}};
  json_t *models = json_load_file(TEST_ROOT "/truth/models.json", 0, NULL);
  json_t *c = json_pack("{s:s}", "model", "qwen2.5-0.5b");
  plim_job with_model;
  if (!case_job(c, json_object_get(models, "qwen2.5-0.5b"), &with_model)) test_failed = true;
  job.model = with_model.model;
  json_decref(c);
  json_decref(models);
  return job;
}

// Six operations for every parameter and token: two in forward, four in backward. Attention adds a little.
TEST(operations_are_those_of_the_textbook) {
  plim_job plain = small_job(1, PLIM_CHECKPOINT_OFF);
  const plim_gpu *h200 = plim_gpu_named("H200");
  double textbook = 6 * 494032768.0 * 1024;
  plim_step_time p = predict(&plain, h200);
  CHECK(p.flops > textbook && p.flops < 1.1 * textbook, "%g of %g", p.flops, textbook);
  CHECK(p.recomputed_flops == 0, "%g", p.recomputed_flops);
  for (int kind = PLIM_CHECKPOINT_ON; kind <= PLIM_CHECKPOINT_REENTRANT; kind++) {
    plim_job again = small_job(1, (plim_checkpoint_kind)kind);
    plim_step_time q = predict(&again, h200);
    CHECK(q.flops == p.flops, "%g of %g", q.flops, p.flops);
    CHECK(q.recomputed_flops > 0.15 * p.flops && q.recomputed_flops < p.flops / 3, "%g",
          q.recomputed_flops);
    CHECK(q.seconds > p.seconds, "%g", q.seconds);
  }
}

// flash-attn gets the bounds of packed samples, none of which is longer than a row; also where the trainer makes one row of the
// whole micro batch.
TEST(packed_samples_attend_within_their_rows) {
  const plim_gpu *h200 = plim_gpu_named("H200");
  plim_job rows = small_job(8, PLIM_CHECKPOINT_OFF);
  rows.recipe.attention = PLIM_ATTENTION_FLASH;
  plim_job packed = rows;
  packed.recipe.mask = PLIM_MASK_PACKED;
  double by_row = predict(&rows, h200).flops, by_sample = predict(&packed, h200).flops;
  CHECK(by_sample == by_row, "%g and %g", by_sample, by_row);
}

TEST(small_steps_wait_for_the_cpu_and_large_ones_do_not) {
  const plim_gpu *h200 = plim_gpu_named("H200");
  plim_job small = small_job(1, PLIM_CHECKPOINT_OFF), large = small_job(16, PLIM_CHECKPOINT_OFF);
  plim_step_time s = predict(&small, h200), l = predict(&large, h200);
  CHECK(s.busy_seconds < 0.5 * s.seconds, "%g of %g", s.busy_seconds, s.seconds);
  CHECK(l.busy_seconds > 0.95 * l.seconds, "%g of %g", l.busy_seconds, l.seconds);
  plim_gpu faster = *h200;
  faster.bandwidth_gbs *= 2, faster.bf16_tflops *= 2, faster.fp32_tflops *= 2;
  plim_step_time s2 = predict(&small, &faster), l2 = predict(&large, &faster);
  CHECK(s2.seconds > 0.95 * s.seconds, "%g of %g", s2.seconds, s.seconds);
  CHECK(l2.seconds < 0.65 * l.seconds, "%g of %g", l2.seconds, l.seconds);
}

// Activations on the host, pinned as transformers' hooks do it: steps that wait for the link (timing_host.json).
TEST(activations_on_the_host_wait_for_the_link) {
  json_t *host = json_load_file(TEST_ROOT "/truth/timing_host.json", 0, NULL), *row;
  size_t i, seen = 0;
  json_array_foreach(json_object_get(host, "activations"), i, row) {
    if (!case_is(row, "activations_on_host", "pinned")) continue;
    plim_job job = small_job(case_integer(row, "batch", 0), PLIM_CHECKPOINT_OFF);
    job.recipe.length = case_integer(row, "seq", 0);
    job.recipe.saving = PLIM_SAVED_ON_HOST;
    double predicted = predict(&job, plim_gpu_named("H200")).seconds;
    double measured = case_number(row, "step_seconds", 0);
    printf("  batch %d of %d: %.3f s, measured %.3f\n", (int)job.recipe.batch,
           (int)job.recipe.length, predicted, measured);
    CHECK(fabs(predicted / measured - 1) < 0.25, "%g of %g", predicted, measured);
    seen++;
  }
  CHECK(seen == 2, "%zu rows", seen);
  json_decref(host);
}

TEST(without_a_card_there_is_no_time) {
  plim_job job = small_job(1, PLIM_CHECKPOINT_OFF);
  CHECK(predict(&job, NULL).seconds == 0, "seconds");
}

TEST_MAIN
