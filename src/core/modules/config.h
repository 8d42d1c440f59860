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
  PLIM_HEAD_NONE,   // a bare encoder
  // heads.h:
  PLIM_HEAD_TEXTS,   // a label for each text: ...ForSequenceClassification
  PLIM_HEAD_TOKENS,  // a label for each token: ...ForTokenClassification
  PLIM_HEAD_ANSWERS, // where an answer begins and ends in the text: ...ForQuestionAnswering
  PLIM_HEAD_CHOICES, // which of several texts is right: ...ForMultipleChoice
  PLIM_HEADS
} plim_head;

extern const char *const plim_head_names[PLIM_HEADS + 1]; // "causal", ..., NULL

typedef enum {
  PLIM_ACT_GELU,     // one kernel, exact or by tanh
  PLIM_ACT_NEW_GELU, // by tanh, operator by operator
  PLIM_ACT_RELU,
  PLIM_ACT_SQUARED_RELU, // relu, then square
  PLIM_ACT_SILU,
  PLIM_ACT_TANH,
  PLIM_ACT_XIELU, // with parameters: the family's own code
  PLIM_ACT_UNKNOWN
} plim_activation;

// How rotary frequencies are scaled for long texts: "rope_type".
typedef enum {
  PLIM_ROPE_DEFAULT,
  PLIM_ROPE_LINEAR,
  PLIM_ROPE_DYNAMIC,
  PLIM_ROPE_LLAMA3,
  PLIM_ROPE_LONG,
  PLIM_ROPE_YARN,
  PLIM_ROPE_PROPORTIONAL // part of each head; the rest has the frequency 0
} plim_rope_kind;

// What a layer mixes its tokens with: "layer_types".
typedef enum {
  PLIM_LAYER_UNLISTED, // config.json lists no kinds
  PLIM_LAYER_FULL,     // attention to all tokens before
  PLIM_LAYER_SLIDING,  // attention to a window of them
  PLIM_LAYER_LINEAR,   // linear attention
  PLIM_LAYER_CONV,     // a short convolution
  PLIM_LAYER_MAMBA,    // a state space
  PLIM_LAYER_MLP,      // no mixing: an MLP alone
  PLIM_LAYER_EXPERTS,  // no mixing: experts alone
  PLIM_LAYER_OTHER     // a kind that no family has
} plim_layer_kind;

enum { PLIM_MAX_LISTED_LAYERS = 256 };

enum { PLIM_MAX_TAPS = 16 };

// The sizes of a tower, which turns images into embedded tokens: "vision_config". 0: there is none.
typedef enum {
  PLIM_TOWER_UNNAMED, // the only one that the family has
  PLIM_TOWER_CLIP,
  PLIM_TOWER_PIXTRAL,
  PLIM_TOWER_OTHER
} plim_tower_type;

typedef struct {
  plim_tower_type type; // its model_type, where the family has several
  int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, channels, image_size, patch_size;
  int64_t frames, positions, kernel, output; // frames of one patch
  int64_t mel_bins;                          // of sound
  int64_t embedding, mlp_ratio;              // where "hidden_size" is the output's
  int64_t projector_input, projector_output; // of the projector's two layers
  int64_t global_layers, tiles; // of a second encoder, which sees all tiles of an image; their most
  int64_t taps; // layers whose output goes to early layers of the language model, too
  uint8_t tapped[PLIM_MAX_TAPS]; // their numbers
  bool has_head, is_clipped, is_standardised, has_attention_bias, has_qk_norm, has_rms_norms;
  bool has_mask_token, has_position_table, has_mean_pooling;
} plim_tower_config;

typedef struct plim_family plim_family;

typedef struct {
  const plim_family *family;
  const plim_family
      *outer; // a multimodal model, whose language model is `family`; NULL: there is none
  plim_head head;
  plim_activation activation;
  int64_t embedding; // width of the tables; 0: as hidden
  int64_t hidden, intermediate, layers, decoder_layers, heads, kv_heads, head_dim;
  int64_t vocabulary, positions, token_types;
  // Experts: those of one token, the width of each, and which layers have them: from `dense_layers` on, every
  // `sparse_step`-th.
  int64_t experts, experts_per_token, expert_width, dense_layers, sparse_step;
  int64_t dense_width; // of the MLP in layers without experts; 0: the intermediate size
  bool
      has_linear_experts; // each has linear layers of its own, as Axolotl's "linearized" checkpoints
  bool lists_sparse, sparse[PLIM_MAX_LISTED_LAYERS]; // "moe_layers" names those with experts
  int64_t expert_input; // width of what routed experts get; 0: the hidden size
  // Linear attention: heads and their sizes, the length of the convolution before it, and the distance between two
  // layers with full attention.
  int64_t linear_key_heads, linear_value_heads, linear_key_dim, linear_value_dim, linear_kernel;
  int64_t attention_interval;
  int64_t conv_kernel; // of a convolution in place of attention
  // State spaces: heads, the width of all of them together (0: expansion times the hidden size), groups of heads that
  // share what writes and reads the state, the state's size, the convolution before it, tokens of a chunk.
  int64_t state_heads, state_head_dim, state_width, state_groups, state_size, state_kernel;
  int64_t state_chunk, state_expansion;
  int64_t intermediate_step; // "block_multiple_of"
  int64_t shared_experts,
      shared_width; // experts that see every token, and the width of all of them together
  int64_t expert_groups, chosen_groups; // a token's experts are in some of these groups only
  // Latent attention: widths of the latents of queries (0: none), of keys and values; the rotated part of each head, and
  // the width of its values. head_dim is that of queries and keys.
  int64_t query_rank, key_rank, rotary_width, plain_width, value_dim;
  int64_t sliding_window; // in tokens; 0: none
  int64_t first_window_layer;
  int64_t window_pattern;                      // every layer but each n-th has a window
  int64_t listed_layers;                       // layers of which config.json names the kind
  uint8_t layer_kinds[PLIM_MAX_LISTED_LAYERS]; // plim_layer_kind
  int64_t unturned_pattern; // each n-th layer has no rotary positions; 0: all layers have them
  int64_t listed_turns;     // layers of which config.json says whether they have them
  bool turns[PLIM_MAX_LISTED_LAYERS];
  bool marks_attention,
      marked[PLIM_MAX_LISTED_LAYERS];    // layers with attention, without layer_types
  bool crosses[PLIM_MAX_LISTED_LAYERS];  // layers that attend to an image, not to the text
  int64_t layer_groups, layers_of_group; // whose weights several layers share
  int64_t relative_buckets;              // of relative positions
  // DeBERTa's: "relative_attention" with "share_att_key", "norm_rel_ebd" and both kinds of "pos_att_type"; without
  // "position_biased_input".
  bool is_relative, shares_position_keys, norms_positions, lacks_position_bias;
  bool scores_positions[2]; // "c2p", "p2c"
  int64_t labels;           // that its head tells apart; 1: a number is predicted
  int64_t choices;          // texts of an example, one of which is right
  double dropout, attention_dropout, embedding_dropout;
  double classifier_dropout;               // 0: the family's
  bool drops_no_scores;                    // a trainer has turned the head's dropout off
  double intermediate_factor;              // "block_ffn_dim_multiplier"
  double rotary_share;                     // of each head
  double attention_softcap, final_softcap; // bounds of scores and logits; 0: none
  plim_rope_kind rope;
  double rope_alpha;          // scales the base of dynamic frequencies; 0: none
  int64_t original_positions; // before they were scaled
  double qkv_bound;           // clip_qkv; 0: none
  bool has_qkv_bias;          // where the family's code asks: of q, k and v alone
  bool has_padding_row;       // of the table of tokens: "pad_token_id"
  bool ties_embeddings, has_attention_bias, has_mlp_bias, has_gated_mlp;
  bool has_norm_bias, has_head_bias; // of all norms; of a head's first layer
  bool averages_tokens; // a head for texts takes the mean of all tokens: "classifier_pooling"
  bool has_output_bias; // of o_proj alone: "attention_out_bias"
  // Falcon's: "multi_query", "new_decoder_architecture", "num_ln_in_parallel_attn" (0: as the architecture says).
  bool has_one_key_head, is_new_architecture;
  int64_t parallel_norms;
  bool has_norms_before;      // OPT\'s "do_layer_norm_before"
  bool has_alibi;             // a bias on the scores of attention that grows with the distance
  bool has_parallel_residual; // attention and feed-forward read the same input (GPT-NeoX)
  // t5: a head with a weight of its own. No key of config.json says so ("tie_word_embeddings" tells T5
  // from T5 1.1, and from a configuration both are tied), but the checkpoints of T5 1.1 hold one.
  bool has_own_head;
  bool has_qk_norm;     // where the family's code asks: use_qk_norm
  bool has_temperature; // layers without rotary positions scale queries: attn_temperature_tuning
  bool limits_groups;   // topk_method is "group_limited_greedy"
  bool has_interleaved_rotary; // latent attention: rope_interleave
  bool lacks_expert_bias;      // use_expert_bias is false
  bool lists_dense_layers;     // mlp_only_layers names some
  bool normalises_shares;      // of a token's experts: they add up to one
  bool has_conv_bias;
  bool has_state_bias, has_state_norm, norms_before_gate; // of a state space
  bool has_wide_residual; // what layers add to is float32: "residual_in_fp32"
  bool has_no_rotary;     // no layer rotates queries and keys
  // The MLP has two thirds of the intermediate size, times a factor, in whole steps.
  bool fits_intermediate;
  bool uses_sliding_window; // where the family's code asks
  plim_tower_config vision, audio;
  // Layers without a window may have other heads: 0: the same.
  int64_t global_head_dim, global_kv_heads;
  int64_t layer_input_width, layer_input_vocabulary; // of embeddings that every layer gets; 0: none
  int64_t kv_shared_layers;  // the last layers, which use keys and values of an earlier one
  bool shares_key_and_value; // of layers without a window
  bool has_image_blocks;     // "use_bidirectional_attention": tokens of an image see each other
  bool looks_ahead;          // the same key, "all": every token sees every other
  bool has_wide_shared_mlp;  // in layers that share keys and values
  bool has_expert_block;
  int64_t merged_patches; // along each side, before they are projected
  bool has_projector_bias, has_projector_norm;
  int64_t projector_width;
  double shrinking; // how much narrower an image gets before it is projected: "downsample_ratio"
  bool lists_feature_layers; // several layers of the tower are projected at once
  bool fills_cache; // a loaded encoder-decoder's decoder has a configuration of its own: use_cache
  // Set when a decoder is built: the family's trait, or the version of transformers.
  bool passes_positions_first;
} plim_config;

// The row of the whole model: plim_config.outer, or else the family.
const plim_family *plim_config_whole(const plim_config *c);
// Whether Liger-Kernel's modules are modelled for it.
bool plim_config_has_liger(const plim_config *c);

// One key of config.json: a number (a bool is 0 or 1), null or a text. Keys that do not affect
// memory are ignored. The keys inside "rope_scaling", "rope_parameters" and "text_config" are given like the
// others, those inside "vision_config" as "vision_config.hidden_size".
void plim_config_number(plim_config *c, const char *key, double value);
void plim_config_null(plim_config *c, const char *key);
void plim_config_text(plim_config *c, const char *key, const char *value);
// The next item of a list of texts, such as "layer_types", or of numbers, such as "no_rope_layers", whose place in the
// list is `index`.
void plim_config_item(plim_config *c, const char *key, const char *value);
void plim_config_number_item(plim_config *c, const char *key, size_t index, double value);

// Whether the value of this key may be a list of two equal numbers instead: "vision_config.image_size".
bool plim_config_may_be_pair(const char *key);
// Whether the value of this key must be a number; anything else is then a mistake.
bool plim_config_is_number(const char *key);
bool plim_config_is_count(const char *key); // it must be a whole number
// Refuses a number that this key cannot have: a count must be whole and not too large.
plim_err plim_config_check_number(const char *key, double value, plim_error *error);

// Gives the model another head. Refuses a head that transformers has no class for.
plim_err plim_config_set_head(plim_config *c, plim_head head, plim_error *error);

// Computes the values that were not set, and checks all of them.
plim_err plim_config_finish(plim_config *c, plim_error *error);

// Whether a layer has full attention, and not what stands in place of it.
bool plim_config_attends(const plim_config *c, int64_t layer);
// Whether a layer attends to an image. A text without one passes it by.
bool plim_config_crosses(const plim_config *c, int64_t layer);
// Whether a layer has what stands in place of attention, or beside it.
bool plim_config_mixes(const plim_config *c, int64_t layer);
// Whether a layer has an MLP or experts.
bool plim_config_feeds(const plim_config *c, int64_t layer);
// Whether a layer attends to a sliding window only.
bool plim_config_slides(const plim_config *c, int64_t layer);
bool plim_config_slides_everywhere(const plim_config *c); // no layer needs a mask without a window
// Whether a layer has a mixture of experts in place of its MLP.
bool plim_config_is_sparse(const plim_config *c, int64_t layer);
uint64_t plim_config_expert_parameters(const plim_config *c); // of all stacked experts
// Whether a layer rotates queries and keys by their positions.
bool plim_config_turns(const plim_config *c, int64_t layer);
// How much of a head is rotated by its position.
int64_t plim_config_rotary_width(const plim_config *c);

#endif
