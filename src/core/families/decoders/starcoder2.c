// StarCoder 2: LayerNorms, an MLP without a gate, dropout of what attention and MLP return.
#include "decoder.h"
#include "families.h"

static plim_model *starcoder2_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_paths paths = {
      .o_proj = "self_attn.o_proj", .up_proj = "mlp.c_fc", .down_proj = "mlp.c_proj"};
  static const plim_decoder_code code = {.layer = plim_decoder_prenorm_layer,
                                         .biased_norm = plim_norm_forward,
                                         .paths = &paths,
                                         .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
                                         .has_plain_mlp = true,
                                         .drops_embedded = true,
                                         .keeps_embedded = true,
                                         .drops_inside = true};
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  return c->has_attention_bias ? NULL : "layers without biases";
}

const plim_family plim_family_starcoder2 = {
    .model_type = "starcoder2",
    .build = starcoder2_new,
    .defaults = {.hidden = 3072,
                 .intermediate = 12288,
                 .layers = 30,
                 .heads = 24,
                 .kv_heads = 2,
                 .vocabulary = 49152,
                 .positions = 4096,
                 .activation = PLIM_ACT_GELU,
                 .has_attention_bias = true,
                 .has_mlp_bias = true,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .windows = PLIM_WINDOWS_EVERYWHERE,
    .passes_positions_first = true,
    .lacks_heads = 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_GENERIC,
};
