#include "latent.h"

#include "decoder.h"
#include "ops.h"

#include "op_names.h"

// ---- construction -----------------------------------------------------------------------------------

static void add_queries(plim_tape *t, plim_model *m, const plim_config *c, plim_dtype d,
                        plim_decoder_layer *l) {
  int64_t h = c->hidden, rank = c->query_rank, width = c->heads * c->head_dim;
  if (!rank) {
    l->q_proj = plim_linear_new(t, m, "self_attn.q_proj", width, h, false, d);
    return;
  }
  plim_latent *a = &l->latent;
  a->q_a_proj = plim_linear_new(t, m, "self_attn.q_a_proj", rank, h, c->has_attention_bias, d);
  a->q_a_norm = plim_model_parameter(t, m, dims(rank), d);
  a->q_b_proj = plim_linear_new(t, m, "self_attn.q_b_proj", width, rank, false, d);
}

void plim_latent_new(plim_tape *t, plim_model *m, const plim_config *c, plim_dtype d,
                     plim_decoder_layer *l) {
  int64_t h = c->hidden, rank = c->key_rank, plain = c->plain_width;
  bool biased = c->has_attention_bias;
  plim_latent *a = &l->latent;
  add_queries(t, m, c, d, l);
  a->kv_a_proj =
      plim_linear_new(t, m, "self_attn.kv_a_proj_with_mqa", rank + c->rotary_width, h, biased, d);
  a->kv_a_norm = plim_model_parameter(t, m, dims(rank), d);
  a->kv_b_proj = plim_linear_new(t, m, "self_attn.kv_b_proj", c->heads * (plain + c->value_dim),
                                 rank, false, d);
  l->o_proj = plim_linear_new(t, m, "self_attn.o_proj", h, c->heads * c->value_dim, biased, d);
}

void plim_latent_visit(const plim_latent *a, bool after, plim_visit *visit, void *context) {
  if (!a->kv_a_norm) return;
  if (!after) {
    visit(context, a->kv_a_norm);
    plim_linear_visit(&a->kv_a_proj, visit, context);
    plim_linear_visit(&a->kv_b_proj, visit, context);
    return;
  }
  if (a->q_a_norm) visit(context, a->q_a_norm);
  plim_linear_visit(&a->q_a_proj, visit, context);
  plim_linear_visit(&a->q_b_proj, visit, context);
}

// ---- forward ----------------------------------------------------------------------------------------

static plim_tensor *queries(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  const plim_latent *a = &l->latent;
  if (!a->q_a_norm) return plim_linear_forward(t, &l->q_proj, x);
  plim_tensor *narrow = plim_linear_forward(t, &a->q_a_proj, x);
  return plim_linear_forward(t, &a->q_b_proj, plim_rms_norm(t, narrow, a->q_a_norm));
}

static void split_at(plim_tape *t, plim_tensor *x, int64_t at, plim_tensor **first,
                     plim_tensor **second) {
  int last = x->shape.n - 1;
  split_sizes(t, x, last, ((int64_t[]){at, x->shape.at[last] - at}), first, second);
}

// Keys and values of all heads from the latent, (B,1,T,rank), and the rotated part, (B,1,T,D').
static void expand_latent(plim_tape *t, const plim_decoder_layer *l, plim_tensor *latent,
                          plim_tensor *turned, plim_tensor **keys, plim_tensor **values) {
  const plim_config *c = &l->m->c;
  int64_t batch = latent->shape.at[0], length = latent->shape.at[2];
  int64_t plain = c->plain_width, width = plain + c->value_dim;
  plim_tensor *both = NULL, *k_plain = NULL, *k_turned = NULL;
  set(t, &both, plim_linear_forward(t, &l->latent.kv_b_proj, latent));
  set(t, &both, transpose(t, view(t, both, dims(batch, length, -1, width)), 1, 2));
  split_at(t, both, plain, &k_plain, values);
  set(t, &k_turned, expand(t, turned, dims(-1, c->heads, -1, -1)));
  set(t, keys, empty(t, dims(batch, c->heads, length, c->head_dim), (plim_dtype)both->dtype));
  copy_into(t, *keys, k_plain);
  copy_into(t, *keys, k_turned);
  drop_all(t, &both, &k_turned, &k_plain);
}

static void turn(plim_tape *t, const plim_config *c, plim_tensor *const *held, plim_tensor **q,
                 plim_tensor **k) {
  plim_tensor *cos = held[PLIM_HELD_COS(c)], *sin = held[PLIM_HELD_SIN(c)];
  if (c->family->has_complex_rotary) plim_apply_complex_rope(t, cos, q, k);
  else if (c->has_interleaved_rotary) plim_apply_interleaved_rope(t, cos, sin, q, k);
  else plim_apply_rope(t, cos, sin, q, k);
}

plim_tensor *plim_latent_attention(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  int64_t batch = x->shape.at[0], length = x->shape.at[1];
  plim_tensor *all = NULL, *q_plain = NULL, *q_turned = NULL, *narrow = NULL, *latent = NULL;
  plim_tensor *k_turned = NULL, *q = NULL, *k = NULL, *v = NULL;
  bool was = hold(x);
  set(t, &all, queries(t, l, x));
  set(t, &all, plim_split_heads(t, all, c->head_dim, NULL)); // (B,H,T,D)
  split_at(t, all, c->plain_width, &q_plain, &q_turned);
  set(t, &narrow, plim_linear_forward(t, &l->latent.kv_a_proj, x));
  split_at(t, narrow, c->key_rank, &latent, &k_turned);
  set(t, &latent, plim_rms_norm(t, latent, l->latent.kv_a_norm));
  set(t, &latent, view(t, latent, dims(batch, 1, length, -1)));
  set(t, &k_turned, view(t, k_turned, dims(batch, 1, length, -1)));
  turn(t, c, held, &q_turned, &k_turned);
  set(t, &q, cat2(t, q_plain, q_turned, 3));
  if (c->family->scales_queries) plim_decoder_scale_queries(t, held[PLIM_HELD_POSITIONS(c)], &q);
  expand_latent(t, l, latent, k_turned, &k, &v);
  plim_tensor *out = plim_decoder_attended(t, l, &q, &k, &v, held, weights);
  let_go(t, x, was);
  drop_all(t, &all, &q_plain, &q_turned, &narrow);
  if (c->family->keeps_latent_apart) drop(t, &k_turned);
  drop_all(t, &latent, &k_turned, &q, &k, &v);
  return out;
}
