#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "family.h"

enum { MAX_EXTENT = 1 << 30 };

// ---- keys -------------------------------------------------------------------------------------------

typedef enum { INTEGER, REAL, FLAG } field_kind;

#define FIELD(name, kind) offsetof(plim_config, name), kind

// The families call the same thing by different names.
static const struct {
  const char *key;
  size_t offset;
  field_kind kind;
} keys[] = {
    {"hidden_size", FIELD(hidden, INTEGER)},
    {"n_embd", FIELD(hidden, INTEGER)},
    {"d_model", FIELD(hidden, INTEGER)},
    {"intermediate_size", FIELD(intermediate, INTEGER)},
    {"n_inner", FIELD(intermediate, INTEGER)},
    {"d_ff", FIELD(intermediate, INTEGER)},
    {"num_hidden_layers", FIELD(layers, INTEGER)},
    {"n_layer", FIELD(layers, INTEGER)},
    {"num_layers", FIELD(layers, INTEGER)},
    {"num_decoder_layers", FIELD(decoder_layers, INTEGER)},
    {"num_attention_heads", FIELD(heads, INTEGER)},
    {"n_head", FIELD(heads, INTEGER)},
    {"num_heads", FIELD(heads, INTEGER)},
    {"num_key_value_heads", FIELD(kv_heads, INTEGER)},
    {"head_dim", FIELD(head_dim, INTEGER)},
    {"d_kv", FIELD(head_dim, INTEGER)},
    {"vocab_size", FIELD(vocabulary, INTEGER)},
    {"max_position_embeddings", FIELD(positions, INTEGER)},
    {"n_positions", FIELD(positions, INTEGER)},
    {"original_max_position_embeddings", FIELD(original_positions, INTEGER)},
    {"type_vocab_size", FIELD(token_types, INTEGER)},
    {"num_local_experts", FIELD(experts, INTEGER)},
    {"num_experts_per_tok", FIELD(experts_per_token, INTEGER)},
    {"sliding_window", FIELD(sliding_window, INTEGER)},
    {"max_window_layers", FIELD(first_window_layer, INTEGER)},
    {"use_sliding_window", FIELD(uses_sliding_window, FLAG)},
    {"relative_attention_num_buckets", FIELD(relative_buckets, INTEGER)},
    {"resid_pdrop", FIELD(dropout, REAL)},
    {"hidden_dropout_prob", FIELD(dropout, REAL)},
    {"hidden_dropout", FIELD(dropout, REAL)},
    {"dropout_rate", FIELD(dropout, REAL)},
    {"attn_pdrop", FIELD(attention_dropout, REAL)},
    {"attention_probs_dropout_prob", FIELD(attention_dropout, REAL)},
    {"attention_dropout", FIELD(attention_dropout, REAL)},
    {"embd_pdrop", FIELD(embedding_dropout, REAL)},
    {"rotary_pct", FIELD(rotary_share, REAL)},
    {"partial_rotary_factor", FIELD(rotary_share, REAL)},
    {"attn_logit_softcapping", FIELD(attention_softcap, REAL)},
    {"final_logit_softcapping", FIELD(final_softcap, REAL)},
    {"tie_word_embeddings", FIELD(ties_embeddings, FLAG)},
    {"checkpoint_has_lm_head", FIELD(has_own_head, FLAG)},
    {"attention_bias", FIELD(has_attention_bias, FLAG)},
    {"mlp_bias", FIELD(has_mlp_bias, FLAG)},
};

void plim_config_number(plim_config *c, const char *key, double value) {
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (strcmp(key, keys[i].key) != 0) continue;
    char *field = (char *)c + keys[i].offset;
    bool is_whole = value >= 0 && value <= MAX_EXTENT;
    switch (keys[i].kind) {
    case INTEGER: *(int64_t *)(void *)field = is_whole ? (int64_t)value : -1; break;
    case REAL: *(double *)(void *)field = value; break;
    case FLAG: *(bool *)field = value != 0; break;
    }
  }
}

bool plim_config_is_count(const char *key) {
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(key, keys[i].key) == 0) return keys[i].kind == INTEGER;
  return false;
}

// A wrong number must not become another one: 1.5 layers are not 1.
plim_err plim_config_check_number(const char *key, double value, plim_error *error) {
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (strcmp(key, keys[i].key) != 0 || keys[i].kind != INTEGER) continue;
    if (value != floor(value))
      return plim_fail(error, PLIM_ERR_ARGUMENT, "%s is %g: it must be a whole number", key, value);
    if (value > MAX_EXTENT)
      return plim_fail(error, PLIM_ERR_ARGUMENT, "%s is %.12g, the largest allowed is %d", key,
                       value, MAX_EXTENT);
    if (value == 0 && keys[i].offset == offsetof(plim_config, intermediate))
      return plim_fail(error, PLIM_ERR_ARGUMENT, "%s is 0: it must be at least 1", key);
  }
  return PLIM_OK;
}

bool plim_config_is_number(const char *key) {
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(key, keys[i].key) == 0) return true;
  return false;
}

// transformers' names of activations whose kernels we know.
static const struct {
  const char *name;
  plim_activation activation;
} activations[] = {
    {"gelu", PLIM_ACT_GELU},         {"gelu_pytorch_tanh", PLIM_ACT_GELU},
    {"gelu_fast", PLIM_ACT_UNKNOWN}, {"gelu_new", PLIM_ACT_NEW_GELU},
    {"relu", PLIM_ACT_RELU},         {"silu", PLIM_ACT_SILU},
    {"swish", PLIM_ACT_SILU},
};

static plim_activation activation_named(const char *name) {
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
    if (strcmp(name, activations[i].name) == 0) return activations[i].activation;
  return PLIM_ACT_UNKNOWN;
}

static const struct {
  const char *name;
  plim_rope_kind kind;
} ropes[] = {
    {"linear", PLIM_ROPE_LINEAR}, {"dynamic", PLIM_ROPE_DYNAMIC}, {"llama3", PLIM_ROPE_LLAMA3},
    {"longrope", PLIM_ROPE_LONG}, {"su", PLIM_ROPE_LONG},         {"yarn", PLIM_ROPE_YARN},
};

static plim_rope_kind rope_named(const char *name) {
  for (size_t i = 0; i < sizeof ropes / sizeof *ropes; i++)
    if (strcmp(name, ropes[i].name) == 0) return ropes[i].kind;
  return PLIM_ROPE_DEFAULT;
}

void plim_config_text(plim_config *c, const char *key, const char *value) {
  static const char gated[] = "gated-";
  if (strcmp(key, "rope_type") == 0 || strcmp(key, "type") == 0) c->rope = rope_named(value);
  if (strcmp(key, "hidden_act") == 0 || strcmp(key, "hidden_activation") == 0 ||
      strcmp(key, "activation_function") == 0)
    c->activation = activation_named(value);
  if (strcmp(key, "feed_forward_proj") != 0) return;
  c->has_gated_mlp = strncmp(value, gated, sizeof gated - 1) == 0;
  const char *name = value + (c->has_gated_mlp ? sizeof gated - 1 : 0);
  // T5 reads "gated-gelu" as the version by tanh.
  c->activation =
      c->has_gated_mlp && strcmp(name, "gelu") == 0 ? PLIM_ACT_NEW_GELU : activation_named(name);
}

// ---- beginning and end ------------------------------------------------------------------------------

// Every extent a program on the tape multiplies with must be at least one.
static plim_err check_extents(const plim_config *c, plim_error *error) {
  const struct {
    const char *name;
    int64_t value;
  } needed[] = {
      {"the hidden size", c->hidden},
      {"the intermediate size", c->intermediate},
      {"the number of layers", c->layers},
      {"the number of heads", c->heads},
      {"the number of key-value heads", c->kv_heads},
      {"the head size", c->head_dim},
      {"the vocabulary size", c->vocabulary},
  };
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (needed[i].value < 1)
      return plim_fail(error, PLIM_ERR_ARGUMENT, "%s is missing or not a positive number",
                       needed[i].name);
  if (c->heads % c->kv_heads)
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "%d attention heads cannot be divided among %d key-value heads", (int)c->heads,
                     (int)c->kv_heads);
  if (c->experts &&
      (c->experts < 1 || c->experts_per_token < 1 || c->experts_per_token > c->experts))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "a token cannot be routed to %d of %d experts",
                     (int)c->experts_per_token, (int)c->experts);
  return PLIM_OK;
}

// Far beyond any model there is, and small enough that no product of them overflows.
static plim_err check_limits(const plim_config *c, plim_error *error) {
  const struct {
    const char *name;
    double value, least, most;
  } limits[] = {
      {"the hidden size", (double)c->hidden, 1, 1 << 20},
      {"the intermediate size", (double)c->intermediate, 1, 1 << 22},
      {"the number of layers", (double)c->layers, 1, 4096},
      {"the number of decoder layers", (double)c->decoder_layers, 1, 4096},
      {"the number of heads", (double)c->heads, 1, 1 << 14},
      {"the head size", (double)c->head_dim, 1, 1 << 16},
      {"the vocabulary size", (double)c->vocabulary, 1, 1 << 24},
      {"the number of positions", (double)c->positions, 0, 1 << 28},
      {"the number of token types", (double)c->token_types, 0, 1 << 20},
      {"the number of experts", (double)c->experts, 0, 4096},
      {"the number of experts per token", (double)c->experts_per_token, 0, 4096},
      {"the sliding window", (double)c->sliding_window, 0, MAX_EXTENT},
      {"the number of relative positions", (double)c->relative_buckets, 0, 1 << 20},
      {"the dropout", c->dropout, 0, 1},
      {"the attention dropout", c->attention_dropout, 0, 1},
      {"the embedding dropout", c->embedding_dropout, 0, 1},
      {"the rotary fraction of each head", c->rotary_share, 0, 1},
  };
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    if (!(limits[i].value >= limits[i].least && limits[i].value <= limits[i].most))
      return plim_fail(error, PLIM_ERR_ARGUMENT, "%s is not between %g and %.0f", limits[i].name,
                       limits[i].least, limits[i].most);
  return PLIM_OK;
}

// What a file may say, and the family's program does not follow.
static plim_err check_followed(const plim_config *c, plim_error *error) {
  const plim_family *f = c->family;
  bool has_other = c->activation != f->defaults.activation && !f->has_any_activation;
  const char *what = has_other       ? "this activation function"
                     : f->unfollowed ? f->unfollowed(c)
                                     : NULL;
  if (!what) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s with %s is not supported yet",
                           f->model_type, what);
  plim_error_hint(error,
                  "run your own program on a simulated GPU: plimsoll simulate -- python train.py");
  return err;
}

plim_err plim_config_finish(plim_config *c, plim_error *error) {
  const plim_family *f = c->family;
  if (!c->kv_heads) c->kv_heads = c->heads;
  if ((!c->head_dim || f->divides_width) && c->heads > 0) c->head_dim = c->hidden / c->heads;
  if (f->divides_width && c->heads > 0 && c->hidden % c->heads)
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "the hidden size of %d cannot be divided among %d heads", (int)c->hidden,
                     (int)c->heads);
  if (!c->intermediate) c->intermediate = 4 * c->hidden;
  if (!c->decoder_layers) c->decoder_layers = c->layers;
  if (!c->original_positions) c->original_positions = c->positions;
  if (f->reads_yarn_as_longrope && c->rope == PLIM_ROPE_YARN) c->rope = PLIM_ROPE_LONG;
  if (c->activation == PLIM_ACT_UNKNOWN)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "the model's activation function is not supported yet");
  plim_err err = check_followed(c, error);
  if (!err) err = check_extents(c, error);
  return err ? err : check_limits(c, error);
}

bool plim_config_slides(const plim_config *c, int64_t layer) {
  if (!c->sliding_window) return false;
  switch (c->family->windows) {
  case PLIM_WINDOWS_EVERYWHERE: return true;
  case PLIM_WINDOWS_LATE: return c->uses_sliding_window && layer >= c->first_window_layer;
  case PLIM_WINDOWS_ALTERNATE: return layer % 2 == 0;
  default: return false;
  }
}

int64_t plim_config_rotary_width(const plim_config *c) {
  if (!c->family->turns_part_of_head) return c->head_dim;
  return (int64_t)((double)c->head_dim * c->rotary_share);
}
