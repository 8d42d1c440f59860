// Full-size training runs, measured: the tape behind the allocator must predict bytes after load,
// peak allocated and peak reserved. The rows of steps.json, seeds.json and timing.json whose model and
// recipe are programs on the tape today; the others are counted and left out.
#include <math.h>

#include "cases.h"
#include "predict.h"
#include "test.h"

static uint64_t limit_of(const json_t *c) {
  double cap = case_number(c, "cap_gb", 0);
  return cap > 0 ? (uint64_t)(cap * (double)PLIM_GIB) : PLIM_UNKNOWN;
}

static plim_prediction predict(const json_t *c, const plim_job *job) {
  plim_prediction p;
  plim_alloc_conf conf;
  if (plim_alloc_conf_parse(case_text(c, "alloc_conf", ""), &conf, NULL)) test_failed = true;
  plim_predict_request request = {.job = job, .conf = &conf, .limit_bytes = limit_of(c)};
  if (plim_predict(&request, &p, NULL)) test_failed = true;
  return p;
}

// ---- all of them ------------------------------------------------------------------------------------

typedef struct {
  size_t rows, left_out, allocated_equal, reserved_equal, exact, verdicts, verdicts_right;
  double worst;
} score;

static double error_percent(uint64_t predicted, int64_t measured) {
  return 100 * fabs((double)predicted - (double)measured) / (double)measured;
}

// A program that runs out of memory ends there, so of those rows only the verdict is compared.
static void judge(const json_t *row, const plim_prediction *p, score *s) {
  bool ran_out = case_is(row, "status", "oom");
  s->verdicts++;
  s->verdicts_right += p->runs_out == ran_out;
  if (p->runs_out != ran_out)
    printf("  %s: %s, measured %s\n", case_text(row, "id", "?"), p->runs_out ? "runs out" : "fits",
           ran_out ? "runs out" : "fits");
  if (ran_out || p->runs_out) return;
  int64_t allocated = case_integer(row, "peak_allocated", 0),
          reserved = case_integer(row, "peak_reserved", 0);
  double off_a = error_percent(p->peak_allocated_bytes, allocated),
         off_r = error_percent(p->peak_reserved_bytes, reserved);
  s->rows++;
  s->allocated_equal += off_a == 0;
  s->reserved_equal += off_r == 0;
  s->exact += (int64_t)p->loaded_bytes == case_integer(row, "loaded_allocated", 0) &&
              (int64_t)p->trainable == case_integer(row, "trainable", 0) &&
              (int64_t)p->parameters == case_integer(row, "params", 0);
  s->worst = fmax(s->worst, fmax(off_a, off_r));
  if (off_a == 0 && off_r == 0) return;
  printf("  %s: allocated %" PRIu64 " measured %" PRIi64 ", reserved %" PRIu64 " measured %" PRIi64
         "\n",
         case_text(row, "id", "?"), p->peak_allocated_bytes, allocated, p->peak_reserved_bytes,
         reserved);
}

static void judge_file(const char *name, int steps, const json_t *models, score *s) {
  char path[512];
  snprintf(path, sizeof path, TEST_ROOT "/truth/%s.json", name);
  json_t *rows = json_load_file(path, 0, NULL);
  if (!rows) test_failed = true;
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i), *c = json_object_get(row, "case");
    const json_t *m = json_object_get(models, case_text(c, "model", ""));
    plim_job job;
    if (!case_job(c, m, &job)) {
      s->left_out++;
      continue;
    }
    if (!json_object_get(c, "steps")) job.recipe.steps = steps;
    plim_prediction p = predict(c, &job);
    judge(row, &p, s);
  }
  json_decref(rows);
}

TEST(full_size_runs_are_predicted_to_the_byte) {
  score s = {0};
  json_t *models = json_load_file(TEST_ROOT "/truth/models.json", 0, NULL);
  CHECK(models, "models.json");
  judge_file("steps", 3, models, &s);
  judge_file("seeds", 3, models, &s);
  judge_file("timing", 5, models, &s);
  json_decref(models);
  printf("  %zu rows (%zu left out): allocated equal in %zu, reserved in %zu, worst error %.4f %%\n"
         "  %zu of %zu verdicts right\n",
         s.rows, s.left_out, s.allocated_equal, s.reserved_equal, s.worst, s.verdicts_right,
         s.verdicts);
  CHECK(s.rows >= 80, "%zu rows", s.rows);
  CHECK(s.verdicts_right == s.verdicts, "%zu of %zu verdicts right", s.verdicts_right, s.verdicts);
  CHECK(s.exact == s.rows, "bytes after load and trained parameters exact in %zu", s.exact);
  CHECK((double)s.allocated_equal >= 0.95 * (double)s.rows, "allocated");
  CHECK((double)s.reserved_equal >= 0.90 * (double)s.rows, "reserved");
  CHECK(s.worst <= 0.3, "worst %f %%", s.worst);
}

TEST_MAIN
