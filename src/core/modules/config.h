// A model's configuration: what transformers' config.json says, in one struct for all families. Properties that
// no file changes are in family.h.
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

// How rotary frequencies are scaled for long texts: "rope_type".
typedef enum {
  PLIM_ROPE_DEFAULT,
  PLIM_ROPE_LINEAR,
  PLIM_ROPE_DYNAMIC,
  PLIM_ROPE_LLAMA3,
  PLIM_ROPE_LONG,
  PLIM_ROPE_YARN
} plim_rope_kind;

typedef struct plim_family plim_family;

typedef struct {
  const plim_family *family;
  plim_head head;
  plim_activation activation;
  int64_t hidden, intermediate, layers, decoder_layers, heads, kv_heads, head_dim;
  int64_t vocabulary, positions, token_types, experts, experts_per_token;
  int64_t sliding_window; // in tokens; 0: none
  int64_t first_window_layer;
  int64_t relative_buckets; // of relative positions
  double dropout, attention_dropout, embedding_dropout;
  double rotary_share;                     // of each head
  double attention_softcap, final_softcap; // bounds of scores and logits; 0: none
  plim_rope_kind rope;
  int64_t original_positions; // before they were scaled
  bool ties_embeddings, has_attention_bias, has_mlp_bias, has_gated_mlp;
  // t5: a head with a weight of its own. No key of config.json says so ("tie_word_embeddings" tells T5
  // from T5 1.1, and from a configuration both are tied), but the checkpoints of T5 1.1 hold one.
  bool has_own_head;
  bool uses_sliding_window; // where the family's code asks
  bool fills_cache; // a loaded encoder-decoder's decoder has a configuration of its own: use_cache
} plim_config;

// One key of config.json: a number (a bool is 0 or 1, null is 0) or a text. Keys that do not affect
// memory are ignored. The keys inside "rope_scaling" or "rope_parameters" are given like the
// others.
void plim_config_number(plim_config *c, const char *key, double value);
void plim_config_text(plim_config *c, const char *key, const char *value);

// Whether the value of this key must be a number; anything else is then a mistake.
bool plim_config_is_number(const char *key);
bool plim_config_is_count(const char *key); // it must be a whole number
// Refuses a number that this key cannot have: a count must be whole and not too large.
plim_err plim_config_check_number(const char *key, double value, plim_error *error);

// Computes the values that were not set, and checks all of them.
plim_err plim_config_finish(plim_config *c, plim_error *error);

// Whether a layer attends to a sliding window only.
bool plim_config_slides(const plim_config *c, int64_t layer);
// How much of a head is rotated by its position.
int64_t plim_config_rotary_width(const plim_config *c);

#endif
