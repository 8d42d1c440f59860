#include "llama.h"

#include "decoder.h"
#include "families.h"
#include "ops.h"

#include "op_names.h"

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  double dropped = l->m->c.family->has_residual_dropout ? l->m->c.dropout : 0;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_rms_norm(t, x, l->input_norm));
  set(t, &hidden, plim_decoder_attention(t, l, hidden, held, &weights));
  set(t, &hidden, add(t, residual, dropout(t, hidden, dropped)));
  set(t, &residual, hidden);
  set(t, &hidden, plim_rms_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, plim_decoder_mlp(t, l, hidden));
  set(t, &hidden, add(t, residual, dropout(t, hidden, dropped)));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

plim_model *plim_llama_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = plim_rms_norm,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_llama = {
    .model_type = "llama",
    .build = plim_llama_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 11008,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 32000,
                 .activation = PLIM_ACT_SILU},
    .lora_targets = "q_proj,v_proj",
    .has_liger = true,
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED | PLIM_RECORDED_FUSED_LOSS |
                PLIM_RECORDED_LIGER | PLIM_RECORDED_SHARDED | PLIM_RECORDED_DEEPSPEED,
};
