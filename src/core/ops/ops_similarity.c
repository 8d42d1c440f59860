// Operators of losses that compare embeddings: normalisation, logsumexp, dot products and concatenation.
#include "ops_impl.h"

#include "op_names.h"

// ---- norms ------------------------------------------------------------------------------------------

// grad * (self / norm).masked_fill_(norm == 0, 0)
static void norm_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *direction = k_binary(t, n->saved[0], n->saved[1]);
  plim_tensor *is_zero = k_binary_as(t, n->saved[1], NULL, PLIM_BOOL);
  plim_work_map(t, direction, is_zero, direction);
  out[0] = k_binary(t, in[0], direction);
  consume_all(t, is_zero, direction);
}

static plim_tensor *vector_norm(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, norm_backward, x);
  if (n) node_save(t, n, x);
  plim_tensor *out = k_sum(t, x, 1u << (x->shape.n - 1), true, (plim_dtype)x->dtype);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, x, NULL);
}

static void clamp_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *zero = empty(t, (plim_dims){0}, (plim_dtype)in[0]->dtype);
  plim_tensor *is_above = k_binary_as(t, n->saved[0], NULL, PLIM_BOOL);
  out[0] = k_binary_as(t, is_above, in[0], (plim_dtype)in[0]->dtype);
  consume_all(t, is_above, zero);
}

plim_tensor *clamp_min(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, clamp_backward, x);
  if (n) node_save(t, n, x);
  return finish(t, n, k_unary(t, x), x, NULL);
}

static plim_tensor *divide_both(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node2(t, plim_divide_backward, a, b);
  if (n) node_save(t, n, b), node_save(t, n, a);
  return finish(t, n, k_binary(t, a, b), a, b);
}

plim_tensor *normalize(plim_tape *t, plim_tensor *x) {
  plim_tensor *denominator = NULL;
  bool was = hold(x);
  plim_tensor *norms = clamp_min(t, vector_norm(t, x));
  set(t, &denominator, expand(t, norms, x->shape));
  plim_tensor *out = divide_both(t, x, denominator);
  drop(t, &denominator);
  let_go(t, x, was);
  return out;
}

// ---- logsumexp --------------------------------------------------------------------------------------

static void logsumexp_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                               plim_tensor **out) {
  int64_t rows = in[0]->shape.at[0];
  plim_tensor *result = k_view(t, n->saved[1], dims(rows, 1)),
              *grad = k_view(t, in[0], dims(rows, 1));
  plim_tensor *difference = k_binary(t, n->saved[0], result);
  plim_tensor *power = k_unary(t, difference);
  out[0] = k_binary(t, grad, power);
  consume_all(t, power, difference, grad, result);
}

// As PyTorch computes it: subtracts each row's maximum and adds it again at the end.
plim_tensor *logsumexp(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, logsumexp_backward, x);
  if (n) node_save(t, n, x);
  plim_dims rows = dims(x->shape.at[0]);
  plim_dtype dtype = (plim_dtype)x->dtype;
  plim_tensor *largest = k_sum(t, x, 1u << 1, true, dtype);
  plim_tensor *sizes = k_map(t, rows, dtype, largest, NULL);
  plim_tensor *is_infinite = k_map(t, rows, PLIM_BOOL, sizes, NULL);
  consume_all(t, is_infinite, sizes);
  plim_tensor *difference = k_binary(t, x, largest);
  plim_tensor *out = k_sum(t, difference, 1u << 1, false, dtype);
  plim_consume(t, difference);
  plim_consume(t, largest);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, x, NULL);
}

// ---- products ---------------------------------------------------------------------------------------

static void dot_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = k_binary(t, in[0], n->saved[0]);
}

plim_tensor *dot(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node2(t, dot_backward, a, b);
  if (n) node_save(t, n, b);
  plim_tensor *out = empty(t, (plim_dims){0}, (plim_dtype)a->dtype);
  k_cublas(t);
  return finish(t, n, out, a, b);
}

// ---- rows put together ------------------------------------------------------------------------------

static void same_rows_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                               plim_tensor **out) {
  out[0] = k_view(t, in[0], n->shape);
}

plim_tensor *cat1(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, same_rows_backward, x);
  if (n) n->shape = x->shape;
  return finish(t, n, empty(t, x->shape, (plim_dtype)x->dtype), x, NULL);
}

// Backward stacks the gradients of the parts, which is a copy.
static void cat_parts_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                               plim_tensor **out) {
  out[0] = k_map(t, n->shape, (plim_dtype)in[0]->dtype, in[0], NULL);
}

plim_tensor *cat_parts(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, cat_parts_backward, x);
  if (n) n->shape = x->shape;
  plim_dims rows = dims(x->shape.at[0] * x->shape.at[1], x->shape.at[2]);
  return finish(t, n, empty(t, rows, (plim_dtype)x->dtype), x, NULL);
}
