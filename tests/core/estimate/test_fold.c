// Recurrences are folded (core/tape/fold.h): the result is that of running every round, and takes little work.
#include <string.h>

#include "catalogue.h"
#include "estimate.h"
#include "families.h"
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

static plim_prediction predict(const plim_job *job, const char *settings, uint64_t limit,
                               bool runs_all) {
  plim_prediction p = {0};
  plim_alloc_conf conf;
  plim_alloc_conf_parse(settings, &conf, NULL);
  plim_predict_request request = {.job = job,
                                  .gpu = plim_gpu_named("H200"),
                                  .conf = &conf,
                                  .limit_bytes = limit,
                                  .limit_is_card = true,
                                  .runs_all = runs_all};
  if (plim_predict(&request, &p, NULL)) test_failed = true;
  return p;
}

static bool has_same_time(const plim_step_time *a, const plim_step_time *b) {
  return memcmp(&a->seconds, &b->seconds, sizeof a->seconds) == 0 &&
         memcmp(&a->busy_seconds, &b->busy_seconds, sizeof a->busy_seconds) == 0 &&
         memcmp(&a->pass_seconds, &b->pass_seconds, sizeof a->pass_seconds) == 0 &&
         memcmp(&a->flops, &b->flops, sizeof a->flops) == 0 &&
         memcmp(&a->recomputed_flops, &b->recomputed_flops, sizeof a->flops) == 0 &&
         a->kernels == b->kernels;
}

// With and without folding, under both kinds of segments, and under a limit that the run comes near.
static void compare(const plim_job *job, const char *what) {
  static const char *const settings[] = {"", "expandable_segments:True"};
  for (size_t i = 0; i < 4; i++) {
    const char *conf = settings[i % 2];
    uint64_t free_bytes = predict(job, conf, PLIM_UNKNOWN, true).peak_reserved_bytes;
    uint64_t limit = i < 2 ? PLIM_UNKNOWN : free_bytes - free_bytes / 64;
    plim_prediction all = predict(job, conf, limit, true),
                    folded = predict(job, conf, limit, false);
    CHECK(folded.folded_events && !all.folded_events, "%s: nothing is folded", what);
    CHECK(all.events == folded.events && all.peak_event == folded.peak_event &&
              all.peak_allocated_bytes == folded.peak_allocated_bytes &&
              all.peak_reserved_bytes == folded.peak_reserved_bytes &&
              all.retries == folded.retries && all.runs_out == folded.runs_out &&
              all.host_bytes == folded.host_bytes &&
              !memcmp(all.live_bytes, folded.live_bytes, sizeof all.live_bytes),
          "%s: %llu bytes reserved after %llu events, folded %llu after %llu", what,
          (unsigned long long)all.peak_reserved_bytes, (unsigned long long)all.events,
          (unsigned long long)folded.peak_reserved_bytes, (unsigned long long)folded.events);
    CHECK(has_same_time(&all.step, &folded.step), "%s: %.17g s, folded %.17g s", what,
          all.step.seconds, folded.step.seconds);
  }
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
    plim_prediction all = predict(&job, "", PLIM_UNKNOWN, true);
    plim_prediction folded = predict(&job, "", PLIM_UNKNOWN, false);
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
  plim_prediction p = predict(&job, "", PLIM_UNKNOWN, false);
  job.recipe.length = 8192;
  plim_prediction longer = predict(&job, "", PLIM_UNKNOWN, false);
  CHECK(longer.events > 2 * p.events, "%llu and %llu events", (unsigned long long)p.events,
        (unsigned long long)longer.events);
  CHECK(p.events - p.folded_events < 300000 && longer.events - longer.folded_events < 300000,
        "the tape sent %llu and %llu of them", (unsigned long long)(p.events - p.folded_events),
        (unsigned long long)(longer.events - longer.folded_events));
}

TEST_MAIN
