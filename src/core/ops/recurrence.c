#include "recurrence.h"

#include "ops_impl.h"

#include "op_names.h"

// ---- padding and repeating ----------------------------------------------------------------------------

// constant_pad_nd with negative padding: a copy of what was there before.
static void pad_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *kept = view_of(t, in[0], n->shape, in[0]->stride);
  out[0] = k_like(t, kept);
  plim_work_map(t, kept, NULL, out[0]);
  plim_consume(t, kept);
}

plim_tensor *pad(plim_tape *t, plim_tensor *x, int dim, int64_t more) {
  plim_grad_node *n = node1(t, pad_backward, x);
  if (n) n->shape = x->shape;
  plim_dims shape = x->shape;
  shape.at[dim] += more;
  // constant_pad_nd keeps the memory format that PyTorch calls channels_last.
  plim_dims stride = plim_is_channels_last(x) ? plim_channels_last_strides(&shape)
                                              : plim_contiguous_strides(&shape);
  plim_tensor *out = more ? empty_strided(t, shape, stride, (plim_dtype)x->dtype) : k_like(t, x);
  return finish(t, n, out, x, NULL);
}

plim_tensor *repeat_each(plim_tape *t, plim_tensor *x, int64_t times, int dim) {
  plim_dims shape = x->shape, spread = {.n = x->shape.n + 1};
  shape.at[dim] *= times;
  for (int i = 0; i < spread.n; i++) spread.at[i] = i == dim + 1 ? times : -1;
  return view(t, contiguous_copy(t, expand(t, unsqueeze(t, x, dim + 1), spread)), shape);
}

// ---- running sums -------------------------------------------------------------------------------------

// The result comes first; the kernel reads a contiguous copy.
static plim_tensor *k_cumsum(plim_tape *t, const plim_tensor *x) {
  plim_dtype dtype = (plim_dtype)x->dtype;
  plim_tensor *out = empty(t, x->shape, dtype);
  plim_tensor *copy = plim_is_contiguous(x) ? NULL : empty(t, x->shape, dtype);
  plim_work_map(t, x, NULL, out);
  plim_consume(t, copy);
  return out;
}

// grad.flip(dim).cumsum(dim).flip(dim)
static void cumsum_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)n;
  plim_tensor *flipped = k_unary(t, in[0]), *sums = k_cumsum(t, flipped);
  out[0] = k_unary(t, sums);
  consume_all(t, sums, flipped);
}

static void copy_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)t, (void)n;
  out[0] = pass(in[0]);
}

plim_tensor *cumsum(plim_tape *t, plim_tensor *x, int dim) {
  bool is_single = x->shape.at[dim] == 1; // its gradient is handed on
  plim_grad_node *n = node1(t, is_single ? copy_backward : cumsum_backward, x);
  return finish(t, n, k_cumsum(t, x), x, NULL);
}

// ---- triangular systems -------------------------------------------------------------------------------

// triangular_solve_kernel in PyTorch's BatchLinearAlgebra.cpp: up to eight systems of 64 rows or more are solved one by
// one, others at once, with an array of pointers for either operand.
enum { SOLVED_ONE_BY_ONE = 8, LARGE_ROWS = 64 };

static int64_t batch_of(const plim_tensor *x) {
  int64_t rows = x->shape.at[x->shape.n - 2], columns = x->shape.at[x->shape.n - 1];
  return plim_numel(&x->shape) / (rows * columns);
}

// The result has columns as its fastest dimension, as cuBLAS writes it.
static plim_tensor *k_solve(plim_tape *t, const plim_tensor *system, const plim_tensor *right) {
  plim_dims shape = right->shape, stride = plim_contiguous_strides(&shape);
  int64_t batch = batch_of(system), rows = shape.at[shape.n - 2];
  stride.at[shape.n - 2] = 1;
  stride.at[shape.n - 1] = rows;
  plim_tensor *out = empty_strided(t, shape, stride, (plim_dtype)right->dtype);
  k_cublas(t);
  plim_work_matmul(t, system, right, out);
  if (batch <= SOLVED_ONE_BY_ONE && rows >= LARGE_ROWS) return out;
  plim_tensor *systems = scratch(t, (uint64_t)(8 * batch));
  plim_consume(t, scratch(t, (uint64_t)(8 * batch)));
  plim_consume(t, systems);
  return out;
}

static plim_tensor *k_batched(plim_tape *t, plim_tensor *x) { // (...,M,N) -> (B,M,N)
  int last = x->shape.n - 1;
  return k_reshape(t, x, dims(batch_of(x), x->shape.at[last - 1], x->shape.at[last]));
}

// tril(-(solution of the transposed system @ x.T), -1)
static plim_tensor *system_gradient(plim_tape *t, plim_tensor *grad_right, plim_tensor *x,
                                    const plim_dims *shape) {
  int last = x->shape.n - 1;
  plim_tensor *flipped = k_transpose(t, x, last - 1, last);
  plim_tensor *left = k_batched(t, grad_right), *right = k_batched(t, flipped);
  plim_tensor *folded = k_bmm(t, left, right);
  plim_tensor *product = alias_of(t, folded, *shape, plim_contiguous_strides(shape));
  consume_all(t, folded, right, left, flipped);
  plim_tensor *negative = k_unary(t, product);
  plim_consume(t, product);
  plim_tensor *lower = k_unary(t, negative);
  plim_consume(t, negative);
  return lower;
}

// Saved: the system, then the solution.
static void solve_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[1] = k_solve(t, n->saved[0], in[0]);
  if (wants(n, 0)) out[0] = system_gradient(t, out[1], n->saved[1], &n->saved[0]->shape);
}

plim_tensor *solve_triangular(plim_tape *t, plim_tensor *system, plim_tensor *right) {
  plim_grad_node *n = node2(t, solve_backward, system, right);
  if (n) node_save(t, n, system);
  plim_tensor *out = k_solve(t, system, right);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, system, right);
}

// ---- assignment to a part -----------------------------------------------------------------------------

// PyTorch's CopySlices: copies the whole gradient; the part that was assigned is copied out, and zeros take its place.
static void assign_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_dims part_shape = {0}, part_stride = {0};
  plim_tensor *whole = empty_strided(t, in[0]->shape, n->shape, (plim_dtype)in[0]->dtype);
  plim_work_map(t, in[0], NULL, whole);
  for (int i = 0; i < whole->shape.n; i++) {
    if (i == n->number) continue;
    part_shape.at[part_shape.n++] = whole->shape.at[i];
    part_stride.at[part_stride.n++] = whole->stride.at[i];
  }
  plim_tensor *part = view_of(t, whole, part_shape, part_stride), *copy = k_like(t, part);
  plim_work_map(t, part, NULL, copy);
  plim_tensor *zeros = wants(n, 0) ? k_like(t, copy) : NULL;
  out[1] = k_to(t, copy, (plim_dtype)n->dtype);
  if (out[1] != copy) plim_consume(t, copy);
  consume_all(t, zeros, part);
  out[0] = whole;
}

void assign_index(plim_tape *t, plim_tensor *x, int dim, plim_tensor *value) {
  plim_grad_node *n = node2(t, assign_backward, x, value);
  if (n) n->shape = x->stride, n->number = dim, n->dtype = value->dtype;
  plim_work_map(t, value, NULL, value);
  finish_in_place(t, n, x);
  plim_consume(t, value);
}

// ---- depthwise convolution ----------------------------------------------------------------------------

// PyTorch's own kernels, without a workspace. In float16 they are cuDNN's, which was recorded to need none either
// (tests/truth/convolutions.jsonl.xz).
static void conv_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *x = n->saved[0], *weight = n->saved[1];
  plim_tensor *copy = plim_is_contiguous(x) ? NULL : empty(t, x->shape, (plim_dtype)x->dtype);
  plim_tensor *grad = plim_is_contiguous(in[0]) ? NULL : empty(t, in[0]->shape, in[0]->dtype);
  if (wants(n, 1)) out[1] = k_map(t, weight->shape, (plim_dtype)weight->dtype, in[0], x);
  if (wants(n, 0)) out[0] = k_map(t, x->shape, (plim_dtype)x->dtype, in[0], weight);
  if (wants(n, 2)) out[2] = k_sum(t, in[0], 1u << 0 | 1u << 2, false, (plim_dtype)in[0]->dtype);
  consume_all(t, grad, copy);
}

static plim_tensor *convolve(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias,
                             int64_t padding) {
  plim_grad_node *n = node_begin(t, conv_backward, (plim_tensor *[]){x, weight, bias}, 3);
  if (n) node_save(t, n, x), node_save(t, n, weight);
  plim_dims shape = x->shape;
  shape.at[2] += 2 * padding - weight->shape.at[2] + 1;
  plim_tensor *copy = plim_is_contiguous(x) ? NULL : empty(t, x->shape, (plim_dtype)x->dtype);
  plim_tensor *out = k_map(t, shape, (plim_dtype)x->dtype, x, weight);
  if (n) node_output(t, n, out);
  plim_consume(t, copy);
  return out;
}

plim_tensor *depthwise_conv1d(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias,
                              int64_t padding) {
  bool was = hold(x), weight_was = hold(weight);
  plim_tensor *addend = cast(t, bias), *kernel = cast(t, weight), *input = cast(t, x);
  plim_tensor *out = convolve(t, input, kernel, addend, padding);
  consume_all(t, input, kernel, addend);
  let_go(t, x, was);
  let_go(t, weight, weight_was);
  return out;
}
