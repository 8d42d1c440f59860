// What a plan reports: the smallest choice, invalid requests, which changes are needed, what would be faster.
#include <math.h>
#include <string.h>

#include "catalogue.h"
#include "families.h"
#include "plan_impl.h"
#include "test.h"

static plim_plan_request request(const char *family, const char *model, int64_t batch,
                                 int64_t length) {
  plim_plan_request r = {.world = 1, .margin = -1};
  r.job = (plim_job){.dtype = PLIM_BF16, .load = PLIM_LOAD_INIT};
  plim_config_init(&r.job.model, family, NULL);
  if (plim_catalogue_config(plim_catalogue_named(model), &r.job.model, NULL)) test_failed = true;
  r.job.recipe = (plim_recipe){.batch = batch,
                               .length = length,
                               .steps = 3,
                               .accumulate = 1,
                               .optimizer = plim_optimizer_named("adamw")};
  r.effective_batch = (uint64_t)batch;
  return r;
}

static bool make(const plim_plan_request *r, plim_plan *plan) {
  plim_error error = {0};
  if (!plim_plan_make(r, plan, &error)) return true;
  printf("  %s\n", error.message);
  return false;
}

// The smallest choice counts all allowed concessions: a card of that size is enough, and no rung on it needs less.
TEST(the_smallest_choice_counts_allowed_concessions) {
  static const plim_knob allowed[] = {PLIM_KNOB_OPTIMIZER, PLIM_KNOB_SEQUENCE, PLIM_KNOB_LORA_RANK,
                                      PLIM_KNOB_QUANTISATION};
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b", 4, 1024);
  plim_plan strict, all;
  r.target = plim_target_size(1 * PLIM_GIB);
  CHECK(make(&r, &strict) && !strict.rungs.len, "nothing fits");
  for (int i = 0; i < 4; i++) r.allowed[allowed[i]] = true;
  CHECK(make(&r, &all) && !all.rungs.len && all.is_beyond, "nor with all that is allowed");
  CHECK(all.smallest.e.device_bytes < strict.smallest.e.device_bytes, "which takes less");
  CHECK_U64(strict.least.e.device_bytes, all.smallest.e.device_bytes);
  r.target = plim_target_size(all.smallest.e.device_bytes + 256 * PLIM_MIB);
  uint64_t least = all.smallest.e.device_bytes;
  plim_plan_clear(&strict);
  plim_plan_clear(&all);
  CHECK(make(&r, &all) && all.rungs.len && !all.is_beyond, "and fits on a card of that size");
  CHECK(all.rungs.at[all.rungs.len - 1].e.device_bytes + 16 * PLIM_MIB >= least, "no less");
  plim_plan_clear(&all);
}

// Everything that could be allowed at once may need more than one of its parts: bitsandbytes leaves stacked experts as they
// are, and peft makes them float32. Nothing that is told needs less than what is called the smallest.
TEST(no_offer_needs_less_than_the_smallest_choice) {
  plim_plan_request r = request("qwen2_moe", "qwen1.5-moe-a2.7b", 4, 1024);
  plim_plan plan;
  r.job.lora = (plim_lora){.rank = 32, .targets = PLIM_ALL_LINEAR};
  r.job.prepares_kbit = true;
  r.target = plim_target_size(24 * PLIM_GIB);
  CHECK(make(&r, &plan) && !plan.rungs.len && plan.concessions.len, "nothing fits");
  const plim_rung *least = plan.least.e.device_bytes ? &plan.least : &plan.smallest;
  for (size_t i = 0; i < plan.concessions.len; i++)
    CHECK(plan.concessions.at[i].device_bytes >= plim_needed_bytes(&least->e),
          "%s: %.2f GiB, the smallest %.2f", plim_knob_table[plan.concessions.at[i].knob[0]].name,
          (double)plan.concessions.at[i].device_bytes / PLIM_GIB,
          (double)plim_needed_bytes(&least->e) / PLIM_GIB);
  plim_plan_clear(&plan);
}

// DPO of all parameters beside a reference model: ZeRO 3 would partition both, which cannot be predicted yet. A plan that
// finds nothing says so, and only where it matters: not with adapters, which need no second model.
TEST(what_cannot_be_predicted_is_not_said_to_need_too_much) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b", 4, 1024);
  plim_plan plan;
  r.job.recipe.method = PLIM_METHOD_DPO;
  r.job.recipe.reference = PLIM_REFERENCE_OWN;
  r.job.recipe.is_trainer = true;
  r.job.recipe.answers[0] = r.job.recipe.answers[1] = 1023;
  r.target = plim_target_size(2 * PLIM_GIB);
  CHECK(make(&r, &plan) && !plan.rungs.len, "nothing fits");
  const plim_untried *own = NULL;
  for (size_t i = 0; i < plan.untried_count; i++)
    if (!plan.untried[i].concedes) own = &plan.untried[i];
  CHECK(own, "one candidate could not be tried");
  if (own) CHECK_STR(own->setting, "strategy zero3");
  if (own) CHECK(strstr(own->why, "reference"), "%s", own->why);
  plim_plan_clear(&plan);
  r.job.recipe.method = PLIM_METHOD_TEXTS;
  CHECK(make(&r, &plan), "a plan, or none");
  for (size_t i = 0; i < plan.untried_count; i++)
    CHECK(plan.untried[i].concedes, "only with 4-bit weights: %s", plan.untried[i].why);
  plim_plan_clear(&plan);
}

// Optimizers with rounded states have no step on the host, which keeps even frozen weights from going there: the exact one
// fits from there.
static void finds_exact_optimizer(const char *optimizer, plim_lora lora) {
  plim_plan_request r = request("llama", "llama-3.1-8b", 1, 1024);
  plim_plan plan;
  r.job.recipe.optimizer = plim_optimizer_named(optimizer);
  r.job.recipe.is_trainer = true;
  r.job.load = PLIM_LOAD_SHARDED;
  r.job.lora = lora;
  r.target = plim_target_size(16 * PLIM_GIB);
  CHECK(make(&r, &plan) && !plan.rungs.len && !plan.is_beyond, "only what changes the result fits");
  bool is_offered = false;
  for (size_t i = 0; i < plan.concessions.len; i++) {
    const plim_concession *x = &plan.concessions.at[i];
    is_offered |= x->fits && x->knob[0] == PLIM_KNOB_OPTIMIZER && x->offload;
  }
  CHECK(is_offered, "%s: an optimizer on the host", optimizer);
  plim_plan_clear(&plan);
  r.allowed[PLIM_KNOB_OPTIMIZER] = true;
  CHECK(make(&r, &plan) && plan.rungs.len, "which then is a plan");
  plim_plan_clear(&plan);
}

TEST(an_exact_optimizer_is_offered_where_the_rounded_one_cannot_go_to_the_host) {
  finds_exact_optimizer("adamw-8bit", (plim_lora){0});
  finds_exact_optimizer("adamw-torchao-4bit", (plim_lora){0});
  finds_exact_optimizer("adamw-8bit", (plim_lora){.rank = 16, .targets = PLIM_ALL_LINEAR});
}

// Whether the rung has the figures that its settings have when they are run by themselves.
static bool is_run_in_full(const plim_plan_request *r, const plim_rung *x) {
  plim_estimate e;
  if (plim_choice_estimate(r, &x->choice, &e, NULL)) return false;
  if (e.device_bytes != x->e.device_bytes)
    printf("  %lld x %lld is said to need %.2f GiB, and needs %.2f\n",
           (long long)x->choice.at[PLIM_KNOB_MICRO_BATCH],
           (long long)x->choice.at[PLIM_KNOB_ACCUMULATE], (double)x->e.device_bytes / PLIM_GIB,
           (double)e.device_bytes / PLIM_GIB);
  return e.device_bytes == x->e.device_bytes;
}

// Fragmentation grows in the third step here, so figures of shorter runs are lower. Equal settings have equal figures.
TEST(all_that_is_told_is_run_in_full) {
  plim_plan_request r = request("t5", "flan-t5-large", 4, 2048);
  plim_plan plan;
  r.job.recipe.accumulate = 8;
  r.effective_batch = 32;
  r.target = plim_target_size(24 * PLIM_GIB);
  CHECK(make(&r, &plan) && plan.rungs.len > 3, "a ladder");
  for (size_t i = 0; i < plan.rungs.len; i++)
    CHECK(is_run_in_full(&r, &plan.rungs.at[i]), "%zu", i);
  for (size_t i = 0; i < plan.changes.len; i++)
    if (plan.changes.at[i].knob == PLIM_KNOB_MICRO_BATCH && plan.rungs.at[0].changes == 2)
      CHECK(plan.changes.at[i].saves_bytes ==
                (int64_t)plan.before.device_bytes - (int64_t)plan.rungs.at[0].e.device_bytes,
            "the change alone is the difference to now");
  plim_plan_clear(&plan);
  r.target = plim_target_size(4 * PLIM_GIB);
  CHECK(make(&r, &plan) && !plan.rungs.len && is_run_in_full(&r, &plan.smallest), "the smallest");
  plim_plan_clear(&plan);
}

// Where large blocks are not reused, memory grows with every pass until the card is full. What fits for two passes may
// not fit for eight.
TEST(an_offer_that_fits_is_a_plan_once_it_is_allowed) {
  static const uint64_t cards[] = {24, 27, 32};
  for (int i = 0; i < 3; i++) {
    plim_plan_request r = request("qwen2", "qwen2.5-7b", 2, 2048);
    plim_plan plan, allowed;
    r.job.dtype = PLIM_FP16;
    r.job.recipe.autocast = PLIM_FP16;
    r.job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
    r.job.recipe.accumulate = 8;
    r.job.lora = (plim_lora){.rank = 128, .targets = PLIM_ALL_LINEAR};
    r.alloc_conf = "max_split_size_mb:128,expandable_segments:True";
    r.effective_batch = 16;
    r.holds_others = true;
    r.domains[PLIM_KNOB_MICRO_BATCH] = (plim_domain){1, {1}};
    r.target = plim_target_size(cards[i] * PLIM_GIB);
    CHECK(make(&r, &plan), "a plan");
    CHECK(plan.rungs.len || is_run_in_full(&r, &plan.smallest), "the smallest");
    CHECK(!plan.is_tight || !plim_is_safe(&r, &plan.smallest.e), "tight means not safe");
    for (size_t k = 0; k < plan.concessions.len && !plan.rungs.len; k++) {
      if (!plan.concessions.at[k].fits || plan.concessions.at[k].count > 1) continue;
      plim_plan_request more = r;
      more.allowed[plan.concessions.at[k].knob[0]] = true;
      CHECK(make(&more, &allowed) && allowed.rungs.len, "%llu GiB: --allow %s does not fit",
            (unsigned long long)cards[i], plim_knob_table[plan.concessions.at[k].knob[0]].name);
      plim_plan_clear(&allowed);
    }
    plim_plan_clear(&plan);
  }
}

TEST(checkpoints_that_a_family_lacks_are_refused) {
  plim_plan_request r = request("mpnet", "all-mpnet-base-v2", 16, 128);
  plim_plan plan;
  r.target = plim_target_size(24 * PLIM_GIB);
  r.domains[PLIM_KNOB_CHECKPOINT] = (plim_domain){1, {PLIM_CHECKPOINT_ON}};
  CHECK(plim_plan_make(&r, &plan, NULL) == PLIM_ERR_ARGUMENT, "as by estimate");
  r.domains[PLIM_KNOB_CHECKPOINT] = (plim_domain){1, {PLIM_CHECKPOINT_OFF}};
  CHECK(make(&r, &plan) && plan.rungs.len, "off it may be");
  plim_plan_clear(&plan);
}

// A cached loss compares the same batch, so if the plain loss does not fit it comes before offload to the host.
TEST(a_cached_loss_comes_before_the_host) {
  plim_plan_request r = request("mpnet", "all-mpnet-base-v2", 128, 256);
  plim_plan plan;
  r.job.recipe.loss = PLIM_LOSS_CONTRASTIVE;
  r.job.model.head = PLIM_HEAD_NONE;
  r.is_contrastive = true;
  r.positives = 1;
  r.target = plim_target_size(12 * PLIM_GIB);
  CHECK(make(&r, &plan) && !plan.before.fits && plan.rungs.len, "it fits in some way");
  CHECK(plan.rungs.at[0].choice.at[PLIM_KNOB_CACHED_BATCH] > 0, "in mini batches");
  CHECK(!plan.rungs.at[0].e.p.host_bytes && !plan.concedes,
        "on the card, with what is learned kept");
  plim_plan_clear(&plan);
}

// If the user's own sharding strategy fits, a change to another one is only for speed and is not reported as needed.
TEST(another_strategy_is_not_needed_if_the_own_one_fits) {
  static const uint64_t cards[] = {12, 16, 24, 32};
  for (int i = 0; i < 4; i++) {
    plim_plan_request r = request("qwen2", "qwen2.5-0.5b", 8, 2048);
    plim_plan plan;
    r.world = 8;
    r.effective_batch = 128;
    r.job.recipe.accumulate = 2;
    r.job.sharding = (plim_sharding){.strategy = PLIM_SHARD_ZERO3, .world = 8};
    r.target = plim_target_size(cards[i] * PLIM_GIB);
    CHECK(make(&r, &plan) && plan.rungs.len, "a plan");
    for (size_t k = 0; k < plan.changes.len; k++)
      if (plan.changes.at[k].knob == PLIM_KNOB_STRATEGY)
        CHECK(!(plan.changes.at[k].is_needed && plan.own_sharding.e.device_bytes), "needless");
    bool is_own = plan.rungs.at[0].choice.at[PLIM_KNOB_STRATEGY] == PLIM_SHARD_ZERO3;
    CHECK(!is_own || plan.passed != PLIM_PASSED_NONE || plan.faster.tokens_per_second <= 0, "told");
    plim_plan_clear(&plan);
  }
}

// A faster choice that uses the host is mentioned but not picked, because its speed was measured on another host.
TEST(a_faster_choice_with_the_host_is_mentioned) {
  plim_plan_request r = request("qwen2", "qwen2.5-7b", 2, 2048);
  plim_plan plan;
  r.effective_batch = 16;
  r.job.recipe.accumulate = 8;
  r.job.recipe.autocast = PLIM_BF16;
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  r.job.lora = (plim_lora){.rank = 128, .targets = PLIM_ALL_LINEAR};
  r.target = plim_target_size(24 * PLIM_GIB);
  CHECK(make(&r, &plan) && plan.rungs.len, "a plan");
  CHECK(!plan.rungs.at[0].e.p.host_bytes, "on the card");
  CHECK(plan.passed == PLIM_PASSED_HOST && plan.faster.e.p.host_bytes, "and what is faster");
  CHECK(plan.faster.tokens_per_second > 1.01 * plan.rungs.at[0].tokens_per_second, "it is");
  plim_plan_clear(&plan);
}

// A plan simulates a few passes of a step and computes the others; the last pass also runs the optimizer.
TEST(a_plan_takes_as_long_as_its_estimate) {
  static const struct {
    plim_strategy strategy;
    int world;
    bool optimizer, parameters;
  } modes[] = {{PLIM_SHARD_DDP, 2},
               {PLIM_SHARD_FSDP2, 2},
               {PLIM_SHARD_ZERO1, 2},
               {PLIM_SHARD_ZERO2, 1, true},
               {PLIM_SHARD_ZERO3, 1, true, true}};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    plim_plan_request r = request("llama", "llama-3.2-1b", 1, 256);
    plim_estimate e;
    plim_plan plan;
    r.world = modes[i].world;
    r.job.recipe.accumulate = 32;
    r.effective_batch = 32 * (uint64_t)r.world;
    r.job.sharding = (plim_sharding){.strategy = modes[i].strategy,
                                     .world = r.world,
                                     .offloads_optimizer = modes[i].optimizer,
                                     .offloads_parameters = modes[i].parameters};
    r.target = plim_target_size(80 * PLIM_GIB);
    plim_choice own = plim_plan_own_choice(&r);
    for (size_t k = 0; k < plim_plan_knob_count; k++)
      r.domains[plim_plan_knobs[k]] = (plim_domain){1, {own.at[plim_plan_knobs[k]]}};
    CHECK(!plim_estimate_make(&r.job, &r.target, &e, NULL), "an estimate");
    CHECK(make(&r, &plan) && plan.rungs.len, "a plan");
    double planned = plan.rungs.at[0].step_seconds;
    CHECK(fabs(planned / e.step_seconds - 1) < 0.005, "%s: %.3f s, estimated %.3f s",
          plim_strategy_names[modes[i].strategy], planned, e.step_seconds);
    plim_plan_clear(&plan);
  }
}

// Why a faster choice is not first: manual work counts more than use of the host, and that more than the strategy.
TEST(the_reason_is_the_one_that_decides) {
  plim_plan_request r = request("llama", "llama-3.2-1b", 2, 512);
  plim_choice own = plim_plan_own_choice(&r), host = own, hand = own;
  host.at[PLIM_KNOB_STRATEGY] = PLIM_SHARD_ZERO2;
  host.at[PLIM_KNOB_OFFLOAD] = PLIM_OFFLOAD_OPTIMIZER;
  hand.at[PLIM_KNOB_STRATEGY] = PLIM_SHARD_FSDP2;
  CHECK(plim_why_passed(&r, &own, &own) == PLIM_PASSED_NONE, "a larger batch alone");
  CHECK(plim_why_passed(&r, &host, &own) == PLIM_PASSED_HOST, "the host, not the way");
  CHECK(plim_why_passed(&r, &hand, &own) == PLIM_PASSED_WAY, "the way");
  r.by_hand[PLIM_SHARD_FSDP2][PLIM_OFFLOAD_NONE] = true;
  CHECK(plim_why_passed(&r, &hand, &own) == PLIM_PASSED_CODE, "work by hand, not the way");
  CHECK(plim_why_passed(&r, &hand, &hand) == PLIM_PASSED_NONE, "which the first takes too");
  CHECK(plim_worth(&r, &hand) < plim_worth(&r, &host), "and which counts least");
}

// The optimizers of bitsandbytes cannot run on the CPU.
TEST(states_on_the_host_are_of_an_optimizer_that_runs_there) {
  plim_plan_request r = request("llama", "llama-3.2-1b", 2, 512);
  plim_choice c = plim_plan_own_choice(&r);
  c.at[PLIM_KNOB_STRATEGY] = PLIM_SHARD_ZERO2;
  c.at[PLIM_KNOB_OFFLOAD] = PLIM_OFFLOAD_OPTIMIZER;
  CHECK(plim_choice_is_sound(&r, &c), "torch's has one");
  r.job.recipe.optimizer = plim_optimizer_named("paged-adamw");
  c.at[PLIM_KNOB_OPTIMIZER] = plim_plan_own_choice(&r).at[PLIM_KNOB_OPTIMIZER];
  r.domains[PLIM_KNOB_OPTIMIZER] = (plim_domain){1, {c.at[PLIM_KNOB_OPTIMIZER]}};
  CHECK(!plim_choice_is_sound(&r, &c), "a paged one has none, even if it is asked for");
}

// A plan simulates only the first passes of a step, but its times are for the whole step.
TEST(the_time_now_is_that_of_a_whole_step) {
  plim_plan_request r = request("gpt2", "gpt2", 1, 128);
  plim_plan plan;
  plim_estimate whole;
  r.effective_batch = 64;
  r.job.recipe.accumulate = 64;
  r.target = plim_target_gpu(plim_gpu_named("RTX 4090"));
  CHECK(make(&r, &plan), "a plan");
  CHECK(!plim_estimate_make(&r.job, &r.target, &whole, NULL), "an estimate of all passes");
  double off = plan.before.step_seconds / whole.step_seconds - 1;
  CHECK(fabs(off) < 0.02, "%g s, not %g s", plan.before.step_seconds, whole.step_seconds);
  off = plan.before.tokens_per_second / whole.tokens_per_second - 1;
  CHECK(fabs(off) < 0.02, "%g tokens", plan.before.tokens_per_second);
  plim_plan_clear(&plan);
}

// Gradients and optimizer states of a part that is not predicted: what is sharded or offloaded stays so.
TEST(what_is_not_predicted_stays_sharded_and_offloaded) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b", 8, 256);
  r.world = 4;
  r.job.sharding.strategy = PLIM_SHARD_ZERO3;
  plim_concessions all = {.r = &r};
  plim_sharing_mode modes[PLIM_MAX_SHARING_MODES];
  size_t free = plim_concession_sharings(&all, modes), held;
  r.omits_part = true;
  held = plim_concession_sharings(&all, modes);
  CHECK(held && held < free, "%zu of %zu", held, free);
  for (size_t i = 0; i < held; i++)
    CHECK(modes[i].strategy == PLIM_SHARD_ZERO3 || modes[i].strategy == PLIM_SHARD_FSDP2,
          "strategy %lld", (long long)modes[i].strategy);
}

TEST_MAIN
