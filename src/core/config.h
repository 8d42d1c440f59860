// A model's configuration: what transformers' config.json says, in one struct for all families.
//
//   plim_config c;
//   plim_err err = plim_config_init(&c, "llama", &error);
//   if (!err) plim_config_number(&c, "hidden_size", 4096); // ... every key of the file
//   if (!err) err = plim_config_finish(&c, &error);
#ifndef PLIM_CORE_CONFIG_H
#define PLIM_CORE_CONFIG_H

#include "plimsoll.h"

typedef enum {
  PLIM_HEAD_CAUSAL, // the next token; of an encoder-decoder, the target's
  PLIM_HEAD_MASKED, // the masked tokens
  PLIM_HEAD_NONE    // a bare encoder
} plim_head;

typedef enum {
  PLIM_ACT_GELU,     // one kernel, exact or by tanh
  PLIM_ACT_NEW_GELU, // by tanh, operator by operator
  PLIM_ACT_RELU,
  PLIM_ACT_SILU,
  PLIM_ACT_UNKNOWN
} plim_activation;

typedef struct plim_family plim_family;

typedef struct {
  const plim_family *family;
  plim_head head;
  plim_activation activation;
  int64_t hidden, intermediate, layers, decoder_layers, heads, kv_heads, head_dim;
  int64_t vocabulary, positions, token_types, experts, experts_per_token;
  int64_t sliding_window;   // 0: none
  int64_t relative_buckets; // of relative positions
  double dropout, attention_dropout, embedding_dropout;
  double rotary_share; // of each head
  bool ties_embeddings, has_attention_bias, has_mlp_bias, has_gated_mlp;
  // Traits of the family, which no file changes.
  bool has_qkv_bias;          // qwen2
  bool has_qk_norm;           // qwen3
  bool has_fused_projections; // phi3
  bool keeps_mask_arguments;  // qwen2, qwen3: their forward keeps them in a dict
  bool names_positions_first; // mistral: layers get position_ids before position_embeddings
} plim_config;

// The family's defaults, as transformers' configuration class has them. An unknown family is refused
// by name, with the list of those known.
plim_err plim_config_init(plim_config *c, const char *model_type, plim_error *error);

// One key of config.json: a number (a bool is 0 or 1, null is 0) or a text. Keys that do not change
// memory are passed over.
void plim_config_number(plim_config *c, const char *key, double value);
void plim_config_text(plim_config *c, const char *key, const char *value);

// Derives what was left open and checks all of it.
plim_err plim_config_finish(plim_config *c, plim_error *error);

#endif
