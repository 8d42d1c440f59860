// Sizes that no recording shows, compared with the sources that decide them: PyTorch's kernels, cub, DeepSpeed,
// transformers. The expected numbers are derived from those sources, not from the program.
#include "attention.h"
#include "clock.h"
#include "families.h"
#include "job.h"
#include "kernels.h"
#include "moe.h"
#include "ops.h"
#include "rope.h"
#include "test.h"
#include "work.h"

#include "op_names.h"

// ---- a tape that records its allocations ------------------------------------------------------------

typedef vec(uint64_t) sizes;

static sizes heard; // allocations, in order

static void listen(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  (void)context, (void)id;
  if (kind == PLIM_STREAM_ALLOC && !vec_push(&heard, bytes)) test_failed = true;
}

static plim_tape *tape_on(const char *card) {
  heard.len = 0;
  plim_tape *t = plim_tape_new((plim_tape_sink){listen, NULL});
  plim_tape_set_gpu(t, plim_gpu_named(card));
  return t;
}

static size_t times_heard(uint64_t bytes) {
  size_t n = 0;
  for (size_t i = 0; i < heard.len; i++) n += heard.at[i] == bytes;
  return n;
}

static plim_tensor *leaf(plim_tape *t, plim_dims shape, plim_dtype dtype) {
  plim_tensor *x = NULL;
  set(t, &x, empty(t, shape, dtype));
  x->requires_grad = true;
  return x;
}

// ---- attention --------------------------------------------------------------------------------------

typedef struct {
  plim_sdpa_kernel kernel;
  int64_t batch, heads, length, width;
  bool has_bias; // a bias that needs a gradient
} attention_case;

// Runs forward and backward; only the allocations of backward are recorded.
static void attend(attention_case c) {
  plim_tape *t = tape_on("A100 80GB SXM");
  plim_dims shape = dims(c.batch, c.heads, c.length, c.width);
  plim_tensor *q = leaf(t, shape, PLIM_FP16), *k = leaf(t, shape, PLIM_FP16);
  plim_tensor *v = leaf(t, shape, PLIM_FP16), *bias = NULL, *out = NULL, *grad = NULL;
  if (c.has_bias) bias = leaf(t, dims(c.batch, c.heads, c.length, c.length), PLIM_FP16);
  plim_tape_set_sdpa(t, c.kernel);
  set(t, &out, full_attention(t, q, k, v, bias, 0));
  set(t, &grad, empty(t, shape, PLIM_FP16));
  heard.len = 0;
  backward(t, out, grad);
  plim_tape_delete(t);
}

// attention_backward.cu: parts = min(ceil(keys / 64), 200 / (batch * heads)), at least 1, where keys and
// values need a staging area (heads above 128 in half precision); kernel_backward.h: each part has 64 rows of
// the head rounded up to 128, in float32, for key and for value. Queries: one tile of 128 x 64 in float32 for
// every 128 queries and 64 of the head, with 16 bytes of bookkeeping.
static uint64_t staging(uint64_t lines, uint64_t length, uint64_t width, uint64_t parts) {
  uint64_t tiles = (length + 127) / 128 * ((width + 63) / 64);
  return lines * (tiles * (128 * 64 * 4 + 16) + 2 * parts * 64 * 256 * 4);
}

TEST(parts_of_the_keys_are_at_most_200_for_all_heads) {
  attend((attention_case){PLIM_SDPA_EFFICIENT, 1, 8, 512, 256, false});
  CHECK(times_heard(staging(8, 512, 256, 8)) == 1, "8 parts of 25");
  attend((attention_case){PLIM_SDPA_EFFICIENT, 1, 64, 512, 256, false});
  CHECK(times_heard(staging(64, 512, 256, 3)) == 1, "3 parts: 200 / 64");
  attend((attention_case){PLIM_SDPA_EFFICIENT, 4, 64, 512, 256, false});
  CHECK(times_heard(staging(256, 512, 256, 1)) == 1, "never less than one");
}

// attention_backward.cu: grad_bias is made with its last dimension rounded up to 16.
TEST(a_gradient_of_a_bias_has_rows_of_16) {
  attend((attention_case){PLIM_SDPA_EFFICIENT, 2, 4, 40, 64, true});
  CHECK(times_heard(2 * 4 * 40 * 48 * 2) == 1, "48 for 40");
}

// flash_api.cpp, mha_bwd: queries are rounded up to 128, heads to 32, above 128 to 64.
TEST(flash_rounds_queries_and_heads) {
  static const struct {
    uint64_t width, rounded;
  } cases[] = {{40, 64}, {64, 64}, {96, 96}, {128, 128}, {160, 192}, {192, 192}, {224, 256}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attend((attention_case){PLIM_SDPA_FLASH, 3, 2, 130, (int64_t)cases[i].width, false});
    CHECK(times_heard(3 * 2 * 256 * 4) == 1, "sums of rows, width %d", (int)cases[i].width);
    CHECK(times_heard(3 * 256 * 2 * cases[i].rounded * 4) == 1, "gradient of queries, width %d",
          (int)cases[i].width);
  }
}

// ---- sorts ------------------------------------------------------------------------------------------

static size_t sorted_with_scratch(int64_t count) {
  plim_tape *t = tape_on("H200");
  plim_tensor *sorted = NULL, *order = NULL;
  sort_indices(t, empty(t, dims(count), PLIM_I64), &sorted, &order);
  plim_tape_delete(t);
  return heard.len - 4; // input, values, order and a range
}

// Sort.h: should_use_small_sort is size <= 4096.
TEST(short_lists_are_sorted_in_place) {
  CHECK(sorted_with_scratch(4096) == 0, "4,096");
  CHECK(sorted_with_scratch(4097) == 1, "4,097");
}

// cub's SingleTilePolicy: 256 threads with 19 elements of 4 bytes each, which are 19 * 4 / 8 = 9 of 8 bytes.
TEST(one_block_sorts_2304_pairs) {
  plim_tape *t = tape_on("H200");
  CHECK_U64(k_sort_bytes(t, 256 * 9, 64), 1);
  CHECK(k_sort_bytes(t, 256 * 9 + 1, 64) > 1, "one more");
  plim_tape_delete(t);
}

static uint64_t scratch_of_index_gradient(int64_t rows) {
  plim_tape *t = tape_on("H200");
  plim_tensor *x = leaf(t, dims(rows, 8), PLIM_BF16), *at = NULL, *out = NULL, *grad = NULL;
  uint64_t most = 0;
  set(t, &at, empty(t, dims(8192), PLIM_I64));
  set(t, &out, index_rows(t, x, at));
  set(t, &grad, empty(t, out->shape, PLIM_BF16));
  heard.len = 0;
  backward(t, out, grad);
  for (size_t i = 0; i < heard.len; i++)
    if (heard.at[i] > most) most = heard.at[i];
  plim_tape_delete(t);
  return most;
}

// Indexing.cu sorts by as many bits as the largest index has: 8 for 256 rows, which is one pass of cub's
// radix sort and needs no second set of 8,192 keys and values; 9 bits take two passes.
TEST(indices_are_sorted_by_the_bits_of_the_largest) {
  CHECK(scratch_of_index_gradient(256) < 2 * 8192 * 8, "8 bits");
  CHECK(scratch_of_index_gradient(257) > 2 * 8192 * 8, "9 bits");
}

// ---- products ---------------------------------------------------------------------------------------

// CublasHandlePool.cpp: 32 MiB where the major capability is 9, 10 or 12, :4096:2:16:8 elsewhere.
TEST(the_workspace_of_cublas) {
  static const struct {
    const char *card;
    uint64_t bytes;
  } cards[] = {{"H200", 33554432},         {"B200", 33554432},    {"RTX 5090", 33554432},
               {"A100 80GB SXM", 8519680}, {"RTX 4090", 8519680}, {"T4", 8519680}};
  for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
    plim_tape *t = tape_on(cards[i].card);
    k_cublas(t);
    CHECK(heard.len == 1 && heard.at[0] == cards[i].bytes, "%s", cards[i].card);
    plim_tape_delete(t);
  }
}

// ---- sharding ---------------------------------------------------------------------------------------

static plim_job sharded(plim_strategy strategy, int64_t world) {
  plim_job job = {.dtype = PLIM_BF16,
                  .sharding = {.strategy = strategy, .world = world},
                  .recipe = {.batch = 1,
                             .length = 16,
                             .steps = 1,
                             .is_bare = true,
                             .optimizer = plim_optimizer_named("sgd"),
                             .autocast = PLIM_BOOL}};
  plim_config *c = &job.model;
  if (plim_config_init(c, "llama", NULL)) test_failed = true;
  c->hidden = 100;
  c->intermediate = 1000;
  c->heads = c->kv_heads = 1;
  c->head_dim = 100;
  c->vocabulary = 2000;
  c->layers = 1;
  return job;
}

static uint64_t load(plim_job *job) { // elements of the model
  if (plim_config_finish(&job->model, NULL)) test_failed = true;
  plim_tape *t = tape_on("H200");
  plim_model *m = plim_job_load(t, job);
  uint64_t elements = m ? m->elements : 0;
  plim_model_delete(m);
  plim_tape_delete(t);
  return elements;
}

// stage_1_and_2.py: the flat memory is a multiple of nccl_start_alignment_factor = 2 elements per rank.
TEST(zero_aligns_the_flat_parameters) {
  plim_job job = sharded(PLIM_SHARD_ZERO1, 3);
  CHECK_U64(load(&job), 740300);
  CHECK(times_heard(2 * 740304), "a multiple of 6 elements");
  CHECK(!times_heard(2 * 740301), "not of 3 alone");
}

static size_t whole_in_training(int64_t intermediate) {
  plim_job job = sharded(PLIM_SHARD_ZERO3, 2);
  job.model.intermediate = intermediate;
  job.recipe.accumulate = 8; // all passes except the first keep small parameters until the step
  if (plim_config_finish(&job.model, NULL)) test_failed = true;
  plim_tape *t = tape_on("H200");
  plim_model *m = plim_job_load(t, &job);
  heard.len = 0;
  if (!plim_train(t, m, &job.recipe)) test_failed = true;
  plim_model_delete(m);
  plim_tape_delete(t);
  return times_heard((uint64_t)(2 * 100 * intermediate)); // gathered parameters and gradients
}

// parameter_offload.py, mark_persistent_parameters: of 100,000 elements at most
// (stage3_param_persistence_threshold), a parameter stays whole; above, each use gathers it again.
TEST(zero3_keeps_parameters_of_100000_elements) {
  size_t kept = whole_in_training(1000), gathered = whole_in_training(1002);
  CHECK(gathered > kept, "gathered %zu times, kept %zu", gathered, kept);
}

static uint64_t alive, most_alive;

static void weigh(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  (void)context, (void)id;
  if (kind == PLIM_STREAM_EMPTY_CACHE) return;
  alive = kind == PLIM_STREAM_ALLOC ? alive + bytes : alive - bytes;
  if (alive > most_alive) most_alive = alive;
}

static uint64_t peak_of_training(int64_t layers) {
  plim_job job = sharded(PLIM_SHARD_ZERO3, 1 << 16);
  plim_config *c = &job.model;
  c->hidden = 4096, c->intermediate = 16384, c->heads = c->kv_heads = 32, c->head_dim = 128;
  c->layers = layers;
  job.recipe.steps = 2; // the first is recorded, the second prefetches
  if (plim_config_finish(c, NULL)) test_failed = true;
  plim_tape *t = plim_tape_new((plim_tape_sink){weigh, NULL});
  plim_model *m = plim_job_load(t, &job);
  most_alive = alive;
  if (!plim_train(t, m, &job.recipe)) test_failed = true;
  plim_model_delete(m);
  plim_tape_delete(t);
  alive = 0;
  return most_alive;
}

// stage3_max_live_parameters: prefetching ends where a billion elements are gathered, however many follow.
// Beside them there are a bucket of 500 million gradients (reduce_bucket_size), all in 2 bytes, and little else
// on so many ranks: a layer of 268 million on its way in, the one that is computed, and gradients.
TEST(zero3_gathers_a_billion_elements) {
  uint64_t some = peak_of_training(16), many = peak_of_training(32), billion = 1000000000;
  CHECK(many < some + some / 50, "%llu and %llu bytes", (unsigned long long)some,
        (unsigned long long)many);
  CHECK(many > 2 * billion + billion && many < 2 * billion + billion + 3 * 2 * 268000000,
        "%llu bytes", (unsigned long long)many);
}

// CachingHostAllocator.h: PowerOf2Ceil(size).
TEST(pinned_memory_comes_in_powers_of_two) {
  CHECK_U64(plim_pinned_bytes(0), 0);
  CHECK_U64(plim_pinned_bytes(4096), 4096);
  CHECK_U64(plim_pinned_bytes(4097), 8192);
  CHECK_U64(plim_pinned_bytes((1ull << 33) + 1), 1ull << 34);
}

// ---- rotary positions -------------------------------------------------------------------------------

// modeling_rope_utils.py, _compute_longrope_parameters with n = dim / 2: the factors (float), arange (int64), its
// float, divided by dim, base to that power, times the factors, and the reciprocal; a power of a Python number
// allocates 8 bytes on the device. longrope_frequency_update repeats this for every text longer than the original
// length, after max(positions) + 1 and the comparison.
TEST(longrope_makes_frequencies_anew_for_long_texts) {
  plim_config c;
  CHECK(!plim_config_init(&c, "phi3", NULL), "phi3");
  c.hidden = 192, c.heads = 2, c.head_dim = 96, c.layers = 1, c.vocabulary = 100;
  c.rope = PLIM_ROPE_LONG;
  c.original_positions = 64;
  plim_tape *t = tape_on("H200");
  plim_rope_buffers b = {0};
  plim_rope_new(t, c.rope, plim_config_rotary_width(&c), &b);
  heard.len = 0;
  plim_rope_update(t, &c, &b, 64);
  CHECK(heard.len == 3 && times_heard(48 * 4) == 0, "%zu for a short text", heard.len);
  for (int i = 0; i < 2; i++) {
    heard.len = 0;
    plim_rope_update(t, &c, &b, 65);
    CHECK(times_heard(48 * 8) == 1 && times_heard(48 * 4) >= 6, "%zu, %zu of floats", heard.len,
          times_heard(48 * 4));
  }
  plim_tape_delete(t);
}

// ---- the clock --------------------------------------------------------------------------------------

// The fraction of the card's peak rate that a product of bfloat16 matrices reaches.
static double share_of_peak(int64_t columns) {
  plim_tape *t = tape_on("H200");
  plim_tensor *a = NULL, *b = NULL;
  set(t, &a, empty(t, dims(4096, 4096), PLIM_BF16));
  set(t, &b, empty(t, dims(4096, columns), PLIM_BF16));
  plim_work_step_begin(t);
  plim_consume(t, k_mm(t, a, b));
  plim_work_step_end(t);
  double seconds = plim_clock_last_step(t).busy_seconds;
  plim_tape_delete(t);
  return 2.0 * 4096 * 4096 * (double)columns / seconds / 989e12;
}

// Measured (docs/measurements.md, "The clock"): 0.70 to 0.83 of the peak for large products, 0.24 to 0.27 with
// rows of 30,522 elements (4 bytes off), 0.09 to 0.15 with rows of 50,257 (2 bytes off).
TEST(products_with_odd_rows_are_as_slow_as_measured) {
  double even = share_of_peak(50304), four = share_of_peak(30522), two = share_of_peak(50257);
  CHECK(even >= 0.70 && even <= 0.83, "%f", even);
  CHECK(four >= 0.24 && four <= 0.27, "%f", four);
  CHECK(two >= 0.09 && two <= 0.15, "%f", two);
}

static double attention_seconds(double dropout) {
  plim_tape *t = tape_on("H200");
  plim_tensor *q = leaf(t, dims(8, 16, 1024, 64), PLIM_BF16), *out = NULL;
  plim_work_step_begin(t);
  set(t, &out, full_attention(t, q, q, q, NULL, dropout));
  plim_work_step_end(t);
  double seconds = plim_clock_last_step(t).busy_seconds;
  plim_tape_delete(t);
  return seconds;
}

// Measured (the same page): dropout takes the time of 0.8 to 1.4 trillion pairs of query and key a second.
TEST(dropout_in_attention_takes_what_was_measured) {
  double pairs = 8.0 * 16 * 1024 * 1024;
  double rate = pairs / (attention_seconds(0.1) - attention_seconds(0));
  CHECK(rate >= 0.8e12 && rate <= 1.4e12, "%g pairs a second", rate);
}

TEST_MAIN
