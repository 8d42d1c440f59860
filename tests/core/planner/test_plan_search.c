// The planner's search: its pick compared with all combinations, its concessions, and the independent check.
#include <math.h>
#include <string.h>

#include "catalogue.h"
#include "families.h"
#include "plan.h"
#include "test.h"

static plim_plan_request request(const char *family, const char *model, int64_t batch,
                                 int accumulate, int64_t length) {
  plim_plan_request r = {.world = 1, .margin = -1};
  r.job = (plim_job){.dtype = PLIM_BF16, .load = PLIM_LOAD_INIT};
  plim_config_init(&r.job.model, family, NULL);
  if (plim_catalogue_config(plim_catalogue_named(model), &r.job.model, NULL)) test_failed = true;
  r.job.recipe = (plim_recipe){.batch = batch,
                               .length = length,
                               .steps = 3,
                               .accumulate = accumulate,
                               .optimizer = plim_optimizer_named("adamw")};
  r.effective_batch = (uint64_t)(batch * accumulate);
  r.target = plim_target_size(80 * PLIM_GIB);
  return r;
}

static plim_plan_request small(int64_t batch, int accumulate) {
  return request("gpt2", "gpt2", batch, accumulate, 256);
}

static plim_domain only(int64_t value) { return (plim_domain){1, {value}}; }

static int64_t named(plim_knob knob, const char *text) {
  int64_t value = -1;
  if (!plim_knob_value_of(knob, text, &value)) test_failed = true;
  return value;
}

static bool make(const plim_plan_request *r, plim_plan *plan) {
  plim_error error = {0};
  if (!plim_plan_make(r, plan, &error)) return true;
  printf("  %s\n", error.message);
  return false;
}

// ---- compared with all combinations -----------------------------------------------------------------

typedef struct {
  double fastest;
  size_t fitting;
} reality;

// Runs every combination in full. The knobs have two values each, or none.
static reality look_at_all(const plim_plan_request *r) {
  static const plim_knob knobs[] = {PLIM_KNOB_CHECKPOINT, PLIM_KNOB_CHUNKED_LOSS,
                                    PLIM_KNOB_ALLOC_CONF, PLIM_KNOB_OFFLOAD};
  reality all = {0};
  uint64_t of_one = r->effective_batch / (uint64_t)r->world;
  for (int64_t b = 1; b <= (int64_t)of_one; b++)
    for (int i = 0; i < 16; i++) {
      plim_choice c = plim_plan_own_choice(r);
      plim_estimate e;
      if (of_one % (uint64_t)b) continue;
      c.at[PLIM_KNOB_MICRO_BATCH] = b;
      c.at[PLIM_KNOB_ACCUMULATE] = (int64_t)of_one / b;
      for (int k = 0; k < 4; k++)
        if (r->domains[knobs[k]].count) c.at[knobs[k]] = r->domains[knobs[k]].at[i >> k & 1];
      if (plim_choice_estimate(r, &c, &e, NULL) || !e.fits) continue;
      double tokens = (double)(r->effective_batch * (uint64_t)r->job.recipe.length);
      int64_t passes = c.at[PLIM_KNOB_ACCUMULATE];
      double left_out = passes > 8 ? (double)(passes - 8) * e.pass_seconds : 0;
      all.fastest = fmax(all.fastest, tokens / (e.step_seconds + left_out));
      all.fitting++;
    }
  return all;
}

static plim_plan_request small_domain(int64_t batch, int accumulate, uint64_t mib) {
  plim_plan_request r = small(batch, accumulate);
  r.holds_others = true;
  r.domains[PLIM_KNOB_CHECKPOINT] = (plim_domain){2, {PLIM_CHECKPOINT_OFF, PLIM_CHECKPOINT_ON}};
  r.domains[PLIM_KNOB_CHUNKED_LOSS] = (plim_domain){2, {0, 512}};
  r.domains[PLIM_KNOB_ALLOC_CONF] = (plim_domain){2, {0, 1}};
  r.target = plim_target_size(mib * PLIM_MIB);
  return r;
}

TEST(the_pick_is_the_fastest_of_all_that_fit) {
  static const struct {
    int64_t batch;
    int accumulate;
    uint64_t mib;
  } cases[] = {{12, 1, 2560}, {12, 1, 3584}, {2, 6, 2304},
               {12, 1, 8192}, {6, 4, 5120},  {12, 2, 2048}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plim_plan_request r = small_domain(cases[i].batch, cases[i].accumulate, cases[i].mib);
    reality all = look_at_all(&r);
    plim_plan plan;
    CHECK(make(&r, &plan), "case %zu", i);
    double picked = plan.rungs.len ? plan.rungs.at[0].tokens_per_second : 0;
    printf("  %d MiB: %zu fit, the fastest has %.0f tokens per second, the pick %.0f\n",
           (int)cases[i].mib, all.fitting, all.fastest, picked);
    CHECK((all.fitting > 0) == (plan.rungs.len > 0), "case %zu: %zu fit", i, all.fitting);
    CHECK(picked >= 0.98 * all.fastest, "case %zu: %.0f of %.0f", i, picked, all.fastest);
    plim_plan_clear(&plan);
  }
}

// The search runs two steps and a plan shows three, so what seemed to fit may not. It must not hide what does.
TEST(what_hardly_fits_hides_nothing) {
  plim_plan_request r = request("llama", "llama-3.2-1b", 2, 1, 2048);
  r.world = 4, r.effective_batch = 8;
  r.alloc_conf = "expandable_segments:True";
  r.job.sharding = (plim_sharding){.strategy = PLIM_SHARD_FSDP2, .world = 4};
  r.holds_others = r.only_first = true;
  r.domains[PLIM_KNOB_CHECKPOINT] = (plim_domain){2, {PLIM_CHECKPOINT_OFF, PLIM_CHECKPOINT_ON}};
  r.domains[PLIM_KNOB_MICRO_BATCH] = (plim_domain){2, {1, 2}};
  r.domains[PLIM_KNOB_OFFLOAD] =
      (plim_domain){2, {named(PLIM_KNOB_OFFLOAD, "none"), named(PLIM_KNOB_OFFLOAD, "parameters")}};
  for (uint64_t mib = 5600; mib <= 8000; mib += 100) {
    plim_plan plan;
    r.target = plim_target_size(mib * PLIM_MIB);
    reality all = look_at_all(&r);
    CHECK(make(&r, &plan), "%d MiB", (int)mib);
    double picked = plan.rungs.len ? plan.rungs.at[0].tokens_per_second : 0;
    CHECK(picked >= 0.98 * all.fastest, "%d MiB: %.0f of %.0f", (int)mib, picked, all.fastest);
    plim_plan_clear(&plan);
  }
}

// Without accumulation no gradients are kept during a forward pass, so a larger micro batch can need less memory.
TEST(a_larger_micro_batch_can_need_less_memory) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b", 1, 2, 256);
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  r.holds_others = true;
  r.margin = 0;
  r.target = plim_target_size(5632 * PLIM_MIB);
  r.domains[PLIM_KNOB_MICRO_BATCH] = (plim_domain){2, {1, 2}};
  plim_plan plan;
  CHECK(make(&r, &plan) && plan.rungs.len, "something fits");
  CHECK(!plan.before.fits && plan.rungs.at[0].choice.at[PLIM_KNOB_ACCUMULATE] == 1, "2 x 1");
  plim_plan_clear(&plan);
}

TEST(the_users_own_settings_are_a_candidate) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b", 2, 1, 256);
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  r.job.recipe.optimizer = plim_optimizer_named("paged-adamw");
  r.margin = 0;
  plim_plan plan;
  r.target = plim_target_size(3584 * PLIM_MIB);
  CHECK(make(&r, &plan) && plan.before.fits && plan.rungs.len, "they fit, so something does");
  plim_plan_clear(&plan);
}

// ---- every value ------------------------------------------------------------------------------------

TEST(no_divisor_is_left_out) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b", 6, 120, 64);
  plim_plan_request fixed = r;
  fixed.domains[PLIM_KNOB_MICRO_BATCH] = only(180);
  plim_plan all, one;
  CHECK(make(&r, &all) && make(&fixed, &one) && all.rungs.len && one.rungs.len, "plans");
  CHECK(all.rungs.at[0].tokens_per_second >= 0.99 * one.rungs.at[0].tokens_per_second,
        "%.0f, with 180 at once %.0f", all.rungs.at[0].tokens_per_second,
        one.rungs.at[0].tokens_per_second);
  plim_plan_clear(&all);
  plim_plan_clear(&one);
}

TEST(any_batch_tries_every_accumulation) {
  plim_plan_request r = small(1, 1);
  plim_plan plan;
  r.job.recipe.length = 32;
  r.effective_batch = 0;
  r.holds_others = true;
  r.domains[PLIM_KNOB_ACCUMULATE] = (plim_domain){3, {1, 2, 16}};
  CHECK(make(&r, &plan) && plan.rungs.len, "a plan");
  double picked = plan.rungs.at[0].tokens_per_second;
  for (int i = 0; i < 3; i++) {
    plim_plan_request fixed = r;
    plim_plan one;
    fixed.domains[PLIM_KNOB_ACCUMULATE] = only(r.domains[PLIM_KNOB_ACCUMULATE].at[i]);
    CHECK(make(&fixed, &one) && one.rungs.len, "a plan");
    CHECK(picked >= 0.98 * one.rungs.at[0].tokens_per_second, "%.0f, fixed %.0f", picked,
          one.rungs.at[0].tokens_per_second);
    plim_plan_clear(&one);
  }
  CHECK(plan.rungs.at[0].choice.at[PLIM_KNOB_MICRO_BATCH] > 256, "and as much at once as fits: %d",
        (int)plan.rungs.at[0].choice.at[PLIM_KNOB_MICRO_BATCH]);
  plim_plan_clear(&plan);
}

// ---- concessions ------------------------------------------------------------------------------------

static plim_plan_request adapters(uint64_t mib) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b", 2, 2, 1024);
  r.job.lora = (plim_lora){.rank = 128, .targets = PLIM_ALL_LINEAR};
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  r.target = plim_target_size(mib * PLIM_MIB);
  r.domains[PLIM_KNOB_OFFLOAD] = only(0);
  r.domains[PLIM_KNOB_CHECKPOINT] = only(PLIM_CHECKPOINT_ON);
  return r;
}

static int64_t chosen(const plim_plan *plan, plim_knob knob) {
  return plan->rungs.len ? plan->rungs.at[0].choice.at[knob] : -1;
}

// Shrinks the card in steps until nothing fits without a concession.
static void shrink(plim_plan_request *r) {
  plim_plan_request strict = *r;
  plim_plan plan;
  bool fits = true;
  memset(strict.allowed, 0, sizeof strict.allowed);
  for (uint64_t mib = 6144; fits && mib > 1024; mib -= 96) {
    r->target = strict.target = plim_target_size(mib * PLIM_MIB);
    if (!make(&strict, &plan)) return;
    fits = plan.rungs.len > 0;
    plim_plan_clear(&plan);
  }
}

TEST(the_least_that_fits_is_conceded) {
  plim_plan_request r = adapters(4096);
  plim_plan plan;
  r.allowed[PLIM_KNOB_LORA_RANK] = true;
  CHECK(make(&r, &plan) && chosen(&plan, PLIM_KNOB_LORA_RANK) == 128, "nothing, as all fits");
  CHECK(!plan.concedes, "so it says");
  plim_plan_clear(&plan);
  r.domains[PLIM_KNOB_OPTIMIZER] = only(0);
  shrink(&r);
  CHECK(make(&r, &plan), "a plan");
  CHECK(chosen(&plan, PLIM_KNOB_LORA_RANK) == 96, "one step: %d",
        (int)chosen(&plan, PLIM_KNOB_LORA_RANK));
  CHECK(plan.concedes, "so it says");
  plim_plan_clear(&plan);
  r.allowed[PLIM_KNOB_QUANTISATION] = r.allowed[PLIM_KNOB_SEQUENCE] = true;
  CHECK(make(&r, &plan), "a plan");
  int changed = (chosen(&plan, PLIM_KNOB_LORA_RANK) != 128) +
                (chosen(&plan, PLIM_KNOB_SEQUENCE) != 1024) +
                (chosen(&plan, PLIM_KNOB_QUANTISATION) != 0);
  CHECK(changed == 1 && chosen(&plan, PLIM_KNOB_LORA_RANK) == 128, "one knob, an earlier one");
  plim_plan_clear(&plan);
}

TEST(named_lengths_are_tried_from_the_longest) {
  plim_plan_request r = adapters(8192);
  plim_plan plan;
  r.holds_others = true;
  r.domains[PLIM_KNOB_SEQUENCE] = (plim_domain){3, {256, 1024, 512}};
  CHECK(make(&r, &plan) && chosen(&plan, PLIM_KNOB_SEQUENCE) == 1024, "as long as it was");
  plim_plan_clear(&plan);
}

// Full training of a model whose optimizer states do not fit: 8-bit states are offered, and used only with consent.
TEST(states_of_8_bits_need_consent) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b", 1, 4, 256);
  plim_plan plan;
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  r.holds_others = true;
  shrink(&r);
  CHECK(make(&r, &plan) && !plan.rungs.len, "nothing fits");
  bool is_offered = false;
  for (size_t i = 0; i < plan.concessions.len; i++)
    is_offered |=
        plan.concessions.at[i].knob[0] == PLIM_KNOB_OPTIMIZER && plan.concessions.at[i].fits;
  CHECK(is_offered, "8 bits would");
  plim_plan_clear(&plan);
  r.allowed[PLIM_KNOB_OPTIMIZER] = true;
  CHECK(make(&r, &plan) &&
            chosen(&plan, PLIM_KNOB_OPTIMIZER) == named(PLIM_KNOB_OPTIMIZER, "adamw-8bit"),
        "and are taken");
  plim_plan_clear(&plan);
}

TEST(the_host_is_used_where_nothing_else_fits) {
  plim_plan_request r = request("qwen2", "qwen2.5-0.5b", 1, 4, 256);
  plim_plan plan;
  CHECK(make(&r, &plan) && !plan.rungs.at[0].e.p.host_bytes, "not on a large card");
  plim_plan_clear(&plan);
  r.target = plim_target_size(4300 * PLIM_MIB);
  CHECK(make(&r, &plan) && plan.rungs.len, "something fits");
  CHECK(plan.rungs.at[0].e.p.host_bytes > 0, "with the host's help");
  CHECK(!plan.concedes, "and nothing learned otherwise");
  plim_plan_clear(&plan);
}

// ---- batches that must not be split -----------------------------------------------------------------

static int64_t planned_batch(const plim_plan_request *r) {
  plim_plan plan;
  if (!make(r, &plan)) return -1;
  int64_t batch = chosen(&plan, PLIM_KNOB_MICRO_BATCH);
  plim_plan_clear(&plan);
  return batch;
}

// What needs least is different for each class that offloads, and for weights that autograd saves beside its hooks.
TEST(what_fits_when_fixed_is_found_when_free) {
  static const struct {
    plim_saving how;
    plim_weights_kind weights;
  } cases[] = {{PLIM_SAVED_HERE, PLIM_WEIGHTS_PLAIN},   {PLIM_SAVED_INPUTS, PLIM_WEIGHTS_PLAIN},
               {PLIM_SAVED_BY_TRL, PLIM_WEIGHTS_PLAIN}, {PLIM_SAVED_HERE, PLIM_WEIGHTS_INT8},
               {PLIM_SAVED_INPUTS, PLIM_WEIGHTS_INT8},  {PLIM_SAVED_BY_AXOLOTL, PLIM_WEIGHTS_INT8}};
  static const int64_t checkpoints[] = {PLIM_CHECKPOINT_ON, PLIM_CHECKPOINT_OFFLOADED};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plim_plan_request r = request("qwen2", "qwen2.5-0.5b", 2, 2, 2048);
    r.margin = 0;
    r.job.model.layers /= 2;
    r.job.weights = cases[i].weights;
    r.job.lora = (plim_lora){.rank = 8, .targets = PLIM_ALL_LINEAR};
    r.job.recipe.offloading = cases[i].how;
    r.domains[PLIM_KNOB_LIGER] = only(0);
    r.domains[PLIM_KNOB_MICRO_BATCH] = only(1);
    r.domains[PLIM_KNOB_OPTIMIZER] = only(named(PLIM_KNOB_OPTIMIZER, "adamw"));
    uint64_t least = UINT64_MAX;
    for (int k = 0; k < 4; k++) {
      plim_plan_request fixed = r;
      plim_plan plan;
      fixed.domains[PLIM_KNOB_CHECKPOINT] = only(checkpoints[k & 1]);
      fixed.domains[PLIM_KNOB_OFFLOAD] =
          only(named(PLIM_KNOB_OFFLOAD, k >> 1 ? "activations" : "none"));
      if (!make(&fixed, &plan)) continue;
      for (size_t n = 0; n < plan.rungs.len; n++)
        if (plan.rungs.at[n].e.device_bytes < least) least = plan.rungs.at[n].e.device_bytes;
      plim_plan_clear(&plan);
    }
    plim_plan plan;
    r.target = plim_target_size(least);
    CHECK(make(&r, &plan) && plan.rungs.len, "case %zu: nothing in %llu bytes", i,
          (unsigned long long)least);
    plim_plan_clear(&plan);
  }
}

TEST(a_batch_that_must_not_be_split_stays) {
  plim_plan_request r = small(48, 1);
  r.target = plim_target_size(4 * PLIM_GIB);
  r.domains[PLIM_KNOB_CHECKPOINT] = only(0);
  r.domains[PLIM_KNOB_OFFLOAD] = only(0);
  CHECK(planned_batch(&r) < 48 && planned_batch(&r) > 0, "it would shrink: %d",
        (int)planned_batch(&r));
  r.is_contrastive = true;
  CHECK(planned_batch(&r) == -1, "within a loss: nothing fits");
  r.is_contrastive = false;
  r.has_batch_norm = true;
  CHECK(planned_batch(&r) == -1, "within a norm: nothing fits");
  r.allowed[PLIM_KNOB_MICRO_BATCH] = true;
  CHECK(planned_batch(&r) == 16, "by the least that fits: %d", (int)planned_batch(&r));
  r.domains[PLIM_KNOB_MICRO_BATCH] = only(24);
  CHECK(planned_batch(&r) == -1, "more does not fit");
}

// ---- needless changes -------------------------------------------------------------------------------

TEST(changes_without_a_gain_are_not_made) {
  plim_plan_request r = small(8, 2);
  plim_plan plan;
  r.job.lora = (plim_lora){.rank = 8, .targets = PLIM_ALL_LINEAR};
  r.job.recipe.optimizer = plim_optimizer_named("adamw-foreach");
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_REENTRANT;
  r.domains[PLIM_KNOB_CHECKPOINT] =
      (plim_domain){2, {PLIM_CHECKPOINT_ON, PLIM_CHECKPOINT_REENTRANT}};
  r.domains[PLIM_KNOB_MICRO_BATCH] = only(8);
  CHECK(make(&r, &plan) && plan.rungs.len, "a plan");
  for (size_t i = 0; i < plan.changes.len; i++) {
    const plim_plan_change *x = &plan.changes.at[i];
    double share = -x->costs_seconds / plan.rungs.at[0].step_seconds;
    CHECK(x->follows || x->is_needed || share > 0.009, "%s: %.4f of the time",
          plim_knob_table[x->knob].name, share);
  }
  CHECK(chosen(&plan, PLIM_KNOB_CHECKPOINT) == PLIM_CHECKPOINT_REENTRANT, "as it was");
  CHECK(chosen(&plan, PLIM_KNOB_ALLOC_CONF) == 0, "as it was");
  plim_plan_clear(&plan);
}

TEST(accumulation_alone_is_a_change) {
  plim_plan_request r = small(2, 1);
  plim_plan plan;
  r.effective_batch = 64;
  r.domains[PLIM_KNOB_MICRO_BATCH] = only(2);
  CHECK(make(&r, &plan) && plan.changes.len, "changes");
  CHECK(plan.changes.at[0].knob == PLIM_KNOB_ACCUMULATE && plan.changes.at[0].is_asked &&
            plan.changes.at[0].costs_seconds > 0,
        "1 to 32, as asked for");
  plim_plan_clear(&plan);
}

// If no times are known, the plan with the least work for the user comes first: no custom loss.
TEST(without_times_little_is_changed) {
  plim_plan_request r = small(16, 1);
  plim_plan plan;
  r.target = plim_target_size(3 * PLIM_GIB);
  r.target.gpu = NULL;
  CHECK(make(&r, &plan) && plan.rungs.len, "a plan");
  CHECK(chosen(&plan, PLIM_KNOB_CHUNKED_LOSS) == 0, "the loss stays");
  plim_plan_clear(&plan);
}

// ---- several GPUs -----------------------------------------------------------------------------------

TEST(a_named_pair_is_tried) {
  plim_plan_request r = small(2, 2);
  plim_plan plan;
  r.world = 2;
  r.effective_batch = 8;
  r.job.sharding = (plim_sharding){.strategy = PLIM_SHARD_DDP, .world = 2};
  r.domains[PLIM_KNOB_STRATEGY] = only(PLIM_SHARD_ZERO3);
  r.domains[PLIM_KNOB_OFFLOAD] = only(named(PLIM_KNOB_OFFLOAD, "optimizer"));
  CHECK(make(&r, &plan) && plan.rungs.len, "a pair that is in no list of its own");
  plim_job job = plim_choice_job(&r, &plan.rungs.at[0].choice);
  CHECK(job.sharding.offloads_optimizer && !job.sharding.offloads_parameters, "as it says");
  plim_plan_clear(&plan);
  r.domains[PLIM_KNOB_STRATEGY] = only(PLIM_SHARD_DDP);
  CHECK(plim_plan_make(&r, &plan, NULL) == PLIM_ERR_ARGUMENT, "DDP keeps nothing on the host");
}

// The pick is the fastest; with a pair of its values refused, no rung has the pair, even if it is the user's own.
TEST(a_pair_that_the_framework_refuses_is_not_planned) {
  plim_plan_request r = small_domain(4, 2, 80 * 1024);
  plim_plan plan;
  r.domains[PLIM_KNOB_MICRO_BATCH] = only(4);
  CHECK(make(&r, &plan) && chosen(&plan, PLIM_KNOB_CHECKPOINT) == PLIM_CHECKPOINT_OFF, "faster");
  plim_plan_clear(&plan);
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  r.refused[r.refused_count++] = (plim_refused_pair){{PLIM_KNOB_ALLOC_CONF, PLIM_KNOB_CHECKPOINT},
                                                     {"unchanged expandable_segments:True", "off"}};
  CHECK(make(&r, &plan) && plan.rungs.len, "something else is");
  for (size_t i = 0; i < plan.rungs.len; i++)
    CHECK(plan.rungs.at[i].choice.at[PLIM_KNOB_CHECKPOINT] != PLIM_CHECKPOINT_OFF, "row %zu", i);
  plim_plan_clear(&plan);
  r.domains[PLIM_KNOB_CHECKPOINT] = only(PLIM_CHECKPOINT_OFF);
  CHECK(plim_plan_make(&r, &plan, NULL) == PLIM_ERR_ARGUMENT, "nor if it is asked for");
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_OFF;
  CHECK(plim_plan_make(&r, &plan, NULL) == PLIM_ERR_ARGUMENT, "nor if it is the user's own");
}

TEST(a_choice_without_sharing_is_one_gpu) {
  plim_plan_request r = small(2, 2);
  r.world = 4;
  r.job.sharding = (plim_sharding){.strategy = PLIM_SHARD_DDP, .world = 4};
  plim_choice c = plim_plan_own_choice(&r);
  CHECK(plim_choice_job(&r, &c).sharding.world == 4, "all of them");
  c.at[PLIM_KNOB_STRATEGY] = PLIM_SHARD_NONE;
  CHECK(plim_choice_job(&r, &c).sharding.world == 1, "alone");
  r.effective_batch = 6;
  plim_plan plan;
  CHECK(plim_plan_make(&r, &plan, NULL) == PLIM_ERR_ARGUMENT, "6 do not divide among 4");
}

// ---- margins ----------------------------------------------------------------------------------------

TEST(a_margin_is_left_free) {
  plim_plan_request r = small(8, 1);
  plim_plan plan;
  r.holds_others = true;
  r.domains[PLIM_KNOB_MICRO_BATCH] = only(8);
  CHECK(make(&r, &plan) && plan.rungs.len, "it fits");
  uint64_t bytes = plan.rungs.at[0].e.device_bytes;
  plim_plan_clear(&plan);
  r.target = plim_target_size(bytes + 8 * PLIM_MIB);
  r.margin = 0;
  CHECK(make(&r, &plan) && plan.rungs.len, "just so");
  plim_plan_clear(&plan);
  r.margin = 0.2;
  CHECK(make(&r, &plan) && !plan.rungs.len && plan.is_tight, "not with a fifth left free");
  plim_plan_clear(&plan);
  r.margin = -1;
  CHECK(make(&r, &plan) && !plan.rungs.len && plan.is_tight, "nor within what is uncertain");
  plim_plan_clear(&plan);
  r.target = plim_target_size(bytes - 64 * PLIM_MIB);
  r.margin = 0;
  CHECK(make(&r, &plan) && !plan.rungs.len && !plan.is_tight, "it does not fit at all");
  plim_plan_clear(&plan);
}

// ---- the independent check --------------------------------------------------------------------------

#define REFUSED(change)                                                                            \
  do {                                                                                             \
    plim_plan wrong = plan;                                                                        \
    plim_rung rungs[2] = {plan.rungs.at[0], plan.rungs.at[1]};                                     \
    wrong.rungs.at = rungs;                                                                        \
    wrong.rungs.len = 2;                                                                           \
    CHECK(!plim_plan_check(&r, &wrong, NULL), "sound before " #change);                            \
    change;                                                                                        \
    CHECK(plim_plan_check(&r, &wrong, NULL), "wrong after " #change);                              \
  } while (0)

// A run that needs more memory than predicted must not be planned closer to the end of the card than it is.
TEST(a_prediction_that_errs_low_gets_no_more_memory) {
  plim_plan_request r = small(8, 1);
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  plim_plan free, held, asked;
  CHECK(make(&r, &free) && free.rungs.len, "planned");
  CHECK(!free.is_held && free.rungs.at[0].e.device_bytes > free.before.device_bytes,
        "memory is used for speed");
  r.errs_low = true;
  CHECK(make(&r, &held) && held.rungs.len, "planned");
  CHECK(held.is_held && held.rungs.at[0].e.device_bytes <= held.before.device_bytes,
        "no more memory than before");
  CHECK(!held.tight.e.device_bytes, "nothing faster is offered");
  r.domains[PLIM_KNOB_CHECKPOINT] = only(PLIM_CHECKPOINT_OFF);
  CHECK(make(&r, &asked) && asked.rungs.len && !asked.is_held, "unless the user asks for it");
  plim_plan_clear(&free);
  plim_plan_clear(&held);
  plim_plan_clear(&asked);
}

// What images need is not predicted, and grows with the micro batch and without checkpoints.
TEST(what_is_not_predicted_is_not_multiplied) {
  plim_plan_request r = small(8, 1);
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  r.job.recipe.batch = 2, r.job.recipe.accumulate = 4;
  plim_plan plan;
  CHECK(make(&r, &plan) && plan.rungs.len, "planned");
  const int64_t *first = plan.rungs.at[0].choice.at;
  CHECK(first[PLIM_KNOB_MICRO_BATCH] > 2 && first[PLIM_KNOB_CHECKPOINT] == PLIM_CHECKPOINT_OFF,
        "both are faster");
  r.omits_part = true;
  CHECK(plim_plan_check(&r, &plan, NULL), "the independent check finds that");
  plim_plan_clear(&plan);
  CHECK(make(&r, &plan) && plan.rungs.len, "planned");
  for (size_t i = 0; i < plan.rungs.len; i++) {
    const int64_t *at = plan.rungs.at[i].choice.at;
    CHECK(at[PLIM_KNOB_MICRO_BATCH] <= 2 && at[PLIM_KNOB_CHECKPOINT] != PLIM_CHECKPOINT_OFF,
          "row %zu multiplies nothing", i);
  }
  plim_plan_clear(&plan);
  r.domains[PLIM_KNOB_MICRO_BATCH] = only(8);
  r.domains[PLIM_KNOB_CHECKPOINT] = only(PLIM_CHECKPOINT_OFF);
  CHECK(make(&r, &plan) && plan.rungs.len, "planned as asked");
  CHECK_U64((uint64_t)plan.rungs.at[0].choice.at[PLIM_KNOB_MICRO_BATCH], 8);
  plim_plan_clear(&plan);
}

TEST(the_independent_check_finds_a_wrong_plan) {
  plim_plan_request r = small(8, 1);
  plim_plan plan;
  r.domains[PLIM_KNOB_ATTENTION] = only(0);
  r.target = plim_target_size(4 * PLIM_GIB);
  CHECK(make(&r, &plan) && plan.rungs.len > 1, "a ladder");
  REFUSED(rungs[1].choice.at[PLIM_KNOB_ACCUMULATE] += 1);
  REFUSED(rungs[0].e.component_bytes[0] += 1);
  REFUSED(rungs[0].e.fits = false);
  REFUSED(rungs[0].e.capped.runs_out = true);
  REFUSED(rungs[0].e.interval_bytes[1] = r.target.budget_bytes + 1);
  REFUSED(rungs[1] = rungs[0]);
  REFUSED(rungs[0].choice.at[PLIM_KNOB_ATTENTION] = 1);
  REFUSED(rungs[0].choice.at[PLIM_KNOB_SEQUENCE] /= 2);
  REFUSED(rungs[0].choice.at[PLIM_KNOB_OPTIMIZER] = named(PLIM_KNOB_OPTIMIZER, "adamw-8bit"));
  r.margin = 0;
  uint64_t budget = r.target.budget_bytes;
  r.target.budget_bytes = plan.rungs.at[0].e.device_bytes;
  CHECK(!plim_plan_check(&r, &plan, NULL), "just fits");
  r.margin = 0.1;
  CHECK(plim_plan_check(&r, &plan, NULL), "not with a tenth left free");
  r.target.budget_bytes = budget;
  plim_plan_clear(&plan);
}

// ---- names ------------------------------------------------------------------------------------------

TEST(flags_name_their_knobs) {
  CHECK(plim_knob_named("batch") == PLIM_KNOB_MICRO_BATCH, "batch");
  CHECK(plim_knob_named("seq") == PLIM_KNOB_SEQUENCE, "seq");
  CHECK(plim_knob_named("lora-rank") == PLIM_KNOB_LORA_RANK, "lora-rank");
  CHECK(plim_knob_named("loss") == PLIM_KNOB_CHUNKED_LOSS, "loss");
  CHECK(named(PLIM_KNOB_CHUNKED_LOSS, "full") == 0 &&
            named(PLIM_KNOB_CHUNKED_LOSS, "chunked") == 512,
        "losses");
  CHECK(named(PLIM_KNOB_OPTIMIZER, "adamw_torch_fused") == named(PLIM_KNOB_OPTIMIZER, "adamw"),
        "transformers' names");
}

// Every value is read back from the words that texts, errors and --fix have for it; what is out of range is none.
TEST(words_of_values_are_read_back) {
  static const int64_t counts[] = {0, 1, 512, PLIM_MAX_BATCH};
  char text[96], values[320];
  int64_t back;
  for (size_t i = 0; i < plim_plan_knob_count; i++) {
    plim_knob knob = plim_plan_knobs[i];
    const char *name = plim_knob_table[knob].name;
    bool is_named = plim_knob_value_name(knob, 0);
    plim_knob_values_text(knob, values, sizeof values);
    CHECK(*values, "%s says nothing of its values", name);
    for (int64_t k = 0; is_named ? plim_knob_value_name(knob, k) != NULL : k < 4; k++) {
      int64_t value = is_named ? k : counts[k];
      plim_knob_value_text(knob, value, text, sizeof text);
      bool is_read = plim_knob_value_of(knob, text, &back);
      bool is_refused = !is_named && !value && strstr(values, "from 1") && !strstr(values, "off");
      CHECK(is_refused ? !is_read : is_read && back == value, "%s=%s", name, text);
    }
    CHECK(!plim_knob_value_of(knob, "2000000", &back), "%s=2000000", name);
  }
  CHECK(strcmp(plim_knob_value_near(PLIM_KNOB_OPTIMIZER, "adam"), "adamw") == 0, "the closest");
  CHECK(!plim_knob_value_near(PLIM_KNOB_LIGER, "maybe"), "none is close");
}

// ---- time -------------------------------------------------------------------------------------------

// Candidates are counted, since seconds depend on the machine. bench/predict.py measures them.
TEST(a_7b_model_with_all_allowed_takes_few_candidates) {
  plim_plan_request r = request("qwen2", "qwen2.5-7b", 2, 8, 2048);
  plim_plan plan;
  r.job.lora = (plim_lora){.rank = 128, .targets = PLIM_ALL_LINEAR};
  r.job.recipe.autocast = PLIM_BF16;
  r.job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  r.target = plim_target_size(12 * PLIM_GIB);
  r.allowed[PLIM_KNOB_SEQUENCE] = r.allowed[PLIM_KNOB_LORA_RANK] = true;
  r.allowed[PLIM_KNOB_QUANTISATION] = true;
  CHECK(make(&r, &plan), "a plan");
  CHECK(plan.tried < 600, "%zu tried", plan.tried);
  plim_plan_clear(&plan);
}

TEST_MAIN
