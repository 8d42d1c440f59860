// Views, and the copies that replace them where a view is not possible.
#include "ops_impl.h"

#include "op_names.h"

static void reshape_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = k_reshape(t, in[0], n->shape);
}

static plim_dims infer(const plim_tensor *x, plim_dims shape) {
  int64_t known = 1;
  int open = -1;
  for (int i = 0; i < shape.n; i++) {
    if (shape.at[i] < 0) open = i;
    else known *= shape.at[i];
  }
  if (open >= 0) shape.at[open] = plim_numel(&x->shape) / known;
  return shape;
}

plim_tensor *view(plim_tape *t, plim_tensor *x, plim_dims shape) {
  plim_grad_node *n = node1(t, reshape_backward, x);
  if (n) n->shape = x->shape;
  return finish(t, n, k_view(t, x, infer(x, shape)), x, NULL);
}

plim_tensor *unsafe_view(plim_tape *t, plim_tensor *x, plim_dims shape) {
  plim_grad_node *n = node1(t, reshape_backward, x);
  if (n) n->shape = x->shape;
  shape = infer(x, shape);
  return finish(t, n, alias_of(t, x, shape, plim_contiguous_strides(&shape)), x, NULL);
}

plim_tensor *contiguous_copy(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, pass_backward, x);
  return finish(t, n, empty(t, x->shape, (plim_dtype)x->dtype), x, NULL);
}

plim_tensor *reshape(plim_tape *t, plim_tensor *x, plim_dims shape) {
  plim_dims stride;
  shape = infer(x, shape);
  if (k_view_strides(x, &shape, &stride)) return view(t, x, shape);
  return unsafe_view(t, contiguous_copy(t, x), shape);
}

plim_tensor *contiguous(plim_tape *t, plim_tensor *x) {
  return plim_is_contiguous(x) ? x : contiguous_copy(t, x);
}

static void transpose_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                               plim_tensor **out) {
  out[0] =
      k_transpose(t, in[0], (int)(n->number / PLIM_MAX_DIMS), (int)(n->number % PLIM_MAX_DIMS));
}

plim_tensor *transpose(plim_tape *t, plim_tensor *x, int a, int b) {
  plim_grad_node *n = node1(t, transpose_backward, x);
  if (n) n->number = a * PLIM_MAX_DIMS + b;
  return finish(t, n, k_transpose(t, x, a, b), x, NULL);
}

static plim_tensor *permuted(plim_tape *t, plim_tensor *x, const plim_dims *order) {
  plim_dims shape = {.n = order->n}, stride = {.n = order->n};
  for (int i = 0; i < order->n; i++) {
    shape.at[i] = x->shape.at[order->at[i]];
    stride.at[i] = x->stride.at[order->at[i]];
  }
  return view_of(t, x, shape, stride);
}

static void permute_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_dims back = {.n = n->shape.n};
  for (int i = 0; i < back.n; i++) back.at[n->shape.at[i]] = i;
  out[0] = permuted(t, in[0], &back);
}

plim_tensor *permute(plim_tape *t, plim_tensor *x, plim_dims order) {
  plim_grad_node *n = node1(t, permute_backward, x);
  if (n) n->shape = order;
  return finish(t, n, permuted(t, x, &order), x, NULL);
}

static void unsqueeze_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                               plim_tensor **out) {
  plim_dims shape = {0}, stride = {0};
  for (int i = 0; i < in[0]->shape.n; i++) {
    if (i == n->number) continue;
    shape.at[shape.n++] = in[0]->shape.at[i];
    stride.at[stride.n++] = in[0]->stride.at[i];
  }
  out[0] = view_of(t, in[0], shape, stride);
}

plim_tensor *unsqueeze(plim_tape *t, plim_tensor *x, int dim) {
  plim_dims shape = {.n = x->shape.n + 1}, stride = {.n = x->shape.n + 1};
  for (int i = 0, k = 0; i < shape.n; i++) {
    bool is_new = i == dim, is_last = k == x->shape.n;
    shape.at[i] = is_new ? 1 : x->shape.at[k];
    stride.at[i] = is_new ? (is_last ? 1 : x->shape.at[k] * x->stride.at[k]) : x->stride.at[k];
    k += !is_new;
  }
  plim_grad_node *n = node1(t, unsqueeze_backward, x);
  if (n) n->number = dim;
  return finish(t, n, view_of(t, x, shape, stride), x, NULL);
}

static void slice_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = k_map(t, n->shape, (plim_dtype)in[0]->dtype, NULL, NULL); // zeros of the source's shape
  plim_work_bytes(t, 2 * plim_bytes_of(in[0]));
}

static plim_tensor *sliced(plim_tape *t, plim_backward_fn *backward_fn, plim_tensor *x, int dim,
                           int64_t length) {
  plim_grad_node *n = node1(t, backward_fn, x);
  if (n) n->shape = x->shape;
  plim_dims shape = x->shape;
  shape.at[dim] = length;
  return finish(t, n, view_of(t, x, shape, x->stride), x, NULL);
}

plim_tensor *slice(plim_tape *t, plim_tensor *x, int dim, int64_t from, int64_t end) {
  bool is_all = from == 0 && end == x->shape.at[dim];
  return sliced(t, is_all ? pass_backward : slice_backward, x, dim, end - from);
}

plim_tensor *slice_rows(plim_tape *t, plim_tensor *x, int64_t from, int64_t end) {
  return sliced(t, slice_backward, x, 0, end - from);
}

plim_tensor *select_first(plim_tape *t, plim_tensor *x, int dim) {
  plim_grad_node *n = node1(t, slice_backward, x);
  if (n) n->shape = x->shape;
  plim_dims shape = {0}, stride = {0};
  for (int i = 0; i < x->shape.n; i++) {
    if (i == dim) continue;
    shape.at[shape.n++] = x->shape.at[i];
    stride.at[stride.n++] = x->stride.at[i];
  }
  return finish(t, n, view_of(t, x, shape, stride), x, NULL);
}

static void split_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = empty(t, n->shape, (plim_dtype)in[0]->dtype); // concatenates the gradients of the parts
  plim_work_map(t, out[0], NULL, out[0]);
}

void plim_op_split(plim_tape *t, plim_tensor *x, plim_tensor **const *parts, size_t count) {
  bool was = hold(x);
  plim_grad_node *n = node1(t, split_backward, x);
  if (n) n->shape = x->shape;
  plim_dims shape = x->shape;
  shape.at[shape.n - 1] /= (int64_t)count;
  for (size_t i = 0; i < count; i++) {
    plim_tensor *part = view_of(t, x, shape, x->stride);
    if (n) node_output(t, n, part);
    set(t, parts[i], part);
  }
  let_go(t, x, was);
}

static void cat_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  int dim = (int)n->number;
  plim_dims first = in[0]->shape, second = in[0]->shape;
  first.at[dim] = n->shape.at[dim];
  second.at[dim] = in[0]->shape.at[dim] - n->shape.at[dim];
  if (wants(n, 0)) out[0] = view_of(t, in[0], first, in[0]->stride);
  if (wants(n, 1)) out[1] = view_of(t, in[0], second, in[0]->stride);
}

plim_tensor *cat2(plim_tape *t, plim_tensor *a, plim_tensor *b, int dim) {
  plim_grad_node *n = node2(t, cat_backward, a, b);
  if (n) n->number = dim, n->shape = a->shape;
  plim_dims shape = a->shape;
  shape.at[dim] += b->shape.at[dim];
  return finish(t, n, empty(t, shape, (plim_dtype)a->dtype), a, b);
}

static void expand_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *sum = k_sum_to(t, in[0], n->shape);
  out[0] = sum == in[0] ? pass(sum) : sum;
}

plim_tensor *expand(plim_tape *t, plim_tensor *x, plim_dims shape) {
  for (int i = 0, lead = shape.n - x->shape.n; i < shape.n; i++)
    if (shape.at[i] < 0) shape.at[i] = x->shape.at[i - lead];
  plim_grad_node *n = node1(t, expand_backward, x);
  if (n) n->shape = x->shape;
  return finish(t, n, k_expand(t, x, shape), x, NULL);
}
