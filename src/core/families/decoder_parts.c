// The parts of a layer's forward that decoders share.
#include "decoder.h"

#include "liger.h"
#include "ops.h"

#include "op_names.h"

// ---- attention --------------------------------------------------------------------------------------

// One product, and three slices of it.
static void project_fused(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                          plim_tensor **q, plim_tensor **k, plim_tensor **v) {
  const plim_config *c = &l->m->c;
  int64_t d = c->head_dim, queries = c->heads * d, keys = queries + c->kv_heads * d;
  plim_tensor *all = NULL;
  set(t, &all, plim_linear_forward(t, &l->qkv_proj, x));
  set(t, q, slice(t, all, 2, 0, queries));
  set(t, k, slice(t, all, 2, queries, keys));
  set(t, v, slice(t, all, 2, keys, all->shape.at[2]));
  set(t, q, plim_split_heads(t, *q, d, NULL));
  set(t, k, plim_split_heads(t, *k, d, NULL));
  set(t, v, plim_split_heads(t, *v, d, NULL));
  drop(t, &all);
}

static void project(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x, plim_tensor **q,
                    plim_tensor **k, plim_tensor **v) {
  int64_t d = l->m->c.head_dim;
  set(t, q, plim_split_heads(t, plim_linear_forward(t, &l->q_proj, x), d, l->q_norm));
  set(t, k, plim_split_heads(t, plim_linear_forward(t, &l->k_proj, x), d, l->k_norm));
  set(t, v, plim_split_heads(t, plim_linear_forward(t, &l->v_proj, x), d, NULL));
}

static void turn(plim_tape *t, const plim_config *c, plim_tensor *const *held, plim_tensor **q,
                 plim_tensor **k) {
  plim_tensor *cos = held[PLIM_HELD_COS(c)], *sin = held[PLIM_HELD_SIN(c)];
  if (plim_tape_uses_liger(t)) plim_liger_rope(t, q, k, cos, sin);
  else if (c->family->turns_part_of_head) plim_apply_rope_parts(t, cos, sin, false, q, k);
  else plim_apply_rope(t, cos, sin, q, k);
}

plim_tensor *plim_decoder_attend(plim_tape *t, const plim_decoder_layer *l, plim_tensor **q,
                                 plim_tensor **k, plim_tensor **v, plim_tensor *const *held,
                                 plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_attending how = {.kind = l->m->attention,
                        .dropout_p = c->attention_dropout,
                        .is_capped = c->attention_softcap != 0};
  plim_tensor *out = NULL;
  set(t, &out, plim_attend(t, &how, *q, *k, *v, held[PLIM_HELD_MASK], weights));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, plim_linear_forward(t, &l->o_proj, out));
  drop_all(t, q, k, v);
  return give(t, &out);
}

plim_tensor *plim_decoder_attention(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                                    plim_tensor *const *held, plim_tensor **weights) {
  plim_tensor *q = NULL, *k = NULL, *v = NULL;
  if (l->qkv_proj.weight) project_fused(t, l, x, &q, &k, &v);
  else project(t, l, x, &q, &k, &v);
  turn(t, &l->m->c, held, &q, &k);
  return plim_decoder_attend(t, l, &q, &k, &v, held, weights);
}

// ---- the MLP ----------------------------------------------------------------------------------------

static plim_tensor *mlp_fused(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  plim_tensor *up = NULL, *gate = NULL;
  plim_tensor *both = plim_linear_forward(t, &l->gate_up_proj, x);
  split(t, both, &gate, &up);
  set(t, &up, mul(t, up, plim_activate(t, l->m->c.activation, gate)));
  plim_tensor *out = plim_linear_forward(t, &l->down_proj, up);
  drop_all(t, &up, &gate);
  return out;
}

plim_tensor *plim_decoder_mlp(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  if (l->experts.router) return plim_experts_forward(t, &l->experts, x);
  if (l->gate_up_proj.weight) return mlp_fused(t, l, x);
  bool is_fused = plim_tape_uses_liger(t);
  plim_tensor *gate = plim_linear_forward(t, &l->gate_proj, x);
  if (!is_fused) gate = plim_activate(t, l->m->c.activation, gate);
  plim_tensor *up = plim_linear_forward(t, &l->up_proj, x);
  plim_tensor *product = is_fused ? plim_liger_swiglu(t, gate, up) : mul(t, gate, up);
  return plim_linear_forward(t, &l->down_proj, product);
}
