// OLMo 2: norms behind attention and MLP, norms of all queries and all keys, rotary positions in float32.
#include "decoder.h"
#include "families.h"

static plim_model *olmo2_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = plim_decoder_postnorm_layer,
      .norm = plim_wide_rms_norm,
      .norms = PLIM_POST_ATTENTION_NORM | PLIM_POST_MLP_NORM,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_olmo2 = {
    .model_type = "olmo2",
    .has_other_liger = true,
    .build = olmo2_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 11008,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 50304,
                 .positions = 2048,
                 .activation = PLIM_ACT_SILU},
    .qk_norm = PLIM_QK_NORM_WIDTH,
    .has_wide_rotary = true,
    .first_release = PLIM_RELEASE(4, 47),
    .lacks_heads = 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
