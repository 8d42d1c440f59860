// OLMo 3: OLMo 2's layers, with windows in most of them, which have rotary frequencies of their own.
#include "decoder.h"
#include "families.h"

static plim_model *olmo3_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = plim_decoder_postnorm_layer,
      .norm = plim_wide_rms_norm,
      .norms = PLIM_POST_ATTENTION_NORM | PLIM_POST_MLP_NORM,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_olmo3 = {
    .model_type = "olmo3",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .build = olmo3_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 11008,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 50304,
                 .positions = 2048,
                 .sliding_window = 4096,
                 .window_pattern = 4,
                 .activation = PLIM_ACT_SILU},
    .windows = PLIM_WINDOWS_PATTERN,
    .qk_norm = PLIM_QK_NORM_WIDTH,
    .has_wide_rotary = true,
    .has_local_rotary = true,
    .passes_positions_first = true,
    .keeps_mask_arguments = true,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
