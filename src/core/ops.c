#include "ops.h"

#include "kernels.h"
#include "tape_impl.h"
#include "work.h"

// Ends an operator: the result gets its node, floating arguments go, left to right.
static plim_tensor *finish(plim_tape *t, plim_node *n, plim_tensor *out, plim_tensor *a,
                           plim_tensor *b) {
  if (n) node_output(t, n, out);
  plim_work_default(t, a, b, out);
  plim_consume(t, a);
  plim_consume(t, b);
  return out;
}

static plim_node *node1(plim_tape *t, plim_backward_fn *function, plim_tensor *a) {
  return node_begin(t, function, &a, 1);
}

static plim_node *node2(plim_tape *t, plim_backward_fn *function, plim_tensor *a, plim_tensor *b) {
  return node_begin(t, function, (plim_tensor *[]){a, b}, 2);
}

static plim_tensor *pass(plim_tensor *x) { // the same gradient, once more
  plim_retain(x);
  return x;
}

// ---- autocast -------------------------------------------------------------------------------------

plim_dtype autocast(plim_tape *t, plim_dtype dtype) {
  plim_dtype was = (plim_dtype)t->autocast;
  t->autocast = (uint8_t)dtype;
  if (dtype != PLIM_BOOL) return was;
  t->free_kind = PLIM_STREAM_FREE_UNORDERED;
  for (size_t i = 0; i < t->casts.len; i++) plim_release(t, t->casts.at[i].cast);
  t->free_kind = PLIM_STREAM_FREE;
  t->casts.len = 0;
  return was;
}

bool plim_autocast_is_on(const plim_tape *t) { return t->autocast != PLIM_BOOL; }

static bool is_kept(const plim_tensor *x) {
  return x->dtype == PLIM_FP32 && x->requires_grad && !x->fn && !x->base;
}

plim_tensor *cast(plim_tape *t, plim_tensor *x) {
  plim_dtype dtype = (plim_dtype)t->autocast;
  if (!x || dtype == PLIM_BOOL || x->dtype == dtype || x->dtype < PLIM_BF16) return x;
  if (!is_kept(x)) return to(t, x, dtype);
  for (size_t i = 0; i < t->casts.len; i++)
    if (t->casts.at[i].leaf == x) return t->casts.at[i].cast;
  plim_tensor *kept = NULL;
  set(t, &kept, to(t, x, dtype));
  if (!vec_push(&t->casts, (struct tape_cast){x, kept})) t->failed = true;
  return kept;
}

// ---- elementwise ----------------------------------------------------------------------------------

static void pass_both(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  (void)t;
  for (int i = 0; i < n->edge_count; i++) out[i] = wants(n, i) ? pass(in[0]) : NULL;
}

plim_tensor *add(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_node *n = node2(t, pass_both, a, b);
  return finish(t, n, k_binary(t, a, b), a, b);
}

void add_in_place(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_node *n = node2(t, pass_both, a, b);
  plim_work_map(t, a, b, a);
  if (!n) return;
  plim_node *before = a->fn;
  node_output(t, n, a);
  if (before) node_release(t, before);
}

plim_tensor *add_scalar(plim_tape *t, plim_tensor *a) {
  plim_node *n = node1(t, pass_both, a);
  return finish(t, n, k_unary(t, a), a, NULL);
}

// Gradients are made in the order of the arguments' names: other, then self.
static void mul_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *other = wants(n, 0) ? n->saved[0] : NULL;
  plim_tensor *self = wants(n, 1) ? n->saved[n->saved_count - 1] : NULL;
  if (self) out[1] = k_binary(t, in[0], self);
  if (other) out[0] = k_binary(t, in[0], other);
}

plim_tensor *mul(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_node *n = node2(t, mul_backward, a, b);
  if (n && wants(n, 0)) node_save(t, n, b);
  if (n && wants(n, 1)) node_save(t, n, a);
  return finish(t, n, k_binary(t, a, b), a, b);
}

static void unary_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  (void)n;
  out[0] = k_unary(t, in[0]);
}

static plim_tensor *scaled(plim_tape *t, plim_tensor *a) {
  plim_node *n = node1(t, unary_backward, a);
  return finish(t, n, k_unary(t, a), a, NULL);
}

static void with_saved_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = k_binary(t, in[0], n->saved[0]);
}

plim_tensor *divide(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_node *n = node2(t, with_saved_backward, a, b);
  if (n) node_save(t, n, b);
  return finish(t, n, k_binary(t, a, b), a, b);
}

plim_tensor *mul_scalar_in_place(plim_tape *t, plim_tensor *a) {
  plim_node *n = node1(t, unary_backward, a);
  plim_work_map(t, a, NULL, a);
  if (!n) return a;
  return finish(t, n, alias_of(t, a, a->shape, a->stride), a, NULL);
}

plim_tensor *mul_scalar(plim_tape *t, plim_tensor *a) { return scaled(t, a); }
plim_tensor *div_scalar(plim_tape *t, plim_tensor *a) { return scaled(t, a); }
plim_tensor *neg(plim_tape *t, plim_tensor *a) { return scaled(t, a); }

// grad * (k * x^(k-1)): three temporaries, even for the square.
static void square_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *power = k_unary(t, n->saved[0]), *times = k_unary(t, power);
  out[0] = k_binary(t, in[0], times);
  plim_consume(t, times);
  plim_consume(t, power);
}

plim_tensor *square(plim_tape *t, plim_tensor *a) {
  plim_node *n = node1(t, square_backward, a);
  if (n) node_save(t, n, a);
  return finish(t, n, k_unary(t, a), a, NULL);
}

static void rsqrt_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *half = k_unary(t, in[0]), *cube = k_unary(t, n->saved[0]);
  out[0] = k_binary(t, half, cube);
  plim_consume(t, cube);
  plim_consume(t, half);
}

plim_tensor *rsqrt(plim_tape *t, plim_tensor *a) {
  plim_node *n = node1(t, rsqrt_backward, a);
  plim_tensor *out = k_unary(t, a);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, a, NULL);
}

static plim_tensor *activation_by_result(plim_tape *t, plim_tensor *a) {
  plim_node *n = node1(t, with_saved_backward, a);
  plim_tensor *out = k_unary(t, a);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, a, NULL);
}

plim_tensor *tanh_(plim_tape *t, plim_tensor *a) {
  plim_tape_at(t, "tanh");
  return activation_by_result(t, a);
}
plim_tensor *relu(plim_tape *t, plim_tensor *a) {
  plim_tape_at(t, "relu");
  return activation_by_result(t, a);
}

static plim_tensor *activation(plim_tape *t, plim_tensor *a) { // in one kernel
  plim_node *n = node1(t, with_saved_backward, a);
  if (n) node_save(t, n, a);
  return finish(t, n, k_unary(t, a), a, NULL);
}

plim_tensor *silu(plim_tape *t, plim_tensor *a) {
  plim_tape_at(t, "silu");
  return activation(t, a);
}
plim_tensor *gelu(plim_tape *t, plim_tensor *a) {
  plim_tape_at(t, "gelu");
  return activation(t, a);
}

// The number becomes a tensor without dimensions, forward and backward.
static void where_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  plim_dtype dtype = (plim_dtype)in[0]->dtype;
  plim_tensor *number = empty(t, (plim_dims){0}, dtype);
  out[0] = k_binary_as(t, n->saved[0], in[0], dtype);
  plim_consume(t, number);
}

plim_tensor *where(plim_tape *t, plim_tensor *condition, plim_tensor *a) {
  plim_dtype dtype = (plim_dtype)a->dtype;
  plim_tensor *number = empty(t, (plim_dims){0}, dtype);
  plim_node *n = node1(t, where_backward, a);
  if (n) node_save(t, n, condition);
  plim_tensor *out = k_binary_as(t, condition, a, dtype);
  plim_consume(t, number);
  return finish(t, n, out, condition, a);
}

// The mask is one byte an element; it alone is kept.
plim_tensor *dropout(plim_tape *t, plim_tensor *a, double p) {
  if (p == 0) return a;
  const char *where = plim_tape_place(t).what; // what follows still belongs to it
  plim_tape_at(t, "dropout");
  plim_node *n = node1(t, with_saved_backward, a);
  plim_dims stride = k_strides(a, NULL);
  plim_tensor *mask = empty_strided(t, a->shape, stride, PLIM_BOOL);
  plim_tensor *out = empty_strided(t, a->shape, stride, (plim_dtype)a->dtype);
  if (n) node_save_output(t, n, mask);
  plim_work_map(t, a, mask, out);
  finish(t, n, out, a, NULL);
  plim_consume(t, mask);
  plim_tape_at(t, where);
  return out;
}

static void to_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *cast = k_to(t, in[0], (plim_dtype)n->dtype);
  out[0] = cast == in[0] ? pass(cast) : cast;
}

plim_tensor *to(plim_tape *t, plim_tensor *a, plim_dtype dtype) {
  if (a->dtype == dtype) return a;
  plim_node *n = node1(t, to_backward, a);
  if (n) n->dtype = a->dtype;
  return finish(t, n, k_to(t, a, dtype), a, NULL);
}

static void mean_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *spread = k_expand(t, in[0], n->shape);
  out[0] = k_unary(t, spread);
  plim_consume(t, spread);
}

plim_tensor *mean_last(plim_tape *t, plim_tensor *a) {
  plim_node *n = node1(t, mean_backward, a);
  if (n) n->shape = a->shape;
  plim_tensor *out = k_sum(t, a, 1u << (a->shape.n - 1), true, (plim_dtype)a->dtype);
  return finish(t, n, out, a, NULL);
}

plim_tensor *mean_all(plim_tape *t, plim_tensor *a) {
  plim_node *n = node1(t, mean_backward, a);
  if (n) n->shape = a->shape;
  plim_tensor *out = k_sum(t, a, (1u << a->shape.n) - 1, false, (plim_dtype)a->dtype);
  return finish(t, n, out, a, NULL);
}

// ---- views and copies -----------------------------------------------------------------------------

static void reshape_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
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
  plim_node *n = node1(t, reshape_backward, x);
  if (n) n->shape = x->shape;
  return finish(t, n, k_view(t, x, infer(x, shape)), x, NULL);
}

plim_tensor *unsafe_view(plim_tape *t, plim_tensor *x, plim_dims shape) {
  plim_node *n = node1(t, reshape_backward, x);
  if (n) n->shape = x->shape;
  shape = infer(x, shape);
  return finish(t, n, alias_of(t, x, shape, plim_contiguous_strides(&shape)), x, NULL);
}

plim_tensor *contiguous_copy(plim_tape *t, plim_tensor *x) {
  plim_node *n = node1(t, pass_both, x);
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

static void transpose_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] =
      k_transpose(t, in[0], (int)(n->number / PLIM_MAX_DIMS), (int)(n->number % PLIM_MAX_DIMS));
}

plim_tensor *transpose(plim_tape *t, plim_tensor *x, int a, int b) {
  plim_node *n = node1(t, transpose_backward, x);
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

static void permute_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  plim_dims back = {.n = n->shape.n};
  for (int i = 0; i < back.n; i++) back.at[n->shape.at[i]] = i;
  out[0] = permuted(t, in[0], &back);
}

plim_tensor *permute(plim_tape *t, plim_tensor *x, plim_dims order) {
  plim_node *n = node1(t, permute_backward, x);
  if (n) n->shape = order;
  return finish(t, n, permuted(t, x, &order), x, NULL);
}

static void unsqueeze_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
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
  plim_node *n = node1(t, unsqueeze_backward, x);
  if (n) n->number = dim;
  return finish(t, n, view_of(t, x, shape, stride), x, NULL);
}

static void slice_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = k_map(t, n->shape, (plim_dtype)in[0]->dtype, NULL, NULL); // zeros of the whole source
  plim_work_bytes(t, 2 * plim_bytes_of(in[0]));
}

static plim_tensor *sliced(plim_tape *t, plim_backward_fn *backward_fn, plim_tensor *x, int dim,
                           int64_t length) {
  plim_node *n = node1(t, backward_fn, x);
  if (n) n->shape = x->shape;
  plim_dims shape = x->shape;
  shape.at[dim] = length;
  return finish(t, n, view_of(t, x, shape, x->stride), x, NULL);
}

plim_tensor *slice(plim_tape *t, plim_tensor *x, int dim, int64_t from, int64_t end) {
  bool is_all = from == 0 && end == x->shape.at[dim];
  return sliced(t, is_all ? pass_both : slice_backward, x, dim, end - from);
}

plim_tensor *slice_rows(plim_tape *t, plim_tensor *x, int64_t from, int64_t end) {
  return sliced(t, slice_backward, x, 0, end - from);
}

plim_tensor *select_first(plim_tape *t, plim_tensor *x, int dim) {
  plim_node *n = node1(t, slice_backward, x);
  if (n) n->shape = x->shape;
  plim_dims shape = {0}, stride = {0};
  for (int i = 0; i < x->shape.n; i++) {
    if (i == dim) continue;
    shape.at[shape.n++] = x->shape.at[i];
    stride.at[stride.n++] = x->stride.at[i];
  }
  return finish(t, n, view_of(t, x, shape, stride), x, NULL);
}

static void split_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = empty(t, n->shape, (plim_dtype)in[0]->dtype); // the parts, side by side again
  plim_work_map(t, out[0], NULL, out[0]);
}

void split(plim_tape *t, plim_tensor *x, plim_tensor **const *parts, int count) {
  bool was = hold(x);
  plim_node *n = node1(t, split_backward, x);
  if (n) n->shape = x->shape;
  plim_dims shape = x->shape;
  shape.at[shape.n - 1] /= count;
  for (int i = 0; i < count; i++) {
    plim_tensor *part = view_of(t, x, shape, x->stride);
    if (n) node_output(t, n, part);
    set(t, parts[i], part);
  }
  let_go(t, x, was);
}

static void cat_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  int dim = (int)n->number;
  plim_dims first = in[0]->shape, second = in[0]->shape;
  first.at[dim] = n->shape.at[dim];
  second.at[dim] = in[0]->shape.at[dim] - n->shape.at[dim];
  if (wants(n, 0)) out[0] = view_of(t, in[0], first, in[0]->stride);
  if (wants(n, 1)) out[1] = view_of(t, in[0], second, in[0]->stride);
}

plim_tensor *cat2(plim_tape *t, plim_tensor *a, plim_tensor *b, int dim) {
  plim_node *n = node2(t, cat_backward, a, b);
  if (n) n->number = dim, n->shape = a->shape;
  plim_dims shape = a->shape;
  shape.at[dim] += b->shape.at[dim];
  return finish(t, n, empty(t, shape, (plim_dtype)a->dtype), a, b);
}

static void expand_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *sum = k_sum_to(t, in[0], n->shape);
  out[0] = sum == in[0] ? pass(sum) : sum;
}

plim_tensor *expand(plim_tape *t, plim_tensor *x, plim_dims shape) {
  for (int i = 0, lead = shape.n - x->shape.n; i < shape.n; i++)
    if (shape.at[i] < 0) shape.at[i] = x->shape.at[i - lead];
  plim_node *n = node1(t, expand_backward, x);
  if (n) n->shape = x->shape;
  return finish(t, n, k_expand(t, x, shape), x, NULL);
}

// ---- products -------------------------------------------------------------------------------------

// A gradient for the second operand is made in its memory order: transposed if that is.
static plim_tensor *second_gradient(plim_tape *t, const plim_node *n, plim_tensor *first,
                                    plim_tensor *grad) {
  bool transposed = n->is_transposed;
  plim_tensor *flipped = k_transpose(t, transposed ? grad : first, 0, 1);
  plim_tensor *product = transposed ? k_mm(t, flipped, first) : k_mm(t, flipped, grad);
  plim_consume(t, flipped);
  if (!transposed) return product;
  plim_tensor *back = k_transpose(t, product, 0, 1);
  plim_consume(t, product);
  return back;
}

static void mm_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  if (wants(n, 1)) out[1] = second_gradient(t, n, n->saved[n->saved_count - 1], in[0]);
  if (!wants(n, 0)) return;
  plim_tensor *flipped = k_transpose(t, n->saved[0], 0, 1);
  out[0] = k_mm(t, in[0], flipped);
  plim_consume(t, flipped);
}

plim_tensor *mm(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_node *n = node2(t, mm_backward, a, b);
  if (n) n->is_transposed = b->stride.at[0] == 1;
  if (n && wants(n, 0)) node_save(t, n, b);
  if (n && wants(n, 1)) node_save(t, n, a);
  return finish(t, n, k_mm(t, a, b), a, b);
}

static void bmm_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *second = wants(n, 0) ? n->saved[0] : NULL;
  plim_tensor *first = wants(n, 1) ? n->saved[n->saved_count - 1] : NULL;
  plim_tensor *flipped = first ? k_transpose(t, first, 1, 2) : NULL;
  if (first) out[1] = k_bmm(t, flipped, in[0]);
  plim_consume(t, flipped);
  flipped = second ? k_transpose(t, second, 1, 2) : NULL;
  if (second) out[0] = k_bmm(t, in[0], flipped);
  plim_consume(t, flipped);
}

plim_tensor *bmm(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_node *n = node2(t, bmm_backward, a, b);
  if (n && wants(n, 0)) node_save(t, n, b);
  if (n && wants(n, 1)) node_save(t, n, a);
  return finish(t, n, k_bmm(t, a, b), a, b);
}

static plim_tensor *fold_batch(plim_tape *t, plim_tensor *x, int64_t b, int64_t h) { // (B*H,M,N)
  plim_tensor *spread = expand(t, x, dims(b, h, -1, -1));
  return reshape(t, spread, dims(b * h, x->shape.at[2], x->shape.at[3]));
}

// Autocast casts the arguments from right to left. What was folded goes from right to left too.
plim_tensor *matmul(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  b = cast(t, b);
  a = cast(t, a);
  int64_t batch = a->shape.at[0] != 1 ? a->shape.at[0] : b->shape.at[0];
  int64_t heads = a->shape.at[1] != 1 ? a->shape.at[1] : b->shape.at[1];
  plim_dims shape = dims(batch, heads, a->shape.at[2], b->shape.at[3]);
  bool a_was = hold(a), b_was = hold(b);
  plim_tensor *left = fold_batch(t, a, batch, heads), *right = fold_batch(t, b, batch, heads);
  bool left_was = hold(left), right_was = hold(right);
  plim_tensor *out = unsafe_view(t, bmm(t, left, right), shape);
  let_go(t, right, right_was);
  let_go(t, left, left_was);
  let_go(t, a, a_was);
  let_go(t, b, b_was);
  return out;
}

plim_tensor *matmul2(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  bool a_was = hold(a), b_was = hold(b);
  plim_tensor *right = cast(t, b), *left = cast(t, a);
  plim_tensor *out = mm(t, left, right);
  let_go(t, a, a_was);
  let_go(t, b, b_was);
  return out;
}

// Bias, input, weight; gradients are made for input, then weight, and the bias gets what arrived.
static void addmm_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *input = wants(n, 2) ? n->saved[0] : NULL;
  if (wants(n, 1)) {
    plim_tensor *flipped = k_transpose(t, n->saved[n->saved_count - 1], 0, 1);
    out[1] = k_mm(t, in[0], flipped);
    plim_consume(t, flipped);
  }
  if (input) out[2] = second_gradient(t, n, input, in[0]);
  if (wants(n, 0)) out[0] = pass(in[0]);
}

plim_tensor *addmm(plim_tape *t, plim_tensor *bias, plim_tensor *a, plim_tensor *b) {
  plim_node *n = node_begin(t, addmm_backward, (plim_tensor *[]){bias, a, b}, 3);
  if (n) n->is_transposed = b->stride.at[0] == 1;
  if (n && wants(n, 2)) node_save(t, n, a);
  if (n && wants(n, 1)) node_save(t, n, b);
  plim_tensor *out = empty(t, dims(a->shape.at[0], b->shape.at[1]), (plim_dtype)a->dtype);
  k_cublas_lt(t);
  plim_work_matmul(t, a, b, out);
  if (n) node_output(t, n, out);
  plim_tensor *last_first[] = {bias, a, b}; // casts, made from right to left
  for (size_t i = 0; i < sizeof last_first / sizeof *last_first; i++)
    plim_consume(t, last_first[i]);
  return out;
}

static plim_tensor *linear_rows(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                plim_tensor *bias) {
  plim_tensor *flipped = transpose(t, weight, 0, 1);
  if (x->shape.n == 2) return bias ? addmm(t, bias, x, flipped) : mm(t, x, flipped);
  plim_dims shape = x->shape;
  plim_tensor *rows = reshape(t, x, dims(-1, shape.at[shape.n - 1]));
  shape.at[shape.n - 1] = weight->shape.at[0];
  if (bias) return view(t, addmm(t, bias, rows, flipped), shape);
  return unsafe_view(t, mm(t, rows, flipped), shape);
}

// Autocast casts the arguments from right to left. Arguments and casts live until the end, and go
// from left to right.
plim_tensor *linear(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias) {
  bool was = hold(x);
  bias = cast(t, bias);
  weight = cast(t, weight);
  plim_tensor *input = cast(t, x);
  bool input_was = hold(input), weight_was = hold(weight), bias_was = bias && hold(bias);
  plim_tensor *out = linear_rows(t, input, weight, bias);
  let_go(t, input, input_was);
  let_go(t, weight, weight_was);
  let_go(t, bias, bias_was);
  let_go(t, x, was);
  return out;
}

// ---- models ---------------------------------------------------------------------------------------

// More indices than this are sorted first; PyTorch's embedding_dense_backward.
#define SORT_FROM 3072

static plim_tensor *indices(plim_tape *t, int64_t n) { return empty(t, dims(n), PLIM_I64); }

// With few rows and many parts, parts are added to the rows directly instead of being kept; PyTorch's
// use_fused_kernel, MAX_ATOMIC_ACCUM_BLOCKS_PER_SM = 4.
static bool embedding_adds_atomically(const plim_tape *t, int64_t rows, int64_t parts,
                                      int64_t width) {
  int64_t warped = (width + 31) / 32 * 32, block = warped < 1024 ? warped : 1024;
  int64_t grid = (rows * warped + block - 1) / block;
  return grid < 4 * plim_tape_gpu(t)->multiprocessors && parts > 4 * grid;
}

// Gradients of many indices: sorted, cut into runs of equal ones, each run into partial sums in
// float32, and those into the table.
static plim_tensor *embedding_gradient_sorted(plim_tape *t, int64_t n, plim_dims table,
                                              plim_dtype dtype) {
  int64_t rows = table.at[0], width = table.at[1], runs = n < rows ? n : rows;
  plim_tensor *sorted = indices(t, n), *order = indices(t, n), *range = indices(t, n);
  plim_consume(t, scratch(t, k_sort_bytes(n, 64)));
  plim_consume(t, range);
  plim_tensor *out = empty(t, table, dtype);
  plim_tensor *starts = indices(t, n), *count = indices(t, 1), *unused = indices(t, n);
  plim_consume(t, scratch(t, k_scan_bytes(n, K_UNIQUE_TILE)));
  plim_consume(t, unused);
  plim_tensor *per_run = indices(t, runs), *offsets = indices(t, runs);
  plim_consume(t, scratch(t, k_scan_bytes(runs, K_SCAN_TILE)));
  int64_t parts = n / 10 + runs;
  plim_tensor *part_count = indices(t, 1), *part_starts = indices(t, parts);
  bool adds_atomically = embedding_adds_atomically(t, runs, parts, width);
  plim_tensor *run_of_part = adds_atomically ? indices(t, parts) : NULL;
  plim_tensor *sums = !adds_atomically     ? empty(t, dims(parts, width), PLIM_FP32)
                      : dtype != PLIM_FP32 ? empty(t, table, PLIM_FP32)
                                           : NULL;
  plim_tensor *last_first[] = {sums,    run_of_part, part_starts, part_count, offsets,
                               per_run, count,       starts,      order,      sorted};
  for (size_t i = 0; i < sizeof last_first / sizeof *last_first; i++)
    plim_consume(t, last_first[i]);
  return out;
}

static void embedding_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  bool copies_grad = !plim_is_contiguous(in[0]), copies_ids = !plim_is_contiguous(n->saved[0]);
  plim_tensor *grad = copies_grad ? empty(t, in[0]->shape, (plim_dtype)in[0]->dtype) : NULL;
  plim_tensor *ids = copies_ids ? empty(t, n->saved[0]->shape, PLIM_I64) : NULL;
  int64_t count = plim_numel(&n->saved[0]->shape);
  plim_dtype dtype = (plim_dtype)in[0]->dtype;
  out[0] = count > SORT_FROM ? embedding_gradient_sorted(t, count, n->shape, dtype)
                             : empty(t, n->shape, dtype);
  plim_consume(t, ids);
  plim_consume(t, grad);
}

plim_tensor *embedding(plim_tape *t, plim_tensor *weight, plim_tensor *ids) {
  plim_tape_at(t, "embedding");
  weight->is_table = true;
  plim_node *n = node1(t, embedding_backward, weight);
  if (n) n->shape = weight->shape, node_save(t, n, ids);
  plim_dims shape = ids->shape;
  shape.at[shape.n++] = weight->shape.at[1];
  plim_tensor *flat =
      k_reshape(t, ids, dims(plim_numel(&ids->shape))); // a copy if ids are repeated
  plim_tensor *out = empty(t, shape, (plim_dtype)weight->dtype);
  plim_consume(t, flat);
  plim_work_map(t, out, ids, out); // it reads as many rows as it writes
  return finish(t, n, out, weight, ids);
}

static void softmax_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = empty(t, in[0]->shape, (plim_dtype)n->dtype);
  plim_work_softmax(t, 2, out[0]);
  plim_consume(t, k_binary(t, in[0], n->saved[0]));
}

plim_tensor *safe_softmax(plim_tape *t, plim_tensor *x) {
  plim_tape_at(t, "softmax");
  plim_node *n = node1(t, softmax_backward, x);
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

// One kernel reads float16 and writes float32; from bfloat16 there is a cast first.
plim_tensor *softmax(plim_tape *t, plim_tensor *x, plim_dtype dtype) {
  plim_tape_at(t, "softmax");
  bool widens = x->dtype == PLIM_FP16 && dtype == PLIM_FP32;
  plim_tensor *wide = widens ? x : to(t, x, dtype);
  plim_node *n = node1(t, softmax_backward, wide);
  if (n) n->dtype = wide->dtype;
  plim_tensor *out = empty(t, wide->shape, dtype);
  plim_work_softmax(t, 1, out);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, wide, NULL);
}

// LaunchGammaBetaBackwardCUDAKernel: of many short rows, each block sums some, and those sums are
// added up in a second pass. Seen at 65,537 and 131,072 rows.
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

// Saved bias, input, weight, mean, 1/deviation.
static void layer_norm_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  const plim_tensor *x = n->saved[1];
  if (wants(n, 0)) out[0] = k_map(t, x->shape, (plim_dtype)x->dtype, x, in[0]);
  if (wants(n, 1)) out[1] = empty(t, n->shape, (plim_dtype)n->dtype);
  if (wants(n, 2)) out[2] = empty(t, n->shape, (plim_dtype)n->dtype);
  int64_t width = n->shape.at[0], rows = plim_numel(&x->shape) / width;
  if (rows > 65536 && width / 32 < plim_tape_gpu(t)->multiprocessors / 2)
    sum_in_parts(t, rows, width, out + 1);
}

static plim_tensor *layer_norm_of(plim_tape *t, plim_tensor *wide, plim_tensor *weight,
                                  plim_tensor *bias) {
  plim_node *n = node_begin(t, layer_norm_backward, (plim_tensor *[]){wide, weight, bias}, 3);
  if (n) {
    n->shape = weight->shape;
    n->dtype = weight->dtype;
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

static plim_tensor *widened(plim_tape *t, plim_tensor *x) {
  return plim_autocast_is_on(t) ? to(t, x, PLIM_FP32) : x;
}

// Autocast runs it in float32, and casts the arguments from right to left.
plim_tensor *layer_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias) {
  plim_tape_at(t, "norm");
  bool was = hold(x);
  bias = widened(t, bias);
  weight = widened(t, weight);
  plim_tensor *wide = widened(t, x);
  bool wide_was = hold(wide), weight_was = hold(weight), bias_was = hold(bias);
  plim_tensor *out = layer_norm_of(t, wide, weight, bias);
  let_go(t, wide, wide_was);
  let_go(t, weight, weight_was);
  let_go(t, bias, bias_was);
  let_go(t, x, was);
  return out;
}

static void log_softmax_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  (void)n;
  out[0] = empty(t, in[0]->shape, (plim_dtype)in[0]->dtype);
  plim_work_softmax(t, 2, out[0]);
}

plim_tensor *log_softmax(plim_tape *t, plim_tensor *x) {
  plim_tape_at(t, "log_softmax");
  plim_node *n = node1(t, log_softmax_backward, x);
  plim_tensor *out = empty(t, x->shape, (plim_dtype)x->dtype);
  plim_work_softmax(t, 1, out);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, x, NULL);
}

static void nll_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  (void)in;
  out[0] = empty(t, n->saved[0]->shape, (plim_dtype)n->saved[0]->dtype);
}

plim_tensor *nll_loss(plim_tape *t, plim_tensor *x, plim_tensor *target) {
  plim_tape_at(t, "nll_loss");
  plim_node *n = node1(t, nll_backward, x);
  if (n) node_save(t, n, x), node_save(t, n, target);
  plim_tensor *out = empty(t, (plim_dims){0}, (plim_dtype)x->dtype);
  plim_tensor *total_weight = empty(t, (plim_dims){0}, (plim_dtype)x->dtype);
  if (n) node_save_output(t, n, total_weight);
  plim_work_map(t, target, NULL, out); // of x only what the targets point at
  plim_consume(t, total_weight);
  return finish(t, n, out, x, target);
}
