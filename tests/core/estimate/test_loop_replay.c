// Mini batches of a cached loss that are skipped: the prediction is the same as if each of them was simulated.
#include <math.h>
#include <string.h>

#include "catalogue.h"
#include "families.h"
#include "holdings.h"
#include "predict.h"
#include "test.h"

typedef struct {
  int64_t batch, at_once, columns, length;
  int64_t layers, width;
  plim_mask_kind mask;
  bool is_trainer, is_checkpointed;
  plim_dtype autocast;
  const char *conf;
  int accumulate; // 0 means 1
} variant;

static const variant variants[] = {
    {1024, 8, 2, 64, 2, 768, PLIM_MASK_PAD, true, false, PLIM_BF16, ""},
    {1024, 8, 2, 64, 2, 768, PLIM_MASK_PAD, true, false, PLIM_BF16, "expandable_segments:True"},
    {1000, 16, 3, 128, 2, 768, PLIM_MASK_LONGEST, true, true, PLIM_BOOL, ""}, // 8 in the last one
    {777, 1, 2, 32, 1, 384, PLIM_MASK_NONE, false, false, PLIM_FP16, ""},   // all blocks are small
    {16384, 384, 2, 64, 1, 768, PLIM_MASK_PAD, true, false, PLIM_BF16, ""}, // embeddings are large
    {4096, 64, 4, 16, 3, 1024, PLIM_MASK_PAD, false, true, PLIM_BF16, "max_split_size_mb:64"},
    {3000, 7, 2, 48, 2, 256, PLIM_MASK_LONGEST, true, false, PLIM_BOOL, "expandable_segments:True"},
    {600, 33, 9, 80, 2, 512, PLIM_MASK_NONE, true, false, PLIM_BOOL, ""},
    {256, 8, 2, 64, 1, 256, PLIM_MASK_PAD, true, false, PLIM_BF16, "", 20}, // passes repeat too
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static plim_job job_of(const variant *v) {
  plim_job job = {.dtype = PLIM_FP32, .load = PLIM_LOAD_INIT};
  plim_config_init(&job.model, "bert", NULL);
  if (plim_catalogue_config(plim_catalogue_named("bert-base-uncased"), &job.model, NULL))
    test_failed = true;
  job.model.head = PLIM_HEAD_NONE;
  job.model.layers = v->layers;
  job.model.hidden = v->width;
  job.model.heads = job.model.kv_heads = v->width / job.model.head_dim;
  job.model.intermediate = 4 * v->width;
  job.recipe =
      (plim_recipe){.batch = v->batch,
                    .cached_batch = v->at_once,
                    .columns = v->columns,
                    .length = v->length,
                    .mask = v->mask,
                    .is_trainer = v->is_trainer,
                    .autocast = v->autocast,
                    .checkpoint = v->is_checkpointed ? PLIM_CHECKPOINT_ON : PLIM_CHECKPOINT_OFF,
                    .loss = PLIM_LOSS_CONTRASTIVE,
                    .steps = 2,
                    .accumulate = v->accumulate ? v->accumulate : 1,
                    .optimizer = plim_optimizer_named("adamw")};
  return job;
}

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-6 * fabs(a); }

static bool is_same_place(const plim_program_point *a, const plim_program_point *b) {
  return a->layer == b->layer && a->step == b->step && a->phase == b->phase && a->what == b->what;
}

static void compare(const plim_prediction *all, const plim_prediction *some, size_t i) {
  CHECK(all->peak_allocated_bytes == some->peak_allocated_bytes, "%zu: %llu, not %llu", i,
        (unsigned long long)some->peak_allocated_bytes,
        (unsigned long long)all->peak_allocated_bytes);
  CHECK(all->peak_reserved_bytes == some->peak_reserved_bytes, "%zu: reserved %llu, not %llu", i,
        (unsigned long long)some->peak_reserved_bytes,
        (unsigned long long)all->peak_reserved_bytes);
  CHECK(all->events == some->events && all->peak_event == some->peak_event &&
            all->retries == some->retries,
        "%zu: event %llu of %llu, not %llu of %llu", i, (unsigned long long)some->peak_event,
        (unsigned long long)some->events, (unsigned long long)all->peak_event,
        (unsigned long long)all->events);
  CHECK(memcmp(all->live_bytes, some->live_bytes, sizeof all->live_bytes) == 0 &&
            is_same_place(&all->peak_at, &some->peak_at),
        "%zu: another peak", i);
  CHECK(all->runs_out == some->runs_out && all->runs_out_bytes == some->runs_out_bytes &&
            is_same_place(&all->runs_out_at, &some->runs_out_at),
        "%zu: runs out elsewhere", i);
  CHECK(is_near(all->step.seconds, some->step.seconds) &&
            is_near(all->step.busy_seconds, some->step.busy_seconds) &&
            is_near(all->step.flops, some->step.flops) && all->step.kernels == some->step.kernels,
        "%zu: %.9f s, not %.9f s", i, some->step.seconds, all->step.seconds);
  CHECK(!some->assumes_repetition, "%zu: assumed", i);
}

static void check_limited(const plim_job *job, const char *text, uint64_t limit, size_t i) {
  plim_alloc_conf conf;
  plim_alloc_conf_parse(text, &conf, NULL);
  plim_predict_request request = {
      .job = job, .conf = &conf, .limit_bytes = limit, .gpu = plim_gpu_named("A100-80GB")};
  plim_prediction all[2], some[2];
  CHECK(!plim_predict_both(&request, &some[0], &some[1], NULL), "%zu: not predicted", i);
  request.runs_all = true;
  CHECK(!plim_predict_both(&request, &all[0], &all[1], NULL), "%zu: not predicted", i);
  for (int k = 0; k < 2; k++) compare(&all[k], &some[k], i);
}

static uint64_t reserved(const plim_job *job) {
  plim_prediction p = {0};
  plim_predict_request request = {.job = job, .limit_bytes = PLIM_UNKNOWN};
  test_failed |= plim_predict(&request, &p, NULL) != PLIM_OK;
  return p.peak_reserved_bytes;
}

TEST(skipped_mini_batches_are_predicted_as_if_simulated) {
  for (size_t i = 0; i < VARIANTS; i++) {
    plim_job job = job_of(&variants[i]);
    check_limited(&job, variants[i].conf, PLIM_UNKNOWN, i);
  }
}

// Limits that are reached, or almost reached, in one of the loops.
TEST(skipped_mini_batches_are_predicted_under_a_limit) {
  for (size_t i = 0; i < VARIANTS; i++) {
    plim_job job = job_of(&variants[i]);
    uint64_t most = reserved(&job);
    for (int share = 80; share <= 100; share += 10)
      check_limited(&job, variants[i].conf, most * (uint64_t)share / 100 - PLIM_MIB, i);
  }
}

TEST(holders_at_the_peak_are_the_same) {
  for (size_t i = 0; i < VARIANTS; i++) {
    plim_job job = job_of(&variants[i]);
    plim_predict_request request = {.job = &job, .limit_bytes = PLIM_UNKNOWN};
    plim_prediction p;
    plim_holdings all = {0}, some = {0};
    CHECK(!plim_predict(&request, &p, NULL) && plim_holdings_find(&request, &p, &some), "memory");
    request.runs_all = true;
    CHECK(plim_holdings_find(&request, &p, &all), "memory");
    bool are_same = all.len == some.len;
    for (size_t k = 0; are_same && k < all.len; k++)
      are_same = all.at[k].bytes == some.at[k].bytes && all.at[k].count == some.at[k].count;
    CHECK(are_same, "%zu: %zu holders, not %zu", i, some.len, all.len);
    vec_free(&all);
    vec_free(&some);
  }
}

static void count(void *context, const plim_tape *t, const plim_allocator *a, plim_stream_kind kind,
                  uint32_t id, uint64_t bytes) {
  (void)t, (void)a, (void)kind, (void)id, (void)bytes;
  ++*(uint64_t *)context;
}

// If a step consists mostly of mini batches, most of it is skipped.
TEST(most_mini_batches_are_skipped) {
  plim_job job = job_of(&variants[0]);
  uint64_t events[2] = {0};
  plim_prediction p[2];
  for (int i = 0; i < 2; i++) {
    plim_observer observer = {.event = count, .context = &events[i]};
    plim_predict_request request = {
        .job = &job, .limit_bytes = PLIM_UNKNOWN, .observer = &observer};
    job.recipe.batch = i ? 65536 : 8192;
    CHECK(!plim_predict(&request, &p[i], NULL), "not predicted");
  }
  printf("  %llu of %llu events, %llu of %llu\n", (unsigned long long)events[0],
         (unsigned long long)p[0].events, (unsigned long long)events[1],
         (unsigned long long)p[1].events);
  CHECK(events[0] < p[0].events / 50 && events[1] < p[1].events / 200, "too many");
}

TEST_MAIN
