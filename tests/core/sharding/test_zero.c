// Properties of DeepSpeed's ZeRO that no recording shows: bucket sizes, sub groups, models loaded in parts.
#include "shared_job.h"

static plim_job job_of(plim_strategy strategy, int64_t world) {
  return shared_job("qwen2.5-0.5b", 128, strategy, world);
}

static plim_prediction predict(const plim_job *job) { return predict_on(job, "RTX 4090"); }

static int64_t saved(const plim_job *than, const plim_job *by) {
  return (int64_t)predict(than).peak_allocated_bytes - (int64_t)predict(by).peak_allocated_bytes;
}

static bool is_about(int64_t bytes, double expected) {
  return (double)bytes > 0.97 * expected && (double)bytes < 1.03 * expected;
}

enum { PARAMETERS = 494032768 };

// In stage 2, the contents of the bucket are copied once more while they are reduced.
TEST(a_bucket_has_the_configured_size) {
  static const plim_strategy stages[] = {PLIM_SHARD_ZERO2, PLIM_SHARD_ZERO3};
  for (int i = 0; i < 2; i++) {
    plim_job usual = job_of(stages[i], 8), small = usual;
    small.sharding.sizes.reduce_bucket = 200000000;
    double bytes = (double)saved(&usual, &small), least = 2 * 300e6;
    CHECK(bytes > 0.97 * least && bytes < (2.03 - i) * least, "stage %d: %.0f bytes", i + 2, bytes);
  }
}

TEST(overlapping_buckets_are_two) {
  plim_job one = job_of(PLIM_SHARD_ZERO2, 8), two = one;
  two.sharding.overlaps = true;
  int64_t bytes = saved(&two, &one);
  CHECK(is_about(bytes, 2 * 500e6), "%lld bytes", (long long)bytes);
  one.sharding.sizes.reduce_bucket = two.sharding.sizes.reduce_bucket = 50000000;
  one.recipe.length = two.recipe.length =
      2048; // long enough that the CPU does not wait for a bucket
  double waits = predict(&one).step.seconds, overlaps = predict(&two).step.seconds;
  CHECK(overlaps < 0.99 * waits, "%g s, without %g s", overlaps, waits);
}

static double hooks_seconds(const char *targets) {
  plim_job hooked = job_of(PLIM_SHARD_ZERO3, 1), plain;
  hooked.lora = (plim_lora){.rank = 8, .targets = targets};
  plain = hooked;
  plain.sharding.strategy = PLIM_SHARD_ZERO2;
  return predict(&hooked).step.seconds - predict(&plain).step.seconds;
}

// A layer has 13 modules, and four more for each of one or seven adapters.
TEST(stage_3_has_hooks_on_every_module) {
  double one = hooks_seconds("q_proj"), seven = hooks_seconds(PLIM_ALL_LINEAR);
  double modules = (13.0 + 4 * 7) / (13.0 + 4);
  CHECK(seven > 0.8 * modules * one && seven < 1.2 * modules * one, "%g s and %g s", one, seven);
}

// During the optimizer step, only one sub group at a time has its gradients twice: in their own type and in float32.
TEST(sub_groups_are_updated_one_by_one) {
  plim_job whole = job_of(PLIM_SHARD_ZERO3, 1), cut;
  whole.sharding.sizes.reduce_bucket = 1000000;
  cut = whole;
  cut.sharding.sizes.sub_group = 400000000;
  plim_prediction all = predict(&whole), each = predict(&cut);
  CHECK(all.peak_at.phase == PLIM_PHASE_OPTIMIZER, "phase %d", (int)all.peak_at.phase);
  CHECK(each.peak_at.phase == PLIM_PHASE_OPTIMIZER, "phase %d", (int)each.peak_at.phase);
  int64_t bytes = (int64_t)(all.peak_allocated_bytes - each.peak_allocated_bytes);
  CHECK(is_about(bytes, 6.0 * (PARAMETERS - 402000000)), "%lld bytes", (long long)bytes);
}

// The states of several sub groups add up to those of one.
TEST(sub_groups_lose_nothing) {
  plim_job job = job_of(PLIM_SHARD_ZERO3, 4);
  uint64_t before = predict(&job).loaded_bytes;
  for (int64_t size = 10000000; size < 200000000; size *= 3) {
    job.sharding.sizes.sub_group = size;
    uint64_t bytes = predict(&job).loaded_bytes;
    CHECK(is_about((int64_t)bytes, (double)before), "%lld: %llu, not %llu", (long long)size,
          (unsigned long long)bytes, (unsigned long long)before);
  }
}

// A model that is loaded in parts is never whole on a card; training afterwards is the same.
TEST(parts_are_loaded_one_by_one) {
  static const struct {
    plim_strategy strategy;
    plim_load load;
    bool in_parts;
  } rows[] = {
      {PLIM_SHARD_ZERO3, PLIM_LOAD_INIT, false},   {PLIM_SHARD_ZERO3, PLIM_LOAD_PRETRAINED, false},
      {PLIM_SHARD_ZERO3, PLIM_LOAD_SHARDED, true}, {PLIM_SHARD_ZERO2, PLIM_LOAD_SHARDED, false},
      {PLIM_SHARD_FSDP2, PLIM_LOAD_INIT, false},   {PLIM_SHARD_FSDP2, PLIM_LOAD_PRETRAINED, true},
      {PLIM_SHARD_DDP, PLIM_LOAD_SHARDED, false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plim_job job = job_of(rows[i].strategy, 8), built = job;
    job.load = rows[i].load;
    job.sharding.sizes.reduce_bucket = built.sharding.sizes.reduce_bucket = 1000000;
    plim_prediction p = predict(&job), b = predict(&built);
    bool is_whole = p.loading_bytes >= 2ull * PARAMETERS;
    CHECK(is_whole != rows[i].in_parts, "row %zu: %llu bytes while loading", i,
          (unsigned long long)p.loading_bytes);
    CHECK(is_about((int64_t)p.peak_allocated_bytes, (double)b.peak_allocated_bytes), "row %zu", i);
  }
}

// Parameters on the host use the card only briefly, one by one: the whole parameter, and the part that comes from the
// host, which with one rank is all of it. The bucket occupies one of the two blocks, so that there is a third.
TEST(parts_on_the_host_leave_the_card) {
  plim_job job = job_of(PLIM_SHARD_ZERO3, 1);
  job.load = PLIM_LOAD_SHARDED;
  job.sharding.offloads_parameters = job.sharding.offloads_optimizer = true;
  job.sharding.sizes.reduce_bucket = 1000000;
  plim_prediction p = predict(&job);
  double table = 2.0 * 151936 * 896;
  CHECK((double)p.loading_bytes < 3.1 * table, "%llu bytes", (unsigned long long)p.loading_bytes);
  CHECK(p.loaded_bytes < 100 << 20, "%llu bytes", (unsigned long long)p.loaded_bytes);
}

TEST(adapters_are_created_after_parts_are_loaded) {
  plim_job job = job_of(PLIM_SHARD_ZERO3, 8);
  job.load = PLIM_LOAD_SHARDED;
  job.lora = (plim_lora){.rank = 8, .targets = PLIM_ALL_LINEAR};
  job.sharding.sizes.reduce_bucket = 1000000;
  plim_prediction p = predict(&job);
  CHECK(p.loading_bytes < 2ull * PARAMETERS, "%llu bytes", (unsigned long long)p.loading_bytes);
  CHECK(p.trainable > 0 && p.trainable < PARAMETERS / 50, "%llu", (unsigned long long)p.trainable);
}

TEST_MAIN
