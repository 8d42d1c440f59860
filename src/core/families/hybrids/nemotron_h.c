// Nemotron-H: each layer is a state space, attention, an MLP or experts, and nothing else.
#include "decoder.h"
#include "families.h"
#include "ops.h"
#include "state_space.h"

#include "op_names.h"

static plim_tensor *mix(plim_tape *t, const plim_decoder_layer *l, plim_tensor *const *held,
                        plim_tensor *x, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  if (l->mixer) return plim_state_space_forward(t, l->mixer, c, x, held[PLIM_HELD_MASK]);
  if (l->q_proj.weight) return plim_decoder_attention(t, l, x, held, weights);
  return plim_decoder_mlp(t, l, x);
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  plim_tensor *input = to(t, x, (plim_dtype)l->input_norm->dtype);
  set(t, &hidden, plim_rms_norm(t, input, l->input_norm));
  set(t, &hidden, mix(t, l, held, hidden, &weights));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

static plim_model *nemotron_h_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_paths paths = {.q_proj = "mixer.q_proj",
                                           .k_proj = "mixer.k_proj",
                                           .v_proj = "mixer.v_proj",
                                           .o_proj = "mixer.o_proj",
                                           .up_proj = "mixer.up_proj",
                                           .down_proj = "mixer.down_proj"};
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = plim_rms_norm,
      .mixer = &plim_state_block_mixer,
      .paths = &paths,
      .norms = PLIM_INPUT_NORM,
      .order = {PLIM_BUILDS_NORMS, PLIM_BUILDS_MIXING, PLIM_BUILDS_FEEDING},
      .has_plain_mlp = true,
      .decays_last_norm = true, // norm_f
  };
  return plim_decoder_new(t, c, dtype, &code);
}

static const plim_mixture mixture = {
    .route = plim_route_groups,
    .forward = plim_experts_then_shared,
    .shared = {NULL, "mixer.shared_experts.up_proj", "mixer.shared_experts.down_proj"},
    .latent = {"mixer.fc1_latent_proj", "mixer.fc2_latent_proj"},
    .has_no_gate = true,
    .has_correction = true};

static const char *unfollowed(const plim_config *c) {
  if (c->has_attention_bias) return "biases of attention or the state space";
  return plim_state_space_unfollowed(c);
}

const plim_family plim_family_nemotron_h = {
    .model_type = "nemotron_h",
    .has_no_padding_row = true,
    .axolotl_packs_by_old_names = true,
    .build = nemotron_h_new,
    .unfollowed = unfollowed,
    .defaults = {.hidden = 4096,
                 .intermediate = 21504,
                 .layers = 4,
                 .heads = 32,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .vocabulary = 131072,
                 .positions = 4096,
                 .activation = PLIM_ACT_SQUARED_RELU,
                 .experts = 8,
                 .experts_per_token = 2,
                 .expert_width = 7688,
                 .shared_experts = 1,
                 .shared_width = 7688,
                 .expert_groups = 1,
                 .chosen_groups = 1,
                 .normalises_shares = true,
                 .state_heads = 128,
                 .state_head_dim = 64,
                 .state_groups = 8,
                 .state_size = 128,
                 .state_kernel = 4,
                 .state_expansion = 2,
                 .state_chunk = 128,
                 .has_conv_bias = true,
                 .has_state_norm = true,
                 .has_no_rotary = true},
    .mixture = &mixture,
    .mixes = PLIM_LAYER_MAMBA,
    .has_single_blocks = true,
    .norms_state_groups = true,
    .has_wide_logits = true,
    .keeps_mask_arguments = true,
    .lora_targets = "q_proj,k_proj,v_proj,o_proj",
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .lora_refuses = "out_proj",
    .axolotl_guards_kernels = true,
    .faster_packages = "mamba-ssm and causal-conv1d",
    .packages = 1u << PLIM_PACKAGE_KERNELS,
    .first_release = PLIM_RELEASE(5, 3),
    .ships_code = true,
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
};
