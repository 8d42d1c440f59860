// Mamba 2: every layer is a norm and a state space, with a residual in float32.
#include "decoder.h"
#include "families.h"
#include "ops.h"
#include "state_space.h"

#include "op_names.h"

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  const plim_config *c = &l->m->c;
  plim_tensor *hidden = NULL, *residual = NULL;
  set(t, &residual, x);
  plim_tensor *input = to(t, x, (plim_dtype)l->input_norm->dtype);
  set(t, &hidden, plim_rms_norm(t, input, l->input_norm));
  if (c->has_wide_residual) set(t, &residual, to(t, residual, PLIM_FP32));
  set(t, &hidden, plim_state_space_forward(t, l->mixer, c, hidden, held[PLIM_HELD_MASK]));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop(t, &residual);
  return out;
}

static plim_model *mamba2_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = plim_rms_norm,
      .mixer = &plim_state_only_mixer,
      .place = "backbone.layers",
      .table = "embeddings",
      .norms = PLIM_INPUT_NORM,
      .order = {PLIM_BUILDS_NORMS, PLIM_BUILDS_MIXING, PLIM_BUILDS_FEEDING},
      .names_head_last = true,
      .decays_last_norm = true, // norm_f
  };
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  const char *what = plim_state_space_unfollowed(c);
  bool fits = c->state_width == c->state_heads * c->state_head_dim;
  return what || fits ? what : "an expanded width that is not that of all heads";
}

const plim_family plim_family_mamba2 = {
    .model_type = "mamba2",
    .has_no_padding_row = true,
    .build = mamba2_new,
    .unfollowed = unfollowed,
    .defaults = {.hidden = 4096,
                 .layers = 64,
                 .heads = 128,
                 .head_dim = 64,
                 .vocabulary = 32768,
                 .activation = PLIM_ACT_SILU,
                 .state_groups = 8,
                 .state_size = 128,
                 .state_kernel = 4,
                 .state_expansion = 2,
                 .state_chunk = 256,
                 .has_conv_bias = true,
                 .has_state_norm = true,
                 .has_wide_residual = true,
                 .has_no_rotary = true},
    .mixes = PLIM_LAYER_MAMBA,
    .has_only_mixers = true,
    .has_wide_logits = true,
    .narrows_hidden = true,
    .lacks_sdpa = true,
    .is_refused_flash = true,
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .lora_refuses = "out_proj",
    .faster_packages = "mamba-ssm and causal-conv1d",
    .packages = 1u << PLIM_PACKAGE_KERNELS,
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_BREAKS,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL,
};
