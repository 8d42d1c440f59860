#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "family.h"

enum { MAX_EXTENT = 1 << 30 };
enum { DEFAULT_LABELS = 2 };  // transformers' PreTrainedConfig
enum { DEFAULT_CHOICES = 4 }; // endings of SWAG, which run_swag.py trains on

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
    {"dim", FIELD(hidden, INTEGER)},
    {"embedding_size", FIELD(embedding, INTEGER)},
    {"intermediate_size", FIELD(intermediate, INTEGER)},
    {"hidden_dim", FIELD(intermediate, INTEGER)},
    {"n_inner", FIELD(intermediate, INTEGER)},
    {"d_ff", FIELD(intermediate, INTEGER)},
    {"num_hidden_layers", FIELD(layers, INTEGER)},
    {"n_layer", FIELD(layers, INTEGER)},
    {"n_layers", FIELD(layers, INTEGER)},
    {"num_layers", FIELD(layers, INTEGER)},
    {"num_decoder_layers", FIELD(decoder_layers, INTEGER)},
    {"num_attention_heads", FIELD(heads, INTEGER)},
    {"n_head", FIELD(heads, INTEGER)},
    {"n_heads", FIELD(heads, INTEGER)},
    {"num_heads", FIELD(heads, INTEGER)},
    {"num_key_value_heads", FIELD(kv_heads, INTEGER)},
    {"head_dim", FIELD(head_dim, INTEGER)},
    {"d_kv", FIELD(head_dim, INTEGER)},
    {"vocab_size", FIELD(vocabulary, INTEGER)},
    {"max_position_embeddings", FIELD(positions, INTEGER)},
    {"n_positions", FIELD(positions, INTEGER)},
    {"max_seq_len", FIELD(positions, INTEGER)},
    {"original_max_position_embeddings", FIELD(original_positions, INTEGER)},
    {"alpha", FIELD(rope_alpha, REAL)},
    {"type_vocab_size", FIELD(token_types, INTEGER)},
    {"num_local_experts", FIELD(experts, INTEGER)},
    {"num_experts", FIELD(experts, INTEGER)},
    {"num_experts_per_tok", FIELD(experts_per_token, INTEGER)},
    {"top_k_experts", FIELD(experts_per_token, INTEGER)},
    {"moe_intermediate_size", FIELD(expert_width, INTEGER)},
    {"n_routed_experts", FIELD(experts, INTEGER)},
    {"n_shared_experts", FIELD(shared_experts, INTEGER)},
    {"shared_expert_intermediate_size", FIELD(shared_width, INTEGER)},
    {"n_group", FIELD(expert_groups, INTEGER)},
    {"topk_group", FIELD(chosen_groups, INTEGER)},
    {"first_k_dense_replace", FIELD(dense_layers, INTEGER)},
    {"q_lora_rank", FIELD(query_rank, INTEGER)},
    {"kv_lora_rank", FIELD(key_rank, INTEGER)},
    {"qk_rope_head_dim", FIELD(rotary_width, INTEGER)},
    {"rotary_dim", FIELD(rotary_width, INTEGER)},
    {"qk_nope_head_dim", FIELD(plain_width, INTEGER)},
    {"v_head_dim", FIELD(value_dim, INTEGER)},
    {"use_qk_norm", FIELD(has_qk_norm, FLAG)},
    {"qk_layernorm", FIELD(has_qk_norm, FLAG)},
    {"use_qkv_bias", FIELD(has_qkv_bias, FLAG)},
    {"use_bias", FIELD(has_attention_bias, FLAG)},
    {"qkv_bias", FIELD(has_qkv_bias, FLAG)},
    {"clip_qkv", FIELD(qkv_bound, REAL)},
    {"rope_interleave", FIELD(has_interleaved_rotary, FLAG)},
    {"decoder_sparse_step", FIELD(sparse_step, INTEGER)},
    {"interleave_moe_layer_step", FIELD(sparse_step, INTEGER)},
    {"llama4_linearized_experts", FIELD(has_linear_experts, FLAG)},
    {"intermediate_size_mlp", FIELD(dense_width, INTEGER)},
    {"attention_chunk_size", FIELD(sliding_window, INTEGER)},
    {"attn_temperature_tuning", FIELD(has_temperature, FLAG)},
    {"norm_topk_prob", FIELD(normalises_shares, FLAG)},
    {"linear_num_key_heads", FIELD(linear_key_heads, INTEGER)},
    {"linear_num_value_heads", FIELD(linear_value_heads, INTEGER)},
    {"linear_key_head_dim", FIELD(linear_key_dim, INTEGER)},
    {"linear_value_head_dim", FIELD(linear_value_dim, INTEGER)},
    {"linear_conv_kernel_dim", FIELD(linear_kernel, INTEGER)},
    {"mamba_n_heads", FIELD(state_heads, INTEGER)},
    {"mamba_num_heads", FIELD(state_heads, INTEGER)},
    {"mamba_head_dim", FIELD(state_head_dim, INTEGER)},
    {"mamba_d_ssm", FIELD(state_width, INTEGER)},
    {"mamba_n_groups", FIELD(state_groups, INTEGER)},
    {"n_groups", FIELD(state_groups, INTEGER)},
    {"mamba_d_state", FIELD(state_size, INTEGER)},
    {"ssm_state_size", FIELD(state_size, INTEGER)},
    {"state_size", FIELD(state_size, INTEGER)},
    {"mamba_d_conv", FIELD(state_kernel, INTEGER)},
    {"conv_kernel", FIELD(state_kernel, INTEGER)},
    {"mamba_expand", FIELD(state_expansion, INTEGER)},
    {"expand", FIELD(state_expansion, INTEGER)},
    {"mamba_chunk_size", FIELD(state_chunk, INTEGER)},
    {"chunk_size", FIELD(state_chunk, INTEGER)},
    {"mamba_conv_bias", FIELD(has_conv_bias, FLAG)},
    {"use_conv_bias", FIELD(has_conv_bias, FLAG)},
    {"mamba_proj_bias", FIELD(has_state_bias, FLAG)},
    {"projectors_bias", FIELD(has_projector_bias, FLAG)},
    {"mamba_rms_norm", FIELD(has_state_norm, FLAG)},
    {"mamba_norm_before_gate", FIELD(norms_before_gate, FLAG)},
    {"residual_in_fp32", FIELD(has_wide_residual, FLAG)},
    {"shared_intermediate_size", FIELD(shared_width, INTEGER)},
    {"moe_shared_expert_intermediate_size", FIELD(shared_width, INTEGER)},
    {"moe_latent_size", FIELD(expert_input, INTEGER)},
    {"num_dense_layers", FIELD(dense_layers, INTEGER)},
    {"conv_L_cache", FIELD(conv_kernel, INTEGER)},
    {"conv_bias", FIELD(has_conv_bias, FLAG)},
    {"block_ff_dim", FIELD(intermediate, INTEGER)},
    {"block_multiple_of", FIELD(intermediate_step, INTEGER)},
    {"block_ffn_dim_multiplier", FIELD(intermediate_factor, REAL)},
    {"block_auto_adjust_ff_dim", FIELD(fits_intermediate, FLAG)},
    {"tie_embedding", FIELD(ties_embeddings, FLAG)},
    {"full_attention_interval", FIELD(attention_interval, INTEGER)},
    {"sliding_window", FIELD(sliding_window, INTEGER)},
    {"max_window_layers", FIELD(first_window_layer, INTEGER)},
    {"no_rope_layer_interval", FIELD(unturned_pattern, INTEGER)},
    {"sliding_window_pattern", FIELD(window_pattern, INTEGER)},
    {"_sliding_window_pattern", FIELD(window_pattern, INTEGER)},
    {"global_attn_every_n_layers", FIELD(window_pattern, INTEGER)},
    {"local_attention", FIELD(sliding_window, INTEGER)},
    {"use_sliding_window", FIELD(uses_sliding_window, FLAG)},
    {"relative_attention_num_buckets", FIELD(relative_buckets, INTEGER)},
    {"position_buckets", FIELD(relative_buckets, INTEGER)},
    {"relative_attention", FIELD(is_relative, FLAG)},
    {"share_att_key", FIELD(shares_position_keys, FLAG)},
    {"conv_kernel_size", FIELD(conv_kernel, INTEGER)},
    {"resid_pdrop", FIELD(dropout, REAL)},
    {"hidden_dropout_prob", FIELD(dropout, REAL)},
    {"hidden_dropout", FIELD(dropout, REAL)},
    {"dropout_rate", FIELD(dropout, REAL)},
    {"dropout", FIELD(dropout, REAL)},
    {"attn_pdrop", FIELD(attention_dropout, REAL)},
    {"attention_probs_dropout_prob", FIELD(attention_dropout, REAL)},
    {"attention_dropout", FIELD(attention_dropout, REAL)},
    {"embd_pdrop", FIELD(embedding_dropout, REAL)},
    {"embedding_dropout", FIELD(embedding_dropout, REAL)},
    {"residual_dropout", FIELD(dropout, REAL)},
    {"mlp_dropout", FIELD(dropout, REAL)},
    {"resid_dropout", FIELD(dropout, REAL)},
    {"embed_dropout", FIELD(embedding_dropout, REAL)},
    {"classifier_dropout", FIELD(classifier_dropout, REAL)},
    {"classifier_dropout_prob", FIELD(classifier_dropout, REAL)},
    {"num_hidden_groups", FIELD(layer_groups, INTEGER)},
    {"inner_group_num", FIELD(layers_of_group, INTEGER)},
    {"num_labels", FIELD(labels, INTEGER)},
    {"rotary_pct", FIELD(rotary_share, REAL)},
    {"partial_rotary_factor", FIELD(rotary_share, REAL)},
    {"attn_logit_softcapping", FIELD(attention_softcap, REAL)},
    {"final_logit_softcapping", FIELD(final_softcap, REAL)},
    {"tie_word_embeddings", FIELD(ties_embeddings, FLAG)},
    {"checkpoint_has_lm_head", FIELD(has_own_head, FLAG)},
    {"attention_bias", FIELD(has_attention_bias, FLAG)},
    {"mlp_bias", FIELD(has_mlp_bias, FLAG)},
    {"norm_bias", FIELD(has_norm_bias, FLAG)},
    {"classifier_bias", FIELD(has_head_bias, FLAG)},
    {"attention_out_bias", FIELD(has_output_bias, FLAG)},
    {"multi_query", FIELD(has_one_key_head, FLAG)},
    {"new_decoder_architecture", FIELD(is_new_architecture, FLAG)},
    {"num_ln_in_parallel_attn", FIELD(parallel_norms, INTEGER)},
    {"do_layer_norm_before", FIELD(has_norms_before, FLAG)},
    {"enable_bias", FIELD(has_attention_bias, FLAG)},
    {"ffn_dim", FIELD(intermediate, INTEGER)},
    {"word_embed_proj_dim", FIELD(embedding, INTEGER)},
    {"alibi", FIELD(has_alibi, FLAG)},
    {"bias", FIELD(has_attention_bias, FLAG)},
    {"num_kv_heads", FIELD(kv_heads, INTEGER)},
    {"ffn_hidden_size", FIELD(intermediate, INTEGER)},
    {"n_embed", FIELD(hidden, INTEGER)},
    {"parallel_attn", FIELD(has_parallel_residual, FLAG)},
    {"use_parallel_residual", FIELD(has_parallel_residual, FLAG)},
    {"global_head_dim", FIELD(global_head_dim, INTEGER)},
    {"num_global_key_value_heads", FIELD(global_kv_heads, INTEGER)},
    {"hidden_size_per_layer_input", FIELD(layer_input_width, INTEGER)},
    {"vocab_size_per_layer_input", FIELD(layer_input_vocabulary, INTEGER)},
    {"num_kv_shared_layers", FIELD(kv_shared_layers, INTEGER)},
    {"attention_k_eq_v", FIELD(shares_key_and_value, FLAG)},
    {"use_double_wide_mlp", FIELD(has_wide_shared_mlp, FLAG)},
    {"enable_moe_block", FIELD(has_expert_block, FLAG)},
    {"vision_config.hidden_size", FIELD(vision.hidden, INTEGER)},
    {"vision_config.intermediate_size", FIELD(vision.intermediate, INTEGER)},
    {"vision_config.num_hidden_layers", FIELD(vision.layers, INTEGER)},
    {"vision_config.depth", FIELD(vision.layers, INTEGER)},
    {"vision_config.num_heads", FIELD(vision.heads, INTEGER)},
    {"vision_config.in_channels", FIELD(vision.channels, INTEGER)},
    {"vision_config.temporal_patch_size", FIELD(vision.frames, INTEGER)},
    {"vision_config.num_position_embeddings", FIELD(vision.positions, INTEGER)},
    {"vision_config.out_hidden_size", FIELD(vision.output, INTEGER)},
    {"vision_config.spatial_merge_size", FIELD(merged_patches, INTEGER)},
    {"vision_config.num_attention_heads", FIELD(vision.heads, INTEGER)},
    {"vision_config.attention_heads", FIELD(vision.heads, INTEGER)},
    {"vision_config.num_global_layers", FIELD(vision.global_layers, INTEGER)},
    {"vision_config.projector_input_dim", FIELD(vision.projector_input, INTEGER)},
    {"vision_config.projector_output_dim", FIELD(vision.projector_output, INTEGER)},
    {"vision_config.max_num_tiles", FIELD(vision.tiles, INTEGER)},
    {"vision_config.vision_output_dim", FIELD(vision.output, INTEGER)},
    {"vision_config.head_dim", FIELD(vision.head_dim, INTEGER)},
    {"vision_config.num_key_value_heads", FIELD(vision.kv_heads, INTEGER)},
    {"vision_config.position_embedding_size", FIELD(vision.positions, INTEGER)},
    {"vision_config.use_clipped_linears", FIELD(vision.is_clipped, FLAG)},
    {"vision_config.standardize", FIELD(vision.is_standardised, FLAG)},
    {"audio_config.hidden_size", FIELD(audio.hidden, INTEGER)},
    {"audio_config.num_hidden_layers", FIELD(audio.layers, INTEGER)},
    {"audio_config.num_attention_heads", FIELD(audio.heads, INTEGER)},
    {"audio_config.conv_kernel_size", FIELD(audio.kernel, INTEGER)},
    {"audio_config.output_proj_dims", FIELD(audio.output, INTEGER)},
    {"audio_config.use_clipped_linears", FIELD(audio.is_clipped, FLAG)},
    {"vision_config.num_channels", FIELD(vision.channels, INTEGER)},
    {"vision_config.image_size", FIELD(vision.image_size, INTEGER)},
    {"vision_config.embed_dim", FIELD(vision.embedding, INTEGER)},
    {"vision_config.mlp_ratio", FIELD(vision.mlp_ratio, INTEGER)},
    {"vision_config.in_chans", FIELD(vision.channels, INTEGER)},
    {"vision_config.patch_size", FIELD(vision.patch_size, INTEGER)},
    {"vision_config.vision_use_head", FIELD(vision.has_head, FLAG)},
    {"spatial_merge_size", FIELD(merged_patches, INTEGER)},
    {"scale_factor", FIELD(merged_patches, INTEGER)},
    {"downsample_factor", FIELD(merged_patches, INTEGER)},
    {"downsample_ratio", FIELD(shrinking, REAL)},
    {"projector_hidden_size", FIELD(projector_width, INTEGER)},
    {"projector_bias", FIELD(has_projector_bias, FLAG)},
    {"projector_use_layernorm", FIELD(has_projector_norm, FLAG)},
    {"vision_config.num_patches", FIELD(vision.positions, INTEGER)},
    {"vision_config.attention_bias", FIELD(vision.has_attention_bias, FLAG)},
    {"vision_config.use_qk_norm", FIELD(vision.has_qk_norm, FLAG)},
    {"vision_config.use_mean_pooling", FIELD(vision.has_mean_pooling, FLAG)},
    {"vision_config.use_absolute_position_embeddings", FIELD(vision.has_position_table, FLAG)},
    {"vision_config.use_mask_token", FIELD(vision.has_mask_token, FLAG)},
    {"audio_config.intermediate_size", FIELD(audio.intermediate, INTEGER)},
    {"audio_config.num_mel_bins", FIELD(audio.mel_bins, INTEGER)},
    {"audio_config.max_source_positions", FIELD(audio.positions, INTEGER)},
    {"vision_config.mm_embed_dim", FIELD(vision.hidden, INTEGER)},
    {"vision_config.mm_posemb_size", FIELD(vision.positions, INTEGER)},
    {"vision_config.output_proj_dims", FIELD(vision.output, INTEGER)},
    {"vision_config.pooling_kernel_size", FIELD(vision.kernel, INTEGER)},
    {"audio_config.audio_embed_dim", FIELD(audio.hidden, INTEGER)},
    {"multimodal_projector_bias", FIELD(has_projector_bias, FLAG)},
};

static int64_t extent_of(double value) {
  return value >= 0 && value <= MAX_EXTENT ? (int64_t)value : -1; // -1: refused
}

static const char looks_ahead[] = "use_bidirectional_attention"; // "vision", "all", or null

static const char padding[] = "pad_token_id";

void plim_config_null(plim_config *c, const char *key) {
  if (strcmp(key, padding) == 0) c->has_padding_row = false;
  else plim_config_number(c, key, 0);
}

void plim_config_number(plim_config *c, const char *key, double value) {
  if (value == 0 && strcmp(key, looks_ahead) == 0) c->has_image_blocks = false;
  if (strcmp(key, padding) == 0) c->has_padding_row = !c->family->has_no_padding_row;
  if (strcmp(key, "use_expert_bias") == 0) c->lacks_expert_bias = value == 0;
  if (strcmp(key, "position_biased_input") == 0) c->lacks_position_bias = value == 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (strcmp(key, keys[i].key) != 0) continue;
    char *field = (char *)c + keys[i].offset;
    switch (keys[i].kind) {
    case INTEGER: *(int64_t *)(void *)field = extent_of(value); break;
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

// EXAONE 4 writes it as letters, too.
static const char window_pattern[] = "sliding_window_pattern";

bool plim_config_is_number(const char *key) {
  if (strcmp(key, window_pattern) == 0) return false;
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
    {"swish", PLIM_ACT_SILU},        {"relu2", PLIM_ACT_SQUARED_RELU},
    {"xielu", PLIM_ACT_XIELU},
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
    {"linear", PLIM_ROPE_LINEAR},
    {"dynamic", PLIM_ROPE_DYNAMIC},
    {"llama3", PLIM_ROPE_LLAMA3},
    {"longrope", PLIM_ROPE_LONG},
    {"su", PLIM_ROPE_LONG},
    {"yarn", PLIM_ROPE_YARN},
    {"proportional", PLIM_ROPE_PROPORTIONAL},
};

static plim_rope_kind rope_named(const char *name) {
  for (size_t i = 0; i < sizeof ropes / sizeof *ropes; i++)
    if (strcmp(name, ropes[i].name) == 0) return ropes[i].kind;
  return PLIM_ROPE_DEFAULT;
}

static plim_tower_type tower_named(const char *name) {
  if (strcmp(name, "clip_vision_model") == 0) return PLIM_TOWER_CLIP;
  return strcmp(name, "pixtral") == 0 ? PLIM_TOWER_PIXTRAL : PLIM_TOWER_OTHER;
}

static void list_layer(plim_config *c, plim_layer_kind kind) {
  if (c->listed_layers < PLIM_MAX_LISTED_LAYERS) c->layer_kinds[c->listed_layers] = (uint8_t)kind;
  c->listed_layers++;
}

// "hybrid_override_pattern": a letter for each layer.
static void list_pattern(plim_config *c, const char *pattern) {
  if (c->listed_layers) return; // layers_block_type counts
  for (const char *p = pattern; *p; p++)
    list_layer(c, *p == 'M'   ? PLIM_LAYER_MAMBA
                  : *p == '*' ? PLIM_LAYER_FULL
                  : *p == '-' ? PLIM_LAYER_MLP
                  : *p == 'E' ? PLIM_LAYER_EXPERTS
                              : PLIM_LAYER_OTHER);
}

// "LLLG": local attention in all layers but each fourth.
static int64_t pattern_of(const char *letters) {
  size_t local = strspn(letters, "L");
  return strcmp(letters + local, "G") == 0 ? (int64_t)local + 1 : -1;
}

static const char position_kinds[] = "pos_att_type"; // a list, or a text such as "p2c|c2p"

static void add_position_kinds(plim_config *c, const char *kinds) {
  if (strstr(kinds, "c2p")) c->scores_positions[0] = true;
  if (strstr(kinds, "p2c")) c->scores_positions[1] = true;
}

void plim_config_text(plim_config *c, const char *key, const char *value) {
  if (strcmp(key, position_kinds) == 0) add_position_kinds(c, value);
  if (strcmp(key, "norm_rel_ebd") == 0) c->norms_positions = strstr(value, "layer_norm") != NULL;
  if (strcmp(key, looks_ahead) == 0) {
    c->has_image_blocks = strcmp(value, "vision") == 0;
    c->looks_ahead = strcmp(value, "all") == 0;
  }
  if (strcmp(key, "vision_config.model_type") == 0) c->vision.type = tower_named(value);
  if (strcmp(key, "vision_config.norm_type") == 0)
    c->vision.has_rms_norms = strcmp(value, "rms_norm") == 0;
  static const char gated[] = "gated-";
  if (strcmp(key, window_pattern) == 0) c->window_pattern = pattern_of(value);
  if (strcmp(key, "classifier_pooling") == 0) c->averages_tokens = strcmp(value, "mean") == 0;
  if (strcmp(key, "topk_method") == 0)
    c->limits_groups = strcmp(value, "group_limited_greedy") == 0;
  if (strcmp(key, "position_embedding_type") == 0 && strcmp(value, "rope") == 0)
    c->has_no_rotary = false;
  if (strcmp(key, "mamba_hidden_act") == 0 && activation_named(value) != PLIM_ACT_SILU)
    c->activation = PLIM_ACT_UNKNOWN;
  if (strcmp(key, "hybrid_override_pattern") == 0) list_pattern(c, value);
  if (strcmp(key, "rope_type") == 0 || strcmp(key, "type") == 0) c->rope = rope_named(value);
  if (strcmp(key, "hidden_act") == 0 || strcmp(key, "hidden_activation") == 0 ||
      strcmp(key, "activation_function") == 0 || strcmp(key, "activation") == 0 ||
      strcmp(key, "mlp_hidden_act") == 0)
    c->activation = activation_named(value);
  if (strcmp(key, "feed_forward_proj") != 0) return;
  c->has_gated_mlp = strncmp(value, gated, sizeof gated - 1) == 0;
  const char *name = value + (c->has_gated_mlp ? sizeof gated - 1 : 0);
  // T5 reads "gated-gelu" as the version by tanh.
  c->activation =
      c->has_gated_mlp && strcmp(name, "gelu") == 0 ? PLIM_ACT_NEW_GELU : activation_named(name);
}

static const struct {
  const char *name;
  plim_layer_kind kind;
} layer_kinds[] = {
    {"full_attention", PLIM_LAYER_FULL},
    {"attention", PLIM_LAYER_FULL},
    {"sliding_attention", PLIM_LAYER_SLIDING},
    {"linear_attention", PLIM_LAYER_LINEAR},
    {"conv", PLIM_LAYER_CONV},
    {"mamba", PLIM_LAYER_MAMBA},
    {"hybrid", PLIM_LAYER_FULL}, // with a mixer beside it
    {"mlp", PLIM_LAYER_MLP},
    {"moe", PLIM_LAYER_EXPERTS},
};

static plim_layer_kind layer_kind_named(const char *name) {
  for (size_t i = 0; i < sizeof layer_kinds / sizeof *layer_kinds; i++)
    if (strcmp(name, layer_kinds[i].name) == 0) return layer_kinds[i].kind;
  return PLIM_LAYER_OTHER;
}

void plim_config_item(plim_config *c, const char *key, const char *value) {
  if (strcmp(key, position_kinds) == 0) add_position_kinds(c, value);
  if (strcmp(key, "layer_types") != 0 && strcmp(key, "layers_block_type") != 0) return;
  plim_layer_kind kind = layer_kind_named(value);
  if (c->family->has_chunks && strcmp(value, "chunked_attention") == 0) kind = PLIM_LAYER_SLIDING;
  // transformers 5.17 calls state spaces linear attention.
  bool is_state = kind == PLIM_LAYER_LINEAR && c->family->mixes == PLIM_LAYER_MAMBA;
  list_layer(c, is_state ? PLIM_LAYER_MAMBA : kind);
}

// "full_attn_idxs": numbers of layers.
static void mark_attention(plim_config *c, double index) {
  if (!(index >= 0 && index < PLIM_MAX_LISTED_LAYERS)) return;
  c->marked[(int)index] = c->marks_attention = true;
}

// "moe_layers": numbers of layers.
static void mark_sparse(plim_config *c, double layer) {
  c->lists_sparse = true;
  if (layer >= 0 && layer < PLIM_MAX_LISTED_LAYERS) c->sparse[(int)layer] = true;
}

// "cross_attention_layers": numbers of layers, the first of which replaces the defaults.
static void mark_crossing(plim_config *c, size_t index, double layer) {
  if (!index) memset(c->crosses, 0, sizeof c->crosses);
  if (layer >= 0 && layer < PLIM_MAX_LISTED_LAYERS) c->crosses[(int)layer] = true;
}

// "deepstack_visual_indexes": numbers of layers, the first of which replaces the defaults.
static void add_tap(plim_tower_config *v, size_t index, double layer) {
  v->taps = (int64_t)index + 1;
  if (index < PLIM_MAX_TAPS && layer >= 0 && layer <= UINT8_MAX) v->tapped[index] = (uint8_t)layer;
  else v->taps = -1; // refused
}

static const char image_side[] = "vision_config.image_size";
static const char patch_side[] = "vision_config.patch_size";

bool plim_config_may_be_pair(const char *key) {
  return strcmp(key, image_side) == 0 || strcmp(key, patch_side) == 0;
}

// Height, then width, which must be the same.
static void set_side(int64_t *side, size_t index, double value) {
  int64_t extent = extent_of(value);
  *side = index == 0 || extent == *side ? extent : -1; // -1: refused
}

// "no_rope_layers" says 1 for layers that have rotary positions.
void plim_config_number_item(plim_config *c, const char *key, size_t index, double value) {
  if (strcmp(key, "vision_config.deepstack_visual_indexes") == 0) add_tap(&c->vision, index, value);
  if (strcmp(key, image_side) == 0) set_side(&c->vision.image_size, index, value);
  if (strcmp(key, patch_side) == 0) set_side(&c->vision.patch_size, index, value);
  if (strcmp(key, "vision_feature_layer") == 0) c->lists_feature_layers = true;
  if (strcmp(key, "full_attn_idxs") == 0 || strcmp(key, "attn_layer_indices") == 0)
    mark_attention(c, value);
  if (strcmp(key, "cross_attention_layers") == 0) mark_crossing(c, index, value);
  if (strcmp(key, "moe_layers") == 0) mark_sparse(c, value);
  if (strcmp(key, "mlp_only_layers") == 0) c->lists_dense_layers = true;
  if (strcmp(key, "no_rope_layers") != 0) return;
  if (c->listed_turns < PLIM_MAX_LISTED_LAYERS) c->turns[c->listed_turns] = value != 0;
  c->listed_turns++;
}

// ---- heads ------------------------------------------------------------------------------------------

const char *const plim_head_names[PLIM_HEADS + 1] = {
    [PLIM_HEAD_CAUSAL] = "causal",   [PLIM_HEAD_MASKED] = "masked", [PLIM_HEAD_NONE] = "none",
    [PLIM_HEAD_TEXTS] = "sequence",  [PLIM_HEAD_TOKENS] = "tokens", [PLIM_HEAD_ANSWERS] = "answers",
    [PLIM_HEAD_CHOICES] = "choices",
};

static const char *const head_purposes[PLIM_HEADS] = {
    [PLIM_HEAD_CAUSAL] = "the next token",       [PLIM_HEAD_MASKED] = "masked tokens",
    [PLIM_HEAD_NONE] = "nothing (a bare model)", [PLIM_HEAD_TEXTS] = "sequence classification",
    [PLIM_HEAD_TOKENS] = "token classification", [PLIM_HEAD_ANSWERS] = "question answering",
    [PLIM_HEAD_CHOICES] = "multiple choice",
};

static unsigned heads_of(const plim_family *f) {
  enum { LABELS = 1 << PLIM_HEAD_TEXTS | 1 << PLIM_HEAD_TOKENS | 1 << PLIM_HEAD_ANSWERS };
  if (f->is_encoder_decoder) return 1 << PLIM_HEAD_CAUSAL;
  unsigned others = f->is_encoder
                        ? 1 << PLIM_HEAD_MASKED | 1 << PLIM_HEAD_NONE | 1 << PLIM_HEAD_CHOICES
                        : 1 << PLIM_HEAD_CAUSAL;
  return (LABELS | others) & ~f->lacks_heads;
}

plim_err plim_config_set_head(plim_config *c, plim_head head, plim_error *error) {
  unsigned heads = c->outer ? 1 << PLIM_HEAD_CAUSAL : heads_of(c->family);
  if (heads >> head & 1) {
    c->head = head;
    return PLIM_OK;
  }
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s with a head for %s is not supported yet",
                c->family->model_type, head_purposes[head]);
  char list[128] = "";
  for (int i = 0; i < PLIM_HEADS; i++)
    if (heads >> i & 1)
      snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "",
               plim_head_names[i]);
  plim_error_hint(error,
                  "--head with one of: %s; for any other, run your own program on a simulated GPU: "
                  "plimsoll simulate -- python train.py",
                  list);
  return err;
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
  if (c->family->has_latent_attention &&
      (c->key_rank < 1 || c->rotary_width < 2 || c->value_dim < 1))
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "latent attention needs kv_lora_rank, qk_rope_head_dim and v_head_dim");
  const plim_config *own = &c->family->defaults;
  if (c->experts && (own->shared_experts || own->shared_width) && c->shared_width < 1)
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "the width of the shared experts is missing or not a positive number");
  bool needs_groups = own->expert_groups || c->limits_groups;
  bool has_groups = c->expert_groups > 0 && c->chosen_groups > 0 &&
                    c->chosen_groups <= c->expert_groups && c->experts % c->expert_groups == 0;
  if (c->experts && needs_groups && !has_groups)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%d experts cannot be chosen from %d of %d groups",
                     (int)c->experts, (int)c->chosen_groups, (int)c->expert_groups);
  if (c->experts &&
      (c->experts < 1 || c->experts_per_token < 1 || c->experts_per_token > c->experts))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "a token cannot be routed to %d of %d experts",
                     (int)c->experts_per_token, (int)c->experts);
  return PLIM_OK;
}

// Far beyond any model there is, and small enough that no product of them overflows.
static const struct {
  const char *name;
  size_t offset;
  field_kind kind;
  double least, most;
} limits[] = {
    {"the hidden size", FIELD(hidden, INTEGER), 1, 1 << 20},
    {"the embedding size", FIELD(embedding, INTEGER), 1, 1 << 20},
    {"the intermediate size", FIELD(intermediate, INTEGER), 1, 1 << 22},
    {"the number of layers", FIELD(layers, INTEGER), 1, 4096},
    {"the number of decoder layers", FIELD(decoder_layers, INTEGER), 1, 4096},
    {"the number of heads", FIELD(heads, INTEGER), 1, 1 << 14},
    {"the head size", FIELD(head_dim, INTEGER), 1, 1 << 16},
    {"the vocabulary size", FIELD(vocabulary, INTEGER), 1, 1 << 24},
    {"the number of positions", FIELD(positions, INTEGER), 0, 1 << 28},
    {"the number of token types", FIELD(token_types, INTEGER), 0, 1 << 20},
    {"the number of experts", FIELD(experts, INTEGER), 0, 4096},
    {"the number of experts per token", FIELD(experts_per_token, INTEGER), 0, 4096},
    {"the width of an expert", FIELD(expert_width, INTEGER), 1, 1 << 22},
    {"the width of layers without experts", FIELD(dense_width, INTEGER), 0, 1 << 22},
    {"the number of dense layers", FIELD(dense_layers, INTEGER), 0, 4096},
    {"the step between sparse layers", FIELD(sparse_step, INTEGER), 1, 4096},
    {"the number of key heads of linear attention", FIELD(linear_key_heads, INTEGER), 0, 1 << 14},
    {"the number of value heads of linear attention", FIELD(linear_value_heads, INTEGER), 0,
     1 << 14},
    {"the size of key heads of linear attention", FIELD(linear_key_dim, INTEGER), 0, 1 << 16},
    {"the size of value heads of linear attention", FIELD(linear_value_dim, INTEGER), 0, 1 << 16},
    {"the kernel size of convolutions", FIELD(conv_kernel, INTEGER), 0, 1 << 10},
    {"the number of heads of the state space", FIELD(state_heads, INTEGER), 0, 1 << 14},
    {"the head size of the state space", FIELD(state_head_dim, INTEGER), 0, 1 << 16},
    {"the width of the state space", FIELD(state_width, INTEGER), 0, 1 << 20},
    {"the number of groups of the state space", FIELD(state_groups, INTEGER), 0, 1 << 14},
    {"the size of the state", FIELD(state_size, INTEGER), 0, 1 << 16},
    {"the kernel size of the state space", FIELD(state_kernel, INTEGER), 0, 1 << 10},
    {"the chunk size of the state space", FIELD(state_chunk, INTEGER), 0, 1 << 16},
    {"the expansion of the state space", FIELD(state_expansion, INTEGER), 0, 1 << 8},
    {"the latent width of the experts", FIELD(expert_input, INTEGER), 0, 1 << 20},
    {"the kernel size of linear attention", FIELD(linear_kernel, INTEGER), 0, 1 << 10},
    {"the number of shared experts", FIELD(shared_experts, INTEGER), 0, 4096},
    {"the width of the shared experts", FIELD(shared_width, INTEGER), 0, 1 << 22},
    {"the rank of the latent queries", FIELD(query_rank, INTEGER), 0, 1 << 20},
    {"the rank of the latent keys", FIELD(key_rank, INTEGER), 0, 1 << 20},
    {"the rotary part of a head", FIELD(rotary_width, INTEGER), 0, 1 << 16},
    {"the width of a head's values", FIELD(value_dim, INTEGER), 0, 1 << 16},
    {"the sliding window", FIELD(sliding_window, INTEGER), 0, MAX_EXTENT},
    {"the pattern of sliding windows", FIELD(window_pattern, INTEGER), 0, MAX_EXTENT},
    {"the number of relative positions", FIELD(relative_buckets, INTEGER), 0, 1 << 20},
    {"the size of a global head", FIELD(global_head_dim, INTEGER), 0, 1 << 16},
    {"the number of global key-value heads", FIELD(global_kv_heads, INTEGER), 0, 1 << 14},
    {"the width of a layer's own embeddings", FIELD(layer_input_width, INTEGER), 0, 1 << 16},
    {"the vocabulary of a layer's own embeddings", FIELD(layer_input_vocabulary, INTEGER), 0,
     1 << 24},
    {"the number of layers that share keys", FIELD(kv_shared_layers, INTEGER), 0, 4096},
    {"the hidden size of the vision tower", FIELD(vision.hidden, INTEGER), 0, 1 << 20},
    {"the intermediate size of the vision tower", FIELD(vision.intermediate, INTEGER), 0, 1 << 22},
    {"the number of layers of the vision tower", FIELD(vision.layers, INTEGER), 0, 4096},
    {"the number of global layers of the vision tower", FIELD(vision.global_layers, INTEGER), 0,
     4096},
    {"the width of the projector", FIELD(vision.projector_input, INTEGER), 0, 1 << 20},
    {"the width of what the projector returns", FIELD(vision.projector_output, INTEGER), 0,
     1 << 20},
    {"the number of tiles of an image", FIELD(vision.tiles, INTEGER), 0, 1 << 10},
    {"the width of a patch of the vision tower", FIELD(vision.embedding, INTEGER), 0, 1 << 20},
    {"the width of the vision tower's MLP", FIELD(vision.mlp_ratio, INTEGER), 0, 1 << 8},
    {"the number of layers in deepstack_visual_indexes", FIELD(vision.taps, INTEGER), 0,
     PLIM_MAX_TAPS},
    {"the number of heads of the vision tower", FIELD(vision.heads, INTEGER), 0, 1 << 14},
    {"the head size of the vision tower", FIELD(vision.head_dim, INTEGER), 0, 1 << 16},
    {"the number of key-value heads of the vision tower", FIELD(vision.kv_heads, INTEGER), 0,
     1 << 14},
    {"the positions of the vision tower", FIELD(vision.positions, INTEGER), 0, 1 << 24},
    {"the hidden size of the audio tower", FIELD(audio.hidden, INTEGER), 0, 1 << 20},
    {"the number of layers of the audio tower", FIELD(audio.layers, INTEGER), 0, 4096},
    {"the number of heads of the audio tower", FIELD(audio.heads, INTEGER), 0, 1 << 14},
    {"pooling_kernel_size of the vision tower", FIELD(vision.kernel, INTEGER), 0, 1 << 10},
    {"the kernel of the audio tower", FIELD(audio.kernel, INTEGER), 0, 1 << 12},
    {"the output of the audio tower", FIELD(audio.output, INTEGER), 0, 1 << 20},
    {"the number of frames of a patch", FIELD(vision.frames, INTEGER), 0, 1 << 10},
    {"the width of what the vision tower returns", FIELD(vision.output, INTEGER), 0, 1 << 20},
    {"the number of channels of an image", FIELD(vision.channels, INTEGER), 0, 1 << 10},
    {"the size of an image", FIELD(vision.image_size, INTEGER), 0, 1 << 16},
    {"the size of a patch", FIELD(vision.patch_size, INTEGER), 0, 1 << 12},
    {"the number of merged patches", FIELD(merged_patches, INTEGER), 0, 1 << 8},
    {"the width of the projector", FIELD(projector_width, INTEGER), 0, 1 << 22},
    {"the intermediate size of the audio tower", FIELD(audio.intermediate, INTEGER), 0, 1 << 22},
    {"the number of frequencies of the audio tower", FIELD(audio.mel_bins, INTEGER), 0, 1 << 16},
    {"the positions of the audio tower", FIELD(audio.positions, INTEGER), 0, 1 << 24},
    {"downsample_ratio", FIELD(shrinking, REAL), 0, 1},
    {"the dropout", FIELD(dropout, REAL), 0, 1},
    {"the attention dropout", FIELD(attention_dropout, REAL), 0, 1},
    {"the embedding dropout", FIELD(embedding_dropout, REAL), 0, 1},
    {"the dropout of the classifier", FIELD(classifier_dropout, REAL), 0, 1},
    {"the number of labels", FIELD(labels, INTEGER), 1, 1 << 20},
    {"the number of groups of layers", FIELD(layer_groups, INTEGER), 0, 4096},
    {"the number of layers of a group", FIELD(layers_of_group, INTEGER), 0, 4096},
    {"the number of choices", FIELD(choices, INTEGER), 1, 1 << 10},
    {"the rotary fraction of each head", FIELD(rotary_share, REAL), 0, 1},
};

static plim_err check_limits(const plim_config *c, plim_error *error) {
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    const void *field = (const char *)c + limits[i].offset;
    double value =
        limits[i].kind == INTEGER ? (double)*(const int64_t *)field : *(const double *)field;
    if (!(value >= limits[i].least && value <= limits[i].most))
      return plim_fail(error, PLIM_ERR_ARGUMENT, "%s is not between %g and %.0f", limits[i].name,
                       limits[i].least, limits[i].most);
  }
  return PLIM_OK;
}

static plim_err check_list(const plim_config *c, const char *key, int64_t count,
                           plim_error *error) {
  if (count && count != c->layers)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%s lists %d layers, the model has %d", key,
                     (int)count, (int)c->layers);
  if (count > PLIM_MAX_LISTED_LAYERS)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "%s with more than %d layers is not supported yet", key,
                     PLIM_MAX_LISTED_LAYERS);
  return PLIM_OK;
}

// Whether a layer is an MLP or experts and nothing else.
static bool is_block(const plim_config *c, int64_t layer) {
  plim_layer_kind kind = (plim_layer_kind)c->layer_kinds[layer];
  return c->family->has_single_blocks && (kind == PLIM_LAYER_MLP || kind == PLIM_LAYER_EXPERTS);
}

// A list must name every layer, with a kind that is known.
static plim_err check_layer_kinds(const plim_config *c, plim_error *error) {
  plim_err err = check_list(c, "layer_types", c->listed_layers, error);
  if (!err) err = check_list(c, "no_rope_layers", c->listed_turns, error);
  if (err) return err;
  for (int64_t i = 0; i < c->listed_layers; i++)
    if (c->layer_kinds[i] > PLIM_LAYER_SLIDING && c->layer_kinds[i] != c->family->mixes &&
        !is_block(c, i))
      return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                       "the kind of layer %d in layer_types is not supported yet", (int)i);
  return PLIM_OK;
}

// What a file may say, and the family's program does not follow.
static plim_err check_followed(const plim_config *c, plim_error *error) {
  const plim_family *f = c->family;
  bool has_other = c->activation != f->defaults.activation && !f->has_any_activation;
  bool has_dense = c->experts && c->lists_dense_layers;
  const char *what = has_other       ? "this activation function"
                     : has_dense     ? "layers without experts (mlp_only_layers)"
                     : f->unfollowed ? f->unfollowed(c)
                                     : NULL;
  if (!what && c->outer && c->outer->unfollowed) what = c->outer->unfollowed(c);
  if (!what) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s with %s is not supported yet",
                           plim_config_whole(c)->model_type, what);
  plim_error_hint(error,
                  "run your own program on a simulated GPU: plimsoll simulate -- python train.py");
  return err;
}

// Marks of layers with attention count if the file does not list the kinds of all layers.
static void list_marked(plim_config *c) {
  bool fits = c->layers > 0 && c->layers <= PLIM_MAX_LISTED_LAYERS;
  if (!c->marks_attention || c->listed_layers || !fits) return;
  for (int64_t i = 0; i < c->layers; i++)
    c->layer_kinds[i] = (uint8_t)(c->marked[i] ? PLIM_LAYER_FULL : c->family->mixes);
  c->listed_layers = c->layers;
}

// Lfm2MLP: once, so that a configuration may be finished again.
static void fit_intermediate(plim_config *c) {
  double width = (double)(int64_t)(2 * (double)c->intermediate / 3);
  width = (double)(int64_t)(c->intermediate_factor * width);
  bool is_known = width >= 1 && width <= MAX_EXTENT && c->intermediate_step > 0;
  int64_t steps = is_known ? ((int64_t)width + c->intermediate_step - 1) / c->intermediate_step : 0;
  c->intermediate = is_known ? c->intermediate_step * steps : -1;
  c->fits_intermediate = false;
}

// Keys that elsewhere mean attention: "num_heads", "head_dim", "use_bias".
static void set_only_mixers(plim_config *c) {
  c->state_heads = c->heads;
  c->state_head_dim = c->head_dim;
  c->has_state_bias = c->has_attention_bias;
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
  if (!f->mixture || (f->asks_for_experts && !c->has_expert_block)) c->experts = 0;
  if (!c->expert_width) c->expert_width = c->intermediate;
  if (!c->sparse_step) c->sparse_step = 1;
  if (!c->shared_width) c->shared_width = c->shared_experts * c->expert_width;
  if (f->has_latent_attention) c->head_dim = c->plain_width + c->rotary_width;
  if (c->fits_intermediate) fit_intermediate(c);
  list_marked(c);
  if (f->has_single_blocks) list_pattern(c, "ME*-"); // the default, unless the file lists layers
  if (f->has_single_blocks) c->layers = c->listed_layers;
  if (f->has_only_mixers) set_only_mixers(c);
  if (f->has_single_blocks) c->state_width = c->state_heads * c->state_head_dim;
  else if (!c->state_width) c->state_width = c->state_expansion * c->hidden;
  if (!c->decoder_layers) c->decoder_layers = c->layers;
  if (!c->embedding) c->embedding = c->hidden;
  if (!c->original_positions) c->original_positions = c->positions;
  if (!c->labels) c->labels = DEFAULT_LABELS;
  if (!c->choices) c->choices = DEFAULT_CHOICES;
  if (f->reads_yarn_as_longrope && c->rope == PLIM_ROPE_YARN) c->rope = PLIM_ROPE_LONG;
  if (c->activation == PLIM_ACT_UNKNOWN)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "the model's activation function is not supported yet");
  plim_err err = check_followed(c, error);
  if (!err) err = check_extents(c, error);
  if (!err) err = check_layer_kinds(c, error);
  return err ? err : check_limits(c, error);
}

bool plim_config_attends(const plim_config *c, int64_t layer) {
  if (c->family->has_only_mixers) return false;
  if (!c->family->mixes) return true;
  if (c->listed_layers && is_block(c, layer)) return false;
  if (c->listed_layers) return c->layer_kinds[layer] != c->family->mixes;
  return !c->attention_interval || (layer + 1) % c->attention_interval == 0;
}

bool plim_config_crosses(const plim_config *c, int64_t layer) {
  return c->family->has_cross_layers && layer < PLIM_MAX_LISTED_LAYERS && c->crosses[layer];
}

const plim_family *plim_config_whole(const plim_config *c) {
  return c->outer ? c->outer : c->family;
}

bool plim_config_slides(const plim_config *c, int64_t layer) {
  plim_windows windows = c->family->windows;
  if (!c->sliding_window || windows == PLIM_WINDOWS_NOWHERE) return false;
  if (windows == PLIM_WINDOWS_EVERYWHERE) return true;
  if (windows == PLIM_WINDOWS_IF_ASKED) return c->uses_sliding_window;
  if (windows == PLIM_WINDOWS_LATE && !c->uses_sliding_window) return false;
  if (c->listed_layers) return c->layer_kinds[layer] == PLIM_LAYER_SLIDING;
  if (windows == PLIM_WINDOWS_TURNED) return plim_config_turns(c, layer);
  return windows == PLIM_WINDOWS_LATE ? layer >= c->first_window_layer
                                      : c->window_pattern && (layer + 1) % c->window_pattern != 0;
}

bool plim_config_slides_everywhere(const plim_config *c) {
  plim_windows windows = c->family->windows;
  return windows == PLIM_WINDOWS_EVERYWHERE || windows == PLIM_WINDOWS_IF_ASKED;
}

bool plim_config_mixes(const plim_config *c, int64_t layer) {
  if (c->family->mixes_beside_attention) return true;
  return !plim_config_attends(c, layer) && !(c->listed_layers && is_block(c, layer));
}

bool plim_config_feeds(const plim_config *c, int64_t layer) {
  if (c->family->has_only_mixers) return false;
  return !c->family->has_single_blocks || (c->listed_layers && is_block(c, layer));
}

bool plim_config_is_sparse(const plim_config *c, int64_t layer) {
  if (c->experts && c->lists_sparse) return layer < PLIM_MAX_LISTED_LAYERS && c->sparse[layer];
  if (c->family->has_single_blocks)
    return c->experts && c->listed_layers && c->layer_kinds[layer] == PLIM_LAYER_EXPERTS;
  return c->experts && layer >= c->dense_layers && (layer + 1) % c->sparse_step == 0;
}

uint64_t plim_config_expert_parameters(const plim_config *c) {
  if (c->has_linear_experts) return 0;
  uint64_t layers = 0, matrices = c->family->has_single_blocks ? 2 : 3; // without a gate
  uint64_t each = matrices * (uint64_t)(c->expert_input ? c->expert_input : c->hidden) *
                  (uint64_t)c->expert_width;
  for (int64_t i = 0; i < c->layers; i++) layers += plim_config_is_sparse(c, i);
  return layers * (uint64_t)c->experts * each;
}

bool plim_config_turns(const plim_config *c, int64_t layer) {
  if (c->has_no_rotary) return false;
  if (c->family->turns_without_windows && !c->sliding_window) return true;
  if (c->family->turns_windows_only) return plim_config_slides(c, layer);
  if (!c->family->has_unturned_layers) return true;
  if (c->listed_turns) return c->turns[layer];
  return !c->unturned_pattern || (layer + 1) % c->unturned_pattern != 0;
}

// Liger's rotary positions turn whole heads (monkey_patch.py, apply_liger_kernel_to_nemotron).
bool plim_config_has_liger(const plim_config *c) {
  return plim_config_whole(c)->has_liger && plim_config_rotary_width(c) == c->head_dim;
}

int64_t plim_config_rotary_width(const plim_config *c) {
  if (c->family->has_latent_attention) return c->rotary_width;
  if (!c->family->turns_part_of_head) return c->head_dim;
  return (int64_t)((double)c->head_dim * c->rotary_share);
}
