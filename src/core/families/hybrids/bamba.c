// Bamba: most layers have a state space in place of attention.
#include "decoder.h"
#include "families.h"
#include "ops.h"
#include "state_space.h"

#include "op_names.h"

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_rms_norm(t, x, l->input_norm));
  set(t, &hidden,
      l->mixer ? plim_state_space_forward(t, l->mixer, &l->m->c, hidden, held[PLIM_HELD_MASK])
               : plim_decoder_attention(t, l, hidden, held, &weights));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, plim_rms_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, plim_decoder_mlp(t, l, hidden));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

static plim_model *bamba_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = plim_rms_norm,
      .mixer = &plim_state_space_mixer,
      .paths = &plim_feed_forward_paths,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
      .order = {PLIM_BUILDS_FEEDING, PLIM_BUILDS_NORMS, PLIM_BUILDS_MIXING},
      .names_norm_first = true,
      .counts_from_zero = true,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_bamba = {
    .model_type = "bamba",
    .build = bamba_new,
    .unfollowed = plim_state_space_unfollowed,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 14336,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocabulary = 128000,
                 .positions = 262144,
                 .activation = PLIM_ACT_SILU,
                 .rotary_share = 0.5,
                 .state_heads = 128,
                 .state_groups = 1,
                 .state_size = 256,
                 .state_kernel = 4,
                 .state_expansion = 2,
                 .state_chunk = 256,
                 .attention_interval = 1 << 20, // no attention unless it is listed
                 .has_conv_bias = true,
                 .has_state_norm = true},
    .mixes = PLIM_LAYER_MAMBA,
    .turns_part_of_head = true,
    .joins_parts_last = true,
    .keeps_mask_arguments = true,
    .passes_positions_first = true,
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .faster_packages = "mamba-ssm and causal-conv1d",
    .packages = 1u << PLIM_PACKAGE_KERNELS,
    .first_release = PLIM_RELEASE(4, 48),
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_GENERIC,
};
