// Gemma: llama's forward, with scaled embeddings and norms that multiply with 1 + weight.
#include "decoder.h"
#include "families.h"

static plim_model *gemma_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = plim_decoder_prenorm_layer,
      .norm = plim_gemma_norm,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
      .has_embed_scale = true,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_gemma = {
    .model_type = "gemma",
    .was_run_in_torchtune = true,
    .build = gemma_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 3072,
                 .intermediate = 24576,
                 .layers = 28,
                 .heads = 16,
                 .kv_heads = 16,
                 .head_dim = 256,
                 .vocabulary = 256000,
                 .positions = 8192,
                 .activation = PLIM_ACT_GELU,
                 .ties_embeddings = true},
    .passes_positions_first = true,
    .has_liger = true,
    .lora_targets = "q_proj,v_proj",
    .lacks_heads = 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
};
