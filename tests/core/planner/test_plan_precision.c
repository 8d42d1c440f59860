// Precision as a knob of the planner: what changes freely, what only with consent, and how it depends on the card.
#include <string.h>

#include "catalogue.h"
#include "families.h"
#include "plan.h"
#include "test.h"

static plim_plan_request request(const char *gpu, plim_dtype dtype, plim_dtype autocast,
                                 int64_t rank) {
  plim_plan_request r = {.world = 1, .margin = -1, .effective_batch = 2};
  r.job = (plim_job){.dtype = dtype, .load = PLIM_LOAD_INIT};
  plim_config_init(&r.job.model, "qwen2", NULL);
  if (plim_catalogue_config(plim_catalogue_named("qwen2.5-0.5b"), &r.job.model, NULL))
    test_failed = true;
  r.job.lora = (plim_lora){.rank = rank, .targets = PLIM_ALL_LINEAR};
  r.job.recipe = (plim_recipe){.batch = 2,
                               .length = 512,
                               .steps = 2,
                               .accumulate = 1,
                               .autocast = autocast,
                               .optimizer = plim_optimizer_named("adamw")};
  r.target = plim_target_gpu(plim_gpu_named(gpu));
  return r;
}

// The precision and dtype of the plan's first rung, such as "bf16 fp32".
static const char *types(const plim_plan_request *r) {
  static char text[32];
  plim_plan plan;
  if (plim_plan_make(r, &plan, NULL)) return "no plan";
  snprintf(text, sizeof text, "nothing fits");
  if (plan.rungs.len) {
    const int64_t *at = plan.rungs.at[0].choice.at;
    snprintf(text, sizeof text, "%s %s",
             plim_knob_value_name(PLIM_KNOB_PRECISION, at[PLIM_KNOB_PRECISION]),
             plim_knob_value_name(PLIM_KNOB_DTYPE, at[PLIM_KNOB_DTYPE]));
  }
  plim_plan_clear(&plan);
  return text;
}

static const struct {
  const char *what, *gpu;
  plim_dtype dtype, autocast;
  int64_t rank;
  const char *types;
} cases[] = {
    {"float32 is computed in bf16", "A100 40GB", PLIM_FP32, PLIM_BOOL, 0, "bf16 fp32"},
    {"in fp16 where there is no bf16", "T4", PLIM_FP32, PLIM_BOOL, 0, "fp16 fp32"},
    {"and as it is where there is neither", "P100", PLIM_FP32, PLIM_BOOL, 0, "none fp32"},
    {"emulated bf16 becomes fp16", "V100 16GB", PLIM_FP32, PLIM_BF16, 0, "fp16 fp32"},
    {"fp16 stays where bf16 would do", "A100 40GB", PLIM_FP32, PLIM_FP16, 0, "fp16 fp32"},
    {"trained parameters of 16 bits stay", "A100 40GB", PLIM_BF16, PLIM_BOOL, 0, "none bf16"},
    {"even emulated: a scaler refuses fp16", "T4", PLIM_BF16, PLIM_BF16, 0, "bf16 bf16"},
    {"a frozen base follows", "A100 40GB", PLIM_FP32, PLIM_BOOL, 8, "bf16 bf16"},
    {"in its own autocast's type", "A100 40GB", PLIM_FP32, PLIM_FP16, 8, "fp16 fp16"},
    {"and in the card's", "T4", PLIM_BF16, PLIM_BF16, 8, "fp16 fp16"},
    {"without autocast as well", "T4", PLIM_BF16, PLIM_BOOL, 8, "fp16 fp16"},
    {"a base in bf16 stays", "A100 40GB", PLIM_BF16, PLIM_BF16, 8, "bf16 bf16"},
};

TEST(types_follow_the_card_and_what_is_trained) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plim_plan_request r = request(cases[i].gpu, cases[i].dtype, cases[i].autocast, cases[i].rank);
    const char *got = types(&r);
    CHECK(strcmp(got, cases[i].types) == 0, "%s: %s, not %s", cases[i].what, got, cases[i].types);
  }
}

// Adapters that have the type of the base model are trained in that type.
TEST(adapters_in_the_type_of_their_base_keep_it) {
  plim_plan_request r = request("A100 40GB", PLIM_FP32, PLIM_BOOL, 8);
  r.job.lora.keeps_dtype = true;
  CHECK(strcmp(types(&r), "bf16 fp32") == 0, "%s", types(&r));
}

TEST(trained_parameters_lose_bits_only_with_consent) {
  plim_plan_request r = request("A100 40GB", PLIM_FP32, PLIM_BF16, 0);
  plim_plan plan;
  CHECK(!plim_plan_make(&r, &plan, NULL) && plan.rungs.len, "a plan");
  bool is_offered = false;
  for (size_t i = 0; i < plan.concessions.len; i++)
    is_offered |= plan.concessions.at[i].knob[0] == PLIM_KNOB_DTYPE &&
                  plan.concessions.at[i].device_bytes < plan.rungs.at[0].e.device_bytes;
  CHECK(is_offered, "what it would buy is told");
  plim_plan_clear(&plan);
}

// Excludes offload and smaller optimizers, which would also help.
static void keep_off_host(plim_plan_request *r) {
  r->domains[PLIM_KNOB_OFFLOAD] = (plim_domain){1, {0}};
  r->domains[PLIM_KNOB_OPTIMIZER] = (plim_domain){1, {0}};
  r->domains[PLIM_KNOB_CHECKPOINT] = (plim_domain){2, {PLIM_CHECKPOINT_OFF, PLIM_CHECKPOINT_ON}};
}

TEST(precision_is_lowered_if_allowed_and_needed) {
  plim_plan_request r = request("A100 40GB", PLIM_FP32, PLIM_BF16, 0);
  plim_plan plan;
  keep_off_host(&r);
  r.target.budget_bytes = r.target.limit_bytes = PLIM_GIB; // nothing fits: gives the smallest
  CHECK(!plim_plan_make(&r, &plan, NULL), "a plan");
  r.target.budget_bytes = plan.smallest.e.interval_bytes[1] - 512 * PLIM_MIB;
  r.target.limit_bytes = r.target.budget_bytes - plan.smallest.e.context_bytes;
  plim_plan_clear(&plan);
  CHECK(strcmp(types(&r), "nothing fits") == 0, "%s", types(&r));
  r.allowed[PLIM_KNOB_DTYPE] = true;
  CHECK(strstr(types(&r), " bf16"), "%s", types(&r));
}

TEST(every_word_for_unchanged_allocator_settings_is_accepted) {
  static const char *const words[] = {"unchanged", "default", "as it is"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    int64_t value = -1;
    CHECK(plim_knob_value_of(PLIM_KNOB_ALLOC_CONF, words[i], &value) && value == 0, "%s", words[i]);
  }
  CHECK_STR(plim_knob_value_name(PLIM_KNOB_ALLOC_CONF, 0), "unchanged");
}

TEST(fixed_and_tried_values_are_used) {
  plim_plan_request r = request("A100 40GB", PLIM_FP32, PLIM_BOOL, 0);
  int64_t none, fp16, bf16;
  CHECK(plim_knob_value_of(PLIM_KNOB_PRECISION, "no", &none) &&
            plim_knob_value_of(PLIM_KNOB_PRECISION, "float16", &fp16) &&
            plim_knob_value_of(PLIM_KNOB_PRECISION, "bf16", &bf16),
        "names");
  r.domains[PLIM_KNOB_PRECISION] = (plim_domain){1, {none}};
  CHECK(strcmp(types(&r), "none fp32") == 0, "%s", types(&r));
  r.domains[PLIM_KNOB_PRECISION] = (plim_domain){2, {none, fp16}};
  CHECK(strcmp(types(&r), "fp16 fp32") == 0, "%s", types(&r));
  r.domains[PLIM_KNOB_PRECISION] = (plim_domain){0};
  r.holds_others = true;
  CHECK(strcmp(types(&r), "none fp32") == 0, "--try of others holds it: %s", types(&r));
}

TEST(fsdp_takes_precision_as_a_policy) {
  plim_plan_request r = request("A100 40GB", PLIM_FP32, PLIM_BF16, 0);
  plim_choice choice = plim_plan_own_choice(&r);
  choice.at[PLIM_KNOB_STRATEGY] = PLIM_SHARD_FSDP2;
  plim_job job = plim_choice_job(&r, &choice);
  CHECK(job.sharding.compute_dtype == PLIM_BF16 && job.sharding.reduce_dtype == PLIM_FP32, "there");
  CHECK(job.recipe.autocast == PLIM_BOOL, "not twice");
  r.job = job;
  choice = plim_plan_own_choice(&r);
  CHECK(choice.at[PLIM_KNOB_PRECISION] == 1, "and back");
  choice.at[PLIM_KNOB_STRATEGY] = PLIM_SHARD_DDP;
  job = plim_choice_job(&r, &choice);
  CHECK(job.recipe.autocast == PLIM_BF16 && job.sharding.compute_dtype == PLIM_BOOL, "as autocast");
}

// LLaMA-Factory: weights under adapters keep the type in which they were loaded.
TEST(adapters_of_a_plan_leave_the_loaded_type) {
  plim_plan_request r = request("A100 40GB", PLIM_FP32, PLIM_BF16, 0);
  r.job.loaded_dtype = PLIM_BF16;
  r.job.lora.dropout = 0.05;
  plim_choice choice = plim_plan_own_choice(&r);
  CHECK(plim_choice_job(&r, &choice).dtype == PLIM_FP32, "all parameters are trained");
  choice.at[PLIM_KNOB_LORA_RANK] = 8;
  plim_job job = plim_choice_job(&r, &choice);
  CHECK(job.dtype == PLIM_BF16 && job.lora.dropout == 0.05, "the weights below adapters");
}

// LLaMA-Factory v1: a device_map, but for ZeRO 3.
TEST(loading_follows_the_strategy) {
  plim_plan_request r = request("A100 40GB", PLIM_BF16, PLIM_BOOL, 8);
  r.world = 2;
  r.job.mapped_under = ~(1u << PLIM_SHARD_ZERO3);
  plim_choice choice = plim_plan_own_choice(&r);
  choice.at[PLIM_KNOB_STRATEGY] = PLIM_SHARD_FSDP2;
  CHECK(plim_choice_job(&r, &choice).load == PLIM_LOAD_DEVICE_MAP, "FSDP2");
  choice.at[PLIM_KNOB_STRATEGY] = PLIM_SHARD_ZERO3;
  CHECK(plim_choice_job(&r, &choice).load == PLIM_LOAD_SHARDED, "ZeRO 3");
}

TEST_MAIN
