// Seed-OSS: llama's forward with dropout of what attention and MLP return.
#include "decoder.h"
#include "families.h"

static plim_model *seed_oss_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = plim_decoder_prenorm_layer,
                                         .norm = plim_rms_norm,
                                         .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
                                         .drops_inside = true};
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  return c->has_output_bias ? "a bias of attention's output" : NULL;
}

const plim_family plim_family_seed_oss = {
    .model_type = "seed_oss",
    .build = seed_oss_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 27648,
                 .layers = 64,
                 .heads = 80,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .vocabulary = 155136,
                 .positions = 524288,
                 .activation = PLIM_ACT_SILU,
                 .attention_dropout = 0.1,
                 .dropout = 0.1,
                 .has_attention_bias = true},
    .unfollowed = unfollowed,
    .has_unbiased_output = true,
    .first_release = PLIM_RELEASE(4, 56),
    .recorded = PLIM_RECORDED_TRAINING,
};
