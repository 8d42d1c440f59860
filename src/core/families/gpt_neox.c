#include "gpt_neox.h"

#include <stdlib.h>

#include "modules.h"
#include "ops.h"

typedef struct {
  plim_tensor *weight, *bias;
} norm;

typedef struct {
  norm input_norm, post_attention_norm;
  plim_linear query_key_value, dense, up, down;
} layer;

typedef struct layer_call {
  const struct plim_gpt_neox *m;
  const layer *l;
  plim_attention_kind attention;
} layer_call;

typedef struct plim_gpt_neox {
  plim_model model;
  plim_config c;
  plim_tensor *embed_in, *inv_freq, *original_inv_freq, *embed_out;
  layer *layers;
  layer_call *calls; // one per layer
  norm final_norm;
} plim_gpt_neox;

// ---- construction ---------------------------------------------------------------------------------

static norm norm_new(plim_tape *t, plim_gpt_neox *m, plim_dtype d) {
  norm n = {.weight = plim_model_parameter(t, &m->model, dims(m->c.hidden), d)};
  n.bias = plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
  return n;
}

static layer layer_new(plim_tape *t, plim_gpt_neox *m, plim_dtype d) {
  int64_t h = m->c.hidden, i = m->c.intermediate;
  layer l = {.input_norm = norm_new(t, m, d)};
  l.post_attention_norm = norm_new(t, m, d);
  l.query_key_value = plim_linear_new(t, &m->model, 3 * h, h, true, d);
  l.dense = plim_linear_new(t, &m->model, h, h, true, d);
  l.up = plim_linear_new(t, &m->model, i, h, true, d);
  l.down = plim_linear_new(t, &m->model, h, i, true, d);
  return l;
}

static void build(plim_tape *t, plim_gpt_neox *m, plim_dtype d) {
  plim_dims table = dims(m->c.vocabulary, m->c.hidden);
  int64_t turned = (int64_t)((double)(m->c.hidden / m->c.heads) * m->c.rotary_share);
  m->embed_in = plim_model_parameter(t, &m->model, table, d);
  for (int64_t i = 0; i < m->c.layers; i++) m->layers[i] = layer_new(t, m, d);
  m->final_norm = norm_new(t, m, d);
  set(t, &m->inv_freq, plim_inverse_frequencies(t, turned / 2));
  set(t, &m->original_inv_freq, empty(t, dims(turned / 2), PLIM_FP32));
  plim_consume(t, plim_inverse_frequencies(t, turned / 2)); // made again at initialisation
  m->embed_out = plim_model_parameter(t, &m->model, table, d);
}

static void visit_pair(plim_tensor *bias, plim_tensor *weight, void (*visit)(void *, plim_tensor *),
                       void *context) {
  visit(context, bias);
  visit(context, weight);
}

static void visit_layer(const layer *l, void (*visit)(void *, plim_tensor *), void *context) {
  visit_pair(l->dense.bias, l->dense.weight, visit, context);
  visit_pair(l->query_key_value.bias, l->query_key_value.weight, visit, context);
  visit_pair(l->input_norm.bias, l->input_norm.weight, visit, context);
  visit_pair(l->down.bias, l->down.weight, visit, context);
  visit_pair(l->up.bias, l->up.weight, visit, context);
  visit_pair(l->post_attention_norm.bias, l->post_attention_norm.weight, visit, context);
}

static void in_name_order(plim_model *model, void (*visit)(void *, plim_tensor *), void *context) {
  plim_gpt_neox *m = (plim_gpt_neox *)model;
  visit(context, m->embed_out);
  visit(context, m->embed_in);
  visit_pair(m->final_norm.bias, m->final_norm.weight, visit, context);
  for (int64_t i = 0; i < m->c.layers; i++) visit_layer(&m->layers[i], visit, context);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_gpt_neox *m = (plim_gpt_neox *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->c.layers; i++) {
    layer *l = &m->layers[i];
    plim_lora_target(t, model, &l->query_key_value, PLIM_QUERY_KEY_VALUE, lora);
    plim_lora_target(t, model, &l->dense, PLIM_DENSE, lora);
    plim_lora_target(t, model, &l->up, PLIM_DENSE_H_TO_4H, lora);
    plim_lora_target(t, model, &l->down, PLIM_DENSE_4H_TO_H, lora);
  }
  plim_lora_end(t, model, lora);
}

static void destroy(plim_model *model) {
  plim_gpt_neox *m = (plim_gpt_neox *)model;
  free(m->layers);
  free(m->calls);
  free(m);
}

// ---- forward --------------------------------------------------------------------------------------

static plim_tensor *apply_norm(plim_tape *t, const norm *n, plim_tensor *x) {
  return layer_norm(t, x, n->weight, n->bias);
}

// The first part of each head is turned; the rest is put behind it when both are.
static void turn(plim_tape *t, plim_tensor **q, plim_tensor **k, plim_tensor *cos,
                 plim_tensor *sin) {
  int64_t width = cos->shape.at[2], head_dim = (*q)->shape.at[3];
  plim_tensor *c = NULL, *s = NULL, *q_part = NULL, *q_rest = NULL, *k_part = NULL, *k_rest = NULL;
  plim_tensor *new_q = NULL, *new_k = NULL;
  set(t, &c, unsqueeze(t, cos, 1));
  set(t, &s, unsqueeze(t, sin, 1));
  set(t, &q_part, slice(t, *q, 3, 0, width));
  set(t, &q_rest, slice(t, *q, 3, width, head_dim));
  set(t, &k_part, slice(t, *k, 3, 0, width));
  set(t, &k_rest, slice(t, *k, 3, width, head_dim));
  set(t, &new_q, plim_rope(t, q_part, c, s));
  set(t, &new_k, plim_rope(t, k_part, c, s));
  set(t, &new_q, cat2(t, new_q, q_rest, 3));
  set(t, &new_k, cat2(t, new_k, k_rest, 3));
  plim_tensor **gone[] = {&c, &s, &q_part, &q_rest, &k_part, &k_rest};
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) drop(t, gone[i]);
  set(t, q, give(t, &new_q));
  set(t, k, give(t, &new_k));
}

enum { HELD_MASK, HELD_POSITIONS, HELD_SIN, HELD_COS }; // in the order they go

static plim_tensor *self_attention(plim_tape *t, const layer_call *call, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  int64_t batch = x->shape.at[0], length = x->shape.at[1];
  int64_t head_dim = call->m->c.hidden / call->m->c.heads;
  plim_tensor *qkv = NULL, *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  bool was = hold(x);
  plim_tensor *all = plim_linear_forward(t, &call->l->query_key_value, x);
  set(t, &qkv, transpose(t, view(t, all, dims(batch, length, -1, 3 * head_dim)), 1, 2));
  split(t, qkv, (plim_tensor * *[]){&q, &k, &v}, 3);
  turn(t, &q, &k, held[HELD_COS], held[HELD_SIN]);
  set(t, &out,
      plim_attend(t, call->attention, q, k, v, held[HELD_MASK], call->m->c.attention_dropout,
                  weights));
  set(t, &out, contiguous(t, reshape(t, out, dims(batch, length, -1))));
  set(t, &out, plim_linear_forward(t, &call->l->dense, out));
  plim_tensor **gone[] = {&qkv, &q, &k, &v};
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) drop(t, gone[i]);
  plim_tensor *result = give(t, &out);
  let_go(t, x, was);
  return result;
}

static plim_tensor *mlp(plim_tape *t, const layer *l, plim_tensor *x) {
  plim_tensor *hidden = NULL;
  bool was = hold(x);
  set(t, &hidden, plim_linear_forward(t, &l->up, x));
  set(t, &hidden, gelu(t, hidden));
  set(t, &hidden, plim_linear_forward(t, &l->down, hidden));
  plim_tensor *out = give(t, &hidden);
  let_go(t, x, was);
  return out;
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer_call *call = context;
  plim_tensor *attended = NULL, *fed = NULL, *weights = NULL;
  plim_tensor *normed = apply_norm(t, &call->l->input_norm, x);
  set(t, &attended, self_attention(t, call, normed, held, &weights));
  set(t, &attended, dropout(t, attended, call->m->c.dropout));
  normed = apply_norm(t, &call->l->post_attention_norm, x);
  set(t, &fed, mlp(t, call->l, normed));
  set(t, &fed, dropout(t, fed, call->m->c.dropout));
  plim_tensor *out = add(t, add(t, fed, attended), x);
  drop(t, &attended);
  drop(t, &weights);
  drop(t, &fed);
  return out;
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_gpt_neox *m = (plim_gpt_neox *)model;
  int64_t length = batch->ids->shape.at[1];
  plim_tensor *embedded = NULL, *positions = NULL, *hidden = NULL;
  plim_tensor *mask = NULL, *cos = NULL, *sin = NULL;
  set(t, &embedded, embedding(t, m->embed_in, batch->ids));
  if (batch->checkpoint) embedded->requires_grad = true; // enable_input_require_grads
  set(t, &positions, add_scalar(t, empty(t, dims(length), PLIM_I64)));
  set(t, &positions, unsqueeze(t, positions, 0));
  set(t, &mask,
      plim_causal_mask(t, batch->attention, batch->mask_kind, embedded, positions, batch->mask));
  set(t, &hidden, dropout(t, embedded, m->c.dropout));
  plim_rotary(t, m->inv_freq, length, (plim_dtype)hidden->dtype, &cos, &sin);
  for (int64_t i = 0; i < m->c.layers; i++) {
    m->calls[i] = (layer_call){m, &m->layers[i], batch->attention};
    plim_closure call = {run_layer, &m->calls[i], {mask, positions, sin, cos}};
    set(t, &hidden, plim_call_layer(t, batch->checkpoint, call, hidden));
  }
  set(t, &hidden, apply_norm(t, &m->final_norm, hidden));
  plim_tensor *out = give(t, &hidden);
  plim_tensor **gone[] = {&positions, &embedded, &mask, &sin, &cos};
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) drop(t, gone[i]);
  return out;
}

static plim_tensor *forward(plim_tape *t, plim_model *model, const plim_batch *batch,
                            plim_tensor **logits) {
  plim_gpt_neox *m = (plim_gpt_neox *)model;
  return plim_causal_head(t, model_forward(t, model, batch), m->embed_out, batch, logits);
}

// ---- the family -----------------------------------------------------------------------------------

plim_model *plim_gpt_neox_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_gpt_neox *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->model = (plim_model){.forward = forward,
                          .inner = model_forward,
                          .add_lora = add_lora,
                          .in_name_order = in_name_order,
                          .destroy = destroy};
  m->c = *config;
  m->layers = calloc((size_t)config->layers, sizeof *m->layers);
  m->calls = calloc((size_t)config->layers, sizeof *m->calls);
  if (m->layers && m->calls) build(t, m, dtype);
  else m->model.failed = true;
  m->model.head = m->embed_out;
  return plim_model_finish(&m->model);
}
