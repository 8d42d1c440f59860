// The order of plans: a larger card never gets a slower one, nor does a knob that is left free.
#include <math.h>

#include "catalogue.h"
#include "family.h"
#include "plan.h"
#include "test.h"

typedef struct {
  const char *family, *model;
  int world, accumulate;
  int64_t batch, length, rank;
} job_case;

static const job_case cases[] = {
    {"qwen2", "qwen2.5-0.5b", 1, 4, 8, 1024, 0},
    {"qwen2", "qwen2.5-0.5b", 8, 2, 8, 2048, 0},
    {"qwen2", "qwen2.5-7b", 8, 4, 4, 4096, 64},
};
enum { CASES = sizeof cases / sizeof *cases };

static plim_plan_request request(const job_case *c) {
  plim_plan_request r = {.world = c->world, .margin = -1};
  r.job = (plim_job){.dtype = PLIM_BF16, .load = PLIM_LOAD_INIT};
  plim_config_init(&r.job.model, c->family, NULL);
  if (plim_catalogue_config(plim_catalogue_named(c->model), &r.job.model, NULL)) test_failed = true;
  r.job.recipe = (plim_recipe){.batch = c->batch,
                               .length = c->length,
                               .steps = 3,
                               .accumulate = c->accumulate,
                               .checkpoint = PLIM_CHECKPOINT_ON,
                               .optimizer = plim_optimizer_named("adamw")};
  r.job.lora = (plim_lora){.rank = c->rank, .targets = PLIM_ALL_LINEAR};
  if (c->world > 1) r.job.sharding = (plim_sharding){.strategy = PLIM_SHARD_DDP, .world = c->world};
  r.effective_batch = (uint64_t)(c->batch * c->accumulate * c->world);
  return r;
}

// Tokens per second of the pick; 0: nothing fits.
static double speed_of(const plim_plan_request *r) {
  plim_plan plan;
  plim_error error = {0};
  if (plim_plan_make(r, &plan, &error)) {
    printf("  %s\n", error.message);
    return 0;
  }
  double speed = plan.rungs.len ? plan.rungs.at[0].tokens_per_second : 0;
  plim_plan_clear(&plan);
  return speed;
}

#define SAME_TIME 0.1 // the user's own way to share stays for that (plan_ladder.c)

TEST(a_larger_card_is_never_slower) {
  static const uint64_t cards[] = {16, 24, 32, 141};
  for (int i = 0; i < CASES; i++) {
    plim_plan_request r = request(&cases[i]);
    double before = 0;
    for (size_t k = 0; k < sizeof cards / sizeof *cards; k++) {
      r.target = plim_target_size(cards[k] * PLIM_GIB);
      double speed = speed_of(&r);
      printf("  case %d, %d GiB: %.0f tokens per second\n", i, (int)cards[k], speed);
      CHECK(speed >= (1 - SAME_TIME) * before, "case %d, %d GiB: %.0f, less than %.0f", i,
            (int)cards[k], speed, before);
      before = fmax(before, speed);
    }
  }
}

TEST(what_is_free_is_never_slower_than_what_is_fixed) {
  static const uint64_t cards[] = {32, 80};
  for (int i = 1; i < CASES; i++)
    for (int k = 0; k < 2; k++) {
      plim_plan_request r = request(&cases[i]);
      r.target = plim_target_size(cards[k] * PLIM_GIB);
      double is_free = speed_of(&r);
      r.domains[PLIM_KNOB_STRATEGY] = (plim_domain){1, {PLIM_SHARD_FSDP2}};
      double is_fixed = speed_of(&r);
      CHECK(is_free >= (1 - SAME_TIME) * is_fixed, "case %d, %d GiB: %.0f with FSDP2, free %.0f", i,
            (int)cards[k], is_fixed, is_free);
    }
}

// Where nothing fits, what is offered needs less than what there is: also while a model that is sharded on
// the card is loaded, which training's own peak does not tell.
TEST(what_is_offered_needs_less_than_the_smallest) {
  static const uint64_t cards[] = {8, 13};
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

TEST_MAIN
