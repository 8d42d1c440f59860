// The parts of a layer's forward that decoders share.
#include "decoder.h"

#include "liger.h"
#include "ops.h"
#include "tape_state.h"

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

// Norms of all heads at once, before they are told apart.
static void project_normed(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                           plim_tensor **q, plim_tensor **k, plim_tensor **v) {
  plim_tensor *(*norm)(plim_tape *, plim_tensor *, plim_tensor *) = l->m->code->norm;
  int64_t d = l->m->c.head_dim;
  set(t, q, norm(t, plim_linear_forward(t, &l->q_proj, x), l->q_norm)); // (B,T,H*D)
  set(t, k, norm(t, plim_linear_forward(t, &l->k_proj, x), l->k_norm));
  set(t, v, plim_linear_forward(t, &l->v_proj, x));
  set(t, q, plim_split_heads(t, *q, d, NULL)); // (B,H,T,D)
  set(t, k, plim_split_heads(t, *k, d, NULL));
  set(t, v, plim_split_heads(t, *v, d, NULL));
}

// All products first: some families, and all before 4.48.
static void project_first(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                          plim_tensor **q, plim_tensor **k, plim_tensor **v) {
  int64_t d = l->m->c.head_dim;
  set(t, q, plim_linear_forward(t, &l->q_proj, x));
  set(t, k, plim_linear_forward(t, &l->k_proj, x));
  set(t, v, plim_linear_forward(t, &l->v_proj, x));
  if (l->m->c.qkv_bound != 0) {
    set(t, q, clamp_in_place(t, *q));
    set(t, k, clamp_in_place(t, *k));
    set(t, v, clamp_in_place(t, *v));
  }
  set(t, q, plim_split_heads(t, *q, d, NULL));
  set(t, k, plim_split_heads(t, *k, d, NULL));
  set(t, v, plim_split_heads(t, *v, d, NULL));
}

static void project(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x, plim_tensor **q,
                    plim_tensor **k, plim_tensor **v) {
  bool is_normed_first = l->m->c.family->qk_norm == PLIM_QK_NORM_HEADS;
  plim_tensor *q_norm = is_normed_first ? l->q_norm : NULL;
  plim_tensor *k_norm = is_normed_first ? l->k_norm : NULL;
  int64_t d = l->m->c.head_dim;
  set(t, q, plim_split_heads(t, plim_linear_forward(t, &l->q_proj, x), d, q_norm));
  set(t, k, plim_split_heads(t, plim_linear_forward(t, &l->k_proj, x), d, k_norm));
  set(t, v, plim_split_heads(t, plim_linear_forward(t, &l->v_proj, x), d, NULL));
  if (!l->q_norm || is_normed_first || l->m->c.family->qk_norm == PLIM_QK_NORM_LATE) return;
  set(t, q, l->m->code->norm(t, *q, l->q_norm));
  set(t, k, l->m->code->norm(t, *k, l->k_norm));
}

static plim_tensor *view_heads(plim_tape *t, const plim_linear *projection, plim_tensor *x,
                               int64_t head_dim) {
  plim_tensor *all = plim_linear_forward(t, projection, x);
  return view(t, all, dims(all->shape.at[0], all->shape.at[1], -1, head_dim));
}

static void project_then_norm(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                              plim_tensor **q, plim_tensor **k, plim_tensor **v) {
  int64_t d = l->m->c.head_dim;
  set(t, q, view_heads(t, &l->q_proj, x, d)); // (B,T,H,D)
  set(t, k, view_heads(t, &l->k_proj, x, d));
  set(t, v, view_heads(t, &l->v_proj, x, d));
  if (l->q_norm) set(t, q, plim_rms_norm(t, *q, l->q_norm));
  if (l->k_norm) set(t, k, plim_rms_norm(t, *k, l->k_norm));
  set(t, q, transpose(t, *q, 1, 2)); // (B,H,T,D)
  set(t, k, transpose(t, *k, 1, 2));
  set(t, v, transpose(t, *v, 1, 2));
}

bool plim_decoder_turns_in_layers(const plim_tape *t, const plim_config *c) {
  plim_old_rotary kind = c->family->old_rotary;
  bool in_layers = kind == PLIM_OLD_ROTARY_LAYERS || kind == PLIM_OLD_ROTARY_CACHED;
  return in_layers && !plim_transformers_from(t, 4, 48);
}

static void turn(plim_tape *t, const plim_decoder *m, plim_tensor *cos, plim_tensor *sin,
                 plim_tensor **q, plim_tensor **k, plim_rope_parts *parts) {
  const plim_config *c = &m->c;
  if (m->code->keeps_parts) plim_apply_rope_keeping(t, cos, sin, parts, q, k);
  else if (m->code->joins_at_once) plim_apply_rope_at_once(t, cos, sin, q, k);
  else if (plim_tape_uses_liger(t)) plim_liger_rope(t, q, k, cos, sin);
  else if (c->family->has_half_rotary) plim_apply_half_rope(t, cos, sin, q, k);
  else if (c->family->turns_all_neighbours)
    plim_apply_rope_to_all_neighbours(t, cos, sin, c->family->has_wide_rotary, q, k);
  else if (c->family->turns_neighbours_wide) plim_apply_wide_rope_to_neighbours(t, cos, sin, q, k);
  else if (c->family->turns_neighbours)
    plim_apply_rope_to_neighbours(t, cos, sin, c->family->has_paired_angles, q, k);
  else if (c->family->turns_part_of_head && plim_transformers_from(t, 4, 49))
    plim_apply_rope_parts(t, cos, sin, c->family->joins_parts_last, q, k);
  else if (c->family->has_wide_rotary) plim_apply_wide_rope(t, cos, sin, q, k);
  else plim_apply_rope(t, cos, sin, q, k);
}

// Attention before 4.48: the layer repeats keys and values itself and keeps only the repeated ones; a mask makes it
// copy what is not contiguous.
static plim_tensor *attend_before(plim_tape *t, const plim_attending *how, plim_tensor **q,
                                  plim_tensor **k, plim_tensor **v, plim_tensor *mask,
                                  plim_tensor **weights) {
  int64_t groups = (*q)->shape.at[1] / (*k)->shape.at[1];
  set(t, k, plim_repeat_kv(t, *k, groups));
  set(t, v, plim_repeat_kv(t, *v, groups));
  if (mask && how->kind == PLIM_ATTENTION_SDPA) {
    set(t, q, contiguous(t, *q));
    set(t, k, contiguous(t, *k));
    set(t, v, contiguous(t, *v));
  }
  return plim_attend(t, how, *q, *k, *v, mask, weights);
}

void plim_decoder_scale_queries(plim_tape *t, plim_tensor *positions, plim_tensor **q) {
  enum { OPERATORS = 6 };
  int64_t length = positions->shape.at[1];
  plim_tensor *scale = empty(t, dims(1, length), PLIM_FP32);
  for (int i = 1; i < OPERATORS; i++) {
    plim_tensor *next = empty(t, dims(1, length), PLIM_FP32);
    plim_consume(t, scale);
    scale = next;
  }
  scale = to(t, view(t, scale, dims(1, 1, length, 1)), (plim_dtype)(*q)->dtype);
  set(t, q, mul(t, *q, scale));
}

plim_tensor *plim_decoder_attended(plim_tape *t, const plim_decoder_layer *l, plim_tensor **q,
                                   plim_tensor **k, plim_tensor **v, plim_tensor *const *held,
                                   plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_attending how = {.kind = l->m->attention,
                        .dropout_p = c->attention_dropout,
                        .sinks = l->sinks,
                        .softmax = l->m->code->softmax,
                        .is_capped = c->attention_softcap != 0};
  bool is_before = !plim_transformers_from(t, 4, 48);
  plim_tensor *out = NULL, *kept = NULL, *mask = held[PLIM_HELD_MASK];
  set(t, &out,
      is_before ? attend_before(t, &how, q, k, v, mask, weights)
                : plim_attend(t, &how, *q, *k, *v, mask, weights));
  set(t, &out, plim_join_heads(t, out));
  if (l->m->code->keeps_attended) set(t, &kept, out);
  set(t, &out, plim_linear_forward(t, &l->o_proj, out));
  if (l->m->code->drops_inside) set(t, &out, dropout(t, out, c->dropout));
  if (is_before) drop(t, weights);
  if (kept) drop_all(t, q, k, v, &kept);
  return give(t, &out);
}

plim_tensor *plim_decoder_attend(plim_tape *t, const plim_decoder_layer *l, plim_tensor **q,
                                 plim_tensor **k, plim_tensor **v, plim_tensor *const *held,
                                 plim_tensor **weights) {
  plim_tensor *out = plim_decoder_attended(t, l, q, k, v, held, weights);
  drop_all(t, q, k, v);
  return out;
}

plim_tensor *plim_decoder_attention(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                                    plim_tensor *const *held, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *cos = NULL, *sin = NULL;
  plim_rope_parts parts = {0};
  if (l->latent.kv_a_norm) return plim_latent_attention(t, l, x, held, weights);
  if (l->qkv_proj.weight) project_fused(t, l, x, &q, &k, &v);
  else if (l->m->c.family->qk_norm == PLIM_QK_NORM_WIDTH) project_normed(t, l, x, &q, &k, &v);
  else if (l->m->code->views_first) project_then_norm(t, l, x, &q, &k, &v);
  else if (l->m->code->projects_first || !plim_transformers_from(t, 4, 48))
    project_first(t, l, x, &q, &k, &v);
  else if (l->q_norm && c->family->qk_norm == PLIM_QK_NORM_ASKED)
    project_then_norm(t, l, x, &q, &k, &v);
  else project(t, l, x, &q, &k, &v);
  if (l->rope.cos)
    plim_cached_rotary(t, &l->rope, held[PLIM_HELD_POSITIONS(c)], (plim_dtype)v->dtype, &cos, &sin);
  else if (plim_decoder_turns_in_layers(t, c))
    plim_layer_rotary(t, l->rope.inv_freq, x->shape.at[1], (plim_dtype)v->dtype, &cos, &sin);
  if (plim_config_turns(c, l - l->m->layers))
    turn(t, l->m, cos ? cos : held[PLIM_HELD_COS(c)], sin ? sin : held[PLIM_HELD_SIN(c)], &q, &k,
         &parts);
  if (c->family->qk_norm == PLIM_QK_NORM_LATE) {
    set(t, &q, l->m->code->norm(t, q, l->q_norm));
    set(t, &k, l->m->code->norm(t, k, l->k_norm));
  }
  if (c->family->scales_queries) plim_decoder_scale_queries(t, held[PLIM_HELD_POSITIONS(c)], &q);
  plim_tensor *out = plim_decoder_attend(t, l, &q, &k, &v, held, weights);
  drop_all(t, &cos, &sin, &parts.q_part, &parts.q_rest, &parts.k_part, &parts.k_rest);
  return out;
}

// ---- the MLP ----------------------------------------------------------------------------------------

static plim_tensor *mlp_fused(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  plim_tensor *up = NULL, *gate = NULL;
  plim_tensor *both = plim_linear_forward(t, &l->gate_up_proj, x);
  split(t, both, &gate, &up);
  if (plim_tape_uses_liger(t)) // LigerPhi3SwiGLUMLP; its function copies what is not contiguous
    set(t, &up, plim_liger_swiglu(t, contiguous(t, gate), contiguous(t, up)));
  else set(t, &up, mul(t, up, plim_activate(t, l->m->c.activation, gate)));
  plim_tensor *out = plim_linear_forward(t, &l->down_proj, up);
  drop_all(t, &up, &gate);
  return out;
}

static plim_tensor *mlp_plain(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  plim_tensor *up = plim_linear_forward(t, &l->up_proj, x);
  plim_tensor *active = l->m->code->activate ? l->m->code->activate(t, l, up)
                                             : plim_activate(t, l->m->c.activation, up);
  return plim_linear_forward(t, &l->down_proj, active);
}

static plim_tensor *mlp(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  if (l->experts.kind) return plim_experts_forward(t, &l->experts, x, NULL);
  if (l->gate_up_proj.weight) return mlp_fused(t, l, x);
  if (l->m->code->has_plain_mlp) return mlp_plain(t, l, x);
  return plim_gated_mlp(t, l->m->c.activation, &l->gate_proj, &l->up_proj, &l->down_proj, x);
}

plim_tensor *plim_decoder_mlp(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  if (!l->m->code->drops_inside) return mlp(t, l, x);
  plim_tensor *out = NULL;
  set(t, &out, mlp(t, l, x));
  set(t, &out, dropout(t, out, l->m->c.dropout));
  return give(t, &out);
}

// ---- layers -----------------------------------------------------------------------------------------

plim_tensor *plim_decoder_input_norm(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  const plim_decoder_code *code = l->m->code;
  if (code->biased_norm) return code->biased_norm(t, &l->input_layer_norm, x);
  return code->norm(t, x, l->input_norm);
}

plim_tensor *plim_decoder_mlp_norm(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  const plim_decoder_code *code = l->m->code;
  if (code->biased_norm) return code->biased_norm(t, &l->post_attention_layer_norm, x);
  return code->norm(t, x, l->post_attention_norm);
}

plim_tensor *plim_decoder_prenorm_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                                        plim_tensor *x) {
  const plim_decoder_layer *l = context;
  double dropped = l->m->c.family->has_residual_dropout ? l->m->c.dropout : 0;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_decoder_input_norm(t, l, x));
  set(t, &hidden, plim_decoder_attention(t, l, hidden, held, &weights));
  set(t, &hidden, add(t, residual, dropout(t, hidden, dropped)));
  set(t, &residual, hidden);
  set(t, &hidden, plim_decoder_mlp_norm(t, l, hidden));
  set(t, &hidden, plim_decoder_mlp(t, l, hidden));
  set(t, &hidden, add(t, residual, dropout(t, hidden, dropped)));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

plim_tensor *plim_decoder_postnorm_layer(plim_tape *t, const void *context,
                                         plim_tensor *const *held, plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_decoder_attention(t, l, x, held, &weights));
  set(t, &hidden, l->m->code->norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, plim_decoder_mlp(t, l, hidden));
  set(t, &hidden, l->m->code->norm(t, hidden, l->post_mlp_norm));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

plim_tensor *plim_decoder_sandwich_layer(plim_tape *t, const void *context,
                                         plim_tensor *const *held, plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, l->m->code->norm(t, x, l->input_norm));
  set(t, &hidden, plim_decoder_attention(t, l, hidden, held, &weights));
  set(t, &hidden, l->m->code->norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, l->m->code->norm(t, hidden, l->pre_mlp_norm));
  set(t, &hidden, plim_decoder_mlp(t, l, hidden));
  set(t, &hidden, l->m->code->norm(t, hidden, l->post_mlp_norm));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}
