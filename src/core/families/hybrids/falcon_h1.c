// Falcon-H1: every layer has attention and a state space side by side, and numbers of the configuration with which
// embeddings, projections, what both add, and logits are multiplied.
#include "decoder.h"
#include "families.h"
#include "ops.h"
#include "state_space.h"

#include "op_names.h"

static plim_tensor *embed(plim_tape *t, const plim_decoder *m, const plim_batch *batch) {
  return mul_scalar(t, plim_embed(t, batch, m->embed_tokens, batch->ids));
}

static plim_tensor *self_attention(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_tensor *q = NULL, *k = NULL, *v = NULL;
  bool was = hold(x);
  set(t, &q, plim_split_heads(t, plim_linear_forward(t, &l->q_proj, x), c->head_dim, NULL));
  plim_tensor *keys = plim_split_heads(t, plim_linear_forward(t, &l->k_proj, x), c->head_dim, NULL);
  set(t, &k, mul_scalar(t, keys));
  set(t, &v, plim_split_heads(t, plim_linear_forward(t, &l->v_proj, x), c->head_dim, NULL));
  plim_apply_rope(t, held[PLIM_HELD_COS(c)], held[PLIM_HELD_SIN(c)], &q, &k);
  plim_tensor *out = plim_decoder_attended(t, l, &q, &k, &v, held, weights);
  drop_all(t, &q, &k, &v);
  let_go(t, x, was);
  return out;
}

// down_proj(up_proj(x) * act(gate_proj(x) * a)) * b
static plim_tensor *feed(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  plim_tensor *y = NULL;
  plim_tensor *up = plim_linear_forward(t, &l->up_proj, x);
  plim_tensor *gate = mul_scalar(t, plim_linear_forward(t, &l->gate_proj, x));
  set(t, &y, mul(t, up, plim_activate(t, l->m->c.activation, gate)));
  set(t, &y, mul_scalar(t, plim_linear_forward(t, &l->down_proj, y)));
  return give(t, &y);
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL, *mixed = NULL, *attended = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_rms_norm(t, x, l->input_norm));
  set(t, &mixed, plim_state_space_forward(t, l->mixer, &l->m->c, hidden, held[PLIM_HELD_PADDING]));
  set(t, &mixed, mul_scalar(t, mixed));
  set(t, &attended, self_attention(t, l, mul_scalar(t, hidden), held, &weights));
  set(t, &attended, mul_scalar(t, attended));
  set(t, &hidden, add(t, mixed, attended));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, plim_rms_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, feed(t, l, hidden));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &mixed, &attended, &weights);
  return out;
}

static plim_model *falcon_h1_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = plim_rms_norm,
      .embed = embed,
      .mixer = &plim_state_space_mixer,
      .paths = &plim_feed_forward_paths,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
      .order = {PLIM_BUILDS_FEEDING, PLIM_BUILDS_MIXING, PLIM_BUILDS_NORMS},
      .names_norm_first = true,
      .divides_logits = true,
      .kept_last_layer_until = UINT16_MAX, // layer_outputs
  };
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_falcon_h1 = {
    .model_type = "falcon_h1",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .build = falcon_h1_new,
    .unfollowed = plim_state_space_unfollowed,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 14336,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocabulary = 128000,
                 .positions = 8192,
                 .activation = PLIM_ACT_SILU,
                 .state_width = 1024,
                 .state_heads = 128,
                 .state_groups = 1,
                 .state_size = 256,
                 .state_kernel = 4,
                 .state_expansion = 2,
                 .state_chunk = 256,
                 .has_conv_bias = true,
                 .norms_before_gate = true},
    .mixes_beside_attention = true,
    .scales_states = true,
    .keeps_mask_arguments = true,
    .passes_positions_first = true,
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .lora_refuses = "out_proj",
    .axolotl_leaves = "out_proj",
    .faster_packages = "mamba-ssm and causal-conv1d",
    .packages = 1u << PLIM_PACKAGE_KERNELS,
    .first_release = PLIM_RELEASE(4, 53),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_GENERIC,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
