// Passes of a step that do the same are sent again (core/tape/pass_replay.h): the result is that of running each.
#include <string.h>

#include "catalogue.h"
#include "estimate.h"
#include "families.h"
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

static bool is_same_place(const plim_prediction *a, const plim_prediction *b) {
  const plim_program_point *x = &a->peak_at, *y = &b->peak_at;
  return x->what == y->what && x->layer == y->layer && x->step == y->step && x->phase == y->phase &&
         x->is_recomputed == y->is_recomputed;
}

static bool is_same(const plim_prediction *a, const plim_prediction *b) {
  return a->events == b->events && a->peak_event == b->peak_event && is_same_place(a, b) &&
         a->peak_allocated_bytes == b->peak_allocated_bytes &&
         a->peak_reserved_bytes == b->peak_reserved_bytes && a->retries == b->retries &&
         a->runs_out == b->runs_out && a->host_bytes == b->host_bytes &&
         !memcmp(a->live_bytes, b->live_bytes, sizeof a->live_bytes);
}

// Bit by bit: recorded work is added in the order in which it was done.
static bool has_same_time(const plim_step_time *a, const plim_step_time *b) {
  return memcmp(&a->seconds, &b->seconds, sizeof a->seconds) == 0 &&
         memcmp(&a->busy_seconds, &b->busy_seconds, sizeof a->busy_seconds) == 0 &&
         memcmp(&a->pass_seconds, &b->pass_seconds, sizeof a->pass_seconds) == 0 &&
         memcmp(&a->waited_seconds, &b->waited_seconds, sizeof a->waited_seconds) == 0 &&
         memcmp(&a->flops, &b->flops, sizeof a->flops) == 0 &&
         memcmp(&a->recomputed_flops, &b->recomputed_flops, sizeof a->flops) == 0 &&
         a->kernels == b->kernels && a->passes == b->passes;
}

// With and without replay, under both kinds of segments, and under a limit that the run comes near.
static void compare(const plim_job *job, const char *what) {
  static const char *const settings[] = {"", "expandable_segments:True"};
  for (size_t i = 0; i < 4; i++) {
    const char *conf = settings[i % 2];
    uint64_t free_bytes = predict(job, conf, PLIM_UNKNOWN, true).peak_reserved_bytes;
    uint64_t limit = i < 2 ? PLIM_UNKNOWN : free_bytes - free_bytes / 64;
    plim_prediction all = predict(job, conf, limit, true),
                    replayed = predict(job, conf, limit, false);
    bool is_cut = all.runs_out; // perhaps before any pass was sent again
    CHECK((replayed.folded_events || is_cut) && !all.folded_events, "%s: no pass is sent again",
          what);
    CHECK(is_same(&all, &replayed),
          "%s, case %zu: %llu bytes reserved after %llu events, replayed %llu after %llu", what, i,
          (unsigned long long)all.peak_reserved_bytes, (unsigned long long)all.events,
          (unsigned long long)replayed.peak_reserved_bytes, (unsigned long long)replayed.events);
    CHECK(is_cut || has_same_time(&all.step, &replayed.step), "%s: %.17g s, replayed %.17g s", what,
          all.step.seconds, replayed.step.seconds);
  }
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

// Recurrences are folded inside of the passes.
TEST(a_pass_with_folded_loops_is_the_same) {
  plim_job job = job_of("qwen3.5-27b");
  job.recipe.length = 768;
  job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  compare(&job, "recurrence");
}

TEST(every_number_of_passes_is_the_same) {
  for (int passes = 1; passes <= 8; passes++) {
    plim_job job = job_of("qwen2.5-0.5b");
    job.recipe.accumulate = passes;
    plim_prediction all = predict(&job, "", PLIM_UNKNOWN, true);
    plim_prediction replayed = predict(&job, "", PLIM_UNKNOWN, false);
    CHECK(!replayed.folded_events == (passes < 3), "%d passes", passes);
    CHECK(is_same(&all, &replayed) && has_same_time(&all.step, &replayed.step), "%d passes",
          passes);
  }
}

// A step of eight passes runs two of them once it is known that they repeat.
TEST(many_passes_take_little_more_work_than_a_few) {
  plim_job job = job_of("qwen2.5-0.5b");
  job.recipe.accumulate = 8;
  plim_prediction p = predict(&job, "", PLIM_UNKNOWN, false);
  CHECK(p.folded_events > p.events / 2, "%llu of %llu events", (unsigned long long)p.folded_events,
        (unsigned long long)p.events);
}

TEST_MAIN
