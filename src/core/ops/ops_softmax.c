// Softmax, log-softmax and the negative log-likelihood loss.
#include "ops_impl.h"

#include "op_names.h"

static void softmax_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = empty(t, in[0]->shape, (plim_dtype)n->dtype);
  plim_work_softmax(t, 2, out[0]);
  plim_consume(t, k_binary(t, in[0], n->saved[0]));
}

plim_tensor *safe_softmax(plim_tape *t, plim_tensor *x) {
  plim_tape_at(t, "softmax");
  plim_grad_node *n = node1(t, softmax_backward, x);
  if (n) n->dtype = x->dtype;
  plim_tensor *out = empty(t, x->shape, (plim_dtype)x->dtype);
  plim_work_softmax(t, 1, out);
  plim_dims rows = x->shape;
  rows.at[rows.n - 1] = 1;
  plim_tensor *masked = k_map(t, x->shape, PLIM_BOOL, x, NULL);
  plim_tensor *whole = k_map(t, rows, PLIM_BOOL, masked, NULL);
  plim_work_map(t, out, whole, out);
  plim_consume(t, empty(t, (plim_dims){0}, PLIM_FP32));
  plim_consume(t, whole);
  plim_consume(t, masked);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, x, NULL);
}

// For float16 one kernel reads float16 and writes float32; bfloat16 is cast first.
plim_tensor *softmax(plim_tape *t, plim_tensor *x, plim_dtype dtype) {
  plim_tape_at(t, "softmax");
  bool widens = x->dtype == PLIM_FP16 && dtype == PLIM_FP32;
  plim_tensor *wide = widens ? x : to(t, x, dtype);
  plim_grad_node *n = node1(t, softmax_backward, wide);
  if (n) n->dtype = wide->dtype;
  plim_tensor *out = empty(t, wide->shape, dtype);
  plim_work_softmax(t, 1, out);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, wide, NULL);
}

static void log_softmax_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                 plim_tensor **out) {
  (void)n;
  out[0] = empty(t, in[0]->shape, (plim_dtype)in[0]->dtype);
  plim_work_softmax(t, 2, out[0]);
}

plim_tensor *log_softmax(plim_tape *t, plim_tensor *x) {
  plim_tape_at(t, "log_softmax");
  plim_grad_node *n = node1(t, log_softmax_backward, x);
  plim_tensor *out = empty(t, x->shape, (plim_dtype)x->dtype);
  plim_work_softmax(t, 1, out);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, x, NULL);
}

static void nll_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)in;
  out[0] = empty(t, n->saved[0]->shape, (plim_dtype)n->saved[0]->dtype);
}

plim_tensor *nll_loss(plim_tape *t, plim_tensor *x, plim_tensor *target) {
  plim_tape_at(t, "nll_loss");
  plim_grad_node *n = node1(t, nll_backward, x);
  if (n) node_save(t, n, x), node_save(t, n, target);
  plim_tensor *out = empty(t, (plim_dims){0}, (plim_dtype)x->dtype);
  plim_tensor *total_weight = empty(t, (plim_dims){0}, (plim_dtype)x->dtype);
  if (n) node_save_output(t, n, total_weight);
  plim_work_map(t, target, NULL, out); // reads only the elements of x at the targets
  plim_consume(t, total_weight);
  return finish(t, n, out, x, target);
}

static void mse_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)in;
  out[0] = k_like(t, n->saved[0]);
}

// Autocast runs it in float32. The result's memory is that of all squares: the mean is written into its first element.
plim_tensor *mse_loss(plim_tape *t, plim_tensor *x, plim_tensor *target) {
  if (plim_autocast_is_on(t)) x = to(t, x, PLIM_FP32);
  plim_grad_node *n = node1(t, mse_backward, x);
  if (n) node_save(t, n, x), node_save(t, n, target);
  plim_tensor *whole = k_binary(t, x, target);
  plim_consume(t, k_binary(t, x, target)); // the squares
  plim_tensor *out = alias_of(t, whole, (plim_dims){0}, (plim_dims){0});
  plim_consume(t, whole);
  return finish(t, n, out, x, NULL);
}
