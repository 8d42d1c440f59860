// Granite 3: llama's forward, in which embeddings, what attention and MLP add, and logits are multiplied with
// numbers of the configuration.
#include "granite.h"

#include "decoder.h"
#include "families.h"
#include "ops.h"

#include "op_names.h"

static plim_tensor *embed(plim_tape *t, const plim_decoder *m, const plim_batch *batch) {
  return mul_scalar(t, plim_embed(t, batch, m->embed_tokens, batch->ids));
}

plim_tensor *plim_granite_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                                plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_rms_norm(t, x, l->input_norm));
  set(t, &hidden, plim_decoder_attention(t, l, hidden, held, &weights));
  set(t, &hidden, add(t, residual, mul_scalar(t, hidden)));
  set(t, &residual, hidden);
  set(t, &hidden, plim_rms_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, plim_decoder_mlp(t, l, hidden));
  set(t, &hidden, add(t, residual, mul_scalar(t, hidden)));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

static plim_model *granite_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = plim_granite_layer,
      .norm = plim_rms_norm,
      .embed = embed,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
      .divides_logits = true,
      .kept_last_layer_until = PLIM_RELEASE(5, 4),
  };
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_granite = {
    .model_type = "granite",
    .has_other_liger = true,
    .build = granite_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 11008,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 32000,
                 .positions = 2048,
                 .activation = PLIM_ACT_SILU},
    .passes_positions_first = true,
    .loss_function_from = PLIM_RELEASE(4, 48),
    .had_wide_logits = true,
    .old_rotary = PLIM_OLD_ROTARY_MODEL,
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
};
