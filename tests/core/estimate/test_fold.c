// Recurrences are folded (core/tape/fold.h): the result is that of running every round, and takes little work.
#include "catalogue.h"
#include "estimate.h"
#include "families.h"
#include "shortened_run.h"
#include "test.h"

static plim_job job_of(int64_t layers, int64_t length) {
  plim_job job = {.dtype = PLIM_BF16, .load = PLIM_LOAD_INIT};
  plim_config_init(&job.model, "llama", NULL);
  if (plim_catalogue_config(plim_catalogue_named("qwen3.5-27b"), &job.model, NULL))
    test_failed = true;
  job.model.layers = layers;
  job.recipe = (plim_recipe){.batch = 1,
                             .length = length,
                             .steps = 2,
                             .accumulate = 2,
                             .optimizer = plim_optimizer_named("adamw")};
  return job;
}

TEST(a_folded_recurrence_is_the_same_to_the_byte) {
  plim_job job = job_of(5, 768); // 12 chunks
  job.model.vocabulary = 1024;
  compare(&job, "plain");
  job.recipe.autocast = PLIM_BF16;
  compare(&job, "autocast");
  job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  compare(&job, "checkpoints");
  job.recipe.saving = PLIM_SAVED_ON_HOST;
  compare(&job, "checkpoints, with saved tensors on the host");
  job.recipe.saving = PLIM_SAVED_HERE;
  job.recipe.checkpoint = PLIM_CHECKPOINT_REENTRANT;
  compare(&job, "reentrant checkpoints");
  job.recipe.checkpoint = PLIM_CHECKPOINT_OFFLOADED;
  compare(&job, "checkpoints on the host");
  job.recipe.is_trainer = true;
  job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  job.lora = (plim_lora){.rank = 8, .targets = "q_proj,v_proj"};
  compare(&job, "adapters");
}

// Nine chunks are the least that are folded, and lengths need not be whole chunks.
TEST(every_number_of_chunks_is_the_same) {
  for (int64_t chunks = 1; chunks <= 14; chunks++) {
    plim_job job = job_of(1, 64 * chunks - 7);
    job.model.vocabulary = 1024;
    plim_prediction all = predict_so(&job, "", PLIM_UNKNOWN, true);
    plim_prediction folded = predict_so(&job, "", PLIM_UNKNOWN, false);
    CHECK(!folded.folded_events == (chunks < 9), "%lld chunks", (long long)chunks);
    CHECK(all.peak_reserved_bytes == folded.peak_reserved_bytes && all.events == folded.events,
          "%lld chunks: %llu bytes, folded %llu", (long long)chunks,
          (unsigned long long)all.peak_reserved_bytes,
          (unsigned long long)folded.peak_reserved_bytes);
  }
}

// Without folding, the tape sends millions of events here, and a plan of such a model takes ten seconds and more.
TEST(a_long_sequence_takes_little_more_work_than_a_short_one) {
  plim_job job = job_of(64, 2048);
  job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  plim_prediction p = predict_so(&job, "", PLIM_UNKNOWN, false);
  job.recipe.length = 8192;
  plim_prediction longer = predict_so(&job, "", PLIM_UNKNOWN, false);
  CHECK(longer.events > 2 * p.events, "%llu and %llu events", (unsigned long long)p.events,
        (unsigned long long)longer.events);
  CHECK(p.events - p.folded_events < 300000 && longer.events - longer.folded_events < 300000,
        "the tape sent %llu and %llu of them", (unsigned long long)(p.events - p.folded_events),
        (unsigned long long)(longer.events - longer.folded_events));
}

TEST_MAIN
