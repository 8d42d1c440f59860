// OLMo 2: norms behind attention and MLP, norms of all queries and all keys, rotary positions in float32.
#include "decoder.h"
#include "families.h"
#include "ops.h"

#include "op_names.h"

static plim_tensor *self_attention(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_tensor *q = NULL, *k = NULL, *v = NULL;
  set(t, &q, plim_wide_rms_norm(t, plim_linear_forward(t, &l->q_proj, x), l->q_norm)); // (B,T,H*D)
  set(t, &k, plim_wide_rms_norm(t, plim_linear_forward(t, &l->k_proj, x), l->k_norm));
  set(t, &v, plim_linear_forward(t, &l->v_proj, x));
  set(t, &q, plim_split_heads(t, q, c->head_dim, NULL)); // (B,H,T,D)
  set(t, &k, plim_split_heads(t, k, c->head_dim, NULL));
  set(t, &v, plim_split_heads(t, v, c->head_dim, NULL));
  plim_apply_wide_rope(t, held[PLIM_HELD_COS(c)], held[PLIM_HELD_SIN(c)], &q, &k);
  return plim_decoder_attend(t, l, &q, &k, &v, held, weights);
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, self_attention(t, l, x, held, &weights));
  set(t, &hidden, plim_wide_rms_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, plim_decoder_mlp(t, l, hidden));
  set(t, &hidden, plim_wide_rms_norm(t, hidden, l->post_mlp_norm));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

static plim_model *olmo2_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = plim_wide_rms_norm,
      .norms = PLIM_POST_ATTENTION_NORM | PLIM_POST_MLP_NORM,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_olmo2 = {
    .model_type = "olmo2",
    .build = olmo2_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 11008,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 50304,
                 .positions = 2048,
                 .activation = PLIM_ACT_SILU},
    .qk_norm = PLIM_QK_NORM_WIDTH,
    .has_wide_rotary = true,
    .recorded = PLIM_RECORDED_TRAINING,
};
