// Qwen 3.5 and Qwen3-Next: three of four layers have the gated delta rule in place of attention; attention has a gate, and rotary
// positions on a quarter of each head.
#include "decoder.h"
#include "delta_net.h"
#include "experts.h"
#include "families.h"
#include "grid_tower.h"
#include "ops.h"

#include "op_names.h"

// ---- attention ----------------------------------------------------------------------------------------

// q_proj computes the queries and the gate, head by head.
static void project(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x, plim_tensor **q,
                    plim_tensor **gate, plim_tensor **k, plim_tensor **v) {
  int64_t b = x->shape.at[0], length = x->shape.at[1], d = l->m->c.head_dim;
  plim_dims heads = dims(b, length, -1, d);
  plim_tensor *both = view(t, plim_linear_forward(t, &l->q_proj, x), dims(b, length, -1, 2 * d));
  split(t, both, q, gate);
  set(t, gate, reshape(t, *gate, dims(b, length, -1)));
  set(t, q, transpose(t, plim_gemma_norm(t, view(t, *q, heads), l->q_norm), 1, 2));
  plim_tensor *keys = view(t, plim_linear_forward(t, &l->k_proj, x), heads);
  set(t, k, transpose(t, plim_gemma_norm(t, keys, l->k_norm), 1, 2));
  set(t, v, plim_split_heads(t, plim_linear_forward(t, &l->v_proj, x), d, NULL));
}

static plim_tensor *self_attention(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_attending how = {.kind = l->m->attention, .dropout_p = c->attention_dropout};
  plim_tensor *q = NULL, *gate = NULL, *k = NULL, *v = NULL, *out = NULL;
  project(t, l, x, &q, &gate, &k, &v);
  plim_apply_rope_parts(t, held[PLIM_HELD_COS(c)], held[PLIM_HELD_SIN(c)], true, &q, &k);
  set(t, &out, plim_attend(t, &how, q, k, v, held[PLIM_HELD_MASK], weights));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, mul(t, out, sigmoid(t, gate)));
  set(t, &out, plim_linear_forward(t, &l->o_proj, out));
  drop_all(t, &q, &gate, &k, &v);
  return give(t, &out);
}

// ---- layers -------------------------------------------------------------------------------------------

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_gemma_norm(t, x, l->input_norm));
  set(t, &hidden,
      l->mixer ? plim_delta_net_forward(t, l->mixer, &l->m->c, hidden, held[PLIM_HELD_MASK])
               : self_attention(t, l, hidden, held, &weights));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, plim_gemma_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, plim_decoder_mlp(t, l, hidden));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

static plim_model *qwen3_5_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = plim_gemma_norm,
      .mixer = &plim_delta_net_mixer,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

static plim_model *qwen3_next_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = plim_gemma_norm,
      .mixer = &plim_joined_delta_net_mixer,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  if (c->outer && c->vision.heads < 1) return "a vision tower without heads";
  return plim_delta_net_unfollowed(c);
}

const plim_family plim_family_qwen3_5_text = {
    .model_type = "qwen3_5_text",
    .has_other_liger = true,
    .factory_1_has_liger = true,
    .build = qwen3_5_new,
    .unfollowed = unfollowed,
    .defaults = {.hidden = 4096,
                 .intermediate = 12288,
                 .layers = 32,
                 .heads = 16,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .vocabulary = 248320,
                 .positions = 32768,
                 .activation = PLIM_ACT_SILU,
                 .rotary_share = 0.25,
                 .linear_key_heads = 16,
                 .linear_value_heads = 32,
                 .linear_key_dim = 128,
                 .linear_value_dim = 128,
                 .linear_kernel = 4,
                 .attention_interval = 4},
    .qk_norm = PLIM_QK_NORM_HEADS,
    .mixes = PLIM_LAYER_LINEAR,
    .turns_part_of_head = true,
    .has_gated_attention = true,
    .has_grid_positions = true,
    .keeps_mask_arguments = true,
    .left_out = "the vision tower (AutoModelForCausalLM leaves it out)",
    .faster_packages = "flash-linear-attention and causal-conv1d",
    .packages = PLIM_DELTA_NET_PACKAGES,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

// ---- with experts ---------------------------------------------------------------------------------------

static const plim_mixture mixture = {.route = plim_route_softmax,
                                     .forward = plim_experts_gated_shared,
                                     .shared = {"mlp.shared_expert.gate_proj",
                                                "mlp.shared_expert.up_proj",
                                                "mlp.shared_expert.down_proj"},
                                     .shared_share = "mlp.shared_expert_gate",
                                     .builds_router_first = true};

const plim_family plim_family_qwen3_5_moe_text = {
    .model_type = "qwen3_5_moe_text",
    .has_other_liger = true,
    .factory_1_has_liger = true,
    .build = qwen3_5_new,
    .unfollowed = unfollowed,
    .defaults = {.hidden = 2048,
                 .intermediate = 512,
                 .layers = 40,
                 .heads = 16,
                 .kv_heads = 2,
                 .head_dim = 256,
                 .vocabulary = 248320,
                 .positions = 32768,
                 .activation = PLIM_ACT_SILU,
                 .rotary_share = 0.25,
                 .experts = 256,
                 .experts_per_token = 8,
                 .expert_width = 512,
                 .shared_width = 512,
                 .normalises_shares = true,
                 .linear_key_heads = 16,
                 .linear_value_heads = 32,
                 .linear_key_dim = 128,
                 .linear_value_dim = 128,
                 .linear_kernel = 4,
                 .attention_interval = 4},
    .mixture = &mixture,
    .qk_norm = PLIM_QK_NORM_HEADS,
    .mixes = PLIM_LAYER_LINEAR,
    .turns_part_of_head = true,
    .has_gated_attention = true,
    .has_grid_positions = true,
    .keeps_mask_arguments = true,
    .left_out = "the vision tower (AutoModelForCausalLM leaves it out)",
    .faster_packages = "flash-linear-attention and causal-conv1d",
    .packages = PLIM_DELTA_NET_PACKAGES,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

// ---- Qwen3-Next -----------------------------------------------------------------------------------------

// peft adapts these experts by their former names, but not those of Qwen 3.5.
static const plim_mixture next_mixture = {.route = plim_route_softmax,
                                          .forward = plim_experts_gated_shared,
                                          .shared = {"mlp.shared_expert.gate_proj",
                                                     "mlp.shared_expert.up_proj",
                                                     "mlp.shared_expert.down_proj"},
                                          .shared_share = "mlp.shared_expert_gate",
                                          .builds_router_first = true,
                                          .former = plim_former_experts};

const plim_family plim_family_qwen3_next = {
    .model_type = "qwen3_next",
    .has_other_liger = true,
    .factory_1_has_liger = true,
    .build = qwen3_next_new,
    .unfollowed = plim_delta_net_unfollowed,
    .defaults = {.hidden = 2048,
                 .intermediate = 5632,
                 .layers = 48,
                 .heads = 16,
                 .kv_heads = 2,
                 .head_dim = 256,
                 .vocabulary = 151936,
                 .positions = 32768,
                 .activation = PLIM_ACT_SILU,
                 .rotary_share = 0.25,
                 .experts = 512,
                 .experts_per_token = 10,
                 .expert_width = 512,
                 .shared_width = 512,
                 .normalises_shares = true,
                 .linear_key_heads = 16,
                 .linear_value_heads = 32,
                 .linear_key_dim = 128,
                 .linear_value_dim = 128,
                 .linear_kernel = 4,
                 .attention_interval = 4},
    .mixture = &next_mixture,
    .qk_norm = PLIM_QK_NORM_HEADS,
    .mixes = PLIM_LAYER_LINEAR,
    .turns_part_of_head = true,
    .has_gated_attention = true,
    .keeps_mask_arguments = true,
    .faster_packages = "flash-linear-attention and causal-conv1d",
    .packages = PLIM_DELTA_NET_PACKAGES,
    .first_release = PLIM_RELEASE(4, 57),
    .recorded = PLIM_RECORDED_TRAINING,
};

// ---- with images ----------------------------------------------------------------------------------------

static void add_towers(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype dtype) {
  static const plim_grid_tower_kind kind = {.has_patch_bias = true,
                                            .has_position_table = true,
                                            .up = "mlp.linear_fc1",
                                            .down = "mlp.linear_fc2",
                                            .merger = {"linear_fc1", "linear_fc2"}};
  plim_grid_tower_new(t, w, &kind, &c->vision, c->merged_patches, dtype);
}

const plim_family plim_family_qwen3_5 = {
    .model_type = "qwen3_5",
    .has_other_liger = true,
    .factory_1_has_liger = true,
    .text_types = "qwen3_5_text",
    .add_towers = add_towers,
    .lacks_loss_kwargs = true,
    .defaults = {.vision = {.hidden = 1152,
                            .intermediate = 4304,
                            .layers = 27,
                            .heads = 16,
                            .channels = 3,
                            .patch_size = 16,
                            .frames = 2,
                            .positions = 2304,
                            .output = 3584},
                 .merged_patches = 2},
    .recorded = PLIM_RECORDED_TRAINING,
};

const plim_family plim_family_qwen3_5_moe = {
    .model_type = "qwen3_5_moe",
    .has_other_liger = true,
    .factory_1_has_liger = true,
    .factory_lacks_liger = true,
    .text_types = "qwen3_5_moe_text",
    .add_towers = add_towers,
    .lacks_loss_kwargs = true,
    .defaults = {.vision = {.hidden = 1152,
                            .intermediate = 4304,
                            .layers = 27,
                            .heads = 16,
                            .channels = 3,
                            .patch_size = 16,
                            .frames = 2,
                            .positions = 2304,
                            .output = 3584},
                 .merged_patches = 2},
};
