// Helpers for writing operators: how one begins its node and how it ends. Private to this folder.
//
//   plim_grad_node *n = node1(t, silu_backward, x);   // before anything is allocated
//   if (n) node_save(t, n, x);
//   return finish(t, n, k_unary(t, x), x, NULL);
#ifndef PLIM_CORE_OPS_IMPL_H
#define PLIM_CORE_OPS_IMPL_H

#include "kernels.h"
#include "ops.h"
#include "tape_state.h"
#include "work.h"

static inline plim_grad_node *node1(plim_tape *t, plim_backward_fn *function, plim_tensor *a) {
  return plim_node_begin(t, function, &a, 1);
}

static inline plim_grad_node *node2(plim_tape *t, plim_backward_fn *function, plim_tensor *a,
                                    plim_tensor *b) {
  return plim_node_begin(t, function, (plim_tensor *[]){a, b}, 2);
}

// Ends an operator: attaches the node to the result and consumes the arguments from left to right.
static inline plim_tensor *finish(plim_tape *t, plim_grad_node *n, plim_tensor *out, plim_tensor *a,
                                  plim_tensor *b) {
  if (n) plim_node_output(t, n, out);
  plim_work_default(t, a, b, out);
  plim_consume(t, a);
  plim_consume(t, b);
  return out;
}

// Ends an in-place operator: the tensor gets the new node in place of its old one.
static inline void finish_in_place(plim_tape *t, plim_grad_node *n, plim_tensor *x) {
  if (!n) return;
  plim_grad_node *before = x->fn;
  plim_node_output(t, n, x);
  if (before) plim_node_release(t, before);
}

static inline plim_tensor *pass(plim_tensor *x) { // hands the same gradient on
  plim_retain(x);
  return x;
}

// PyTorch's is_channels_last_strides_2d: whether a four-dimensional tensor has the memory format that it calls
// channels_last. Transposed tensors and their gradients happen to have it.
bool plim_is_channels_last(const plim_tensor *x);
plim_dims plim_channels_last_strides(const plim_dims *shape);

// The gradient of a / b where both need one; the node has saved b, then a.
plim_backward_fn plim_divide_backward;

// Passes the incoming gradient on to all inputs unchanged.
static inline void pass_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                 plim_tensor **out) {
  (void)t;
  for (int i = 0; i < n->edge_count; i++) out[i] = plim_wants(n, i) ? pass(in[0]) : NULL;
}

#endif
