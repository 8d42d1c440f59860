// Full-size training runs, measured: the tape behind the allocator must predict bytes after load,
// peak allocated and peak reserved. The rows of steps.json, seeds.json and timing.json whose model and
// recipe are programs on the tape today; the others are counted and left out.
#include <jansson.h>
#include <math.h>

#include "allocator.h"
#include "driver.h"
#include "families/gpt2.h"
#include "families/gpt_neox.h"
#include "families/llama.h"
#include "test.h"
#include "training.h"

typedef struct {
  plim_allocator *a;
} card;

static void follow(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  card *c = context;
  if (kind == PLIM_STREAM_ALLOC) plim_allocator_malloc(c->a, id, bytes, 0, 0);
  else plim_allocator_free(c->a, id);
}

// ---- reading a row ----------------------------------------------------------------------------------

static int64_t integer(const json_t *object, const char *key, int64_t otherwise) {
  const json_t *value = json_object_get(object, key);
  return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static const char *text(const json_t *object, const char *key, const char *otherwise) {
  const char *value = json_string_value(json_object_get(object, key));
  return value ? value : otherwise;
}

static bool is(const json_t *object, const char *key, const char *value) {
  return strcmp(text(object, key, ""), value) == 0;
}

static const struct {
  const char *recorded, *ours;
} optimizers[] = {
    {"", "adamw"},
    {"adamw_fused", "adamw"},
    {"adamw_torch_fused", "adamw"},
    {"adamw_foreach", "adamw-foreach"},
    {"adamw_torch", "adamw-foreach"},
    {"adamw_loop", "adamw-loop"},
    {"sgd", "sgd"},
    {"sgd_momentum", "sgd-momentum"},
    {"adafactor", "adafactor"},
};

static const plim_optimizer *optimizer_of(const json_t *c) {
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
    if (is(c, "optim", optimizers[i].recorded) || (!i && !json_object_get(c, "optim")))
      return plim_optimizer_named(optimizers[i].ours);
  return NULL;
}

static plim_model *llama_of(plim_tape *t, const json_t *m, plim_dtype dtype) {
  plim_llama_config c = {.hidden = integer(m, "hidden_size", 0),
                         .intermediate = integer(m, "intermediate_size", 0),
                         .layers = integer(m, "num_hidden_layers", 0),
                         .heads = integer(m, "num_attention_heads", 0),
                         .vocabulary = integer(m, "vocab_size", 0),
                         .ties_embeddings = json_is_true(json_object_get(m, "tie_word_embeddings")),
                         .has_qkv_bias = is(m, "model_type", "qwen2"),
                         .has_qk_norm = is(m, "model_type", "qwen3")};
  c.has_fused_projections = is(m, "model_type", "phi3");
  c.keeps_mask_arguments = c.has_qkv_bias || c.has_qk_norm;
  c.kv_heads = integer(m, "num_key_value_heads", c.heads);
  c.head_dim = integer(m, "head_dim", c.hidden / c.heads);
  return plim_llama_new(t, &c, dtype);
}

static plim_model *gpt2_of(plim_tape *t, const json_t *m, plim_dtype dtype) {
  plim_gpt2_config c = {.hidden = integer(m, "n_embd", 0),
                        .layers = integer(m, "n_layer", 0),
                        .heads = integer(m, "n_head", 0),
                        .positions = integer(m, "n_positions", 0),
                        .vocabulary = integer(m, "vocab_size", 0),
                        .dropout = 0.1};
  return plim_gpt2_new(t, &c, dtype);
}

static plim_model *gpt_neox_of(plim_tape *t, const json_t *m, plim_dtype dtype) {
  plim_gpt_neox_config c = {.hidden = integer(m, "hidden_size", 0),
                            .intermediate = integer(m, "intermediate_size", 0),
                            .layers = integer(m, "num_hidden_layers", 0),
                            .heads = integer(m, "num_attention_heads", 0),
                            .vocabulary = integer(m, "vocab_size", 0),
                            .rotary_share = 0.25};
  return plim_gpt_neox_new(t, &c, dtype);
}

static const struct {
  const char *model_type;
  plim_model *(*build)(plim_tape *t, const json_t *m, plim_dtype dtype);
} families[] = {
    {"llama", llama_of}, {"mistral", llama_of}, {"qwen2", llama_of},       {"qwen3", llama_of},
    {"phi3", llama_of},  {"gpt2", gpt2_of},     {"gpt_neox", gpt_neox_of},
};

static plim_model *model_of(plim_tape *t, const json_t *m, plim_dtype dtype) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    if (is(m, "model_type", families[i].model_type)) return families[i].build(t, m, dtype);
  return NULL;
}

// What the tape has no program for yet.
static bool is_covered(const json_t *row, const json_t *m) {
  const json_t *c = json_object_get(row, "case"), *lora = json_object_get(c, "lora");
  bool is_known = false,
       takes_adapters = !is(m, "model_type", "gpt2") && !is(m, "model_type", "gpt_neox");
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    is_known |= is(m, "model_type", families[i].model_type);
  bool is_plain_fp32 = is(c, "param_dtype", "fp32") && !json_object_get(c, "amp");
  bool is_gpt2_eager = is(m, "model_type", "gpt2") && is(c, "attn", "eager");
  return is_known && optimizer_of(c) && !is(c, "amp", "fp16") && !is_plain_fp32 && !is_gpt2_eager &&
         (!lora || takes_adapters);
}

static plim_recipe recipe_of(const json_t *c, int steps) {
  bool checkpoint = json_is_true(json_object_get(c, "ckpt"));
  bool reentrant = json_is_true(json_object_get(c, "reentrant"));
  return (plim_recipe){.batch = integer(c, "batch", 0),
                       .length = integer(c, "seq", 0),
                       .steps = (int)integer(c, "steps", steps),
                       .accumulate = (int)integer(c, "accum", 1),
                       .optimizer = optimizer_of(c),
                       .attention =
                           is(c, "attn", "eager") ? PLIM_ATTENTION_EAGER : PLIM_ATTENTION_SDPA,
                       .mask = is(c, "mask", "pad")    ? PLIM_MASK_PAD
                               : is(c, "mask", "ones") ? PLIM_MASK_ONES
                                                       : PLIM_MASK_NONE,
                       .autocast = is(c, "amp", "bf16") ? PLIM_BF16 : PLIM_BOOL,
                       .checkpoint = !checkpoint ? PLIM_CHECKPOINT_OFF
                                     : reentrant ? PLIM_CHECKPOINT_REENTRANT
                                                 : PLIM_CHECKPOINT_ON,
                       .is_trainer = is(c, "loop", "trainer"),
                       .skips_clipping = json_is_false(json_object_get(c, "clip")),
                       .deletes_outputs = json_is_true(json_object_get(c, "del_out"))};
}

// ---- predicting one ---------------------------------------------------------------------------------

typedef struct {
  uint64_t loaded, allocated, reserved, trainable, retries;
  bool runs_out;
} prediction;

static uint32_t targets_of(const json_t *lora) {
  const json_t *targets = json_object_get(lora, "targets");
  uint32_t bits = 0;
  if (json_is_string(targets)) return (1u << PLIM_PROJECTIONS) - 1; // all-linear
  for (size_t i = 0; i < json_array_size(targets); i++)
    for (int k = 0; k < PLIM_PROJECTIONS; k++)
      if (strcmp(json_string_value(json_array_get(targets, i)), plim_projection_names[k]) == 0)
        bits |= 1u << k;
  return bits;
}

static void add_adapters(plim_tape *t, plim_model *m, const json_t *lora) {
  plim_lora l = {.rank = integer(lora, "r", 0),
                 .dropout = json_number_value(json_object_get(lora, "dropout")),
                 .targets = targets_of(lora),
                 .keeps_dtype = json_is_false(json_object_get(lora, "fp32_adapters"))};
  m->add_lora(t, m, &l);
}

static uint64_t limit_of(const json_t *c) {
  const json_t *cap = json_object_get(c, "cap_gb");
  return json_is_number(cap) ? (uint64_t)(json_number_value(cap) * (double)PLIM_GIB) : PLIM_UNKNOWN;
}

// The measuring program makes and frees one block and empties the cache before it builds the model.
static prediction predict(const json_t *c, const json_t *m, int steps) {
  prediction p = {0};
  plim_address_model addresses;
  plim_address_model_init(&addresses);
  plim_allocator_options options = {.driver = plim_address_model_driver(&addresses),
                                    .limit_bytes = limit_of(c),
                                    .capacity_bytes = PLIM_UNKNOWN,
                                    .range_bytes = PLIM_UNKNOWN};
  if (plim_alloc_conf_parse(text(c, "alloc_conf", ""), &options.conf, NULL)) test_failed = true;
  card here = {plim_allocator_new(&options)};
  plim_tape *t = plim_tape_new((plim_tape_sink){follow, &here});
  plim_model *model =
      t && here.a ? model_of(t, m, is(c, "param_dtype", "fp32") ? PLIM_FP32 : PLIM_BF16) : NULL;
  if (model) {
    const json_t *lora = json_object_get(c, "lora");
    if (json_is_object(lora)) add_adapters(t, model, lora);
    for (size_t i = 0; i < model->parameters.len; i++)
      p.trainable += (uint64_t)plim_numel(&model->parameters.at[i]->shape);
    p.loaded = plim_allocator_stats(here.a)->now.allocated_bytes;
    plim_recipe recipe = recipe_of(c, steps);
    if (recipe.is_trainer) plim_allocator_empty_cache(here.a);
    plim_allocator_reset_peaks(here.a);
    if (!plim_train(t, model, &recipe)) test_failed = true;
    p.allocated = plim_allocator_stats(here.a)->peak.allocated_bytes;
    p.reserved = plim_allocator_stats(here.a)->peak.reserved_bytes;
    p.retries = plim_allocator_stats(here.a)->retries;
    p.runs_out = plim_allocator_stats(here.a)->ooms > 0;
  }
  plim_model_delete(model);
  plim_tape_delete(t);
  plim_allocator_delete(here.a);
  plim_address_model_clear(&addresses);
  return p;
}

// ---- all of them ------------------------------------------------------------------------------------

typedef struct {
  size_t rows, left_out, allocated_equal, reserved_equal, exact, verdicts, verdicts_right;
  double worst;
} score;

static double error_percent(uint64_t predicted, int64_t measured) {
  return 100 * fabs((double)predicted - (double)measured) / (double)measured;
}

// A program that runs out of memory ends there, so of those rows only the verdict is compared.
static void judge(const json_t *row, const prediction *p, score *s) {
  bool ran_out = is(row, "status", "oom");
  s->verdicts++;
  s->verdicts_right += p->runs_out == ran_out;
  if (p->runs_out != ran_out)
    printf("  %s: %s, measured %s\n", text(row, "id", "?"), p->runs_out ? "runs out" : "fits",
           ran_out ? "runs out" : "fits");
  if (ran_out || p->runs_out) return;
  int64_t allocated = integer(row, "peak_allocated", 0),
          reserved = integer(row, "peak_reserved", 0);
  double off_a = error_percent(p->allocated, allocated),
         off_r = error_percent(p->reserved, reserved);
  s->rows++;
  s->allocated_equal += off_a == 0;
  s->reserved_equal += off_r == 0;
  s->exact += (int64_t)p->loaded == integer(row, "loaded_allocated", 0) &&
              (int64_t)p->trainable == integer(row, "trainable", 0);
  s->worst = fmax(s->worst, fmax(off_a, off_r));
  if (off_a == 0 && off_r == 0) return;
  printf("  %s: allocated %" PRIu64 " measured %" PRIi64 ", reserved %" PRIu64 " measured %" PRIi64
         "\n",
         text(row, "id", "?"), p->allocated, allocated, p->reserved, reserved);
}

static void judge_file(const char *name, int steps, const json_t *models, score *s) {
  char path[512];
  snprintf(path, sizeof path, TEST_ROOT "/truth/%s.json", name);
  json_t *rows = json_load_file(path, 0, NULL);
  if (!rows) test_failed = true;
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i), *c = json_object_get(row, "case");
    const json_t *m = json_object_get(models, text(c, "model", ""));
    if (!is_covered(row, m)) {
      s->left_out++;
      continue;
    }
    prediction p = predict(c, m, steps);
    judge(row, &p, s);
  }
  json_decref(rows);
}

TEST(full_size_runs_are_predicted_to_the_byte) {
  score s = {0};
  json_t *models = json_load_file(TEST_ROOT "/truth/models.json", 0, NULL);
  CHECK(models, "models.json");
  judge_file("steps", 3, models, &s);
  judge_file("seeds", 3, models, &s);
  judge_file("timing", 5, models, &s);
  json_decref(models);
  printf("  %zu rows (%zu left out): allocated equal in %zu, reserved in %zu, worst error %.4f %%\n"
         "  %zu of %zu verdicts right\n",
         s.rows, s.left_out, s.allocated_equal, s.reserved_equal, s.worst, s.verdicts_right,
         s.verdicts);
  CHECK(s.rows >= 80, "%zu rows", s.rows);
  CHECK(s.verdicts_right == s.verdicts, "%zu of %zu verdicts right", s.verdicts_right, s.verdicts);
  CHECK(s.exact == s.rows, "bytes after load and trained parameters exact in %zu", s.exact);
  CHECK((double)s.allocated_equal >= 0.95 * (double)s.rows, "allocated");
  CHECK((double)s.reserved_equal >= 0.90 * (double)s.rows, "reserved");
  CHECK(s.worst <= 0.3, "worst %f %%", s.worst);
}

TEST_MAIN
