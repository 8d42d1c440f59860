// Links between GPUs and to the host: properties that do not depend on the rates.
#include <math.h>
#include <string.h>

#include "estimate.h"
#include "plan.h"
#include "shared_job.h"
#include "unverified.h"

static plim_job job_of(const char *model, plim_strategy strategy, int64_t world) {
  return shared_job(model, 512, strategy, world);
}

static plim_step_time step_of(const plim_job *job, const char *card) {
  return predict_on(job, card).step;
}

static double seconds(const plim_job *job, const char *card) { return step_of(job, card).seconds; }

static const plim_strategy shared[] = {PLIM_SHARD_DDP, PLIM_SHARD_FSDP2, PLIM_SHARD_ZERO1,
                                       PLIM_SHARD_ZERO2, PLIM_SHARD_ZERO3};
enum { SHARED = sizeof shared / sizeof *shared };

TEST(every_card_reaches_the_host_and_nvlink_is_faster_than_that) {
  for (size_t i = 0; i < plim_gpu_count; i++) {
    double pcie = plim_gpu_pcie_gbs(&plim_gpus[i]), nvlink = plim_gpu_nvlink_gbs(&plim_gpus[i]);
    CHECK(pcie >= 12 && pcie <= 48, "%s: PCIe at %g GB/s", plim_gpus[i].name, pcie);
    CHECK(nvlink == 0 || nvlink > 2 * pcie, "%s: NVLink at %g GB/s", plim_gpus[i].name, nvlink);
    bool is_board = strstr(plim_gpus[i].name, "SXM") || strcmp(plim_gpus[i].name, "H200") == 0 ||
                    strcmp(plim_gpus[i].name, "B200") == 0;
    CHECK(!is_board || nvlink > 0, "%s has no NVLink", plim_gpus[i].name);
  }
}

TEST(links_of_some_cards) {
  static const struct {
    const char *card;
    double pcie, nvlink;
  } known[] = {{"T4", 12, 0},
               {"A2", 12, 0},
               {"RTX 4060 Ti 8GB", 12, 0},
               {"RTX 4090", 24, 0},
               {"RTX 5090", 48, 0},
               {"RTX 5060 Ti 16GB", 24, 0},
               {"A100 80GB PCIe", 24, 0},
               {"V100 32GB SXM", 12, 120},
               {"A100 80GB SXM", 24, 240},
               {"H200", 48, 370.8},
               {"B200", 48, 721.8}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const plim_gpu *gpu = plim_gpu_named(known[i].card);
    CHECK(gpu, "%s is not in the catalogue", known[i].card);
    double pcie = plim_gpu_pcie_gbs(gpu), nvlink = plim_gpu_nvlink_gbs(gpu);
    CHECK(pcie == known[i].pcie && fabs(nvlink - known[i].nvlink) < 1e-9, "%s: %g and %g GB/s",
          known[i].card, pcie, nvlink);
  }
}

TEST(one_gpu_sends_nothing) {
  for (size_t i = 0; i < SHARED; i++) {
    plim_job job = job_of("llama-3.2-1b", shared[i], 1);
    plim_step_time step = step_of(&job, "H100 SXM");
    CHECK(step.sent_seconds == 0 && step.waited_seconds == 0, "%s", plim_strategy_names[shared[i]]);
  }
  plim_job alone = job_of("llama-3.2-1b", PLIM_SHARD_NONE, 1);
  plim_job ddp = job_of("llama-3.2-1b", PLIM_SHARD_DDP, 1);
  CHECK(seconds(&alone, "H100 SXM") == seconds(&ddp, "H100 SXM"), "DDP alone takes time");
}

TEST(more_gpus_more_machines_and_slower_links_never_make_a_step_shorter) {
  for (size_t i = 0; i < SHARED; i++) {
    const char *name = plim_strategy_names[shared[i]];
    plim_job job = job_of("llama-3.2-1b", shared[i], 8);
    double one = seconds(&job, "H100 SXM");
    job.sharding.link = PLIM_LINK_PCIE;
    double pcie = seconds(&job, "H100 SXM");
    job.sharding.link = PLIM_LINK_OF_CARD;
    job.sharding.nodes = 2;
    double two = seconds(&job, "H100 SXM");
    job.sharding.nodes = 8;
    double eight = seconds(&job, "H100 SXM");
    job.sharding.network_gbs = 1.25;
    double slow = seconds(&job, "H100 SXM");
    CHECK(one < pcie, "%s: NVLink %g s, PCIe %g s", name, one, pcie);
    CHECK(one <= two && two <= eight && eight < slow, "%s: %g, %g, %g, %g s", name, one, two, eight,
          slow);
  }
}

// With sharded optimizers each rank updates only its part, so this is checked only for DDP.
TEST(ddp_takes_longer_with_every_gpu) {
  double last = 0;
  for (int64_t world = 1; world <= 64; world *= 2) {
    plim_job job = job_of("llama-3.2-1b", PLIM_SHARD_DDP, world);
    job.sharding.nodes = world > 8 ? world / 8 : 1;
    double now = seconds(&job, "RTX 4090");
    CHECK(now > last, "%d GPUs: %g s, fewer %g s", (int)world, now, last);
    last = now;
  }
}

TEST(what_is_offloaded_is_slower) {
  static const struct {
    plim_strategy strategy;
    bool parameters;
  } ways[] = {{PLIM_SHARD_ZERO2, false},
              {PLIM_SHARD_ZERO3, false},
              {PLIM_SHARD_ZERO3, true},
              {PLIM_SHARD_FSDP2, true}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    plim_job job = job_of("llama-3.2-1b", ways[i].strategy, 4);
    double here = seconds(&job, "A100 80GB SXM");
    job.sharding.offloads_optimizer = true;
    job.sharding.offloads_parameters = ways[i].parameters;
    double there = seconds(&job, "A100 80GB SXM");
    CHECK(there > here, "%s: %g s, offloaded %g s", plim_strategy_names[ways[i].strategy], here,
          there);
  }
}

// pin_memory: false. Every pass of a step moves gradients; parameters that are trained are pinned by ZeRO 3 in any case.
TEST(memory_that_is_not_pinned_makes_a_step_longer_and_needs_no_other_memory) {
  static const struct {
    plim_strategy strategy;
    bool parameters, pages_parameters;
  } ways[] = {{PLIM_SHARD_ZERO1, false, false},
              {PLIM_SHARD_ZERO2, false, false},
              {PLIM_SHARD_ZERO3, false, false},
              {PLIM_SHARD_ZERO3, true, true},
              {PLIM_SHARD_FSDP2, true, false}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    const char *name = plim_strategy_names[ways[i].strategy];
    double last = 0;
    for (int passes = 1; passes <= 4; passes *= 4) {
      plim_job job = job_of("llama-3.2-1b", ways[i].strategy, 4);
      job.recipe.accumulate = passes;
      job.sharding.offloads_optimizer = true;
      job.sharding.offloads_parameters = ways[i].parameters;
      if (ways[i].pages_parameters) job.lora = (plim_lora){.rank = 8, .targets = PLIM_ALL_LINEAR};
      plim_prediction pinned = predict_on(&job, "A100 80GB SXM");
      CHECK(!plim_job_copies_pageable(&job), "%s", name);
      job.sharding.pages_all = true;
      job.sharding.pages_optimizer = !ways[i].pages_parameters;
      job.sharding.pages_parameters = ways[i].pages_parameters;
      plim_prediction paged = predict_on(&job, "A100 80GB SXM");
      CHECK(plim_job_copies_pageable(&job), "%s", name);
      double more = paged.step.seconds - pinned.step.seconds;
      bool is_once = ways[i].strategy == PLIM_SHARD_ZERO1; // gradients stay until the last pass
      CHECK(more > (is_once ? 0 : 1.5 * last), "%s, %d passes: %g s more, before %g", name, passes,
            more, last);
      CHECK(paged.peak_reserved_bytes == pinned.peak_reserved_bytes, "%s: another peak", name);
      last = more;
    }
  }
}

TEST(zero_3_pins_what_it_trains) {
  plim_job job = job_of("llama-3.2-1b", PLIM_SHARD_ZERO3, 4);
  job.sharding.offloads_optimizer = job.sharding.offloads_parameters = true;
  double pinned = seconds(&job, "A100 80GB SXM");
  job.sharding.pages_parameters = true;
  CHECK(seconds(&job, "A100 80GB SXM") == pinned, "another time");
  CHECK(!plim_job_copies_pageable(&job), "said to be pageable");
}

// overlap_comm: false
TEST(zero_3_takes_longer_if_nothing_is_sent_while_it_computes) {
  for (int offloads = 0; offloads <= 1; offloads++) {
    plim_job job = job_of("llama-3.2-1b", PLIM_SHARD_ZERO3, 8);
    job.sharding.offloads_optimizer = offloads;
    plim_prediction beside = predict_on(&job, "RTX 4090");
    job.sharding.sends_in_turn = true;
    plim_prediction in_turn = predict_on(&job, "RTX 4090");
    CHECK(in_turn.step.seconds > beside.step.seconds, "%g s, before %g", in_turn.step.seconds,
          beside.step.seconds);
    CHECK(in_turn.peak_reserved_bytes == beside.peak_reserved_bytes, "another peak");
  }
}

// Offloaded activations are slower than both kept and recomputed ones, because of the link.
TEST(activations_on_the_host_are_slower_than_on_the_card) {
  plim_job job = job_of("llama-3.2-1b", PLIM_SHARD_NONE, 1);
  double kept = seconds(&job, "RTX 4090");
  job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  double again = seconds(&job, "RTX 4090");
  job.recipe.checkpoint = PLIM_CHECKPOINT_OFFLOADED;
  double inputs = seconds(&job, "RTX 4090");
  job.recipe.checkpoint = PLIM_CHECKPOINT_OFF;
  job.recipe.saving = PLIM_SAVED_ON_HOST;
  double all = seconds(&job, "RTX 4090");
  CHECK(kept < again && kept < inputs && again < all && inputs < all,
        "kept %g, computed again %g, inputs on the host %g, all there %g", kept, again, inputs,
        all);
}

TEST(paged_states_are_slower_than_states_on_the_card) {
  plim_job job = job_of("llama-3.2-1b", PLIM_SHARD_NONE, 1);
  job.recipe.optimizer = plim_optimizer_named("adamw-8bit");
  double here = seconds(&job, "RTX 4090");
  job.recipe.optimizer = plim_optimizer_named("paged-adamw-8bit");
  double paged = seconds(&job, "RTX 4090");
  CHECK(paged > here, "%g s, paged %g s", here, paged);
}

// With room beside the run's peak, paged states stay on the card.
TEST(paged_states_move_only_where_the_card_has_no_room) {
  plim_job job = job_of("llama-3.2-1b", PLIM_SHARD_NONE, 1);
  const plim_gpu *gpu = plim_gpu_named("RTX 4090");
  job.recipe.optimizer = plim_optimizer_named("paged-adamw-8bit");
  plim_prediction p;
  plim_predict_request request = {.job = &job, .gpu = gpu, .limit_bytes = PLIM_UNKNOWN};
  CHECK(!plim_predict(&request, &p, NULL), "no prediction");
  uint64_t whole = p.peak_reserved_bytes + p.host_bytes;
  double moved = p.step.seconds;
  request.limit_bytes = whole;
  CHECK(!plim_predict(&request, &p, NULL), "no prediction");
  double stayed = p.step.seconds;
  request.limit_bytes = whole - (64 << 20);
  CHECK(!plim_predict(&request, &p, NULL), "no prediction");
  CHECK(stayed < 0.95 * moved, "%g s with room, %g s without", stayed, moved);
  CHECK(p.step.seconds > 0.99 * moved, "%g s with too little room, %g s without", p.step.seconds,
        moved);
}

// With accumulation, Trainer reduces gradients once per step, a manual loop in every pass.
TEST(trainer_reduces_once_a_step) {
  plim_job job = job_of("llama-3.2-1b", PLIM_SHARD_DDP, 4);
  job.recipe.accumulate = 4;
  double plain = step_of(&job, "RTX 4090").sent_seconds;
  job.recipe.is_bare = false;
  job.recipe.is_trainer = true;
  plim_step_time trainer = step_of(&job, "RTX 4090");
  CHECK(plain > 3.9 * trainer.sent_seconds && plain < 4.1 * trainer.sent_seconds,
        "plain %g s, Trainer %g s", plain, trainer.sent_seconds);
  CHECK(trainer.pass_seconds * 4 < trainer.seconds - 0.9 * trainer.waited_seconds,
        "a pass takes %g s of %g s, and the wait is %g s", trainer.pass_seconds, trainer.seconds,
        trainer.waited_seconds);
}

TEST(links_are_unverified_and_say_nothing_of_memory) {
  plim_job job = job_of("llama-3.2-1b", PLIM_SHARD_FSDP2, 4);
  plim_target target = plim_target_any();
  plim_estimate e;
  CHECK(!plim_estimate_make(&job, &target, &e, NULL), "estimate");
  bool is_told = false;
  for (size_t i = 0; i < e.unverified_count; i++)
    is_told |= strstr(e.unverified[i], "communication between GPUs") != NULL;
  CHECK(is_told, "nothing is said of links");
  CHECK((double)e.interval_bytes[1] <= 1.006 * (double)e.device_bytes, "the interval is wider");
}

// Of FSDP2, only what it offloads was measured.
TEST(the_time_of_fsdps_own_code_is_said_to_be_missing) {
  static const struct {
    plim_strategy strategy;
    bool offloads, cuts_adapters;
    const char *told; // NULL: nothing
  } rows[] = {{PLIM_SHARD_FSDP2, false, false, "a step that waits for the CPU takes longer"},
              {PLIM_SHARD_FSDP2, false, true, "each matrix of the adapters"},
              {PLIM_SHARD_FSDP2, true, false, NULL},
              {PLIM_SHARD_ZERO3, false, false, NULL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plim_job job = job_of("llama-3.2-1b", rows[i].strategy, 4);
    plim_target target = plim_target_any();
    plim_estimate e;
    job.sharding.offloads_optimizer = job.sharding.offloads_parameters = rows[i].offloads;
    job.sharding.cuts_adapters = rows[i].cuts_adapters;
    if (rows[i].cuts_adapters) job.lora = (plim_lora){.rank = 8, .targets = PLIM_ALL_LINEAR};
    CHECK(!plim_estimate_make(&job, &target, &e, NULL), "estimate");
    const char *told = NULL;
    for (size_t k = 0; k < e.unverified_count; k++)
      if (strstr(e.unverified[k], "FSDP's own code")) told = e.unverified[k];
    CHECK(!told == !rows[i].told && (!told || strstr(told, rows[i].told)), "row %zu: %s", i,
          told ? told : "nothing");
  }
}

// ---- the planner ------------------------------------------------------------------------------------

static plim_strategy planned(const plim_job *job, const char *card, int world) {
  plim_plan_request r = {.job = *job,
                         .target = plim_target_gpu(plim_gpu_named(card)),
                         .world = world,
                         .effective_batch = 4 * (uint64_t)world,
                         .margin = -1};
  plim_plan plan;
  plim_error error = {0};
  if (plim_plan_make(&r, &plan, &error)) return PLIM_STRATEGIES;
  plim_strategy strategy = plan.rungs.len
                               ? (plim_strategy)plan.rungs.at[0].choice.at[PLIM_KNOB_STRATEGY]
                               : PLIM_STRATEGIES;
  plim_plan_clear(&plan);
  return strategy;
}

// FSDP2 updates only a part of the parameters on each card, which can save more time than its communication costs. The
// time of its Python code was not measured.
TEST(models_that_fit_need_no_sharding) {
  static const char *const cards[] = {"H100 SXM", "A100 80GB PCIe", "L40S"};
  for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
    plim_job job = job_of("llama-3.2-1b", PLIM_SHARD_DDP, 4);
    CHECK(planned(&job, cards[i], 4) == PLIM_SHARD_DDP, "%s: DDP does not stay", cards[i]);
    job.sharding.strategy = PLIM_SHARD_ZERO3;
    plim_strategy way = planned(&job, cards[i], 4);
    CHECK(way <= PLIM_SHARD_FSDP2 || way == PLIM_SHARD_ZERO3, "%s: ZeRO-3 becomes way %d", cards[i],
          (int)way);
  }
}

TEST(models_that_do_not_fit_are_sharded) {
  plim_job job = job_of("llama-3.1-8b", PLIM_SHARD_DDP, 8);
  plim_strategy way = planned(&job, "RTX 4090", 8);
  CHECK(way == PLIM_SHARD_FSDP2 || way == PLIM_SHARD_ZERO3, "way %d", (int)way);
}

TEST_MAIN
