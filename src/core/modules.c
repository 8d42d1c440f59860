#include "modules.h"

#include <stdlib.h>

#include "attention.h"
#include "flash_attention.h"
#include "kernels.h"
#include "liger.h"
#include "loss.h"
#include "ops.h"
#include "quantised.h"
#include "sharding.h"
#include "tape_impl.h"

const char *const plim_projection_names[PLIM_PROJECTIONS] = {
    [PLIM_Q_PROJ] = "q_proj",
    [PLIM_K_PROJ] = "k_proj",
    [PLIM_V_PROJ] = "v_proj",
    [PLIM_O_PROJ] = "o_proj",
    [PLIM_QKV_PROJ] = "qkv_proj",
    [PLIM_GATE_PROJ] = "gate_proj",
    [PLIM_UP_PROJ] = "up_proj",
    [PLIM_GATE_UP_PROJ] = "gate_up_proj",
    [PLIM_DOWN_PROJ] = "down_proj",
    [PLIM_C_ATTN] = "c_attn",
    [PLIM_C_PROJ] = "c_proj",
    [PLIM_C_FC] = "c_fc",
    [PLIM_QUERY_KEY_VALUE] = "query_key_value",
    [PLIM_DENSE] = "dense",
    [PLIM_DENSE_H_TO_4H] = "dense_h_to_4h",
    [PLIM_DENSE_4H_TO_H] = "dense_4h_to_h",
    [PLIM_QUERY] = "query",
    [PLIM_KEY] = "key",
    [PLIM_VALUE] = "value",
    [PLIM_Q] = "q",
    [PLIM_K] = "k",
    [PLIM_V] = "v",
    [PLIM_O] = "o",
    [PLIM_WI] = "wi",
    [PLIM_WI_0] = "wi_0",
    [PLIM_WI_1] = "wi_1",
    [PLIM_WO] = "wo",
};

// ---- models ---------------------------------------------------------------------------------------

void plim_model_delete(plim_model *m) {
  if (!m) return;
  plim_shards_delete(m->shards);
  vec_free(&m->parameters);
  vec_free(&m->frozen);
  vec_free(&m->cached);
  vec_free(&m->buffer_bytes);
  m->destroy(m);
}

plim_model *plim_model_finish(plim_model *m) {
  if (!m->failed) return m;
  plim_model_delete(m);
  return NULL;
}

plim_tensor *plim_model_parameter(plim_tape *t, plim_model *m, plim_dims shape, plim_dtype dtype) {
  plim_tensor *p = NULL;
  set(t, &p, empty(t, shape, dtype));
  p->requires_grad = true;
  m->elements += (uint64_t)plim_numel(&shape);
  if (!vec_push(&m->parameters, p)) m->failed = true;
  return p;
}

// ---- linear layers and adapters -------------------------------------------------------------------

void plim_projections_name(plim_linear *proj) {
  for (int k = 0; k < PLIM_PROJECTIONS; k++) proj[k].name = plim_projection_names[k];
}

plim_linear plim_linear_new(plim_tape *t, plim_model *m, int64_t out, int64_t in, bool has_bias,
                            plim_dtype dtype) {
  plim_linear l = {.weight = plim_model_parameter(t, m, dims(out, in), dtype)};
  l.weight->is_projection = true;
  if (has_bias) l.bias = plim_model_parameter(t, m, dims(out), dtype);
  return l;
}

plim_linear plim_conv1d_new(plim_tape *t, plim_model *m, int64_t in, int64_t out,
                            plim_dtype dtype) {
  plim_linear l = {.is_conv1d = true};
  l.weight = plim_model_parameter(t, m, dims(in, out), dtype);
  l.weight->is_projection = l.weight->is_flipped = true;
  l.bias = plim_model_parameter(t, m, dims(out), dtype);
  return l;
}

void plim_lora_begin(plim_model *m) {
  for (size_t i = 0; i < m->parameters.len; i++) {
    m->parameters.at[i]->requires_grad = false;
    if (!vec_push(&m->frozen, m->parameters.at[i])) m->failed = true;
  }
  m->parameters.len = 0;
}

// Adapters follow the base's dtype of computation; LLM.int8() has none.
static plim_dtype adapter_dtype(const plim_tensor *weight) {
  if (!weight->quant) return (plim_dtype)weight->dtype;
  return weight->quant->kind == PLIM_WEIGHTS_INT8 ? PLIM_FP32 : weight->quant->compute;
}

void plim_linear_add_lora(plim_tape *t, plim_model *m, plim_linear *l, const plim_lora *lora) {
  plim_dtype dtype = adapter_dtype(l->weight);
  int64_t in = l->weight->shape.at[!l->weight->is_flipped];
  int64_t out = l->weight->shape.at[l->weight->is_flipped];
  l->lora_a = plim_model_parameter(t, m, dims(lora->rank, in), dtype);
  l->lora_b = plim_model_parameter(t, m, dims(out, lora->rank), dtype);
  l->dropout = lora->dropout;
  const plim_tensor *last = l->bias ? l->bias : l->weight; // of the module the adapter wraps
  l->lora_a->behind = l->lora_b->behind = last;
  plim_tape_move_behind(l->lora_a, last, 1);
  plim_tape_move_behind(l->lora_b, last, 2);
}

void plim_projections_add_lora(plim_tape *t, plim_model *m, plim_linear *proj,
                               const plim_lora *lora) {
  for (int k = 0; k < PLIM_PROJECTIONS; k++)
    if (proj[k].weight && lora->targets >> k & 1) plim_linear_add_lora(t, m, &proj[k], lora);
}

void plim_lora_target(plim_tape *t, plim_model *m, plim_linear *l, plim_projection name,
                      const plim_lora *lora) {
  if (l->weight && lora->targets >> name & 1) plim_linear_add_lora(t, m, l, lora);
}

void plim_lora_end(plim_tape *t, plim_model *m, const plim_lora *lora) {
  if (lora->keeps_dtype) return;
  for (size_t i = 0; i < m->parameters.len; i++)
    if (m->parameters.at[i]->dtype != PLIM_FP32) plim_retype(t, m->parameters.at[i], PLIM_FP32);
}

// Conv1D: addmm over the rows; autocast casts weight, input, bias.
static plim_tensor *conv1d(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_dims shape = x->shape;
  bool was = hold(x);
  plim_tensor *rows = NULL;
  set(t, &rows, view(t, x, dims(-1, shape.at[2])));
  plim_tensor *weight = cast(t, p->weight), *input = cast(t, rows), *bias = cast(t, p->bias);
  shape.at[2] = p->weight->shape.at[1];
  plim_tensor *out = view(t, addmm(t, bias, input, weight), shape);
  drop(t, &rows);
  let_go(t, x, was);
  return out;
}

static plim_tensor *base_forward(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  return p->weight->quant ? plim_quantised_linear(t, x, p->weight, p->bias)
         : p->is_conv1d   ? conv1d(t, p, x)
                          : linear(t, x, p->weight, p->bias);
}

// peft's layer over a quantised one: the adapter's output is cast, not the sum, and only if autocast
// does not do it. Over 4 bits the base's output is cloned first.
static plim_tensor *quantised_lora(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_tensor *result = NULL, *input = NULL, *delta = NULL;
  bool was = hold(x), converts = !plim_autocast_is_on(t);
  set(t, &result, base_forward(t, p, x));
  if (p->weight->quant->kind != PLIM_WEIGHTS_INT8) set(t, &result, contiguous_copy(t, result));
  plim_dtype dtype = (plim_dtype)result->dtype;
  set(t, &input, converts ? to(t, x, (plim_dtype)p->lora_a->dtype) : x);
  plim_tensor *inner = linear(t, dropout(t, input, p->dropout), p->lora_a, NULL);
  set(t, &delta, mul_scalar(t, linear(t, inner, p->lora_b, NULL)));
  if (converts) set(t, &delta, to(t, delta, dtype));
  set(t, &result, add(t, result, delta));
  drop(t, &input);
  plim_tensor *out = give(t, &result);
  drop(t, &delta);
  let_go(t, x, was);
  return out;
}

plim_tensor *plim_linear_forward(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_tape_at(t, p->name ? p->name : "linear");
  if (!p->lora_a) return base_forward(t, p, x);
  if (p->weight->quant) return quantised_lora(t, p, x);
  plim_tensor *result = NULL, *input = NULL;
  bool was = hold(x);
  set(t, &result, base_forward(t, p, x));
  plim_dtype dtype = (plim_dtype)result->dtype;
  set(t, &input, to(t, x, (plim_dtype)p->lora_a->dtype));
  plim_tensor *inner = linear(t, dropout(t, input, p->dropout), p->lora_a, NULL);
  plim_tensor *delta = mul_scalar(t, linear(t, inner, p->lora_b, NULL));
  set(t, &result, add(t, result, delta));
  set(t, &result, to(t, result, dtype));
  drop(t, &input);
  plim_tensor *out = give(t, &result);
  let_go(t, x, was);
  return out;
}

// ---- activations ------------------------------------------------------------------------------------

plim_tensor *plim_new_gelu(plim_tape *t, plim_tensor *x) {
  bool was = hold(x);
  plim_tensor *half = mul_scalar(t, x);
  plim_tensor *wide = plim_autocast_is_on(t) ? to(t, x, PLIM_FP32) : x;
  plim_tensor *cube = mul_scalar(t, square(t, wide));
  plim_tensor *inner = mul_scalar(t, add(t, x, cube));
  plim_tensor *out = mul(t, half, add_scalar(t, tanh_(t, inner)));
  let_go(t, x, was);
  return out;
}

// ---- norms ----------------------------------------------------------------------------------------

plim_tensor *plim_rms_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  if (plim_tape_uses_liger(t)) return plim_liger_rms_norm(t, x, weight);
  plim_tensor *hidden = NULL, *variance = NULL;
  plim_tape_at(t, "norm");
  bool was = hold(x);
  set(t, &hidden, to(t, x, PLIM_FP32));
  set(t, &variance, mean_last(t, square(t, hidden)));
  set(t, &hidden, mul(t, hidden, rsqrt(t, add_scalar(t, variance))));
  plim_tensor *out = mul(t, weight, to(t, hidden, (plim_dtype)x->dtype));
  drop(t, &hidden);
  drop(t, &variance);
  let_go(t, x, was);
  return out;
}

plim_tensor *plim_gemma_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_tensor *wide = NULL, *out = NULL;
  bool was = hold(x);
  set(t, &wide, to(t, x, PLIM_FP32));
  set(t, &out, mul(t, wide, rsqrt(t, add_scalar(t, mean_last(t, square(t, wide))))));
  drop(t, &wide);
  set(t, &out, mul(t, out, add_scalar(t, to(t, weight, PLIM_FP32))));
  set(t, &out, to(t, out, (plim_dtype)x->dtype));
  let_go(t, x, was);
  return give(t, &out);
}

// ---- rotary positions -----------------------------------------------------------------------------

// 1 / (base ** (arange(0, dim, 2) / dim)), with the temporaries of that line.
plim_tensor *plim_inverse_frequencies(plim_tape *t, int64_t n) {
  plim_tensor *steps = empty(t, dims(n), PLIM_FP32), *shares = empty(t, dims(n), PLIM_FP32);
  plim_consume(t, steps);
  plim_tensor *powers = empty(t, dims(n), PLIM_FP32);
  plim_consume(t, scratch(t, 8));
  plim_consume(t, shares);
  plim_tensor *inverse = empty(t, dims(n), PLIM_FP32), *scaled = empty(t, dims(n), PLIM_FP32);
  plim_consume(t, inverse);
  plim_consume(t, powers);
  return scaled;
}

void plim_rotary(plim_tape *t, const plim_tensor *inv_freq, int64_t length, plim_dtype dtype,
                 plim_tensor **cos, plim_tensor **sin) {
  bool was = set_grad_mode(t, false);
  int64_t half = inv_freq->shape.at[0];
  plim_tensor *angles = NULL, *both = NULL, *wide = NULL, *c = NULL, *s = NULL;
  set(t, &wide, empty(t, dims(1, 1, length), PLIM_FP32));
  set(t, &angles, empty(t, dims(1, half, length), PLIM_FP32));
  k_cublas(t);
  set(t, &both, empty(t, dims(1, length, 2 * half), PLIM_FP32));
  set(t, &c, mul_scalar(t, k_unary(t, both)));
  set(t, &s, mul_scalar(t, k_unary(t, both)));
  plim_tensor *low_c = to(t, c, dtype), *low_s = NULL;
  set(t, cos, low_c);
  low_s = to(t, s, dtype);
  set(t, sin, low_s);
  drop(t, &wide);
  drop(t, &angles);
  drop(t, &both);
  drop(t, &c);
  drop(t, &s);
  set_grad_mode(t, was);
}

static plim_tensor *rotate_half(plim_tape *t, plim_tensor *x) {
  int64_t d = x->shape.at[3];
  plim_tensor *x1 = NULL, *x2 = NULL;
  set(t, &x1, slice(t, x, 3, 0, d / 2));
  set(t, &x2, slice(t, x, 3, d / 2, d));
  plim_tensor *out = cat2(t, neg(t, x2), x1, 3);
  drop(t, &x1);
  drop(t, &x2);
  return out;
}

plim_tensor *plim_rope(plim_tape *t, plim_tensor *x, plim_tensor *cos, plim_tensor *sin) {
  plim_tensor *straight = mul(t, x, cos);
  plim_tensor *turned = mul(t, rotate_half(t, x), sin);
  return add(t, straight, turned);
}

void plim_turn(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q, plim_tensor **k) {
  plim_tensor *c = NULL, *s = NULL, *new_q = NULL, *new_k = NULL;
  set(t, &c, unsqueeze(t, cos, 1));
  set(t, &s, unsqueeze(t, sin, 1));
  new_q = plim_rope(t, *q, c, s);
  new_k = plim_rope(t, *k, c, s);
  set(t, q, new_q);
  set(t, k, new_k);
  drop(t, &c);
  drop(t, &s);
}

// ---- attention ------------------------------------------------------------------------------------

plim_tensor *plim_split_heads(plim_tape *t, plim_tensor *x, int64_t head_dim, plim_tensor *norm) {
  plim_tensor *heads = view(t, x, dims(x->shape.at[0], x->shape.at[1], -1, head_dim));
  return transpose(t, norm ? plim_rms_norm(t, heads, norm) : heads, 1, 2);
}

static plim_tensor *repeat_kv(plim_tape *t, plim_tensor *x, int64_t times) { // (B,K*times,T,D)
  if (times == 1) return x;
  int64_t b = x->shape.at[0], k = x->shape.at[1], length = x->shape.at[2], d = x->shape.at[3];
  plim_tensor *spread = expand(t, unsqueeze(t, x, 2), dims(b, k, times, length, d));
  return reshape(t, spread, dims(b, k * times, length, d));
}

// softcap * tanh(x / softcap), in a variable.
static void cap(plim_tape *t, plim_tensor **x) {
  set(t, x, div_scalar(t, *x));
  set(t, x, tanh_(t, *x));
  set(t, x, mul_scalar(t, *x));
}

plim_tensor *plim_attend_eagerly(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                 plim_tensor *mask, bool is_capped, double dropout_p,
                                 plim_tensor **kept) {
  int64_t groups = q->shape.at[1] / k->shape.at[1];
  plim_tensor *keys = NULL, *values = NULL, *weights = NULL, *out = NULL;
  set(t, &keys, repeat_kv(t, k, groups));
  set(t, &values, repeat_kv(t, v, groups));
  set(t, &weights, mul_scalar(t, matmul(t, q, transpose(t, keys, 2, 3))));
  if (is_capped) cap(t, &weights);
  if (mask) set(t, &weights, add(t, weights, mask));
  set(t, &weights, to(t, softmax(t, weights, PLIM_FP32), (plim_dtype)q->dtype));
  set(t, &weights, dropout(t, weights, dropout_p));
  set(t, &out, matmul(t, weights, values));
  set(t, &out, contiguous(t, transpose(t, out, 1, 2)));
  drop(t, &keys);
  drop(t, &values);
  set(t, kept, give(t, &weights));
  return give(t, &out);
}

// With a mask, keys and values are repeated for every head; without, the kernel does that itself.
static plim_tensor *sdpa_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                   plim_tensor *mask, double dropout_p) {
  int64_t groups = q->shape.at[1] / k->shape.at[1];
  plim_tensor *keys = NULL, *values = NULL;
  set(t, &keys, mask ? repeat_kv(t, k, groups) : k);
  set(t, &values, mask ? repeat_kv(t, v, groups) : v);
  plim_tensor *out =
      contiguous(t, transpose(t, attention(t, q, keys, values, mask, dropout_p), 1, 2));
  drop(t, &keys);
  drop(t, &values);
  return out;
}

plim_tensor *plim_attend(plim_tape *t, plim_attention_kind kind, plim_tensor *q, plim_tensor *k,
                         plim_tensor *v, plim_tensor *mask, double dropout_p,
                         plim_tensor **weights) {
  if (kind == PLIM_ATTENTION_EAGER)
    return plim_attend_eagerly(t, q, k, v, mask, false, dropout_p, weights);
  if (kind == PLIM_ATTENTION_SDPA) return sdpa_attention(t, q, k, v, mask, dropout_p);
  plim_flash_options o = {mask, .has_positions = true, .is_causal = true, .dropout_p = dropout_p};
  return plim_flash_attention(t, q, k, v, o);
}

// ---- layers ---------------------------------------------------------------------------------------

static plim_tensor *call_closure(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                                 plim_tensor *x) {
  switch (kind) {
  case PLIM_CHECKPOINT_ON: return checkpoint(t, call, x);
  case PLIM_CHECKPOINT_REENTRANT: return checkpoint_reentrant(t, call, x);
  case PLIM_CHECKPOINT_OFFLOADED: return checkpoint_offloaded(t, call, x);
  default: return call.function(t, call.context, call.held, x);
  }
}

plim_tensor *plim_call_plain_layer(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                                   plim_tensor *x) {
  plim_tape_enter_layer(t);
  plim_tensor *out = call_closure(t, kind, call, x);
  plim_tape_enter(t, -1, NULL);
  return out;
}

plim_tensor *plim_call_layer(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                             plim_tensor *x) {
  return t->shards ? plim_call_sharded_layer(t, kind, call, x)
                   : plim_call_plain_layer(t, kind, call, x);
}

// docs/chunked_loss.py
static plim_tensor *chunked_head(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                                 const plim_batch *batch, bool is_capped) {
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tape_at(t, "lm_head");
  plim_tensor *loss = plim_chunked_causal_loss(t, hidden, weight, batch->labels, batch->items,
                                               batch->loss_chunk, is_capped);
  plim_tape_purpose(t, was);
  return loss;
}

static plim_tensor *causal_head(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                                const plim_batch *batch, bool is_capped, plim_tensor **logits) {
  if (batch->loss == PLIM_LOSS_CHUNKED) return chunked_head(t, hidden, weight, batch, is_capped);
  plim_tensor *scores = NULL;
  bool was = hold(hidden);
  plim_purpose purpose_was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tape_at(t, "lm_head");
  plim_tensor *all = slice(t, hidden, 1, 0, hidden->shape.at[1]); // logits_to_keep: every position
  plim_tensor *loss = NULL;
  if (batch->loss == PLIM_LOSS_FUSED)
    loss = fused_loss(t, all, weight, batch->labels, batch->items);
  else {
    set(t, &scores, linear(t, all, weight, NULL));
    if (is_capped) cap(t, &scores);
    loss = causal_loss(t, scores, batch->labels, batch->items);
  }
  set(t, logits, give(t, &scores));
  plim_tape_purpose(t, purpose_was);
  let_go(t, hidden, was);
  return loss;
}

plim_tensor *plim_causal_head(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                              const plim_batch *batch, plim_tensor **logits) {
  return causal_head(t, hidden, weight, batch, false, logits);
}

plim_tensor *plim_causal_head_capped(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                                     const plim_batch *batch, plim_tensor **logits) {
  return causal_head(t, hidden, weight, batch, true, logits);
}
