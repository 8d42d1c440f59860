// Which loss the planner chooses if the logits do not fit: one that the user's files can turn on comes first.
#include <string.h>

#include "catalogue.h"
#include "families.h"
#include "plan.h"
#include "test.h"

// A request for a card on which all logits at once do not fit.
static plim_plan_request request(const char *family, const char *model) {
  plim_plan_request r = {.world = 1, .margin = -1, .effective_batch = 4};
  r.job = (plim_job){.dtype = PLIM_BF16, .load = PLIM_LOAD_INIT};
  plim_config_init(&r.job.model, family, NULL);
  if (plim_catalogue_config(plim_catalogue_named(model), &r.job.model, NULL)) test_failed = true;
  r.job.recipe = (plim_recipe){.batch = 4,
                               .length = 512,
                               .steps = 2,
                               .accumulate = 1,
                               .checkpoint = PLIM_CHECKPOINT_ON,
                               .optimizer = plim_optimizer_named("adamw")};
  r.domains[PLIM_KNOB_MICRO_BATCH] = (plim_domain){1, {4}};
  r.target = plim_target_size(6 * PLIM_GIB);
  return r;
}

typedef struct {
  int64_t chunk, liger;
} losses;

static losses planned(const plim_plan_request *r) {
  plim_plan plan;
  plim_error error = {0};
  losses x = {-1, -1};
  if (plim_plan_make(r, &plan, &error)) {
    printf("%s\n", error.message);
    return x;
  }
  if (plan.rungs.len) {
    const int64_t *at = plan.rungs.at[0].choice.at;
    x = (losses){at[PLIM_KNOB_CHUNKED_LOSS], at[PLIM_KNOB_LIGER]};
  }
  plim_plan_clear(&plan);
  return x;
}

#define CHECK_PLANNED(r_, chunk_, liger_)                                                          \
  do {                                                                                             \
    losses x_ = planned(&(r_));                                                                    \
    CHECK(x_.chunk == (chunk_) && x_.liger == (liger_), "chunks of %d, liger %d", (int)x_.chunk,   \
          (int)x_.liger);                                                                          \
  } while (0)

TEST(without_files_the_loss_is_written_by_hand) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b");
  CHECK_PLANNED(r, 512, 0);
}

TEST(liger_without_a_key_is_mentioned_if_it_is_faster) {
  plim_plan_request r = request("qwen2", "qwen2.5-7b");
  plim_plan plan;
  r.job.recipe.length = 2048;
  r.job.lora = (plim_lora){.rank = 16, .targets = PLIM_ALL_LINEAR};
  r.target = plim_target_size(24 * PLIM_GIB);
  CHECK(!plim_plan_make(&r, &plan, NULL) && plan.rungs.len, "a plan");
  CHECK(!plan.rungs.at[0].choice.at[PLIM_KNOB_LIGER], "without it");
  CHECK(plan.passed == PLIM_PASSED_LIGER && plan.faster.choice.at[PLIM_KNOB_LIGER], "told");
  CHECK(plan.faster.tokens_per_second > 1.01 * plan.rungs.at[0].tokens_per_second, "faster");
  plim_plan_clear(&plan);
  r.domains[PLIM_KNOB_LIGER] = (plim_domain){1, {0}};
  CHECK(!plim_plan_make(&r, &plan, NULL) && plan.passed != PLIM_PASSED_LIGER, "not if it is held");
  plim_plan_clear(&plan);
}

TEST(liger_comes_first_where_files_can_turn_it_on) {
  plim_plan_request r = request("qwen2", "qwen2.5-7b");
  r.offers_liger = true;
  r.job.recipe.length = 2048;
  r.job.lora = (plim_lora){.rank = 16, .targets = PLIM_ALL_LINEAR};
  r.target = plim_target_size(24 * PLIM_GIB);
  CHECK_PLANNED(r, 0, 1);
}

// Liger's kernels take time to start. If that is most of a step, a custom loss is faster, and the plan says so.
TEST(a_faster_custom_loss_is_mentioned) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b");
  plim_plan plan;
  r.offers_liger = true;
  CHECK_PLANNED(r, 0, 1);
  CHECK(!plim_plan_make(&r, &plan, NULL) && plan.rungs.len, "a plan");
  CHECK(plan.passed && plan.faster.choice.at[PLIM_KNOB_CHUNKED_LOSS] == 512, "in chunks");
  plim_plan_clear(&plan);
}

TEST(liger_is_not_used_for_families_without_its_kernels) {
  plim_plan_request r = request("gpt2", "gpt2");
  r.target = plim_target_size(2200 * PLIM_MIB);
  r.offers_liger = true;
  CHECK_PLANNED(r, 512, 0);
}

TEST(chunks_have_a_length_that_files_can_set) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b");
  r.chunk_tokens = 256;
  CHECK_PLANNED(r, 256, 0);
}

TEST(a_memory_saving_loss_stays) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b");
  r.job.recipe.loss = PLIM_LOSS_FUSED;
  CHECK_PLANNED(r, 0, 0);
  r.job.recipe.uses_liger = true;
  CHECK_PLANNED(r, 0, 1);
}

TEST(a_fixed_loss_is_taken) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b");
  r.offers_liger = true;
  r.domains[PLIM_KNOB_LIGER] = (plim_domain){1, {0}};
  CHECK_PLANNED(r, 512, 0);
  r.domains[PLIM_KNOB_LIGER] = (plim_domain){1, {1}};
  r.offers_liger = false;
  CHECK_PLANNED(r, 0, 1);
}

// A card on which `fitting` sequences at a time fit, but not twice as many.
static plim_plan_request cached(int64_t own, int64_t fitting) {
  plim_plan_request r = request("bert", "bert-base-uncased");
  plim_estimate e = {0};
  r.job.model.head = PLIM_HEAD_NONE;
  r.job.recipe.batch = 1024;
  r.job.recipe.loss = PLIM_LOSS_CONTRASTIVE;
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_OFF;
  r.job.recipe.cached_batch = own;
  r.effective_batch = 1024;
  r.is_contrastive = true;
  r.positives = 1;
  r.domains[PLIM_KNOB_MICRO_BATCH] = r.domains[PLIM_KNOB_CHECKPOINT] = (plim_domain){0};
  plim_choice choice = plim_plan_own_choice(&r);
  choice.at[PLIM_KNOB_CACHED_BATCH] = fitting;
  if (plim_choice_estimate(&r, &choice, &e, NULL)) test_failed = true;
  r.target = plim_target_size(e.interval_bytes[1] + 64 * PLIM_MIB);
  static plim_family without_checkpoints;
  without_checkpoints = *r.job.model.family;
  without_checkpoints.cannot_checkpoint = true;
  r.job.model.family = &without_checkpoints;
  return r;
}

static plim_choice planned_choice(const plim_plan_request *r) {
  plim_plan plan;
  plim_choice choice = {0};
  if (plim_plan_make(r, &plan, NULL)) return choice;
  if (plan.rungs.len) choice = plan.rungs.at[0].choice;
  plim_plan_clear(&plan);
  return choice;
}

// Smaller mini batches keep the batch, and are far faster than activations on the host.
TEST(mini_batches_of_a_cached_loss_shrink_before_the_host_is_asked) {
  plim_plan_request r = cached(64, 8);
  plim_choice choice = planned_choice(&r);
  CHECK(choice.at[PLIM_KNOB_CACHED_BATCH] == 8, "%d", (int)choice.at[PLIM_KNOB_CACHED_BATCH]);
  CHECK(choice.at[PLIM_KNOB_OFFLOAD] == 0, "nothing on the host");
}

TEST(mini_batches_of_a_cached_loss_grow_where_they_fit) {
  plim_plan_request r = cached(4, 128);
  plim_choice choice = planned_choice(&r);
  CHECK(choice.at[PLIM_KNOB_CACHED_BATCH] >= 64, "%d", (int)choice.at[PLIM_KNOB_CACHED_BATCH]);
}

TEST_MAIN
