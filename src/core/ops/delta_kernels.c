#include "delta_kernels.h"

#include "kernels.h"
#include "rounding.h"
#include "tape_state.h"
#include "work.h"

#include "tape_names.h"

enum { CHUNK = 64 };

static plim_grad_node *python_node(plim_tape *t, plim_backward_fn *function,
                                   plim_tensor *const *inputs, int count) {
  plim_grad_node *n = node_begin(t, function, inputs, count);
  if (n) n->drops_in_order = true;
  return n;
}

// input_guard (fla/utils.py): a copy of what is not contiguous, which lives until the function returns. Otherwise x.
static plim_tensor *guarded(plim_tape *t, plim_tensor *x) {
  if (plim_is_contiguous(x)) return x;
  plim_tensor *copy = empty(t, x->shape, (plim_dtype)x->dtype);
  plim_work_map(t, x, NULL, copy);
  return copy;
}

static bool is_among(plim_tensor *const *list, int count, const plim_tensor *x) {
  for (int i = 0; i < count; i++)
    if (list[i] == x) return true;
  return false;
}

// ctx.save_for_backward: its list, `saved`, is released from the first to the last; without a node with ctx, which releases
// it from the last to the first.
static void save(plim_tape *t, plim_grad_node *n, plim_tensor *const *inputs, int input_count,
                 plim_tensor *const *saved, int count) {
  for (int i = 0; n && i < count; i++) {
    if (is_among(inputs, input_count, saved[i])) node_save(t, n, saved[i]);
    else node_save_output(t, n, saved[i]);
  }
  for (int i = 0; i < count; i++) {
    plim_tensor *x = saved[n ? i : count - 1 - i];
    if (!is_among(inputs, input_count, x)) plim_consume(t, x);
  }
}

static plim_tensor *like(plim_tape *t, const plim_tensor *x) {
  return empty(t, x->shape, (plim_dtype)x->dtype);
}

// A kernel in which each element of `out` is a sum of k products.
static void products(plim_tape *t, int64_t k, const plim_tensor *a, const plim_tensor *b,
                     plim_tensor *out) {
  plim_work_triton(t);
  plim_work_products(t, k, a, b, out);
}

static void map(plim_tape *t, const plim_tensor *a, const plim_tensor *b, plim_tensor *out) {
  plim_work_triton(t);
  plim_work_map(t, a, b, out);
}

// The gradient of a weight from partial sums in float32, of which there are `parts`; it frees them.
static plim_tensor *summed_parts(plim_tape *t, plim_tensor *parts, plim_dtype dtype) {
  plim_tensor *sum = k_sum(t, parts, 1, false, PLIM_FP32), *out = k_to(t, sum, dtype);
  if (out != sum) plim_consume(t, sum);
  plim_consume(t, parts);
  return out;
}

// ---- the gated delta rule -------------------------------------------------------------------------------
// fla/ops/gated_delta_rule/chunk.py: ChunkGatedDeltaRuleFunction.

// What is saved for backward, in this order.
enum { Q, Q_SCALE, K, K_SCALE, V, DECAY, BETA, INVERSE };
enum { VALUE_INPUT = 2, DECAY_INPUT };

// l2norm_fwd: the normalised rows and one number for each.
static plim_tensor *normalised(plim_tape *t, const plim_tensor *x, plim_tensor **scale) {
  plim_tensor *out = like(t, x);
  plim_dims rows = x->shape;
  rows.n--;
  *scale = empty(t, rows, PLIM_FP32);
  map(t, x, NULL, out);
  return out;
}

static plim_tensor *normalised_backward(plim_tape *t, const plim_tensor *y, plim_tensor *gradient) {
  plim_tensor *out = like(t, y);
  map(t, y, gradient, out);
  plim_consume(t, gradient);
  return out;
}

// chunk_local_cumsum
static plim_tensor *sums_in_chunks(plim_tape *t, const plim_tensor *decay) {
  plim_tensor *out = empty(t, decay->shape, PLIM_FP32);
  map(t, decay, NULL, out);
  return out;
}

// chunk_scaled_dot_kkt_fwd, then solve_tril: the inverse of the triangular system of each chunk, (B,T,H,C).
static plim_tensor *inverse_systems(plim_tape *t, const plim_tensor *k, const plim_tensor *decay) {
  plim_dims shape = k->shape;
  shape.at[3] = CHUNK;
  plim_tensor *systems = empty(t, shape, PLIM_FP32);
  products(t, k->shape.at[3], k, decay, systems);
  plim_tensor *out = empty(t, shape, (plim_dtype)k->dtype);
  plim_work_map(t, NULL, NULL, out);
  products(t, CHUNK, systems, NULL, out);
  plim_consume(t, systems);
  return out;
}

static plim_tensor *states_of(plim_tape *t, const plim_tensor *k, const plim_tensor *v) {
  plim_dims s = k->shape;
  return empty(t, dims(s.at[0], plim_ceil_div(s.at[1], CHUNK), s.at[2], s.at[3], v->shape.at[3]),
               (plim_dtype)k->dtype);
}

// What both passes compute: keys and values times the inverse (recompute_w_u_fwd), then the state before each chunk and
// what is new in the values (chunk_gated_delta_rule_fwd_h).
typedef struct {
  plim_tensor *w, *u, *states, *fresh;
} scan;

static scan scanned(plim_tape *t, const plim_tensor *k, const plim_tensor *v,
                    const plim_tensor *inverse) {
  scan s = {.w = like(t, k), .u = like(t, v)};
  products(t, CHUNK, inverse, k, s.w);
  plim_work_products(t, CHUNK, inverse, v, s.u);
  s.states = states_of(t, k, v);
  s.fresh = like(t, s.u);
  products(t, CHUNK, k, s.u, s.states);
  plim_work_products(t, k->shape.at[3], s.w, NULL, s.fresh);
  return s;
}

// check_shared_mem: whether a block may have 100 KiB of shared memory (CUDA's programming guide, "compute capabilities").
static bool has_large_tiles(const plim_tape *t) {
  int capability = plim_tape_gpu(t)->capability;
  return capability == 80 || capability == 87 || (capability >= 90 && capability < 120);
}

// chunk_bwd_dqkwg writes a partial gradient of the decay for each block of the key's columns.
static plim_tensor *decay_gradient(plim_tape *t, const plim_tensor *decay, int64_t width) {
  int64_t tile = has_large_tiles(t) ? 64 : 32;
  plim_dims s = decay->shape;
  plim_dims parts = dims(plim_ceil_div(width, tile), s.at[0], s.at[1], s.at[2]);
  return empty(t, parts, PLIM_FP32);
}

static void rule_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *const *saved = n->saved;
  plim_tensor *q = saved[Q], *k = saved[K], *v = saved[V], *gradient = guarded(t, in[0]);
  int64_t width = k->shape.at[3], values = v->shape.at[3];
  scan s = scanned(t, k, v, saved[INVERSE]);
  plim_tensor *local = like(t, gradient); // chunk_bwd_dv_local
  products(t, width + CHUNK, q, gradient, local);
  plim_tensor *states = states_of(t, q, v), *carried = like(t, local); // chunk_..._bwd_dhu
  products(t, 2 * CHUNK, q, gradient, states);
  plim_work_products(t, width, k, NULL, carried);
  plim_consume(t, local);
  plim_tensor *dq = like(t, q), *dk = like(t, k); // chunk_bwd_dqkwg
  plim_tensor *parts = decay_gradient(t, saved[DECAY], width), *dw = like(t, s.w);
  products(t, 2 * values + CHUNK, s.states, gradient, dq);
  plim_work_products(t, 2 * values + CHUNK, states, s.fresh, dk);
  plim_work_products(t, values, s.states, carried, dw);
  plim_tensor *decay = k_sum(t, parts, 1, false, PLIM_FP32);
  plim_consume(t, parts);
  plim_tensor *more_k = like(t, k), *dv = like(t, v); // prepare_wy_repr_bwd
  plim_tensor *more_decay = like(t, saved[DECAY]), *beta = like(t, saved[BETA]);
  products(t, 3 * CHUNK, dw, saved[INVERSE], more_k);
  plim_work_products(t, 2 * CHUNK, carried, NULL, dv);
  plim_consume(t, carried);
  plim_work_map(t, dk, more_k, dk);
  plim_work_map(t, decay, more_decay, decay);
  plim_tensor *sums = sums_in_chunks(t, decay);
  plim_consume(t, decay);
  consume_all(t, s.w, s.u, s.states, s.fresh, states, dw, more_k, more_decay);
  out[0] = normalised_backward(t, q, dq);
  out[1] = normalised_backward(t, k, dk);
  out[2] = dv, out[3] = sums, out[4] = beta;
  if (gradient != in[0]) plim_consume(t, gradient);
}

plim_tensor *plim_fla_delta_rule(plim_tape *t, plim_tensor *query, plim_tensor *key,
                                 plim_tensor *value, plim_tensor *decay, plim_tensor *beta) {
  plim_tensor *inputs[] = {query, key, value, decay, beta}, *copies[5], *saved[INVERSE + 1];
  plim_tape_at(t, "delta rule");
  plim_grad_node *n = python_node(t, rule_backward, inputs, 5);
  for (int i = 0; i < 5; i++) copies[i] = guarded(t, inputs[i]);
  saved[V] = copies[2], saved[BETA] = copies[4];
  saved[Q] = normalised(t, copies[0], &saved[Q_SCALE]);
  saved[K] = normalised(t, copies[1], &saved[K_SCALE]);
  saved[DECAY] = sums_in_chunks(t, copies[3]);
  saved[INVERSE] = inverse_systems(t, saved[K], saved[DECAY]);
  scan s = scanned(t, saved[K], saved[V], saved[INVERSE]);
  plim_tensor *out = like(t, s.fresh); // chunk_fwd_o
  products(t, saved[K]->shape.at[3] + CHUNK, saved[Q], s.states, out);
  plim_work_products(t, CHUNK, saved[K], s.fresh, out);
  consume_all(t, s.w, s.u, s.states, s.fresh);
  for (int i = DECAY_INPUT; i >= 0; i--)
    if (copies[i] != inputs[i] && i != VALUE_INPUT) plim_consume(t, copies[i]);
  save(t, n, inputs, 5, saved, INVERSE + 1);
  if (n) node_output(t, n, out);
  for (int i = 0; i < 5; i++) plim_consume(t, inputs[i]);
  return out;
}

// ---- the norm with a gate --------------------------------------------------------------------------------
// fla/modules/fused_norm_gate.py: LayerNormGatedFunction.

enum { NORM_X, NORM_GATE, NORM_WEIGHT };

// The weight's gradient is computed even if the weight is frozen.
static void norm_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  const plim_tensor *weight = n->saved[NORM_WEIGHT];
  plim_tensor *gradient = guarded(t, in[0]);
  out[0] = like(t, n->saved[NORM_X]);
  out[1] = like(t, n->saved[NORM_GATE]);
  plim_dims rows = dims(plim_tape_gpu(t)->multiprocessors, weight->shape.at[0]);
  plim_tensor *parts = empty(t, rows, PLIM_FP32);
  map(t, n->saved[NORM_X], gradient, out[0]);
  plim_work_map(t, n->saved[NORM_GATE], NULL, out[1]);
  out[2] = summed_parts(t, parts, (plim_dtype)weight->dtype);
  if (gradient != in[0]) plim_consume(t, gradient);
}

plim_tensor *plim_fla_gated_norm(plim_tape *t, plim_tensor *x, plim_tensor *gate,
                                 plim_tensor *weight) {
  plim_tensor *inputs[] = {x, gate, weight}, *saved[4] = {NULL, NULL, weight};
  plim_grad_node *n = python_node(t, norm_backward, inputs, 3);
  saved[NORM_X] = guarded(t, x);
  saved[NORM_GATE] = guarded(t, gate);
  plim_tensor *out = like(t, x);
  saved[3] = empty(t, dims(x->shape.at[0]), PLIM_FP32); // the scale of each row
  map(t, x, gate, out);
  save(t, n, inputs, 3, saved, 4);
  if (n) node_output(t, n, out);
  consume_all(t, x, gate);
  return out;
}

// ---- convolutions ------------------------------------------------------------------------------------------

enum { CONV_X, CONV_WEIGHT };

// causal_conv1d_bwd (fla/modules/convolution.py): the kernel works on this many tokens at a time.
static int64_t conv_tokens(const plim_tape *t, int64_t tokens) {
  int64_t share = plim_ceil_div(tokens < 16 ? 16 : tokens, plim_tape_gpu(t)->multiprocessors),
          n = 1;
  while (n < share && n < CHUNK) n *= 2;
  return n;
}

static void fla_conv_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                              plim_tensor **out) {
  const plim_tensor *x = n->saved[CONV_X], *weight = n->saved[CONV_WEIGHT];
  int64_t batch = x->shape.at[0], length = x->shape.at[1];
  int64_t blocks = batch * plim_ceil_div(length, conv_tokens(t, batch * length));
  plim_tensor *gradient = guarded(t, in[0]), *again = like(t, x);
  map(t, x, weight, again);
  out[0] = like(t, x);
  plim_tensor *parts = empty(t, dims(blocks, weight->shape.at[0], weight->shape.at[1]), PLIM_FP32);
  map(t, again, gradient, out[0]);
  out[1] = summed_parts(t, parts, (plim_dtype)weight->dtype);
  plim_consume(t, again);
  if (gradient != in[0]) plim_consume(t, gradient);
}

plim_tensor *plim_fla_conv1d(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_tensor *inputs[] = {x, weight};
  plim_tape_at(t, "conv1d");
  plim_grad_node *n = python_node(t, fla_conv_backward, inputs, 2);
  plim_tensor *saved[] = {guarded(t, x), weight}, *out = like(t, x);
  map(t, x, weight, out);
  save(t, n, inputs, 2, saved, 2);
  if (n) node_output(t, n, out);
  consume_all(t, x, weight);
  return out;
}

// causal_conv1d_interface.py and cpp_functions.py. The C++ code copies a gradient in another layout than the input's.
static void package_conv_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                  plim_tensor **out) {
  const plim_tensor *x = n->saved[CONV_X], *weight = n->saved[CONV_WEIGHT];
  out[0] = k_like(t, x);
  plim_tensor *sum = empty(t, weight->shape, PLIM_FP32);
  plim_tensor *copy = plim_same(&in[0]->stride, &x->stride) ? NULL : k_like(t, x);
  plim_work_map(t, x, in[0], out[0]);
  plim_consume(t, copy);
  out[1] = k_to(t, sum, (plim_dtype)weight->dtype);
  if (out[1] != sum) plim_consume(t, sum);
}

plim_tensor *plim_package_conv1d(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_tensor *inputs[] = {x, weight};
  plim_tape_at(t, "conv1d");
  plim_grad_node *n = python_node(t, package_conv_backward, inputs, 2);
  if (n) node_save(t, n, x), node_save(t, n, weight);
  plim_tensor *out = k_like(t, x);
  plim_work_map(t, x, weight, out);
  if (n) node_output(t, n, out);
  consume_all(t, x, weight);
  return out;
}
