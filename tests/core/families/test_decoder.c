// Properties of decoders that no recording shows: layers with sliding windows and their masks, biases, scaled rotary
// positions, and the scratch space of sorts.
#include <stdlib.h>

#include "families.h"
#include "job.h"
#include "kernels.h"
#include "test.h"
#include "vec.h"

typedef struct {
  plim_stream_kind kind;
  uint32_t id;
  uint64_t bytes;
} event;

typedef vec(event) stream;

static void append(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  stream *s = context;
  if (!vec_push(s, (event){kind, id, bytes})) test_failed = true;
}

// A small model of the family, with two heads of 64 for queries and one for keys and values.
static plim_job small(const char *family, int64_t length) {
  plim_job job = {.dtype = PLIM_BF16,
                  .recipe = {.batch = 2,
                             .length = length,
                             .steps = 1,
                             .optimizer = plim_optimizer_named("sgd"),
                             .autocast = PLIM_BOOL}};
  plim_config *c = &job.model;
  if (plim_config_init(c, family, NULL)) test_failed = true;
  c->hidden = 128;
  c->intermediate = 256;
  c->heads = 2;
  c->kv_heads = 1;
  c->head_dim = 64;
  c->vocabulary = 1000;
  c->layers = 4;
  return job;
}

typedef struct {
  stream events;
  uint64_t loaded_bytes;
  size_t parameters, loaded_events;
} outcome;

static outcome run(plim_job *job) {
  outcome o = {0};
  if (plim_config_finish(&job->model, NULL)) test_failed = true;
  plim_tape *t = plim_tape_new((plim_tape_sink){append, &o.events});
  plim_model *m = plim_job_load(t, job);
  o.parameters = m->parameters.len;
  o.loaded_events = o.events.len;
  for (size_t i = 0; i < o.events.len; i++) {
    bool is_alloc = o.events.at[i].kind == PLIM_STREAM_ALLOC;
    o.loaded_bytes += is_alloc ? o.events.at[i].bytes : -o.events.at[i].bytes;
  }
  if (!plim_train(t, m, &job->recipe)) test_failed = true;
  plim_model_delete(m);
  plim_tape_delete(t);
  return o;
}

static bool same(const outcome *a, const outcome *b) {
  bool equal = a->events.len == b->events.len;
  for (size_t i = 0; equal && i < a->events.len; i++)
    equal =
        a->events.at[i].id == b->events.at[i].id && a->events.at[i].bytes == b->events.at[i].bytes;
  return equal;
}

static size_t count(const outcome *o, uint64_t bytes) { // allocations of this size in training
  size_t n = 0;
  for (size_t i = o->loaded_events; i < o->events.len; i++)
    n += o->events.at[i].kind == PLIM_STREAM_ALLOC && o->events.at[i].bytes == bytes;
  return n;
}

static void forget(outcome *o) { vec_free(&o->events); }

// ---- windows ----------------------------------------------------------------------------------------

TEST(layers_have_windows_where_their_family_puts_them) {
  const struct {
    const char *family;
    bool asks; // use_sliding_window
    bool slides[4];
  } rules[] = {
      {"llama", true, {false, false, false, false}},  {"mistral", false, {true, true, true, true}},
      {"mixtral", false, {true, true, true, true}},   {"phi3", false, {true, true, true, true}},
      {"qwen2", false, {false, false, false, false}}, {"qwen2", true, {false, false, true, true}},
      {"qwen3", true, {false, false, true, true}},    {"gemma2", false, {true, false, true, false}},
  };
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    plim_config c;
    CHECK(!plim_config_init(&c, rules[i].family, NULL), "%s", rules[i].family);
    plim_config_number(&c, "sliding_window", 1024);
    plim_config_number(&c, "use_sliding_window", rules[i].asks);
    plim_config_number(&c, "max_window_layers", 2);
    for (int k = 0; k < 4; k++)
      CHECK(plim_config_slides(&c, k) == rules[i].slides[k], "%s, layer %d", rules[i].family, k);
    plim_config_number(&c, "sliding_window", 0); // null
    CHECK(!plim_config_slides(&c, 0), "%s without a window", rules[i].family);
  }
}

TEST(a_window_longer_than_the_text_changes_nothing) {
  plim_job with = small("mistral", 256), without = small("mistral", 256);
  with.model.sliding_window = 257;
  without.model.sliding_window = 0;
  outcome a = run(&with), b = run(&without);
  CHECK(same(&a, &b), "%zu and %zu events", a.events.len, b.events.len);
  forget(&a);
  forget(&b);
}

// The mask has one byte per pair of tokens, and each layer has a bias for the kernel: batch x 1 x T x T.
TEST(a_window_as_long_as_the_text_makes_a_mask) {
  enum { LENGTH = 256, SQUARE = LENGTH * LENGTH };
  plim_job with = small("mistral", LENGTH), without = small("mistral", LENGTH);
  with.model.sliding_window = LENGTH;
  without.model.sliding_window = 0;
  outcome a = run(&with), b = run(&without);
  // Four squares: inside the window; that and true; before the query; all combined.
  CHECK_U64((uint64_t)count(&a, SQUARE), 4 + (uint64_t)count(&b, SQUARE));
  CHECK_U64((uint64_t)count(&a, 2 * SQUARE * 2), 4 + (uint64_t)count(&b, 2 * SQUARE * 2));
  forget(&a);
  forget(&b);
}

TEST(only_layers_with_a_window_get_the_mask) {
  enum { LENGTH = 192, BIAS = 2 * LENGTH * LENGTH * 2 };
  plim_job gemma = small("gemma2", LENGTH);
  plim_job qwen = small("qwen2", LENGTH);
  gemma.model.sliding_window = qwen.model.sliding_window = 128;
  qwen.model.uses_sliding_window = true;
  qwen.model.first_window_layer = 3;
  outcome a = run(&gemma), b = run(&qwen);
  CHECK_U64((uint64_t)count(&a, BIAS), 2);
  CHECK_U64((uint64_t)count(&b, BIAS), 1);
  forget(&a);
  forget(&b);
}

// ---- parameters -------------------------------------------------------------------------------------

TEST(biases_are_parameters_of_every_projection) {
  plim_job plain = small("llama", 64), attention = small("llama", 64), both = small("llama", 64);
  plim_config_number(&attention.model, "attention_bias", 1);
  plim_config_number(&both.model, "attention_bias", 1);
  plim_config_number(&both.model, "mlp_bias", 1);
  outcome a = run(&plain), b = run(&attention), c = run(&both);
  CHECK_U64((uint64_t)b.parameters, (uint64_t)a.parameters + 4 * 4);
  CHECK_U64((uint64_t)c.parameters, (uint64_t)b.parameters + 3 * 4);
  CHECK_U64(b.loaded_bytes, a.loaded_bytes + 4 * 2 * (128 + 64 + 64 + 128));
  forget(&a);
  forget(&b);
  forget(&c);
}

TEST(experts_are_two_tensors_and_a_router) {
  plim_job job = small("mixtral", 64);
  outcome o = run(&job);
  CHECK_U64((uint64_t)o.parameters, 1 + 4 * (4 + 3 + 2) + 1 + 1);
  forget(&o);
  plim_config c;
  CHECK(!plim_config_init(&c, "mixtral", NULL), "mixtral");
  c.experts_per_token = 9;
  plim_error error = {0};
  CHECK(plim_config_finish(&c, &error), "9 of 8 experts");
  CHECK_STR(error.message, "a token cannot be routed to 9 of 8 experts");
}

TEST(dropout_of_adapters_on_experts_is_refused_with_a_way_out) {
  plim_job job = small("mixtral", 64);
  plim_error error = {0};
  job.lora = (plim_lora){.rank = 8, .targets = PLIM_ALL_LINEAR};
  CHECK(!plim_job_check(&job, &error), "all-linear");
  job.lora.dropout = 0.05;
  CHECK(plim_job_check(&job, &error) == PLIM_ERR_UNSUPPORTED, "all-linear with dropout");
  CHECK_STR(error.hint, "--lora-dropout 0, or --lora-targets q_proj,k_proj,v_proj,o_proj");
  job.lora.targets = "q_proj,gate_proj";
  CHECK(!plim_job_check(&job, &error), "named projections");
  job = small("llama", 64);
  job.lora = (plim_lora){.rank = 8, .targets = PLIM_ALL_LINEAR};
  CHECK(!plim_job_check(&job, &error), "llama has no experts");
}

// ---- rotary positions -------------------------------------------------------------------------------

TEST(scaled_frequencies_keep_as_much_memory_as_plain_ones) {
  const char *kinds[] = {"default", "linear", "dynamic", "llama3", "yarn", "longrope"};
  plim_job plain = small("llama", 64);
  outcome a = run(&plain);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    plim_job scaled = small("llama", 64);
    scaled.model.positions = 4096;
    plim_config_text(&scaled.model, "rope_type", kinds[i]);
    outcome b = run(&scaled);
    CHECK(b.loaded_bytes == a.loaded_bytes, "%s: %" PRIu64 " bytes", kinds[i], b.loaded_bytes);
    CHECK((b.events.len == a.events.len) == (i == 0), "%s: %zu events", kinds[i], b.events.len);
    forget(&b);
  }
  forget(&a);
}

TEST(phi3_turns_a_part_of_each_head) {
  plim_config c;
  CHECK(!plim_config_init(&c, "phi3", NULL), "phi3");
  CHECK(!plim_config_finish(&c, NULL), "defaults");
  CHECK_U64((uint64_t)plim_config_rotary_width(&c), 96);
  plim_config_number(&c, "partial_rotary_factor", 0.75);
  CHECK_U64((uint64_t)plim_config_rotary_width(&c), 72);
  plim_job job = small("phi3", 64);
  plim_config_number(&job.model, "partial_rotary_factor", 0.75);
  outcome o = run(&job);
  CHECK(count(&o, 64 * 48 * 4) > 0, "cosines of 48 of 64");
  forget(&o);
}

// ---- sorts ------------------------------------------------------------------------------------------

// From recordings of embedding gradients (all 64 bits of a key) and of gathered rows.
TEST(scratch_of_sorts_is_what_was_recorded) {
  plim_tape *t = plim_tape_new((plim_tape_sink){0});
  CHECK_U64(k_sort_bytes(t, 1024, 9), 1);
  CHECK_U64(k_sort_bytes(t, 4096, 64), 83455);
  CHECK_U64(k_sort_bytes(t, 16384, 64), 283135);
  CHECK_U64(k_sort_bytes(t, 65536, 64), 1080831);
  plim_tape_delete(t);
}

// Mixtures that transformers cannot build either. Without these checks, the tape would divide by zero or read nothing.
TEST(impossible_mixtures_are_refused) {
  static const struct {
    const char *family, *key, *message;
    double value;
  } rows[] = {
      {"deepseek_v3", "n_group", "256 experts cannot be chosen from 4 of 0 groups", 0},
      {"deepseek_v3", "n_group", "256 experts cannot be chosen from 4 of 3 groups", 3},
      {"glm4_moe", "n_shared_experts",
       "the width of the shared experts is missing or not a positive number", 0},
      {"glm4_moe_lite", "kv_lora_rank",
       "latent attention needs kv_lora_rank, qk_rope_head_dim and v_head_dim", 0},
      {"gpt_oss", "num_local_experts", "gpt_oss with no experts is not supported yet", 0},
      {"olmoe", "clip_qkv", "olmoe with clip_qkv is not supported yet", 8},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plim_config c;
    plim_error error = {0};
    CHECK(!plim_config_init(&c, rows[i].family, &error), "%s", error.message);
    plim_config_number(&c, rows[i].key, rows[i].value);
    CHECK(plim_config_finish(&c, &error), "%s: %s", rows[i].family, rows[i].key);
    CHECK_STR(error.message, rows[i].message);
  }
}

TEST_MAIN
