// Seconds per optimizer step of DeepSpeed's ZeRO and of FSDP2 on an H200, with and without offload to the host
// (timing_offload.json), compared with the clock.
#include <math.h>
#include <string.h>

#include "cases.h"
#include "predict.h"
#include "test.h"

enum { MOST_ROWS = 32, WARM_UP = 2 };

typedef struct {
  const char *id, *model;
  double predicted, measured, fastest, slowest;
  bool is_held_out;
} timing;

typedef struct {
  json_t *models, *file;
  timing at[MOST_ROWS];
  size_t count;
} timings;

// ---- the rows ---------------------------------------------------------------------------------------

// Nothing in the clock was fitted to these.
static const char *const held_out[] = {"z3-all-0.5b-b4",    "z3-all-1.5b-b2-a4",
                                       "z3-all-7b-lora-b1", "z3-all-7b-lora-b4",
                                       "plain-7b-lora-b1",  "plain-1.5b-b2"};

static bool is_held_out(const char *id) {
  for (size_t i = 0; i < sizeof held_out / sizeof *held_out; i++)
    if (strcmp(held_out[i], id) == 0) return true;
  return false;
}

// A step is a list of the seconds of its forward pass, its backward pass and its update.
static void widen(timing *row, const json_t *steps) {
  for (size_t i = WARM_UP; i < json_array_size(steps); i++) {
    const json_t *phases = json_array_get(steps, i);
    double seconds = 0;
    for (size_t k = 0; k < json_array_size(phases); k++)
      seconds += json_number_value(json_array_get(phases, k));
    row->fastest = fmin(row->fastest, seconds);
    row->slowest = fmax(row->slowest, seconds);
  }
}

static timing time_row(const json_t *row, const plim_job *job) {
  double measured = case_number(row, "step_seconds", 0);
  timing r = {.id = case_text(row, "id", "?"),
              .model = case_text(json_object_get(row, "case"), "model", "?"),
              .measured = measured,
              .fastest = measured,
              .slowest = measured};
  plim_prediction p;
  plim_predict_request request = {
      .job = job, .gpu = plim_gpu_named("H200"), .limit_bytes = PLIM_UNKNOWN};
  if (plim_predict(&request, &p, NULL)) test_failed = true;
  r.predicted = p.step.seconds;
  r.is_held_out = is_held_out(r.id);
  widen(&r, json_object_get(row, "phases"));
  printf("  %-26s %.3f s, measured %.3f (%.3f to %.3f): %+.1f %%%s\n", r.id, r.predicted,
         r.measured, r.fastest, r.slowest, 100 * (r.predicted / r.measured - 1),
         r.is_held_out ? ", held out" : "");
  return r;
}

// torch's AdamW on the host under DeepSpeed is not supported by this program, so those rows are skipped.
static void time_all(timings *all) {
  all->models = json_load_file(TEST_ROOT "/truth/models.json", 0, NULL);
  all->file = json_load_file(TEST_ROOT "/truth/timing_offload.json", 0, NULL);
  const json_t *rows = json_object_get(all->file, "rows");
  for (size_t i = 0; i < json_array_size(rows) && all->count < MOST_ROWS; i++) {
    const json_t *row = json_array_get(rows, i), *c = json_object_get(row, "case");
    plim_job job;
    if (case_flag(c, "torch_adam")) continue;
    CHECK(case_job(c, json_object_get(all->models, case_text(c, "model", "")), &job), "%s",
          case_text(row, "id", "?"));
    all->at[all->count++] = time_row(row, &job);
  }
}

static void clear(timings *all) {
  json_decref(all->models);
  json_decref(all->file);
}

// ---- error and order --------------------------------------------------------------------------------

static double error_of(const timing *r) { return fabs(r->predicted / r->measured - 1); }

static double mean_error(const timings *all, bool only_held_out) {
  double sum = 0, count = 0;
  for (size_t i = 0; i < all->count; i++) {
    if (only_held_out && !all->at[i].is_held_out) continue;
    sum += error_of(&all->at[i]);
    count++;
  }
  return sum / count;
}

TEST(steps_with_parts_on_the_host_take_as_long_as_measured) {
  timings all = {0};
  time_all(&all);
  CHECK(all.count == 14, "%zu rows", all.count);
  for (size_t i = 0; i < all.count; i++)
    CHECK(error_of(&all.at[i]) <= 0.25, "%s: %f", all.at[i].id, error_of(&all.at[i]));
  printf("  mean error %.1f %%, of those held out %.1f %%\n", 100 * mean_error(&all, false),
         100 * mean_error(&all, true));
  CHECK(mean_error(&all, false) <= 0.15, "mean error %f", mean_error(&all, false));
  CHECK(mean_error(&all, true) <= 0.15, "of those held out %f", mean_error(&all, true));
  clear(&all);
}

// Compares two ways to train a model if every step of one was faster than every step of the other.
TEST(ways_to_train_a_model_are_in_order) {
  timings all = {0};
  size_t pairs = 0;
  time_all(&all);
  for (size_t i = 0; i < all.count; i++)
    for (size_t k = 0; k < all.count; k++) {
      const timing *a = &all.at[i], *b = &all.at[k];
      if (strcmp(a->model, b->model) != 0 || a->slowest >= b->fastest) continue;
      CHECK(a->predicted < b->predicted, "%s before %s", a->id, b->id);
      pairs++;
    }
  printf("  %zu pairs in order\n", pairs);
  CHECK(pairs >= 25, "%zu pairs", pairs);
  clear(&all);
}

TEST_MAIN
