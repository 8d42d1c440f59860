// The memory that kernels use depends on the card. Without a card, an H200 is assumed.
#include "families.h"
#include "job.h"
#include "test.h"

typedef struct {
  uint64_t asked_bytes; // the size that is counted
  size_t found, events;
} seen;

static void look(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  seen *s = context;
  (void)id;
  s->events++;
  s->found += kind == PLIM_STREAM_ALLOC && bytes == s->asked_bytes;
}

// Counts the allocations of exactly this size in a step on the card (NULL: no card).
static seen run_on(const char *card, plim_job job, uint64_t bytes) {
  seen s = {.asked_bytes = bytes};
  plim_tape *t = plim_tape_new((plim_tape_sink){look, &s, NULL});
  if (card) plim_tape_set_gpu(t, plim_gpu_named(card));
  plim_model *m = plim_job_load(t, &job);
  if (!m || !plim_train(t, m, &job.recipe)) test_failed = true;
  plim_model_delete(m);
  plim_tape_delete(t);
  return s;
}

static plim_job small(const char *family) {
  plim_job job = {.dtype = PLIM_BF16,
                  .recipe = {.batch = 2,
                             .length = 64,
                             .steps = 1,
                             .optimizer = plim_optimizer_named("sgd"),
                             .autocast = PLIM_BOOL}};
  plim_config *c = &job.model;
  if (plim_config_init(c, family, NULL)) test_failed = true;
  c->hidden = 512;
  c->intermediate = 1024;
  c->heads = 8;
  c->kv_heads = 8;
  c->vocabulary = 1000;
  c->layers = 2;
  if (plim_config_finish(c, NULL)) test_failed = true;
  return job;
}

// A layer's 9 parameters on 64 GPUs: 2 * 4 * 512 * 512 and 2 * 3 * 512 * 1024 bytes and two norms, of
// which a 64th is gathered at a time. Blocks of 2,048 bytes: 4 * 4 + 3 * 8 + 2 of them, times 64 are
// 2,688. An H200 runs 132 * 2,048 / 128 * 2 = 4,224 at once, so each moves its bytes once; a T4 runs
// 40 * 1,024 / 128 * 2 = 640, so in 5 rounds, by 3 chunks, each block moves 2 * 2,048 bytes.
TEST(tables_of_fsdp2_follow_the_card) {
  plim_job job = small("llama");
  job.recipe.is_bare = true;
  job.sharding = (plim_sharding){.strategy = PLIM_SHARD_FSDP2, .world = 64};
  uint64_t once = 8 * (3 * 9 + 10 + 4 * 4 + 3 * 8 + 2),
           twice = 8 * (3 * 9 + 10 + 4 * 2 + 3 * 4 + 2);
  CHECK(run_on("H200", job, once).found && !run_on("H200", job, twice).found, "on an H200");
  CHECK(run_on(NULL, job, once).found && !run_on(NULL, job, twice).found, "without a card");
  CHECK(run_on("T4", job, twice).found && !run_on("T4", job, once).found, "on a T4");
}

// 512 bytes of descriptors for each of 132 or 114 multiprocessors; an A100 has no such kernel.
TEST(grouped_products_follow_the_card) {
  plim_job job = small("mixtral");
  CHECK(run_on("H200", job, 512 * 132).found, "on an H200");
  CHECK(run_on(NULL, job, 512 * 132).found, "without a card");
  CHECK(!run_on("H100 PCIe", job, 512 * 132).found && run_on("H100 PCIe", job, 512 * 114).found,
        "on another Hopper card");
  CHECK(!run_on("A100 80GB", job, 512 * 108).found, "on an A100");
}

TEST(without_a_card_an_h200_is_assumed) {
  plim_job job = small("gpt2");
  CHECK_U64(run_on(NULL, job, 32ull << 20).events, run_on("H200", job, 32ull << 20).events);
  CHECK(run_on(NULL, job, 32ull << 20).found, "Hopper's workspace of cuBLAS");
}

TEST_MAIN
