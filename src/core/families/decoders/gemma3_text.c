// Gemma 3's language model: norms before and behind attention and MLP, and of each head; windows in most layers, which
// have rotary frequencies of their own.
#include "decoder.h"
#include "families.h"

static plim_model *gemma3_text_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = plim_decoder_sandwich_layer,
      .norm = plim_gemma2_norm,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM | PLIM_PRE_MLP_NORM | PLIM_POST_MLP_NORM,
      .has_embed_scale = true,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_gemma3_text = {
    .model_type = "gemma3_text",
    .build = gemma3_text_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 2304,
                 .intermediate = 9216,
                 .layers = 26,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .vocabulary = 262208,
                 .positions = 131072,
                 .activation = PLIM_ACT_GELU,
                 .sliding_window = 4096,
                 .window_pattern = 6,
                 .ties_embeddings = true},
    .windows = PLIM_WINDOWS_PATTERN,
    .qk_norm = PLIM_QK_NORM_TURNED,
    .has_local_rotary = true,
    .keeps_mask_arguments = true,
    .has_liger = true,
    .lora_targets = "q_proj,v_proj",
    .lacks_heads = 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .first_release = PLIM_RELEASE(4, 50),
    .recorded = PLIM_RECORDED_TRAINING,
};
