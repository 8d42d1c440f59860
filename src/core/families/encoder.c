#include "encoder.h"

#include "kernels.h"
#include "loss.h"
#include "ops.h"

// ---- norms and outputs ----------------------------------------------------------------------------

plim_norm plim_norm_new(plim_tape *t, plim_model *m, int64_t width, plim_dtype dtype) {
  plim_norm n = {.weight = plim_model_parameter(t, m, dims(width), dtype)};
  n.bias = plim_model_parameter(t, m, dims(width), dtype);
  return n;
}

plim_tensor *plim_norm_forward(plim_tape *t, const plim_norm *n, plim_tensor *x) {
  return layer_norm(t, x, n->weight, n->bias);
}

plim_encoder_output plim_encoder_output_new(plim_tape *t, plim_model *m, int64_t out, int64_t in,
                                            plim_dtype dtype) {
  plim_encoder_output o = {.dense = plim_linear_new(t, m, out, in, true, dtype)};
  o.norm = plim_norm_new(t, m, out, dtype);
  return o;
}

plim_tensor *plim_encoder_output_forward(plim_tape *t, const plim_encoder_output *o, plim_tensor *x,
                                         plim_tensor *residual, double dropout_p) {
  plim_tensor *hidden = NULL;
  set(t, &hidden, plim_linear_forward(t, &o->dense, x));
  set(t, &hidden, dropout(t, hidden, dropout_p));
  set(t, &hidden, plim_norm_forward(t, &o->norm, add(t, hidden, residual)));
  return give(t, &hidden);
}

// ---- positions ------------------------------------------------------------------------------------

// torch.cumsum(x, dim=1) of int32: the result, then the input as int64.
static plim_tensor *running_sum(plim_tape *t, const plim_tensor *x) {
  plim_tensor *out = empty(t, x->shape, PLIM_I64), *wide = empty(t, x->shape, PLIM_I64);
  if (x->shape.at[0] == 1) plim_consume(t, scratch(t, 1279)); // cub's scan, read off recordings
  plim_consume(t, wide);
  return out;
}

plim_tensor *plim_positions_from_ids(plim_tape *t, plim_tensor *ids, bool adds_past) {
  plim_tensor *is_token = NULL, *counted = NULL;
  plim_tensor *differs = k_binary_as(t, ids, NULL, PLIM_BOOL);
  set(t, &is_token, to(t, differs, PLIM_I32));
  plim_tensor *sums = to(t, running_sum(t, is_token), PLIM_I32);
  if (adds_past) sums = add_scalar(t, sums);
  set(t, &counted, mul(t, sums, is_token));
  plim_tensor *positions = add_scalar(t, to(t, counted, PLIM_I64));
  drop(t, &is_token);
  drop(t, &counted);
  return positions;
}

// ---- heads ----------------------------------------------------------------------------------------

plim_tensor *plim_pooler_forward(plim_tape *t, const plim_linear *pooler, plim_tensor *hidden) {
  plim_tensor *first = NULL, *pooled = NULL;
  set(t, &first, select_first(t, hidden, 1));
  set(t, &pooled, plim_linear_forward(t, pooler, first));
  set(t, &pooled, tanh_(t, pooled));
  drop(t, &first);
  return give(t, &pooled);
}

// A module's own parameters come before those of its parts.
static void put_last_parameter_at(plim_model *m, size_t index) {
  plim_tensor *last = m->parameters.at[m->parameters.len - 1];
  for (size_t i = m->parameters.len - 1; i > index; i--)
    m->parameters.at[i] = m->parameters.at[i - 1];
  m->parameters.at[index] = last;
}

// The projection is made with a weight and a bias of its own, and the head with another bias; tying
// lets go of the weight, and pads the bias twice, by nothing.
static void tie(plim_tape *t, plim_model *m, plim_masked_head *h, plim_tensor *words) {
  plim_dims shape = dims(words->shape.at[0]);
  plim_dtype dtype = (plim_dtype)words->dtype;
  plim_tensor *weight = empty(t, words->shape, dtype);
  plim_tensor *first = empty(t, shape, dtype), *second = empty(t, shape, dtype);
  plim_consume(t, weight);
  plim_tensor *padded = empty(t, shape, dtype);
  plim_consume(t, first);
  plim_consume(t, padded);
  h->weight = words;
  h->bias = plim_model_parameter(t, m, shape, dtype);
  plim_consume(t, second);
}

plim_masked_head plim_masked_head_new(plim_tape *t, plim_model *m, plim_tensor *words,
                                      bool is_tied) {
  int64_t rows = words->shape.at[0], width = words->shape.at[1];
  plim_dtype dtype = (plim_dtype)words->dtype;
  size_t index = m->parameters.len;
  plim_masked_head h = {.dense = plim_linear_new(t, m, width, width, true, dtype)};
  h.norm = plim_norm_new(t, m, width, dtype);
  if (is_tied) tie(t, m, &h, words);
  else {
    h.weight = plim_model_parameter(t, m, words->shape, dtype);
    h.bias = plim_model_parameter(t, m, dims(rows), dtype);
    plim_model_parameter(t, m, dims(rows), dtype); // the head's own, which nothing uses
  }
  if (!m->failed) put_last_parameter_at(m, index);
  return h;
}

plim_tensor *plim_masked_head_forward(plim_tape *t, const plim_masked_head *h, plim_tensor *hidden,
                                      const plim_batch *batch, plim_tensor **logits) {
  plim_tensor *scores = NULL;
  bool was = hold(hidden);
  set(t, &scores, plim_linear_forward(t, &h->dense, hidden));
  set(t, &scores, gelu(t, scores));
  set(t, &scores, plim_norm_forward(t, &h->norm, scores));
  set(t, &scores, linear(t, scores, h->weight, h->bias));
  plim_tensor *loss = masked_loss(t, scores, batch->labels);
  set(t, logits, give(t, &scores));
  let_go(t, hidden, was);
  return loss;
}
