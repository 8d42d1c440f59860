// LayerNorm.
#include "ops_impl.h"
#include "tape_state.h"

#include "op_names.h"

// LaunchGammaBetaBackwardCUDAKernel: with many short rows, each block sums some of them and a second pass adds up the
// partial sums. Seen at 65,537 and 131,072 rows; since torch 2.8.
static void sum_in_parts(plim_tape *t, int64_t rows, int64_t width, plim_tensor **gradients) {
  int64_t blocks = (rows + 31) / 32, most = 32768 / ((width + 31) / 32);
  plim_tensor *parts[2] = {NULL};
  for (int i = 0; i < 2; i++)
    if (gradients[i])
      parts[i] =
          empty(t, dims(blocks < most ? blocks : most, width), (plim_dtype)gradients[i]->dtype);
  for (int i = 0; i < 2; i++) {
    if (!parts[i]) continue;
    plim_tensor *first = gradients[i];
    gradients[i] = k_sum(t, parts[i], 1, false, (plim_dtype)first->dtype);
    plim_consume(t, first);
  }
  plim_consume(t, parts[1]);
  plim_consume(t, parts[0]);
}

// Saved: bias, input, weight, mean, 1/deviation; number: the input's place among them.
static void layer_norm_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                plim_tensor **out) {
  const plim_tensor *x = n->saved[n->number];
  if (wants(n, 0)) out[0] = k_map(t, x->shape, (plim_dtype)x->dtype, x, in[0]);
  if (wants(n, 1)) out[1] = empty(t, n->shape, (plim_dtype)n->dtype);
  if (wants(n, 2)) out[2] = empty(t, n->shape, (plim_dtype)n->dtype);
  int64_t width = x->shape.at[x->shape.n - 1], rows = plim_numel(&x->shape) / width;
  bool is_tall = rows > 65536 && width / 32 < plim_tape_gpu(t)->multiprocessors / 2;
  if (is_tall && plim_torch_from(t, 2, 8)) sum_in_parts(t, rows, width, out + 1);
}

static plim_tensor *layer_norm_of(plim_tape *t, plim_tensor *wide, plim_tensor *weight,
                                  plim_tensor *bias) {
  plim_grad_node *n = node_begin(t, layer_norm_backward, (plim_tensor *[]){wide, weight, bias}, 3);
  if (n) {
    if (weight) n->shape = weight->shape, n->dtype = weight->dtype;
    n->number = bias ? 1 : 0;
    node_save(t, n, bias);
    node_save(t, n, wide);
    node_save(t, n, weight);
  }
  plim_dims rows = wide->shape;
  rows.at[rows.n - 1] = 1;
  plim_tensor *out = k_map(t, wide->shape, (plim_dtype)wide->dtype, wide, NULL);
  plim_work_map(t, wide, NULL, out);
  plim_tensor *mean = empty(t, rows, PLIM_FP32), *deviation = empty(t, rows, PLIM_FP32);
  if (n) node_save_output(t, n, mean), node_save_output(t, n, deviation), node_output(t, n, out);
  plim_consume(t, mean);
  plim_consume(t, deviation);
  return out;
}

plim_tensor *cast_wide(plim_tape *t, plim_tensor *x) {
  return x && plim_autocast_is_on(t) ? to(t, x, PLIM_FP32) : x;
}

// Under autocast it runs in float32; arguments are cast from right to left.
plim_tensor *layer_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias) {
  plim_tape_at(t, "norm");
  bool was = hold(x);
  bias = cast_wide(t, bias);
  weight = cast_wide(t, weight);
  plim_tensor *wide = cast_wide(t, x);
  bool wide_was = hold(wide), weight_was = weight && hold(weight), bias_was = bias && hold(bias);
  plim_tensor *out = layer_norm_of(t, wide, weight, bias);
  let_go(t, wide, wide_was);
  if (weight) let_go(t, weight, weight_was);
  if (bias) let_go(t, bias, bias_was);
  let_go(t, x, was);
  return out;
}
