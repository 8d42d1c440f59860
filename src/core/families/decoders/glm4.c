// GLM 4 of 2025 (GLM-4-0414): norms before and behind attention and MLP, neighbours of a part of each head are
// rotated, gate and up in one projection.
#include "glm4.h"
#include "decoder.h"
#include "families.h"

plim_tensor *plim_glm4_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                             plim_tensor *x) {
  plim_decoder_layer l = *(const plim_decoder_layer *)context;
  l.post_attention_norm = l.pre_mlp_norm;
  l.pre_mlp_norm = ((const plim_decoder_layer *)context)->post_attention_norm;
  return plim_decoder_sandwich_layer(t, &l, held, x);
}

static plim_model *glm4_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = plim_glm4_layer,
      .norm = plim_rms_norm,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM | PLIM_PRE_MLP_NORM | PLIM_POST_MLP_NORM,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_glm4 = {
    .model_type = "glm4",
    .has_other_liger = true,
    .build = glm4_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 13696,
                 .layers = 40,
                 .heads = 32,
                 .kv_heads = 2,
                 .head_dim = 128,
                 .vocabulary = 151552,
                 .positions = 131072,
                 .activation = PLIM_ACT_SILU,
                 .rotary_share = 0.5,
                 .has_attention_bias = true},
    .turns_part_of_head = true,
    .turns_neighbours = true,
    .has_fused_gate = true,
    .has_unbiased_output = true,
    .lacks_heads = 1u << PLIM_HEAD_ANSWERS,
    .first_release = PLIM_RELEASE(4, 51),
    .recorded = PLIM_RECORDED_TRAINING,
};
