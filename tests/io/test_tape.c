// The tape against PyTorch's recordings: every allocation and every free of a real training step, in
// order, by size, each free of the same allocation. The model is built and trained two steps.
#include <math.h>
#include <stdlib.h>

#include "attention.h"
#include "families/gpt2.h"
#include "families/gpt_neox.h"
#include "families/llama.h"
#include "test.h"
#include "training.h"
#include "truth.h"

// Recordings that are one program on the tape today.
// clang-format off
static const char *const covered[] = {
    "families/gpt2-bf16",
    "families/gpt2-fp32-amp",
    "families/llama-adafactor",
    "families/llama-bf16",
    "families/llama-bf16-ckpt",
    "families/llama-bf16-ckpt-reentrant",
    "families/llama-bf16-eager",
    "families/llama-foreach",
    "families/llama-fp32-ampbf16",
    "families/llama-lora",
    "families/llama-lora-drop-amp",
    "families/llama-lora-drop-amp-ckpt",
    "families/llama-maskpad",
    "families/llama-trainer-fp32",
    "families/llama-trainer-lora-ckpt",
    "families/mistral-bf16",
    "families/neox-bf16",
    "families/phi3-bf16",
    "families/qwen2-bf16",
    "families/qwen3-bf16",
    "kernels/adamw-loop-llama",
    "kernels/cudnn-llama-b4s1024",
    "kernels/cudnn-llama-bf16-s500",
    "kernels/efficient-llama-maskpad",
    "kernels/flash-gpt2-bf16",
    "kernels/flash-llama-bf16",
    "kernels/flash-llama-bf16-s500",
    "kernels/flash-llama-lora-ckpt",
    "kernels/flash-mistral-bf16",
    "kernels/math-llama-bf16",
    "kernels/sgd-llama",
    "kernels/sgdm-llama",
};
// clang-format on

typedef struct {
  plim_stream_kind kind;
  uint32_t id; // allocations are numbered
  uint64_t bytes;
} stream_event;

typedef vec(stream_event) stream;

static void append(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  stream *s = context;
  if (!vec_push(s, (stream_event){kind, id, bytes})) test_failed = true;
}

static int64_t integer(const char *json, const char *key, double otherwise) {
  double value = truth_number(json, key);
  return (int64_t)(isnan(value) ? otherwise : value);
}

static plim_llama_config config_of(const char *json) {
  plim_llama_config c = {.hidden = integer(json, "hidden_size", 0),
                         .intermediate = integer(json, "intermediate_size", 0),
                         .layers = integer(json, "num_hidden_layers", 0),
                         .heads = integer(json, "num_attention_heads", 0),
                         .vocabulary = integer(json, "vocab_size", 0),
                         .ties_embeddings = strstr(json, "\"tie_word_embeddings\": true") != NULL};
  c.has_qkv_bias = strstr(json, "\"model_type\": \"qwen2\"") != NULL;
  c.has_qk_norm = strstr(json, "\"model_type\": \"qwen3\"") != NULL;
  c.has_fused_projections = strstr(json, "\"model_type\": \"phi3\"") != NULL;
  c.keeps_mask_arguments = c.has_qkv_bias || c.has_qk_norm;
  c.kv_heads = integer(json, "num_key_value_heads", (double)c.heads);
  c.head_dim = integer(json, "head_dim", (double)(c.hidden / c.heads));
  return c;
}

// The recordings' names of the optimizers, and ours.
static const plim_optimizer *optimizer_of(const char *json) {
  static const char *const names[][2] = {{"adamw_foreach", "adamw-foreach"},
                                         {"adamw_loop", "adamw-loop"},
                                         {"sgd_momentum", "sgd-momentum"},
                                         {"adafactor", "adafactor"},
                                         {"sgd", "sgd"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"optim\": \"%s\"", names[i][0]);
    if (strstr(json, quoted)) return plim_optimizer_named(names[i][1]);
  }
  return plim_optimizer_named("adamw");
}

static plim_sdpa_kernel kernel_of(const char *json) {
  if (strstr(json, "\"sdp\": \"flash\"")) return PLIM_SDPA_FLASH;
  if (strstr(json, "\"sdp\": \"efficient\"")) return PLIM_SDPA_EFFICIENT;
  return strstr(json, "\"sdp\": \"math\"") ? PLIM_SDPA_MATH : PLIM_SDPA_CUDNN;
}

static plim_model *model_of(const char *json, plim_tape *t, plim_dtype dtype) {
  if (strstr(json, "\"model_type\": \"gpt2\"")) {
    plim_gpt2_config c = {.hidden = integer(json, "n_embd", 0),
                          .layers = integer(json, "n_layer", 0),
                          .heads = integer(json, "n_head", 0),
                          .positions = integer(json, "n_positions", 0),
                          .vocabulary = integer(json, "vocab_size", 0),
                          .dropout = 0.1};
    return plim_gpt2_new(t, &c, dtype);
  }
  if (strstr(json, "\"model_type\": \"gpt_neox\"")) {
    plim_gpt_neox_config c = {.hidden = integer(json, "hidden_size", 0),
                              .intermediate = integer(json, "intermediate_size", 0),
                              .layers = integer(json, "num_hidden_layers", 0),
                              .heads = integer(json, "num_attention_heads", 0),
                              .vocabulary = integer(json, "vocab_size", 0),
                              .rotary_share = 0.25};
    return plim_gpt_neox_new(t, &c, dtype);
  }
  plim_llama_config c = config_of(json);
  return plim_llama_new(t, &c, dtype);
}

static bool run_tape(const char *name, stream *out) {
  const char *json = truth_json(name);
  if (!json) return false;
  plim_recipe recipe = {.batch = integer(json, "batch", 0),
                        .length = integer(json, "seq", 0),
                        .steps = 2,
                        .optimizer = optimizer_of(json)};
  if (strstr(json, "\"attn\": \"eager\"")) recipe.attention = PLIM_ATTENTION_EAGER;
  if (strstr(json, "\"mask\": \"pad\"")) recipe.mask = PLIM_MASK_PAD;
  plim_tape *t = plim_tape_new((plim_tape_sink){append, out});
  if (strstr(json, "\"ckpt\": true")) recipe.checkpoint = PLIM_CHECKPOINT_ON;
  if (strstr(json, "\"reentrant\": true")) recipe.checkpoint = PLIM_CHECKPOINT_REENTRANT;
  recipe.accumulate = (int)integer(json, "accum", 1);
  recipe.is_trainer = strstr(json, "\"loop\": \"trainer\"") != NULL;
  bool is_fp32 = strstr(json, "\"param_dtype\": \"fp32\"") != NULL;
  if (strstr(json, "\"amp\": \"bf16\"")) recipe.autocast = PLIM_BF16;
  if (t) plim_tape_set_sdpa(t, kernel_of(json));
  plim_model *m = t ? model_of(json, t, is_fp32 ? PLIM_FP32 : PLIM_BF16) : NULL;
  if (m && strstr(json, "\"lora\":")) {
    plim_lora lora = {.rank = integer(json, "r", 0),
                      .dropout = truth_number(json, "dropout"),
                      .targets = (1u << PLIM_PROJECTIONS) - 1};
    m->add_lora(t, m, &lora);
  }
  bool ok = m && plim_train(t, m, &recipe);
  plim_model_delete(m);
  plim_tape_delete(t);
  return ok;
}

static bool recorded(const char *name, stream *out) {
  truth_file file = {0};
  snprintf(file.path, sizeof file.path, TEST_ROOT "/truth/%s.pickle.xz", name);
  plim_trace trace;
  if (!truth_load(&file, &trace)) return false;
  vec(uint32_t) id_of = {0};
  bool ok = vec_reserve(&id_of, trace.block_slots + 1);
  for (size_t i = 0, next = 0; ok && i < trace.events.len; i++) {
    const plim_event *e = &trace.events.at[i];
    bool is_alloc = e->action == PLIM_EV_ALLOC;
    if (!is_alloc && e->action != PLIM_EV_FREE && e->action != PLIM_EV_FREE_REQUESTED) continue;
    if (is_alloc) id_of.at[e->block] = (uint32_t)next++;
    append(out, is_alloc ? PLIM_STREAM_ALLOC : PLIM_STREAM_FREE, id_of.at[e->block], e->bytes);
  }
  vec_free(&id_of);
  plim_trace_clear(&trace);
  return ok;
}

// What follows in the recording is the end of the program: frees alone.
static bool only_frees_follow(const stream *s, size_t from) {
  for (size_t i = from; i < s->len; i++)
    if (s->at[i].kind == PLIM_STREAM_ALLOC) return false;
  return true;
}

static int by_id(const void *x, const void *y) {
  const stream_event *a = x, *b = y;
  return (a->id > b->id) - (a->id < b->id);
}

// Where the tape says that PyTorch's order is a hash table's, both are put into one order.
static void sort_unordered(const stream *tape, stream *a, stream *b) {
  for (size_t i = 0, end; i < tape->len; i = end) {
    for (end = i; end < tape->len && tape->at[end].kind == PLIM_STREAM_FREE_UNORDERED; end++) {}
    if (end > i && end <= b->len) {
      qsort(a->at + i, end - i, sizeof *a->at, by_id);
      qsort(b->at + i, end - i, sizeof *b->at, by_id);
    }
    end += end == i;
  }
}

static bool same_event(const stream_event *a, const stream_event *b) {
  bool is_alloc = a->kind == PLIM_STREAM_ALLOC;
  return is_alloc == (b->kind == PLIM_STREAM_ALLOC) && a->id == b->id && a->bytes == b->bytes;
}

static void print_event(const char *who, const stream *s, size_t i) {
  if (i >= s->len) printf(" %s ends", who);
  else
    printf(" %s %s %u of %" PRIu64 " bytes", who,
           s->at[i].kind == PLIM_STREAM_ALLOC ? "alloc" : "free", s->at[i].id, s->at[i].bytes);
}

static bool streams_agree(const char *name) {
  stream tape = {0}, truth = {0};
  bool ok = run_tape(name, &tape) && recorded(name, &truth);
  size_t i = 0;
  sort_unordered(&tape, &tape, &truth);
  while (ok && i < tape.len && i < truth.len && same_event(&tape.at[i], &truth.at[i])) i++;
  ok = ok && i == tape.len && only_frees_follow(&truth, i);
  if (!ok) {
    printf("  %s: %zu of %zu events agree; then", name, i, truth.len);
    print_event("recorded", &truth, i);
    print_event("tape", &tape, i);
    printf("\n");
  }
  vec_free(&tape);
  vec_free(&truth);
  return ok;
}

TEST(streams_are_those_that_pytorch_recorded) {
  for (size_t i = 0; i < sizeof covered / sizeof *covered; i++)
    test_count(covered[i], streams_agree(covered[i]));
}

TEST_MAIN
