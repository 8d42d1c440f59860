// Gemma 2: norms before and behind attention and MLP, scaled embeddings, scores and logits held between
// bounds by tanh, a window in every other layer.
#include "decoder.h"
#include "families.h"
#include "tape_state.h"

enum {
  NORMS = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM | PLIM_PRE_MLP_NORM | PLIM_POST_MLP_NORM
};

// The embedding scales its output since 5.4; before, the model's forward did.
static plim_model *gemma2_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = plim_decoder_sandwich_layer,
                                         .norm = plim_gemma2_norm,
                                         .norms = NORMS,
                                         .has_embed_scale = true};
  static const plim_decoder_code before = {.layer = plim_decoder_sandwich_layer,
                                           .norm = plim_gemma2_norm,
                                           .norms = NORMS,
                                           .scales_embedded = true,
                                           .passed_rotary_first = true,
                                           .kept_last_layer_until = PLIM_RELEASE(5, 0)};
  return plim_decoder_new(t, c, dtype, plim_transformers_from(t, 5, 4) ? &code : &before);
}

const plim_family plim_family_gemma2 = {
    .model_type = "gemma2",
    .build = gemma2_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 2304,
                 .intermediate = 9216,
                 .layers = 26,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .vocabulary = 256000,
                 .positions = 8192,
                 .activation = PLIM_ACT_GELU,
                 .attention_softcap = 50,
                 .final_softcap = 30,
                 .sliding_window = 4096,
                 .window_pattern = 2,
                 .ties_embeddings = true},
    .windows = PLIM_WINDOWS_PATTERN,
    .keeps_mask_arguments = true,
    .factory_is_eager = true,
    .has_liger = true,
    .lora_targets = "q_proj,v_proj",
    .old_rotary = PLIM_OLD_ROTARY_LAYERS,
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED | PLIM_RECORDED_SHARDED |
                PLIM_RECORDED_4_57 | PLIM_RECORDED_5_22 | PLIM_RECORDED_TORCH,
    .lacks_heads = 1u << PLIM_HEAD_ANSWERS,
};
