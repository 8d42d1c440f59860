// Passes of a step that do the same are sent again (core/tape/pass_replay.h): the result is that of running each.
#include "catalogue.h"
#include "estimate.h"
#include "families.h"
#include "shortened_run.h"
#include "test.h"

static plim_job job_of(const char *model) {
  plim_job job = {.dtype = PLIM_BF16, .load = PLIM_LOAD_INIT};
  plim_config_init(&job.model, "llama", NULL);
  if (plim_catalogue_config(plim_catalogue_named(model), &job.model, NULL)) test_failed = true;
  job.model.layers = 2;
  job.model.vocabulary = 1024;
  job.recipe = (plim_recipe){.batch = 1,
                             .length = 384,
                             .steps = 3,
                             .accumulate = 6,
                             .is_trainer = true,
                             .autocast = PLIM_BF16,
                             .optimizer = plim_optimizer_named("adamw")};
  return job;
}

TEST(a_pass_sent_again_is_the_same_to_the_byte) {
  plim_job job = job_of("qwen2.5-0.5b");
  compare(&job, "Trainer");
  job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  compare(&job, "checkpoints");
  job.recipe.checkpoint = PLIM_CHECKPOINT_REENTRANT;
  compare(&job, "reentrant checkpoints");
  job.recipe.checkpoint = PLIM_CHECKPOINT_OFFLOADED;
  compare(&job, "checkpoints on the host");
  job.recipe.checkpoint = PLIM_CHECKPOINT_OFF;
  job.recipe.saving = PLIM_SAVED_ON_HOST;
  compare(&job, "saved tensors on the host");
  job.recipe.saving = PLIM_SAVED_HERE;
  job.lora = (plim_lora){.rank = 8, .targets = "q_proj,v_proj"};
  compare(&job, "adapters");
  job.recipe.is_trainer = false;
  compare(&job, "manual loop");
}

// Layers that round keep their scales until the next pass.
TEST(a_pass_of_rounding_layers_is_the_same) {
  plim_job job = job_of("qwen2.5-0.5b");
  job.qat = (plim_qat){PLIM_QAT_INT8_INT4, 128};
  compare(&job, "Trainer");
  job.recipe.is_trainer = false;
  job.recipe.loss = PLIM_LOSS_EIGHTHS;
  job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  compare(&job, "manual loop");
  job.qat.kind = PLIM_QAT_AXOLOTL;
  compare(&job, "as Axolotl");
  job.qat = (plim_qat){PLIM_QAT_MXFP4, 32};
  compare(&job, "MXFP4");
}

// Recurrences are folded inside of the passes.
TEST(a_pass_with_folded_loops_is_the_same) {
  plim_job job = job_of("qwen3.5-27b");
  job.recipe.length = 768;
  job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  compare(&job, "recurrence");
}

// The last pass of a step runs, because it reduces gradients or waits for that.
TEST(a_pass_of_a_sharded_model_is_the_same) {
  static const struct {
    const char *name;
    plim_sharding how;
    bool is_manual;
  } ways[] = {
      {"DDP", {.strategy = PLIM_SHARD_DDP}},
      {"DDP, manual loop", {.strategy = PLIM_SHARD_DDP}, true},
      {"FSDP2", {.strategy = PLIM_SHARD_FSDP2, .compute_dtype = PLIM_BF16}, true},
      {"FSDP2 with offload",
       {.strategy = PLIM_SHARD_FSDP2, .offloads_optimizer = true, .offloads_parameters = true},
       true},
      {"accelerate's FSDP2",
       {.strategy = PLIM_SHARD_FSDP2, .is_by_accelerate = true, .compute_dtype = PLIM_BF16}},
      {"ZeRO 1", {.strategy = PLIM_SHARD_ZERO1}},
      {"ZeRO 2", {.strategy = PLIM_SHARD_ZERO2}},
      {"ZeRO 2 with offload", {.strategy = PLIM_SHARD_ZERO2, .offloads_optimizer = true}},
      {"ZeRO 3", {.strategy = PLIM_SHARD_ZERO3}},
      {"ZeRO 3 with offload",
       {.strategy = PLIM_SHARD_ZERO3, .offloads_optimizer = true, .offloads_parameters = true}},
  };
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    plim_job job = job_of("qwen2.5-0.5b");
    job.recipe.autocast = PLIM_BOOL;
    job.sharding = ways[i].how;
    job.sharding.world = 4;
    job.recipe.is_trainer = !ways[i].is_manual;
    compare(&job, ways[i].name);
    job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
    compare(&job, ways[i].name);
    job.lora = (plim_lora){.rank = 8, .targets = "q_proj,v_proj"};
    compare(&job, ways[i].name);
  }
}

TEST(every_number_of_passes_is_the_same) {
  for (int passes = 1; passes <= 8; passes++) {
    plim_job job = job_of("qwen2.5-0.5b");
    job.recipe.accumulate = passes;
    plim_prediction all = predict_so(&job, "", PLIM_UNKNOWN, true);
    plim_prediction replayed = predict_so(&job, "", PLIM_UNKNOWN, false);
    CHECK(!replayed.folded_events == (passes < 3), "%d passes", passes);
    CHECK(has_same_bytes(&all, &replayed) && has_same_time(&all.step, &replayed.step), "%d passes",
          passes);
  }
}

// A step of eight passes runs two of them once it is known that they repeat.
TEST(many_passes_take_little_more_work_than_a_few) {
  plim_job job = job_of("qwen2.5-0.5b");
  job.recipe.accumulate = 8;
  plim_prediction p = predict_so(&job, "", PLIM_UNKNOWN, false);
  CHECK(p.folded_events > p.events / 2, "%llu of %llu events", (unsigned long long)p.folded_events,
        (unsigned long long)p.events);
}

TEST_MAIN
