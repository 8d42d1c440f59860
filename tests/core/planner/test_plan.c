// Compares the planner with measurements: for each card, the pick must be nearly as fast as the best measured choice
// that fits, and must really fit. Also plans the first example project.
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

static bool is_of(const json_t *candidate, const char *scenario) {
  const char *id = case_text(candidate, "id", "");
  size_t n = strlen(scenario);
  return strncmp(id, scenario, n) == 0 && id[n] == '-';
}

static double throughput(const json_t *candidate) {
  const json_t *c = json_object_get(candidate, "case");
  return (double)case_integer(c, "batch", 0) / case_number(candidate, "step_seconds", NAN);
}

static bool fits(const json_t *candidate, uint64_t bytes) {
  int64_t device =
      case_integer(candidate, "peak_reserved", 0) + case_integer(candidate, "context_end", 0);
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

// The measured row of the plan's choice; NULL if it was not measured.
static const json_t *row_of(const json_t *rows, const char *scenario, const plim_choice *choice) {
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *candidate = json_array_get(rows, i), *c = json_object_get(candidate, "case");
    if (is_of(candidate, scenario) &&
        case_integer(c, "batch", 0) == choice->at[PLIM_KNOB_MICRO_BATCH] &&
        case_flag(c, "ckpt") == (choice->at[PLIM_KNOB_CHECKPOINT] != PLIM_CHECKPOINT_OFF))
      return candidate;
  }
  return NULL;
}

// As on the command line: --effective-batch any, and --try with the measured values. If every batch was measured with
// checkpointing on and off, there is one request, else one for each.
enum { OFF = 1, ON = 2, BOTH = OFF | ON };

static plim_plan_request request_of(const json_t *rows, const char *scenario, const json_t *models,
                                    int which) {
  plim_plan_request r = {.world = 1, .margin = -1, .holds_others = true};
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *candidate = json_array_get(rows, i), *c = json_object_get(candidate, "case");
    if (!is_of(candidate, scenario) || !(which & (case_flag(c, "ckpt") ? ON : OFF))) continue;
    if (!case_job(c, json_object_get(models, case_text(c, "model", "")), &r.job))
      test_failed = true;
    push(&r.domains[PLIM_KNOB_MICRO_BATCH], r.job.recipe.batch);
    push(&r.domains[PLIM_KNOB_CHECKPOINT], r.job.recipe.checkpoint);
  }
  plim_domain *batches = &r.domains[PLIM_KNOB_MICRO_BATCH];
  qsort(batches->at, (size_t)batches->count, sizeof *batches->at, by_value);
  return r;
}

static double best_measured(const json_t *rows, const char *scenario, uint64_t bytes) {
  double best = 0;
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *candidate = json_array_get(rows, i);
    if (is_of(candidate, scenario) && fits(candidate, bytes))
      best = fmax(best, throughput(candidate));
  }
  return best;
}

// Whether the plan names a change that would fit, if nothing fits.
static bool is_helped(const plim_plan *plan) {
  for (size_t i = 0; i < plan->concessions.len; i++)
    if (plan->concessions.at[i].fits) return true;
  return false;
}

// The first rung of the plan; an empty one if nothing fits.
static plim_rung pick_of(plim_plan_request r, uint64_t bytes) {
  plim_rung best = {.tokens_per_second = -1};
  plim_plan plan;
  plim_error error = {0};
  r.target = plim_target_size(bytes);
  if (plim_plan_make(&r, &plan, &error)) {
    printf("  %s\n", error.message);
    test_failed = true;
    return best;
  }
  if (plan.rungs.len) best = plan.rungs.at[0];
  else test_failed |= !is_helped(&plan);
  plim_plan_clear(&plan);
  return best;
}

static plim_rung pick(const plim_plan_request *requests, size_t count, uint64_t bytes) {
  plim_rung best = pick_of(requests[0], bytes);
  for (size_t i = 1; i < count; i++) {
    plim_rung other = pick_of(requests[i], bytes);
    if (other.tokens_per_second > best.tokens_per_second) best = other;
  }
  return best;
}

static void judge(const json_t *rows, const char *scenario, const plim_plan_request *requests,
                  size_t count, int gb) {
  uint64_t bytes = (uint64_t)gb * 1000 * 1000 * 1000;
  double best = best_measured(rows, scenario, bytes);
  plim_rung rung = pick(requests, count, bytes);
  const json_t *candidate =
      rung.tokens_per_second > 0 ? row_of(rows, scenario, &rung.choice) : NULL;
  double share = candidate && best > 0 ? throughput(candidate) / best : 0;
  printf("  %s, %d GB: %s, %.1f %% of the best measured\n", scenario, gb,
         candidate ? case_text(candidate, "id", "?") : "nothing fits", 100 * share);
  if (best > 0) CHECK(candidate && share >= 0.97, "%s, %d GB: %.1f %%", scenario, gb, 100 * share);
  CHECK(!candidate || fits(candidate, bytes), "%s, %d GB: the pick did not fit in truth", scenario,
        gb);
}

TEST(picks_are_nearly_the_fastest_that_fit) {
  static const char *const scenarios[] = {"p0", "p1", "p3"};
  bool has_one = false;
  json_t *rows = truth("timing"), *models = truth("models");
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
    plim_plan_request both = request_of(rows, scenarios[i], models, BOTH);
    plim_plan_request each[] = {request_of(rows, scenarios[i], models, OFF),
                                request_of(rows, scenarios[i], models, ON)};
    int measured =
        each[0].domains[PLIM_KNOB_MICRO_BATCH].count + each[1].domains[PLIM_KNOB_MICRO_BATCH].count;
    bool is_whole = measured == 2 * both.domains[PLIM_KNOB_MICRO_BATCH].count;
    for (size_t k = 0; k < sizeof sizes_gb / sizeof *sizes_gb; k++)
      judge(rows, scenarios[i], is_whole ? &both : each, is_whole ? 1 : 2, sizes_gb[k]);
    has_one = has_one || is_whole;
  }
  CHECK(has_one, "a scenario where the plan itself weighs checkpointing");
  json_decref(rows);
  json_decref(models);
}

// ---- choices of plans, measured with the memory of smaller cards ------------------------------------

// The rows of plans.json: rungs of the plans for seven jobs and settings near them, each run in Trainer with the
// memory limit of a card. Here the planner is free: no knob is fixed and no value is given.
static const json_t *measured_as(const json_t *rows, const char *scenario, const plim_rung *x) {
  const int64_t *at = x->choice.at;
  if (x->e.p.host_bytes) return NULL; // none of them used the host
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *candidate = json_array_get(rows, i), *c = json_object_get(candidate, "case");
    bool is_default = !*case_text(c, "alloc_conf", "");
    if (case_is(candidate, "scenario", scenario) &&
        case_integer(c, "batch", 0) == at[PLIM_KNOB_MICRO_BATCH] &&
        case_flag(c, "ckpt") == (at[PLIM_KNOB_CHECKPOINT] != PLIM_CHECKPOINT_OFF) &&
        case_integer(c, "chunk", 0) == at[PLIM_KNOB_CHUNKED_LOSS] &&
        is_default == !at[PLIM_KNOB_ALLOC_CONF])
      return candidate;
  }
  return NULL;
}

static double fastest_of(const json_t *rows, const char *scenario) {
  double best = INFINITY;
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *candidate = json_array_get(rows, i);
    if (case_is(candidate, "scenario", scenario) && case_is(candidate, "status", "ok"))
      best = fmin(best, case_number(candidate, "step_seconds", INFINITY));
  }
  return best;
}

// The original request: 2 sequences at a time, with checkpointing, PyTorch's own loss and default settings.
static plim_plan_request asked_for(const json_t *candidate, const json_t *models) {
  const json_t *c = json_object_get(candidate, "case");
  plim_plan_request r = {.world = 1, .margin = -1};
  r.effective_batch = (uint64_t)(case_integer(c, "batch", 0) * case_integer(c, "accum", 1));
  if (!case_job(c, json_object_get(models, case_text(c, "model", "")), &r.job)) test_failed = true;
  r.job.recipe.batch = 2;
  r.job.recipe.accumulate = (int)r.effective_batch / 2;
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  r.job.recipe.loss = PLIM_LOSS_FULL;
  r.job.recipe.loss_chunk = 0;
  r.target =
      plim_target_size(case_is(candidate, "gpu", "16GiB") ? 16 * PLIM_GIB : 24564 * PLIM_MIB);
  return r;
}

static void judge_plan(const json_t *rows, const json_t *candidate, const json_t *models,
                       size_t *measured) {
  const char *scenario = case_text(candidate, "scenario", "?");
  plim_plan_request r = asked_for(candidate, models);
  plim_plan plan;
  plim_error error = {0};
  CHECK(!plim_plan_make(&r, &plan, &error), "%s: %s", scenario, error.message);
  double best = fastest_of(rows, scenario), before = 0;
  for (size_t i = 0; i < plan.rungs.len; i++) {
    const json_t *m = measured_as(rows, scenario, &plan.rungs.at[i]);
    double seconds = m ? case_number(m, "step_seconds", INFINITY) : NAN;
    CHECK(m || i, "%s: the pick was not measured", scenario);
    if (!m) continue;
    ++*measured;
    CHECK(case_is(m, "status", "ok"), "%s: rung %zu did not fit", scenario, i + 1);
    CHECK(seconds >= 0.97 * before, "%s: rung %zu is faster than the one before", scenario, i + 1);
    if (!i)
      printf("  %s: %s, %.1f %% of the fastest measured\n", scenario, case_text(m, "id", "?"),
             100 * best / seconds);
    CHECK(i || best / seconds >= 0.97, "%s: %.1f %%", scenario, 100 * best / seconds);
    before = seconds;
  }
  plim_plan_clear(&plan);
}

TEST(plans_hold_when_they_are_run) {
  json_t *rows = truth("plans"), *models = truth("models");
  const char *last = "";
  size_t measured = 0, scenarios = 0;
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *candidate = json_array_get(rows, i);
    bool is_next = !case_is(candidate, "scenario", last);
    if (is_next) judge_plan(rows, candidate, models, &measured);
    scenarios += is_next;
    last = case_text(candidate, "scenario", "");
  }
  printf("  %zu scenarios, %zu rungs measured\n", scenarios, measured);
  CHECK(measured >= 2 * scenarios, "%zu rungs measured", measured);
  json_decref(rows);
  json_decref(models);
}

// ---- the first seed ---------------------------------------------------------------------------------

// 7B, LoRA 128, batch 2 x 8, length 2048, on a card of 24,564 MiB, as its authors first wrote it.
TEST(the_first_seed_fits_with_a_chunked_loss) {
  json_t *rows = truth("seeds"), *models = truth("models");
  plim_plan_request r = {.world = 1, .margin = -1, .effective_batch = 16};
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *candidate = json_array_get(rows, i), *c = json_object_get(candidate, "case");
    if (strcmp(case_text(candidate, "id", ""), "seed0-4090-b2s2048-acc8-expandable") == 0)
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
