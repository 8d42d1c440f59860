// The order of plans: a larger card never gets a slower plan, and neither does a request with more free knobs.
#include <math.h>
#include <string.h>

#include "catalogue.h"
#include "families.h"
#include "plan.h"
#include "test.h"

typedef struct {
  const char *family, *model;
  int world, accumulate;
  int64_t batch, length, rank;
} job_case;

// A quarter of the layers and four times the length: the activations of the whole model in a quarter of the time.
enum { PART = 4 };

static const job_case cases[] = {
    {"qwen2", "qwen2.5-0.5b", 1, 4, 8, PART * 1024, 0},
    {"qwen2", "qwen2.5-0.5b", 8, 2, 8, PART * 2048, 0},
    {"qwen2", "qwen2.5-7b", 8, 4, 4, PART * 4096, 64},
};
enum { CASES = sizeof cases / sizeof *cases, FEW = 2 };

static plim_plan_request request(const job_case *c) {
  plim_plan_request r = {.world = c->world, .margin = -1};
  r.job = (plim_job){.dtype = PLIM_BF16, .load = PLIM_LOAD_INIT};
  plim_config_init(&r.job.model, c->family, NULL);
  if (plim_catalogue_config(plim_catalogue_named(c->model), &r.job.model, NULL)) test_failed = true;
  r.job.model.layers /= PART;
  r.job.recipe = (plim_recipe){.batch = c->batch,
                               .length = c->length,
                               .steps = 3,
                               .accumulate = c->accumulate,
                               .checkpoint = PLIM_CHECKPOINT_ON,
                               .optimizer = plim_optimizer_named("adamw")};
  r.job.lora = (plim_lora){.rank = c->rank, .targets = PLIM_ALL_LINEAR};
  if (c->world > 1) r.job.sharding = (plim_sharding){.strategy = PLIM_SHARD_DDP, .world = c->world};
  r.effective_batch = (uint64_t)(c->batch * c->accumulate * c->world);
  r.domains[PLIM_KNOB_LIGER] =
      (plim_domain){1, {0}}; // a manual loss is not searched, only mentioned
  return r;
}

typedef struct {
  double speed; // tokens per second of the pick; 0: nothing fits
  double known; // tokens per second of the fastest that the plan mentions
  bool goes_to_host, concedes;
} answer;

static answer answer_of(const plim_plan_request *r) {
  plim_plan plan;
  plim_error error = {0};
  answer a = {0};
  if (plim_plan_make(r, &plan, &error)) {
    printf("  %s\n", error.message);
    return a;
  }
  if (plan.rungs.len) {
    a.speed = a.known = plan.rungs.at[0].tokens_per_second;
    a.goes_to_host = plan.rungs.at[0].e.p.host_bytes > 0;
    a.concedes = plan.concedes;
  }
  if (plan.rungs.len && plan.passed) a.known = fmax(a.speed, plan.faster.tokens_per_second);
  plim_plan_clear(&plan);
  return a;
}

#define SAME_TIME 0.01 // the accuracy of the clock

// Whether the request with more freedom knows nothing slower, and picks nothing slower unless it mentions a faster one.
static bool is_no_slower(answer more, answer less) {
  bool is_known = more.known >= (1 - SAME_TIME) * less.known;
  bool is_picked = more.speed >= (1 - SAME_TIME) * less.speed;
  return is_known && (is_picked || more.known > more.speed);
}

#define CHECK_NO_SLOWER(more, less, ...)                                                           \
  do {                                                                                             \
    answer more_ = (more), less_ = (less);                                                         \
    char what_[96];                                                                                \
    snprintf(what_, sizeof what_, __VA_ARGS__);                                                    \
    CHECK(is_no_slower(more_, less_), "%s: %.0f (%.0f), less than %.0f (%.0f)", what_,             \
          more_.speed, more_.known, less_.speed, less_.known);                                     \
  } while (0)

TEST(a_larger_card_is_never_slower) {
  static const uint64_t cards[] = {16, 24, 32, 141};
  for (int i = 0; i < CASES; i++) {
    plim_plan_request r = request(&cases[i]);
    answer before = {0};
    for (size_t k = 0; k < sizeof cards / sizeof *cards; k++) {
      r.target = plim_target_size(cards[k] * PLIM_GIB);
      answer now = answer_of(&r);
      printf("  case %d, %d GiB: %.0f tokens per second, %.0f known%s\n", i, (int)cards[k],
             now.speed, now.known, now.goes_to_host ? ", on the host" : "");
      CHECK_NO_SLOWER(now, before, "case %d, %d GiB", i, (int)cards[k]);
      before = now;
    }
  }
}

TEST(a_smaller_margin_is_never_slower) {
  static const double margins[] = {0.2, 0.1, 0};
  for (int i = 0; i < FEW; i++) {
    plim_plan_request r = request(&cases[i]);
    answer before = {0};
    r.target = plim_target_size(24 * PLIM_GIB);
    for (size_t k = 0; k < sizeof margins / sizeof *margins; k++) {
      r.margin = margins[k];
      answer now = answer_of(&r);
      CHECK_NO_SLOWER(now, before, "case %d, margin %.2f", i, margins[k]);
      before = now;
    }
  }
}

TEST(free_knobs_are_never_slower_than_fixed_ones) {
  static const struct {
    plim_knob knob;
    int64_t value;
  } fixed[] = {{PLIM_KNOB_STRATEGY, PLIM_SHARD_FSDP2},
               {PLIM_KNOB_STRATEGY, PLIM_SHARD_ZERO3},
               {PLIM_KNOB_CHECKPOINT, PLIM_CHECKPOINT_ON},
               {PLIM_KNOB_CHUNKED_LOSS, 512},
               {PLIM_KNOB_ALLOC_CONF, 0},
               {PLIM_KNOB_MICRO_BATCH, 2}};
  static const uint64_t cards[] = {16, 32};
  for (int i = 0; i < FEW; i++)
    for (int k = 0; k < 2; k++) {
      plim_plan_request r = request(&cases[i]);
      r.target = plim_target_size(cards[k] * PLIM_GIB);
      answer is_free = answer_of(&r);
      for (size_t f = 0; f < sizeof fixed / sizeof *fixed; f++) {
        plim_plan_request held = r;
        held.domains[fixed[f].knob] = (plim_domain){1, {fixed[f].value}};
        CHECK_NO_SLOWER(is_free, answer_of(&held), "case %d, %d GiB, %s=%d", i, (int)cards[k],
                        plim_knob_table[fixed[f].knob].name, (int)fixed[f].value);
      }
    }
}

// Concessions that are allowed are not made if they gain nothing.
TEST(allowed_concessions_are_never_slower) {
  static const plim_knob allowed[] = {PLIM_KNOB_OPTIMIZER, PLIM_KNOB_SEQUENCE, PLIM_KNOB_LORA_RANK,
                                      PLIM_KNOB_QUANTISATION};
  static const uint64_t cards[] = {8, 16, 24};
  for (int i = 0; i < FEW; i++)
    for (int k = 0; k < 3; k++) {
      plim_plan_request r = request(&cases[i]);
      r.target = plim_target_size(cards[k] * PLIM_GIB);
      answer strict = answer_of(&r);
      for (int a = 0; a < 4; a++) r.allowed[allowed[a]] = true;
      answer all = answer_of(&r);
      CHECK_NO_SLOWER(all, strict, "case %d, %d GiB, all allowed", i, (int)cards[k]);
      CHECK(!all.concedes || !strict.speed || strict.goes_to_host, "case %d, %d GiB: needless", i,
            (int)cards[k]);
    }
}

// A free batch is not slower than a fixed one.
TEST(a_free_batch_is_never_slower) {
  for (int i = 0; i < FEW; i++) {
    plim_plan_request r = request(&cases[i]);
    r.target = plim_target_size(24 * PLIM_GIB);
    answer held = answer_of(&r);
    r.effective_batch = 0;
    answer any = answer_of(&r);
    CHECK(any.speed >= 0.998 * held.speed, "case %d: %.0f, held %.0f", i, any.speed, held.speed);
  }
}

// A free batch finds what fixed micro batches find.
TEST(a_free_batch_finds_what_fixed_ones_find) {
  static const uint64_t cards[] = {16, 24};
  for (int k = 0; k < FEW; k++) {
    plim_plan_request r = request(&cases[0]);
    r.effective_batch = 0;
    r.target = plim_target_size(cards[k] * PLIM_GIB);
    answer any = answer_of(&r);
    for (int64_t batch = 8; batch <= 32; batch *= 4) {
      plim_plan_request held = r;
      held.domains[PLIM_KNOB_MICRO_BATCH] = (plim_domain){1, {batch}};
      held.domains[PLIM_KNOB_CHECKPOINT] = (plim_domain){1, {PLIM_CHECKPOINT_ON}};
      CHECK_NO_SLOWER(any, answer_of(&held), "%d GiB, %d at once", (int)cards[k], (int)batch);
    }
  }
}

// No plan with fixed knobs is better than a rung in both memory and time.
TEST(no_rung_is_beaten) {
  for (int i = 0; i < FEW; i++) {
    plim_plan_request r = request(&cases[i]);
    plim_plan plan, other;
    r.target = plim_target_size(24 * PLIM_GIB);
    CHECK(!plim_plan_make(&r, &plan, NULL) && plan.rungs.len > 1, "case %d: a ladder", i);
    for (int64_t batch = 1; batch <= 4; batch *= 4) {
      plim_plan_request held = r;
      held.domains[PLIM_KNOB_MICRO_BATCH] = (plim_domain){1, {batch}};
      const plim_rung *last = &plan.rungs.at[plan.rungs.len - 1];
      held.domains[PLIM_KNOB_STRATEGY] = (plim_domain){1, {last->choice.at[PLIM_KNOB_STRATEGY]}};
      held.domains[PLIM_KNOB_OFFLOAD] = (plim_domain){1, {last->choice.at[PLIM_KNOB_OFFLOAD]}};
      CHECK(!plim_plan_make(&held, &other, NULL), "case %d: another", i);
      for (size_t n = 0; n < other.rungs.len; n++) {
        const plim_rung *x = &other.rungs.at[n];
        bool is_beaten = x->e.device_bytes < last->e.device_bytes &&
                         x->tokens_per_second > 1.1 * last->tokens_per_second;
        CHECK(!is_beaten,
              "case %d, %d at once: %.0f tokens per second in %.2f GiB, the last rung %.0f in %.2f",
              i, (int)batch, x->tokens_per_second, (double)x->e.device_bytes / PLIM_GIB,
              last->tokens_per_second, (double)last->e.device_bytes / PLIM_GIB);
      }
      plim_plan_clear(&other);
    }
    plim_plan_clear(&plan);
  }
}

// Rungs are ordered from the fastest on, each needs less memory, and there is at least one fallback.
TEST(each_rung_needs_less_memory) {
  static const uint64_t cards[] = {16, 24, 80};
  for (int i = 0; i < FEW; i++)
    for (int k = 0; k < 3; k++) {
      plim_plan_request r = request(&cases[i]);
      plim_plan plan;
      r.target = plim_target_size(cards[k] * PLIM_GIB);
      CHECK(!plim_plan_make(&r, &plan, NULL) && plan.rungs.len > 1, "case %d, %d GiB: %zu rungs", i,
            (int)cards[k], plan.rungs.len);
      for (size_t n = 1; n < plan.rungs.len; n++) {
        const plim_rung *above = &plan.rungs.at[n - 1], *x = &plan.rungs.at[n];
        CHECK(x->e.device_bytes < above->e.device_bytes, "rung %zu is larger", n + 1);
        CHECK(x->tokens_per_second <= (1 + SAME_TIME) * above->tokens_per_second,
              "case %d, %d GiB: rung %zu is faster: %.0f, above %.0f", i, (int)cards[k], n + 1,
              x->tokens_per_second, above->tokens_per_second);
      }
      plim_plan_clear(&plan);
    }
}

// If nothing fits, every offer needs less than the smallest choice, also while a model is loaded that is sharded on
// the card. The peak of training does not show that.
TEST(offers_need_less_than_the_smallest_choice) {
  static const uint64_t cards[] = {3, 5};
  for (int i = 0; i < 2; i++) {
    plim_plan_request r = request(&cases[2]);
    plim_plan plan;
    r.target = plim_target_size(cards[i] * PLIM_GIB);
    r.job.lora.rank = 0;
    r.job.load = PLIM_LOAD_DEVICE_MAP;
    CHECK(!plim_plan_make(&r, &plan, NULL) && !plan.rungs.len, "nothing fits");
    uint64_t needed = plim_needed_bytes(&plan.smallest.e);
    CHECK(needed > r.target.budget_bytes, "%.1f GiB", (double)needed / PLIM_GIB);
    for (size_t k = 0; k < plan.concessions.len; k++)
      CHECK(plan.concessions.at[k].device_bytes < needed && plan.concessions.at[k].saves_bytes > 0,
            "%s: %.1f GiB, without %.1f", plim_knob_table[plan.concessions.at[k].knob[0]].name,
            (double)plan.concessions.at[k].device_bytes / PLIM_GIB, (double)needed / PLIM_GIB);
    plim_plan_clear(&plan);
  }
}

// A loss that has no logits in training and all of them in evaluation, as Liger's.
static uint64_t all_logits(const void *of, const plim_job *job, const plim_estimate *e) {
  const double *gib = of;
  uint64_t bytes = (uint64_t)(*gib * PLIM_GIB) * (uint64_t)job->recipe.batch;
  if (job->recipe.loss != PLIM_LOSS_FUSED) return 0;
  return bytes > plim_needed_bytes(e) ? bytes : 0;
}

static uint64_t in_all(const plim_rung *x) {
  uint64_t needed = plim_needed_bytes(&x->e);
  return x->evaluation_bytes > needed ? x->evaluation_bytes : needed;
}

// Where the training of a fallback needs less, but its evaluation more than the row above needs in all, it is none. The first
// row stays what it is.
TEST(no_fallback_needs_more_in_evaluation_than_the_row_above) {
  static const double gib = 2;
  plim_plan_request r = request(&cases[0]);
  plim_plan without, with;
  size_t more = 0, marked = 0;
  r.domains[PLIM_KNOB_LIGER] = (plim_domain){0};
  r.offers_liger = true;
  r.target = plim_target_size(24 * PLIM_GIB);
  CHECK(!plim_plan_make(&r, &without, NULL) && without.rungs.len > 1, "fallbacks");
  r.evaluation_bytes = all_logits;
  r.evaluation_of = &gib;
  CHECK(!plim_plan_make(&r, &with, NULL) && with.rungs.len > 1, "fallbacks");
  for (size_t i = 0; i < without.rungs.len; i++) {
    plim_rung *x = &without.rungs.at[i];
    plim_job job = plim_choice_job(&r, &x->choice);
    CHECK(!x->evaluation_bytes, "nothing is known of evaluation");
    x->evaluation_bytes = all_logits(&gib, &job, &x->e);
    more += i && in_all(x) > in_all(x - 1);
  }
  CHECK(more, "without, some fallback needs more");
  for (size_t i = 0; i < with.rungs.len; i++) {
    marked += with.rungs.at[i].evaluation_bytes != 0;
    CHECK(!i || in_all(&with.rungs.at[i]) <= in_all(&with.rungs.at[i - 1]), "row %zu", i + 1);
  }
  CHECK(marked, "some row says what its evaluation needs");
  CHECK(!memcmp(&with.rungs.at[0].choice, &without.rungs.at[0].choice, sizeof(plim_choice)),
        "the first row");
  CHECK(!plim_plan_check(&r, &with, NULL), "the plan is sound");
  for (size_t i = 0; i < with.rungs.len; i++)
    printf("  row %zu: %.2f, in evaluation %.2f GiB\n", i + 1,
           (double)plim_needed_bytes(&with.rungs.at[i].e) / PLIM_GIB,
           (double)with.rungs.at[i].evaluation_bytes / PLIM_GIB);
  with.rungs.at[with.rungs.len - 1].evaluation_bytes = 100 * PLIM_GIB;
  CHECK(plim_plan_check(&r, &with, NULL), "a fallback that needs more in evaluation is refused");
  plim_plan_clear(&without);
  plim_plan_clear(&with);
}

TEST_MAIN
