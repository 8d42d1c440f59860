#include "modules.h"

#include "attention.h"
#include "fake_quant.h"
#include "flash_attention.h"
#include "liger.h"
#include "loss.h"
#include "ops.h"
#include "tape_state.h"
#include "work.h"

#include "op_names.h"

// ---- activations ------------------------------------------------------------------------------------

plim_tensor *plim_new_gelu(plim_tape *t, plim_tensor *x) {
  plim_tape_at(t, "gelu");
  bool was = hold(x);
  plim_tensor *half = mul_scalar(t, x);
  plim_tensor *wide = plim_autocast_is_on(t) ? to(t, x, PLIM_FP32) : x;
  plim_tensor *cube = mul_scalar(t, square(t, wide));
  plim_tensor *inner = mul_scalar(t, add(t, x, cube));
  plim_tensor *curve = tanh_(t, inner);
  plim_tape_at(t, "gelu");
  plim_tensor *out = mul(t, half, add_scalar(t, curve));
  let_go(t, x, was);
  return out;
}

// relu(x) ** 2; autocast computes powers in float32.
static plim_tensor *squared_relu(plim_tape *t, plim_tensor *x) {
  plim_tensor *applied = NULL;
  bool was = hold(x);
  set(t, &applied, relu(t, x));
  plim_tensor *wide = plim_autocast_is_on(t) ? to(t, applied, PLIM_FP32) : applied;
  plim_tensor *out = square(t, wide);
  drop(t, &applied);
  let_go(t, x, was);
  return out;
}

plim_tensor *plim_activate(plim_tape *t, plim_activation activation, plim_tensor *x) {
  switch (activation) {
  case PLIM_ACT_RELU: return relu(t, x);
  case PLIM_ACT_SQUARED_RELU: return squared_relu(t, x);
  case PLIM_ACT_SILU: return silu(t, x);
  case PLIM_ACT_NEW_GELU: return plim_new_gelu(t, x);
  case PLIM_ACT_TANH: return tanh_(t, x);
  default: return gelu(t, x);
  }
}

plim_tensor *plim_gated_mlp(plim_tape *t, plim_activation activation, const plim_linear *gate,
                            const plim_linear *up, const plim_linear *down, plim_tensor *x) {
  bool is_fused = plim_tape_uses_liger(t);
  plim_tensor *gated = plim_linear_forward(t, gate, x);
  if (!is_fused) gated = plim_activate(t, activation, gated);
  plim_tensor *input = plim_linear_forward(t, up, x);
  plim_tensor *product = is_fused ? plim_liger_swiglu(t, gated, input) : mul(t, gated, input);
  return plim_linear_forward(t, down, product);
}

// ---- norms ----------------------------------------------------------------------------------------

plim_norm plim_norm_new(plim_tape *t, plim_model *m, int64_t width, plim_dtype dtype) {
  plim_norm n = {.weight = plim_model_parameter(t, m, dims(width), dtype)};
  n.bias = plim_model_parameter(t, m, dims(width), dtype);
  plim_model_name(m, NULL, "bias");
  return n;
}

plim_norm plim_norm_new_unbiased(plim_tape *t, plim_model *m, int64_t width, plim_dtype dtype) {
  return (plim_norm){.weight = plim_model_parameter(t, m, dims(width), dtype)};
}

plim_tensor *plim_norm_forward(plim_tape *t, const plim_norm *n, plim_tensor *x) {
  plim_work_modules(t, 1);
  plim_module_enter(t, n->weight, n->bias);
  return plim_module_leave(t, n->weight, layer_norm(t, x, n->weight, n->bias));
}

void plim_norm_visit(const plim_norm *n, plim_visit *visit, void *context) {
  visit(context, n->bias);
  visit(context, n->weight);
}

static plim_tensor *rms_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_tensor *hidden = NULL, *variance = NULL;
  plim_tape_at(t, "norm");
  bool was = hold(x);
  set(t, &hidden, to(t, x, PLIM_FP32));
  set(t, &variance, mean_last(t, square(t, hidden)));
  set(t, &hidden, mul(t, hidden, rsqrt(t, add_scalar(t, variance))));
  plim_tensor *out = mul(t, weight, to(t, hidden, (plim_dtype)x->dtype));
  drop_all(t, &hidden, &variance);
  let_go(t, x, was);
  return out;
}

plim_tensor *plim_rms_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_work_modules(t, 1);
  plim_module_enter(t, weight, NULL);
  plim_tensor *out =
      plim_tape_uses_liger(t) ? plim_liger_rms_norm(t, x, weight) : rms_norm(t, x, weight);
  return plim_module_leave(t, weight, out);
}

plim_tensor *plim_wide_rms_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_tensor *hidden = NULL, *variance = NULL;
  plim_work_modules(t, 1);
  plim_tape_at(t, "norm");
  plim_module_enter(t, weight, NULL);
  bool was = hold(x);
  set(t, &hidden, to(t, x, PLIM_FP32));
  set(t, &variance, mean_last(t, square(t, hidden)));
  set(t, &hidden, mul(t, hidden, rsqrt(t, add_scalar(t, variance))));
  plim_tensor *out = to(t, mul(t, weight, hidden), (plim_dtype)x->dtype);
  drop_all(t, &hidden, &variance);
  let_go(t, x, was);
  return plim_module_leave(t, weight, out);
}

static plim_tensor *gemma_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_tensor *wide = NULL, *out = NULL;
  plim_tape_at(t, "norm");
  bool was = hold(x);
  set(t, &wide, to(t, x, PLIM_FP32));
  set(t, &out, mul(t, wide, rsqrt(t, add_scalar(t, mean_last(t, square(t, wide))))));
  drop(t, &wide);
  set(t, &out, mul(t, out, add_scalar(t, to(t, weight, PLIM_FP32))));
  set(t, &out, to(t, out, (plim_dtype)x->dtype));
  let_go(t, x, was);
  return give(t, &out);
}

// `fused` is what Liger-Kernel has instead.
static plim_tensor *norm_or_fused(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                  plim_tensor *(*fused)(plim_tape *, plim_tensor *,
                                                        plim_tensor *)) {
  plim_work_modules(t, 1);
  plim_module_enter(t, weight, NULL);
  plim_tensor *out = plim_tape_uses_liger(t) ? fused(t, x, weight) : gemma_norm(t, x, weight);
  return plim_module_leave(t, weight, out);
}

plim_tensor *plim_gemma_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  return norm_or_fused(t, x, weight, plim_liger_rms_norm);
}

plim_tensor *plim_gemma2_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  return norm_or_fused(t, x, weight, plim_liger_rms_norm_apart);
}

plim_tensor *plim_t5_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_work_modules(t, 1);
  plim_tensor *hidden = NULL, *variance = NULL;
  plim_tape_at(t, "norm");
  plim_module_enter(t, weight, NULL);
  bool was = hold(x);
  set(t, &variance, mean_last(t, square(t, to(t, x, PLIM_FP32))));
  set(t, &hidden, mul(t, x, rsqrt(t, add_scalar(t, variance))));
  set(t, &hidden, to(t, hidden, (plim_dtype)weight->dtype));
  plim_tensor *out = mul(t, weight, hidden);
  drop_all(t, &hidden, &variance);
  let_go(t, x, was);
  return plim_module_leave(t, weight, out);
}

// ---- attention ------------------------------------------------------------------------------------

plim_tensor *plim_split_heads(plim_tape *t, plim_tensor *x, int64_t head_dim, plim_tensor *norm) {
  plim_tensor *heads = view(t, x, dims(x->shape.at[0], x->shape.at[1], -1, head_dim));
  return transpose(t, norm ? plim_rms_norm(t, heads, norm) : heads, 1, 2);
}

plim_tensor *plim_join_heads(plim_tape *t, plim_tensor *x) {
  return contiguous(t, reshape(t, x, dims(x->shape.at[0], x->shape.at[1], -1)));
}

plim_tensor *plim_repeat_kv(plim_tape *t, plim_tensor *x, int64_t times) {
  if (times == 1) return x;
  int64_t b = x->shape.at[0], k = x->shape.at[1], length = x->shape.at[2], d = x->shape.at[3];
  plim_tensor *new = unsqueeze(t, full_slices(t, x, 4), 2); // x[:, :, None, :, :]
  return reshape(t, expand(t, new, dims(b, k, times, length, d)), dims(b, k * times, length, d));
}

// softcap * tanh(x / softcap), assigned to the variable.
static void cap(plim_tape *t, plim_tensor **x) {
  set(t, x, div_scalar(t, *x));
  set(t, x, tanh_(t, *x));
  set(t, x, mul_scalar(t, *x));
}

plim_tensor *plim_softmax_own(plim_tape *t, plim_tensor *scores) {
  return softmax(t, scores, plim_autocast_is_on(t) ? PLIM_FP32 : (plim_dtype)scores->dtype);
}

// Replaces the scores in a variable by probabilities.
static void take_softmax(plim_tape *t, plim_softmax_kind kind, const plim_tensor *q,
                         const plim_tensor *v, plim_tensor **weights) {
  if (kind == PLIM_SOFTMAX_WIDE) {
    set(t, weights, to(t, softmax(t, *weights, PLIM_FP32), (plim_dtype)q->dtype));
    return;
  }
  set(t, weights, plim_softmax_own(t, *weights));
  if (kind == PLIM_SOFTMAX_OWN_AND_BACK) set(t, weights, to(t, *weights, (plim_dtype)v->dtype));
}

plim_tensor *plim_attend_eagerly(plim_tape *t, const plim_attending *how, plim_tensor *q,
                                 plim_tensor *k, plim_tensor *v, plim_tensor *bias,
                                 plim_tensor *mask, plim_tensor **kept) {
  int64_t groups = q->shape.at[1] / k->shape.at[1];
  plim_tensor *keys = NULL, *values = NULL, *weights = NULL, *out = NULL;
  plim_tape_at(t, "attention");
  set(t, &keys, plim_repeat_kv(t, k, groups));
  set(t, &values, plim_repeat_kv(t, v, groups));
  set(t, &weights, mul_scalar(t, matmul(t, q, transpose(t, keys, 2, 3))));
  if (how->is_capped) cap(t, &weights);
  if (bias) set(t, &weights, add(t, weights, bias));
  if (mask) set(t, &weights, add(t, weights, mask));
  take_softmax(t, how->softmax, q, v, &weights);
  set(t, &weights, dropout(t, weights, how->dropout_p));
  plim_tape_at(t, "attention");
  set(t, &out, matmul(t, weights, values));
  set(t, &out, transpose(t, out, 1, 2));
  if (!how->is_left_strided) set(t, &out, contiguous(t, out));
  drop_all(t, &keys, &values);
  set(t, kept, give(t, &weights));
  return give(t, &out);
}

// torch.where of a triangle; each layer makes it again. The one for windows has five more of this size for a moment.
static plim_tensor *mask_of_tune(plim_tape *t, int64_t length) {
  plim_dims shape = dims(length, length);
  plim_tensor *ones = empty(t, shape, PLIM_BOOL), *lower = empty(t, shape, PLIM_BOOL);
  plim_consume(t, ones);
  plim_tensor *upper = empty(t, shape, PLIM_BOOL), *mask = empty(t, shape, PLIM_FP32);
  consume_all(t, lower, upper);
  return mask;
}

// torchtune's models/gemma2/_attention.py: queries are scaled in place, and the float32 mask makes the scores float32.
static plim_tensor *attend_capped_in_tune(plim_tape *t, plim_tensor *q, plim_tensor *k,
                                          plim_tensor *v) {
  int64_t groups = q->shape.at[1] / k->shape.at[1];
  plim_tensor *keys = NULL, *values = NULL, *scores = NULL, *mask = NULL, *out = NULL;
  plim_tape_at(t, "attention");
  set(t, &keys, plim_repeat_kv(t, k, groups));
  set(t, &values, plim_repeat_kv(t, v, groups));
  set(t, &scores, matmul(t, q, transpose(t, keys, 2, 3)));
  set(t, &mask, mask_of_tune(t, q->shape.at[2]));
  cap(t, &scores);
  set(t, &scores, add(t, scores, mask));
  set(t, &scores, to(t, softmax(t, scores, PLIM_FP32), (plim_dtype)q->dtype));
  set(t, &scores, matmul(t, scores, values));
  set(t, &out, contiguous(t, transpose(t, scores, 1, 2)));
  drop_all(t, &keys, &values, &mask, &scores);
  return give(t, &out);
}

// The probabilities are a view of those that include the sinks.
static plim_tensor *attend_with_sinks(plim_tape *t, const plim_attending *how, plim_tensor *q,
                                      plim_tensor *k, plim_tensor *v, plim_tensor *mask,
                                      plim_tensor **kept) {
  int64_t groups = q->shape.at[1] / k->shape.at[1], keys_seen = k->shape.at[2];
  plim_tensor *keys = NULL, *values = NULL, *weights = NULL, *sinks = NULL, *logits = NULL;
  plim_tensor *probabilities = NULL, *scores = NULL, *out = NULL;
  plim_tape_at(t, "attention");
  set(t, &keys, plim_repeat_kv(t, k, groups));
  set(t, &values, plim_repeat_kv(t, v, groups));
  set(t, &weights, mul_scalar(t, matmul(t, q, transpose(t, keys, 2, 3))));
  if (mask) set(t, &weights, add(t, weights, mask));
  set(t, &sinks, reshape(t, how->sinks, dims(1, -1, 1, 1)));
  set(t, &sinks, expand(t, sinks, dims(q->shape.at[0], -1, q->shape.at[2], -1)));
  set(t, &logits, cat2(t, weights, sinks, 3));
  set(t, &logits, sub(t, logits, max_last(t, logits)));
  set(t, &probabilities, softmax(t, logits, (plim_dtype)logits->dtype));
  set(t, &scores, slice(t, probabilities, 3, 0, keys_seen));
  set(t, &weights, to(t, dropout(t, scores, how->dropout_p), (plim_dtype)values->dtype));
  plim_tape_at(t, "attention");
  set(t, &out, matmul(t, weights, values));
  set(t, &out, contiguous(t, transpose(t, out, 1, 2)));
  drop_all(t, &keys, &values);
  set(t, kept, give(t, &weights));
  drop_all(t, &sinks, &logits, &probabilities, &scores);
  return give(t, &out);
}

// With a mask, or heads that are too wide, keys and values are repeated for every head; otherwise the kernel handles
// grouped heads itself. Before 4.54 they are always repeated, and before 4.56 a mask makes transformers copy what is not
// contiguous.
static plim_tensor *attend_by_kernel(plim_tape *t, const plim_attending *how, plim_tensor *q,
                                     plim_tensor *k, plim_tensor *v, plim_tensor *mask) {
  enum { WIDEST_GROUPED = 256 }; // sdpa_attention.py, use_gqa_in_sdpa
  int64_t groups = q->shape.at[1] / k->shape.at[1];
  plim_tensor *query = NULL, *keys = NULL, *values = NULL;
  bool repeats = mask || k->shape.at[3] > WIDEST_GROUPED || !plim_transformers_from(t, 4, 54) ||
                 plim_const_state(t)->copies_heads;
  bool copies = mask && !how->sees_all && !plim_transformers_from(t, 4, 56);
  set(t, &keys, repeats ? plim_repeat_kv(t, k, groups) : k);
  set(t, &values, repeats ? plim_repeat_kv(t, v, groups) : v);
  set(t, &query, copies ? contiguous(t, q) : q);
  if (copies) set(t, &keys, contiguous(t, keys));
  if (copies) set(t, &values, contiguous(t, values));
  plim_tensor *attended = how->sees_all
                              ? full_attention(t, query, keys, values, mask, how->dropout_p)
                              : attention(t, query, keys, values, mask, how->dropout_p);
  plim_tensor *out = contiguous(t, transpose(t, attended, 1, 2));
  drop_all(t, &query, &keys, &values);
  return out;
}

plim_tensor *plim_attend(plim_tape *t, const plim_attending *how, plim_tensor *q, plim_tensor *k,
                         plim_tensor *v, plim_tensor *mask, plim_tensor **weights) {
  if (how->sinks && how->kind == PLIM_ATTENTION_EAGER)
    return attend_with_sinks(t, how, q, k, v, mask, weights);
  if (how->is_capped && plim_const_state(t)->copies_heads) return attend_capped_in_tune(t, q, k, v);
  if (how->kind == PLIM_ATTENTION_EAGER)
    return plim_attend_eagerly(t, how, q, k, v, NULL, mask, weights);
  if (how->kind == PLIM_ATTENTION_SDPA) return attend_by_kernel(t, how, q, k, v, mask);
  plim_flash_options o = {mask, .dropout_p = how->dropout_p};
  o.is_causal = o.has_positions = !how->sees_all;
  return plim_flash_attention(t, q, k, v, o);
}

// ---- layers ---------------------------------------------------------------------------------------

// transformers asks for it when checkpoints are enabled; before 5.0, and where a trainer has checkpoints of its own, only
// with adapters. Checkpoints that are offloaded by a function of their own fail without a gradient to the input.
static bool asks_for_inputs(const plim_tape *t, const plim_batch *batch) {
  const plim_tape_state *s = plim_const_state(t);
  bool needs_it = batch->checkpoint == PLIM_CHECKPOINT_OFFLOADED;
  bool is_own = batch->checkpoint && (!s->wraps_layers || needs_it);
  if (!s->partly) return is_own;
  return s->asks_for_inputs ||
         (is_own && !s->checkpoints_trained && plim_transformers_from(t, 5, 0));
}

// transformers/integrations/neftune.py: output + zeros_like(output).uniform_()
static plim_tensor *add_noise(plim_tape *t, plim_tensor *x) {
  plim_tensor *noise = plim_empty(t, x->shape, (plim_dtype)x->dtype);
  plim_work_map(t, NULL, NULL, noise); // zeros
  plim_work_map(t, NULL, NULL, noise);
  plim_tensor *embedded = NULL; // Python holds it until the sum replaces it
  set(t, &embedded, x);
  plim_tensor *sum = add(t, embedded, noise);
  drop(t, &embedded);
  return sum;
}

plim_tensor *plim_embed_leave(plim_tape *t, const plim_batch *batch, plim_tensor *out) {
  if (asks_for_inputs(t, batch)) out->requires_grad = true;
  if (plim_state(t)->adds_noise) out = add_noise(t, out);
  return plim_part_leave(t, PLIM_PART_EMBEDDING, out);
}

plim_tensor *plim_look_up(plim_tape *t, plim_tensor *table, plim_tensor *ids) {
  plim_module_enter(t, table, NULL);
  return plim_module_leave(t, table, embedding(t, table, ids));
}

plim_tensor *plim_embed(plim_tape *t, const plim_batch *batch, plim_tensor *table,
                        plim_tensor *ids) {
  plim_tensor *input = plim_part_enter(t, PLIM_PART_EMBEDDING, ids);
  plim_module_enter(t, table, NULL);
  return plim_module_leave(t, table, plim_embed_leave(t, batch, embedding(t, table, input)));
}

// arange(length) + past; before, arange(past, past + length).
plim_tensor *plim_position_ids(plim_tape *t, int64_t length) {
  plim_tensor *range = empty(t, dims(length), PLIM_I64);
  return unsqueeze(t, plim_transformers_from(t, 5, 0) ? add_scalar(t, range) : range, 0);
}

plim_tensor *plim_embed_scaled(plim_tape *t, const plim_batch *batch, plim_tensor *table,
                               plim_tensor *scale, plim_tensor *ids) {
  plim_tensor *input = plim_part_enter(t, PLIM_PART_EMBEDDING, ids);
  plim_module_enter(t, table, NULL);
  plim_tensor *embedded = embedding(t, table, input);
  plim_tensor *factor = to(t, scale, (plim_dtype)table->dtype);
  return plim_module_leave(t, table, plim_embed_leave(t, batch, mul(t, embedded, factor)));
}

// ---- heads ----------------------------------------------------------------------------------------

static plim_tensor *head_module(plim_tape *t, const plim_model *m, plim_tensor *x) {
  if (!m->head_a) return plim_weight_linear(t, x, m->head, m->head_bias);
  plim_linear head = {m->head,
                      m->head_bias,
                      m->head_a,
                      m->head_b,
                      .path = "lm_head",
                      .name = "lm_head",
                      .dropout = m->head_dropout};
  return plim_linear_forward(t, &head, x);
}

plim_tensor *plim_head_logits(plim_tape *t, const plim_model *m, plim_tensor *x) {
  if (m->narrows_hidden) x = to(t, x, (plim_dtype)m->head->dtype);
  plim_saving was = plim_saves_head(t);
  plim_tensor *logits = head_module(t, m, x);
  plim_saves(t, was);
  return logits;
}

// docs/chunked_loss.py
static plim_tensor *chunked_head(plim_tape *t, const plim_model *m, plim_tensor *hidden,
                                 const plim_batch *batch) {
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tape_at(t, "lm_head");
  plim_tensor *loss = plim_chunked_causal_loss(t, hidden, m->head, m->head_bias, batch->labels,
                                               batch->items, batch->loss_chunk, m->logits);
  plim_tape_purpose(t, was);
  return loss;
}

static bool is_in_eighths(const plim_batch *batch) {
  return batch->loss == PLIM_LOSS_EIGHTHS || batch->loss == PLIM_LOSS_LISTED;
}

// torchtune's recipes offload what the model saves, but neither what its head saves (get_act_offloading_ctx_manager)
// nor what the loss does, which they compute outside of that context.
plim_tensor *plim_head_in_eighths(plim_tape *t, const plim_model *m, plim_tensor *hidden,
                                  const plim_batch *batch) {
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_saving was_saving = plim_saves(t, PLIM_SAVED_HERE);
  plim_tape_at(t, "lm_head");
  plim_tensor *loss =
      plim_eighths_causal_loss(t, m, hidden, batch->labels, batch->loss == PLIM_LOSS_LISTED);
  plim_saves(t, was_saving);
  plim_tape_purpose(t, was);
  return loss;
}

// Consumes `hidden` once logits and loss exist.
static plim_tensor *causal_head(plim_tape *t, const plim_model *m, plim_tensor *hidden,
                                const plim_batch *batch, plim_tensor **logits) {
  if (batch->loss == PLIM_LOSS_CHUNKED) return chunked_head(t, m, hidden, batch);
  if (is_in_eighths(batch)) return plim_head_in_eighths(t, m, hidden, batch);
  plim_tensor *scores = NULL, *loss = NULL;
  bool was = hold(hidden);
  plim_purpose purpose_was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tape_at(t, "lm_head");
  bool is_outside = plim_saves_model_alone(t); // the loop computes the loss
  // logits_to_keep=0, all positions: hidden[:, 0:, :]
  int slices = plim_transformers_since(t, m->logits_to_keep_from) ? 3 : 0;
  plim_tensor *all = slice(t, full_slices(t, hidden, slices), 1, 0, hidden->shape.at[1]);
  if (batch->loss == PLIM_LOSS_FUSED)
    loss = plim_fused_loss(t, all, m->head, batch->labels, batch->items);
  else {
    all = plim_part_enter(t, PLIM_PART_HEAD, all);
    set(t, &scores, plim_part_leave(t, PLIM_PART_HEAD, plim_head_logits(t, m, all)));
    if (m->logits == PLIM_LOGITS_CAPPED) cap(t, &scores);
    if (m->logits == PLIM_LOGITS_DIVIDED) set(t, &scores, div_scalar(t, scores));
    if (m->logits == PLIM_LOGITS_WIDE) set(t, &scores, to(t, scores, PLIM_FP32));
    bool has_function = plim_transformers_since(t, m->loss_function_from);
    if (m->has_inner_head || is_outside) let_go(t, hidden, was);
    if (!has_function && m->had_wide_logits) set(t, &scores, to(t, scores, PLIM_FP32));
    plim_saving saving_was = plim_saves_loss(t);
    if (batch->labels)
      loss = has_function ? plim_causal_loss(t, scores, batch->labels, batch->items)
                          : plim_own_causal_loss(t, scores, batch->labels);
    plim_saves(t, saving_was);
  }
  set(t, logits, give(t, &scores));
  plim_tape_purpose(t, purpose_was);
  bool lets_go_late = !m->has_inner_head && !is_outside;
  if (lets_go_late || batch->loss == PLIM_LOSS_FUSED) let_go(t, hidden, was);
  return loss;
}

plim_tensor *plim_causal_forward(plim_tape *t, plim_model *m, const plim_batch *batch,
                                 plim_tensor **logits) {
  plim_tensor *loss = causal_head(t, m, m->inner(t, m, batch), batch, logits);
  drop(t, &m->embedded);
  return loss;
}
