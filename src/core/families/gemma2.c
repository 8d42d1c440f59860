// Gemma 2: norms before and behind attention and MLP, scaled embeddings, scores and logits held between
// bounds by tanh, a window in every other layer.
#include "decoder.h"
#include "families.h"
#include "ops.h"

#include "op_names.h"

static plim_tensor *embed(plim_tape *t, const plim_decoder *m, const plim_batch *batch) {
  plim_tensor *ids = plim_part_enter(t, PLIM_PART_EMBEDDING, batch->ids);
  plim_module_enter(t, m->embed_tokens, NULL);
  plim_tensor *embedded = embedding(t, m->embed_tokens, ids);
  plim_tensor *scale = to(t, m->embed_scale, (plim_dtype)m->embed_tokens->dtype);
  plim_tensor *out = plim_embed_leave(t, batch, mul(t, embedded, scale));
  return plim_module_leave(t, m->embed_tokens, out);
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_gemma_norm(t, x, l->input_norm));
  set(t, &hidden, plim_decoder_attention(t, l, hidden, held, &weights));
  set(t, &hidden, plim_gemma_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, plim_gemma_norm(t, hidden, l->pre_mlp_norm));
  set(t, &hidden, plim_decoder_mlp(t, l, hidden));
  set(t, &hidden, plim_gemma_norm(t, hidden, l->post_mlp_norm));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

static plim_model *gemma2_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = plim_gemma_norm,
      .embed = embed,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM | PLIM_PRE_MLP_NORM | PLIM_POST_MLP_NORM,
      .has_embed_scale = true,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_gemma2 = {
    .model_type = "gemma2",
    .build = gemma2_new,
    .defaults = {.hidden = 2304,
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
                 .ties_embeddings = true},
    .windows = PLIM_WINDOWS_ALTERNATE,
    .keeps_mask_arguments = true,
    .lora_targets = "q_proj,v_proj",
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED | PLIM_RECORDED_SHARDED,
};
