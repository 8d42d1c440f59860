// EXAONE 4: norms behind attention and MLP, norms of each head's query and key; in models with windows, only the layers
// that have one rotate.
#include "decoder.h"
#include "families.h"

static plim_model *exaone4_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = plim_decoder_postnorm_layer,
                                         .norm = plim_rms_norm,
                                         .norms = PLIM_POST_ATTENTION_NORM | PLIM_POST_MLP_NORM};
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_exaone4 = {
    .model_type = "exaone4",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .build = exaone4_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 16384,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 32,
                 .vocabulary = 102400,
                 .positions = 2048,
                 .sliding_window = 4096,
                 .window_pattern = 4,
                 .activation = PLIM_ACT_SILU},
    .windows = PLIM_WINDOWS_PATTERN,
    .turns_windows_only = true,
    .turns_without_windows = true,
    .qk_norm = PLIM_QK_NORM_TURNED,
    .passes_positions_first = true,
    .keeps_mask_arguments = true,
    .first_release = PLIM_RELEASE(4, 54),
    .recorded = PLIM_RECORDED_TRAINING,
};
