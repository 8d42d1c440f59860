// The planner against what was measured: for each card, the pick must be nearly as fast as the best
// measured choice that fits, and must fit in truth. And the first seed.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "plan.h"
#include "test.h"

static const int sizes_gb[] = {16, 24, 32, 40, 48, 80, 141};

static json_t *truth(const char *name) {
  char path[512];
  snprintf(path, sizeof path, TEST_ROOT "/truth/%s.json", name);
  json_t *json = json_load_file(path, 0, NULL);
  if (!json) test_failed = true;
  return json;
}

// ---- scenarios of timing.json -----------------------------------------------------------------------

static bool is_of(const json_t *row, const char *scenario) {
  const char *id = case_text(row, "id", "");
  size_t n = strlen(scenario);
  return strncmp(id, scenario, n) == 0 && id[n] == '-';
}

static double throughput(const json_t *row) {
  const json_t *c = json_object_get(row, "case");
  return (double)case_integer(c, "batch", 0) / case_number(row, "step_seconds", NAN);
}

static bool fits(const json_t *row, uint64_t bytes) {
  int64_t device = case_integer(row, "peak_reserved", 0) + case_integer(row, "context_end", 0);
  return device > 0 && (uint64_t)device <= bytes;
}

static void push(plim_domain *d, int64_t value) {
  for (int i = 0; i < d->count; i++)
    if (d->at[i] == value) return;
  d->at[d->count++] = value;
}

static int by_value(const void *x, const void *y) {
  const int64_t *a = x, *b = y;
  return (*a > *b) - (*a < *b);
}

// The measured choice the plan took; NULL if it was not measured.
static const json_t *row_of(const json_t *rows, const char *scenario, const plim_choice *choice) {
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i), *c = json_object_get(row, "case");
    if (is_of(row, scenario) && case_integer(c, "batch", 0) == choice->at[PLIM_KNOB_MICRO_BATCH] &&
        case_flag(c, "ckpt") == (choice->at[PLIM_KNOB_CHECKPOINT] != PLIM_CHECKPOINT_OFF))
      return row;
  }
  return NULL;
}

// What was measured with checkpointing, or without it.
static plim_plan_request request_of(const json_t *rows, const char *scenario, const json_t *models,
                                    bool checkpoint) {
  plim_plan_request r = {.world = 1, .margin = -1};
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i), *c = json_object_get(row, "case");
    if (!is_of(row, scenario) || case_flag(c, "ckpt") != checkpoint) continue;
    if (!case_job(c, json_object_get(models, case_text(c, "model", "")), &r.job))
      test_failed = true;
    push(&r.domains[PLIM_KNOB_MICRO_BATCH], r.job.recipe.batch);
  }
  plim_domain *batches = &r.domains[PLIM_KNOB_MICRO_BATCH];
  qsort(batches->at, (size_t)batches->count, sizeof *batches->at, by_value);
  r.domains[PLIM_KNOB_CHECKPOINT] = (plim_domain){1, {checkpoint}};
  r.domains[PLIM_KNOB_CHUNKED_LOSS] = (plim_domain){1, {0}};
  r.domains[PLIM_KNOB_ALLOC_CONF] = (plim_domain){1, {0}};
  return r;
}

static double best_measured(const json_t *rows, const char *scenario, uint64_t bytes) {
  double best = 0;
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i);
    if (is_of(row, scenario) && fits(row, bytes)) best = fmax(best, throughput(row));
  }
  return best;
}

// The faster of both plans, or one without rungs.
static plim_rung pick(const plim_plan_request *requests, uint64_t bytes) {
  plim_rung best = {.tokens_per_second = -1};
  for (int i = 0; i < 2; i++) {
    plim_plan_request r = requests[i];
    plim_plan plan;
    plim_error error = {0};
    r.target = plim_target_size(bytes);
    plim_err err = plim_plan_make(&r, &plan, &error);
    if (err) printf("  %s\n", error.message), test_failed = true;
    if (err) continue;
    if (plan.rungs.len && plan.rungs.at[0].tokens_per_second > best.tokens_per_second)
      best = plan.rungs.at[0];
    if (!plan.rungs.len) test_failed |= !plan.concessions.len;
    plim_plan_clear(&plan);
  }
  return best;
}

static void judge(const json_t *rows, const char *scenario, const plim_plan_request *requests,
                  int gb) {
  uint64_t bytes = (uint64_t)gb * 1000 * 1000 * 1000;
  double best = best_measured(rows, scenario, bytes);
  plim_rung rung = pick(requests, bytes);
  const json_t *row = rung.tokens_per_second > 0 ? row_of(rows, scenario, &rung.choice) : NULL;
  double share = row && best > 0 ? throughput(row) / best : 0;
  printf("  %s, %d GB: %s, %.1f %% of the best measured\n", scenario, gb,
         row ? case_text(row, "id", "?") : "nothing fits", 100 * share);
  if (best > 0) CHECK(row && share >= 0.97, "%s, %d GB: %.1f %%", scenario, gb, 100 * share);
  CHECK(!row || fits(row, bytes), "%s, %d GB: the pick did not fit in truth", scenario, gb);
}

TEST(picks_are_nearly_the_fastest_that_fit) {
  static const char *const scenarios[] = {"p0", "p1", "p3"};
  json_t *rows = truth("timing"), *models = truth("models");
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
    plim_plan_request requests[] = {request_of(rows, scenarios[i], models, false),
                                    request_of(rows, scenarios[i], models, true)};
    for (size_t k = 0; k < sizeof sizes_gb / sizeof *sizes_gb; k++)
      judge(rows, scenarios[i], requests, sizes_gb[k]);
  }
  json_decref(rows);
  json_decref(models);
}

// ---- the first seed ---------------------------------------------------------------------------------

// 7B, LoRA 128, batch 2 x 8, length 2048, on a card of 24,564 MiB, as its authors first wrote it.
TEST(the_first_seed_fits_with_a_chunked_loss) {
  json_t *rows = truth("seeds"), *models = truth("models");
  plim_plan_request r = {.world = 1, .margin = -1, .effective_batch = 16};
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i), *c = json_object_get(row, "case");
    if (strcmp(case_text(row, "id", ""), "seed0-4090-b2s2048-acc8-expandable") == 0)
      CHECK(case_job(c, json_object_get(models, case_text(c, "model", "")), &r.job), "the seed");
  }
  r.target = plim_target_size(24564 * PLIM_MIB);
  plim_plan plan;
  plim_error error = {0};
  CHECK(!plim_plan_make(&r, &plan, &error), "%s", error.message);
  CHECK(!plan.before.fits, "as it was written it runs out");
  CHECK(plan.rungs.len > 0, "something fits");
  const plim_choice *c = &plan.rungs.at[0].choice;
  CHECK(c->at[PLIM_KNOB_SEQUENCE] == 2048 && c->at[PLIM_KNOB_LORA_RANK] == 128, "as it was");
  CHECK(c->at[PLIM_KNOB_MICRO_BATCH] == 2 && c->at[PLIM_KNOB_ACCUMULATE] == 8, "batch %d x %d",
        (int)c->at[PLIM_KNOB_MICRO_BATCH], (int)c->at[PLIM_KNOB_ACCUMULATE]);
  CHECK(c->at[PLIM_KNOB_CHUNKED_LOSS] > 0, "the loss in chunks");
  CHECK(c->at[PLIM_KNOB_ALLOC_CONF] == 1, "expandable segments");
  plim_plan_clear(&plan);
  json_decref(rows);
  json_decref(models);
}

TEST_MAIN
