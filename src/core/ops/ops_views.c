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

static plim_tensor *as_complex(plim_tape *t, plim_tensor *x) {
  plim_dims shape = x->shape, stride = x->stride;
  shape.n--, stride.n--;
  for (int i = 0; i < stride.n; i++) stride.at[i] /= 2;
  plim_tensor *out = view_of(t, x, shape, stride);
  out->dtype = PLIM_FP64;
  return out;
}

static plim_tensor *as_real(plim_tape *t, plim_tensor *x) {
  plim_dims shape = x->shape, stride = x->stride;
  for (int i = 0; i < stride.n; i++) stride.at[i] *= 2;
  shape.at[shape.n++] = 2, stride.at[stride.n++] = 1;
  plim_tensor *out = view_of(t, x, shape, stride);
  out->dtype = PLIM_FP32;
  return out;
}

static void as_complex_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                plim_tensor **out) {
  (void)n;
  out[0] = as_real(t, in[0]);
}

static void as_real_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)n;
  plim_tensor *dense = contiguous(t, in[0]);
  out[0] = as_complex(t, dense);
  plim_consume(t, dense);
}

plim_tensor *view_as_complex(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, as_complex_backward, x);
  return finish(t, n, as_complex(t, x), x, NULL);
}

plim_tensor *view_as_real(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, as_real_backward, x);
  return finish(t, n, as_real(t, x), x, NULL);
}

static void slice_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = k_map(t, n->shape, (plim_dtype)in[0]->dtype, NULL, NULL); // zeros of the source's shape
  plim_work_bytes(t, 2 * plim_bytes_of(in[0]));
}

static plim_tensor *part_of(plim_tape *t, plim_tensor *x, int dim, int64_t from, int64_t length) {
  plim_dims shape = x->shape;
  shape.at[dim] = length;
  plim_tensor *part = view_of(t, x, shape, x->stride);
  part->offset += from * x->stride.at[dim];
  return part;
}

static plim_tensor *sliced(plim_tape *t, plim_backward_fn *backward_fn, plim_tensor *x, int dim,
                           int64_t from, int64_t end) {
  plim_grad_node *n = node1(t, backward_fn, x);
  if (n) n->shape = x->shape;
  return finish(t, n, part_of(t, x, dim, from, end - from), x, NULL);
}

plim_tensor *slice(plim_tape *t, plim_tensor *x, int dim, int64_t from, int64_t end) {
  bool is_all = from == 0 && end == x->shape.at[dim];
  return sliced(t, is_all ? pass_backward : slice_backward, x, dim, from, end);
}

plim_tensor *slice_rows(plim_tape *t, plim_tensor *x, int64_t from, int64_t end) {
  return sliced(t, slice_backward, x, 0, from, end);
}

plim_tensor *every_other(plim_tape *t, plim_tensor *x) {
  int last = x->shape.n - 1;
  plim_grad_node *n = node1(t, slice_backward, x);
  if (n) n->shape = x->shape;
  plim_dims shape = x->shape, stride = x->stride;
  shape.at[last] /= 2, stride.at[last] *= 2;
  return finish(t, n, view_of(t, x, shape, stride), x, NULL);
}

plim_tensor *slice_last(plim_tape *t, plim_tensor *x) {
  int dim = x->shape.n - 1;
  return sliced(t, slice_backward, x, dim, 0, x->shape.at[dim]);
}

plim_tensor *full_slices(plim_tape *t, plim_tensor *x, int count) {
  if (plim_torch_from(t, 2, 9)) return x;
  for (int i = 0; i < count; i++) x = sliced(t, slice_backward, x, 0, 0, x->shape.at[0]);
  return x;
}

plim_tensor *select_index(plim_tape *t, plim_tensor *x, int dim) {
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

// The order of a four-dimensional tensor's strides, smallest first, in the memory format that PyTorch calls channels_last.
static const int channels_last[4] = {1, 3, 2, 0};

bool plim_is_channels_last(const plim_tensor *x) {
  int64_t least = 0;
  if (x->shape.n != 4) return false;
  for (int i = 0; i < 4; i++) {
    int d = channels_last[i];
    if (x->stride.at[d] < least || (d == 0 && least == x->stride.at[1])) return false;
    least = x->stride.at[d] * (x->shape.at[d] > 1 ? x->shape.at[d] : 1);
  }
  return true;
}

plim_dims plim_channels_last_strides(const plim_dims *shape) {
  plim_dims stride = {.n = 4};
  int64_t step = 1;
  for (int i = 0; i < 4; i++) {
    stride.at[channels_last[i]] = step;
    step *= shape->at[channels_last[i]];
  }
  return stride;
}

// Concatenates the gradients of the parts. torch.cat keeps a memory format that all of them have.
static void split_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  bool keeps_format = true;
  for (int i = 0; i < n->output_count; i++)
    keeps_format = keeps_format && in[i] && plim_is_channels_last(in[i]);
  plim_dims stride =
      keeps_format ? plim_channels_last_strides(&n->shape) : plim_contiguous_strides(&n->shape);
  out[0] = empty_strided(t, n->shape, stride, (plim_dtype)in[0]->dtype);
  plim_work_map(t, out[0], NULL, out[0]);
}

void plim_op_split_sizes(plim_tape *t, plim_tensor *x, int dim, const int64_t *sizes,
                         plim_tensor **const *parts, size_t count) {
  bool was = hold(x);
  plim_grad_node *n = node1(t, split_backward, x);
  if (n) n->shape = x->shape;
  for (int64_t i = 0, from = 0; i < (int64_t)count; from += sizes[i++]) {
    plim_tensor *part = part_of(t, x, dim, from, sizes[i]);
    if (n) node_output(t, n, part);
    set(t, parts[i], part);
  }
  let_go(t, x, was);
}

void plim_op_split(plim_tape *t, plim_tensor *x, plim_tensor **const *parts, size_t count) {
  int64_t sizes[PLIM_MAX_EDGES];
  for (size_t i = 0; i < count; i++) sizes[i] = x->shape.at[x->shape.n - 1] / (int64_t)count;
  plim_op_split_sizes(t, x, x->shape.n - 1, sizes, parts, count);
}

// PyTorch's CopySlices: a copy of the gradient, whose part is cloned for the part and then filled with zeros.
static void copy_into_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                               plim_tensor **out) {
  plim_dtype dtype = (plim_dtype)in[0]->dtype;
  plim_tensor *rest = k_like(t, in[0]);
  plim_tensor *part = empty(t, n->shape, dtype);
  plim_tensor *zeros = wants(n, 0) ? empty(t, n->shape, dtype) : NULL;
  out[1] = k_to(t, part, (plim_dtype)n->dtype);
  if (out[1] != part) plim_consume(t, part);
  plim_consume(t, zeros);
  if (wants(n, 0)) out[0] = rest;
  else plim_consume(t, rest);
}

void copy_into(plim_tape *t, plim_tensor *x, plim_tensor *part) {
  plim_grad_node *n = node2(t, copy_into_backward, x, part);
  if (n) n->shape = part->shape, n->dtype = part->dtype;
  plim_work_map(t, part, NULL, part);
  finish_in_place(t, n, x);
}

static void cat_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  for (int i = 0; i < n->edge_count; i++) {
    if (!wants(n, i)) continue;
    plim_dims part = plim_output_shape(n->edges[i].node, n->edges[i].output);
    out[i] = view_of(t, in[0], part, in[0]->stride);
  }
}

plim_tensor *cat2(plim_tape *t, plim_tensor *a, plim_tensor *b, int dim) {
  plim_grad_node *n = node2(t, cat_backward, a, b);
  plim_dims shape = a->shape;
  shape.at[dim] += b->shape.at[dim];
  return finish(t, n, empty(t, shape, k_promoted(a, b)), a, b);
}

plim_tensor *cat3(plim_tape *t, plim_tensor *a, plim_tensor *b, plim_tensor *c, int dim) {
  plim_grad_node *n = plim_node_begin(t, cat_backward, (plim_tensor *[]){a, b, c}, 3);
  plim_dims shape = a->shape;
  shape.at[dim] += b->shape.at[dim] + c->shape.at[dim];
  plim_tensor *out = finish(t, n, empty(t, shape, (plim_dtype)a->dtype), a, b);
  plim_consume(t, c);
  return out;
}

// The gradients of the copies are added up.
static void repeat_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  const plim_dims *s = &in[0]->shape, *stride = &in[0]->stride;
  int64_t rows = n->shape.at[0];
  if (s->at[0] == rows) {
    out[0] = pass(in[0]);
    return;
  }
  plim_tensor *copies =
      view_of(t, in[0], dims(s->at[0] / rows, rows, s->at[1], s->at[2]),
              dims(rows * stride->at[0], stride->at[0], stride->at[1], stride->at[2]));
  out[0] = k_sum(t, copies, 1, false, (plim_dtype)in[0]->dtype);
  plim_consume(t, copies);
}

plim_tensor *repeat(plim_tape *t, plim_tensor *x, int64_t times) {
  plim_grad_node *n = node1(t, repeat_backward, x);
  plim_dims shape = x->shape;
  if (n) n->shape = shape;
  shape.at[0] *= times;
  return finish(t, n, k_map(t, shape, (plim_dtype)x->dtype, x, NULL), x, NULL);
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
