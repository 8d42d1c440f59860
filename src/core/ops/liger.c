#include "liger.h"

#include "kernels.h"
#include "tape_state.h"
#include "work.h"

#include "tape_names.h"

void plim_tape_set_liger(plim_tape *t, bool on) { plim_state(t)->uses_liger = on; }

bool plim_tape_uses_liger(const plim_tape *t) { return plim_const_state(t)->uses_liger; }

static plim_grad_node *python_node(plim_tape *t, plim_backward_fn *function, plim_tensor *a,
                                   plim_tensor *b) {
  plim_grad_node *n = node_begin(t, function, (plim_tensor *[]){a, b}, 2);
  if (n) n->drops_in_order = true;
  return n;
}

// ---- RMSNorm --------------------------------------------------------------------------------------

// A partial gradient of the weight for each multiprocessor, in float32, then their sum.
static plim_tensor *norm_weight_gradient(plim_tape *t, const plim_tensor *weight) {
  plim_tensor *parts =
      empty(t, dims(plim_tape_gpu(t)->multiprocessors, weight->shape.at[0]), PLIM_FP32);
  plim_tensor *sum = k_sum(t, parts, 1, false, PLIM_FP32);
  plim_tensor *out = k_to(t, sum, (plim_dtype)weight->dtype);
  if (out != sum) plim_consume(t, sum);
  plim_consume(t, parts);
  return out;
}

static void norm_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_work_triton(t);
  if (wants(n, 1)) out[1] = norm_weight_gradient(t, n->saved[1]);
  if (wants(n, 0)) out[0] = k_view(t, in[0], in[0]->shape);
  plim_work_map(t, n->saved[0], in[0], in[0]);
}

// in_place=False: the gradient of x is a tensor of its own.
static void norm_backward_apart(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                plim_tensor **out) {
  plim_work_triton(t);
  if (wants(n, 1)) out[1] = norm_weight_gradient(t, n->saved[1]);
  if (wants(n, 0)) out[0] = empty(t, in[0]->shape, (plim_dtype)in[0]->dtype);
  plim_work_map(t, n->saved[0], in[0], in[0]);
}

static plim_tensor *norm(plim_tape *t, plim_backward_fn *backward, plim_tensor *x,
                         plim_tensor *weight) {
  plim_tape_at(t, "norm");
  plim_work_triton(t);
  plim_grad_node *n = python_node(t, backward, x, weight);
  plim_tensor *out = empty(t, x->shape, (plim_dtype)x->dtype);
  int64_t rows = plim_numel(&x->shape) / x->shape.at[x->shape.n - 1];
  plim_tensor *scales = empty(t, dims(rows), PLIM_FP32);
  plim_work_map(t, x, NULL, out);
  if (n) {
    node_save(t, n, x);
    node_save(t, n, weight);
    node_save_output(t, n, scales);
    node_output(t, n, out);
  }
  plim_consume(t, scales);
  plim_consume(t, x);
  return out;
}

plim_tensor *plim_liger_rms_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  return norm(t, norm_backward, x, weight);
}

plim_tensor *plim_liger_rms_norm_apart(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  return norm(t, norm_backward_apart, x, weight);
}

// ---- rotary positions -----------------------------------------------------------------------------

// Heads as they lie in memory, (B,T,H,D), or a copy that does; seen as (B,H,T,D) again.
static plim_tensor *turned(plim_tape *t, plim_tensor *x) {
  plim_tensor *flat = k_transpose(t, x, 1, 2);
  bool is_flat = plim_is_contiguous(flat);
  plim_tensor *memory = is_flat ? flat : empty(t, flat->shape, (plim_dtype)flat->dtype);
  if (!is_flat) plim_consume(t, flat);
  plim_tensor *out = k_transpose(t, memory, 1, 2);
  plim_work_map(t, x, NULL, memory);
  plim_consume(t, memory);
  return out;
}

static void rope_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_work_triton(t);
  for (int i = 0; i < 2; i++)
    if (wants(n, i) && in[i]) out[i] = turned(t, in[i]);
}

void plim_liger_rope(plim_tape *t, plim_tensor **q, plim_tensor **k, plim_tensor *cos,
                     plim_tensor *sin) {
  plim_tape_at(t, "rope");
  plim_work_triton(t);
  plim_grad_node *n = python_node(t, rope_backward, *q, *k);
  plim_tensor *new_q = turned(t, *q), *new_k = NULL;
  new_k = turned(t, *k);
  if (n) {
    node_save(t, n, cos);
    node_save(t, n, sin);
    node_output(t, n, new_q);
    node_output(t, n, new_k);
  }
  set(t, q, new_q);
  set(t, k, new_k);
}

// ---- SwiGLU ---------------------------------------------------------------------------------------

static void swiglu_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_work_triton(t);
  plim_work_bytes(t, 5 * plim_bytes_of(in[0]));
  for (int i = 0; i < 2; i++) out[i] = k_view(t, n->saved[i], n->saved[i]->shape);
}

plim_tensor *plim_liger_swiglu(plim_tape *t, plim_tensor *gate, plim_tensor *up) {
  plim_tape_at(t, "swiglu");
  plim_work_triton(t);
  plim_grad_node *n = python_node(t, swiglu_backward, gate, up);
  plim_tensor *out = empty(t, gate->shape, (plim_dtype)gate->dtype);
  plim_work_map(t, gate, up, out);
  if (n) {
    node_save(t, n, gate);
    node_save(t, n, up);
    node_output(t, n, out);
  }
  plim_consume(t, gate);
  plim_consume(t, up);
  return out;
}
