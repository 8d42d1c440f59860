// Elementwise operators and means.
#include "ops_impl.h"

#include "op_names.h"

plim_tensor *add(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node2(t, pass_backward, a, b);
  return finish(t, n, k_binary(t, a, b), a, b);
}

void add_in_place(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node2(t, pass_backward, a, b);
  plim_work_map(t, a, b, a);
  finish_in_place(t, n, a);
}

plim_tensor *add_scalar(plim_tape *t, plim_tensor *a) {
  plim_grad_node *n = node1(t, pass_backward, a);
  return finish(t, n, k_unary(t, a), a, NULL);
}

static void sub_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  if (wants(n, 1)) out[1] = k_unary(t, in[0]);
  if (wants(n, 0)) out[0] = pass(in[0]);
}

plim_tensor *sub(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node2(t, sub_backward, a, b);
  return finish(t, n, k_binary(t, a, b), a, b);
}

// PyTorch computes the gradients in the alphabetical order of the arguments' names: other, then self.
static void mul_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *other = wants(n, 0) ? n->saved[0] : NULL;
  plim_tensor *self = wants(n, 1) ? n->saved[n->saved_count - 1] : NULL;
  if (self) out[1] = k_binary(t, in[0], self);
  if (other) out[0] = k_binary(t, in[0], other);
}

plim_tensor *mul(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node2(t, mul_backward, a, b);
  if (n && wants(n, 0)) node_save(t, n, b);
  if (n && wants(n, 1)) node_save(t, n, a);
  return finish(t, n, k_binary(t, a, b), a, b);
}

// The conjugate is a tensor of its own.
static void mul_complex_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                 plim_tensor **out) {
  plim_tensor *conjugate = k_like(t, n->saved[0]);
  out[0] = k_binary(t, in[0], conjugate);
  plim_consume(t, conjugate);
}

plim_tensor *mul_complex(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node2(t, mul_complex_backward, a, b);
  if (n) node_save(t, n, b);
  return finish(t, n, k_binary(t, a, b), a, b);
}

static void unary_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)n;
  out[0] = k_unary(t, in[0]);
}

static plim_tensor *scaled(plim_tape *t, plim_tensor *a) {
  plim_grad_node *n = node1(t, unary_backward, a);
  return finish(t, n, k_unary(t, a), a, NULL);
}

static void with_saved_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                plim_tensor **out) {
  out[0] = k_binary(t, in[0], n->saved[0]);
}

plim_tensor *divide(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node2(t, with_saved_backward, a, b);
  if (n) node_save(t, n, b);
  return finish(t, n, k_binary(t, a, b), a, b);
}

plim_tensor *divide_both(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node2(t, plim_divide_backward, a, b);
  if (n) node_save(t, n, b), node_save(t, n, a);
  return finish(t, n, k_binary(t, a, b), a, b);
}

// -grad * ((self / other) / other), then grad / other.
void plim_divide_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  const plim_tensor *other = n->saved[0], *self = n->saved[1];
  plim_tensor *once = k_binary(t, self, other), *twice = k_binary(t, once, other);
  plim_tensor *negative = k_unary(t, in[0]);
  out[1] = k_binary(t, negative, twice);
  consume_all(t, negative, twice, once);
  out[0] = k_binary(t, in[0], other);
}

plim_tensor *mul_scalar_in_place(plim_tape *t, plim_tensor *a) {
  plim_grad_node *n = node1(t, unary_backward, a);
  plim_work_map(t, a, NULL, a);
  if (!n) return a;
  return finish(t, n, alias_of(t, a, a->shape, a->stride), a, NULL);
}

plim_tensor *mul_in_place(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node1(t, with_saved_backward, a);
  if (n) node_save(t, n, b);
  plim_work_map(t, a, b, a);
  if (!n) return a;
  return finish(t, n, alias_of(t, a, a->shape, a->stride), a, NULL);
}

plim_tensor *mul_scalar(plim_tape *t, plim_tensor *a) { return scaled(t, a); }
plim_tensor *div_scalar(plim_tape *t, plim_tensor *a) { return scaled(t, a); }
plim_tensor *neg(plim_tape *t, plim_tensor *a) { return scaled(t, a); }

// grad * (k * x^(k-1)): PyTorch makes these temporaries even for k = 2.
static void square_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *power = k_unary(t, n->saved[0]), *times = k_unary(t, power);
  out[0] = k_binary(t, in[0], times);
  plim_consume(t, times);
  plim_consume(t, power);
}

plim_tensor *square(plim_tape *t, plim_tensor *a) {
  plim_grad_node *n = node1(t, square_backward, a);
  if (n) node_save(t, n, a);
  return finish(t, n, k_unary(t, a), a, NULL);
}

static void rsqrt_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *half = k_unary(t, in[0]), *cube = k_unary(t, n->saved[0]);
  out[0] = k_binary(t, half, cube);
  plim_consume(t, cube);
  plim_consume(t, half);
}

plim_tensor *rsqrt(plim_tape *t, plim_tensor *a) {
  plim_grad_node *n = node1(t, rsqrt_backward, a);
  plim_tensor *out = k_unary(t, a);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, a, NULL);
}

static plim_tensor *activation_by_result(plim_tape *t, plim_tensor *a) {
  plim_grad_node *n = node1(t, with_saved_backward, a);
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

plim_tensor *sigmoid(plim_tape *t, plim_tensor *a) { return activation_by_result(t, a); }
plim_tensor *exp_(plim_tape *t, plim_tensor *a) { return activation_by_result(t, a); }

static plim_tensor *activation(plim_tape *t, plim_tensor *a) { // computed in a single kernel
  plim_grad_node *n = node1(t, with_saved_backward, a);
  if (n) node_save(t, n, a);
  return finish(t, n, k_unary(t, a), a, NULL);
}

plim_tensor *silu(plim_tape *t, plim_tensor *a) {
  plim_tape_at(t, "silu");
  return activation(t, a);
}
plim_tensor *log_sigmoid(plim_tape *t, plim_tensor *a) {
  plim_tape_at(t, "logsigmoid");
  return activation(t, a);
}
// 0.79 * x * (1 + 0.044715 * x * x)
static plim_tensor *inside_tanh(plim_tape *t, const plim_tensor *x) {
  plim_tensor *scaled = k_unary(t, x), *small = k_unary(t, x), *squared = k_unary(t, x);
  plim_consume(t, small);
  plim_tensor *sum = k_unary(t, x);
  plim_consume(t, squared);
  plim_tensor *out = k_unary(t, x);
  consume_all(t, scaled, sum);
  return out;
}

static plim_tensor *tanh_of(plim_tape *t, const plim_tensor *x) {
  plim_tensor *inside = inside_tanh(t, x), *out = k_unary(t, x);
  plim_consume(t, inside);
  return out;
}

// 0.5 * x * ((1 - tanh * tanh) * (0.79 + 0.1 * x * x)) + 0.5 * (1 + tanh), times the gradient
static void written_gelu_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                  plim_tensor **out) {
  const plim_tensor *x = n->saved[0];
  plim_tensor *tanh = tanh_of(t, x), *half = k_unary(t, x), *square = k_unary(t, x);
  plim_tensor *rest = k_unary(t, x);
  plim_consume(t, square);
  plim_tensor *small = k_unary(t, x), *squared = k_unary(t, x);
  plim_consume(t, small);
  plim_tensor *slope = k_unary(t, x);
  plim_consume(t, squared);
  plim_tensor *product = k_unary(t, x);
  consume_all(t, rest, slope);
  plim_tensor *left = k_unary(t, x);
  consume_all(t, half, product);
  plim_tensor *above = k_unary(t, x), *right = k_unary(t, x);
  plim_consume(t, above);
  plim_tensor *sum = k_unary(t, x);
  consume_all(t, left, right);
  out[0] = k_binary(t, sum, in[0]);
  consume_all(t, tanh, sum);
}

// x * 0.5 * (1 + tanh(...))
plim_tensor *written_gelu(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, written_gelu_backward, x);
  if (n) node_save(t, n, x);
  plim_tensor *half = k_unary(t, x), *tanh = tanh_of(t, x), *sum = k_unary(t, x);
  plim_consume(t, tanh);
  plim_tensor *out = k_unary(t, x);
  consume_all(t, half, sum);
  return finish(t, n, out, x, NULL);
}

plim_tensor *gelu(plim_tape *t, plim_tensor *a) {
  plim_tape_at(t, "gelu");
  return activation(t, a);
}

plim_tensor *softplus(plim_tape *t, plim_tensor *a) {
  plim_tape_at(t, "softplus");
  return activation(t, plim_autocast_is_on(t) ? to(t, a, PLIM_FP32) : a);
}

// grad / (self + 1), and grad * (result + 1).
static void with_saved_plus_one_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                         plim_tensor **out) {
  plim_tensor *plus_one = k_unary(t, n->saved[0]);
  out[0] = k_binary(t, in[0], plus_one);
  plim_consume(t, plus_one);
}

plim_tensor *log_(plim_tape *t, plim_tensor *a) { return activation(t, a); }

plim_tensor *log1p_(plim_tape *t, plim_tensor *a) {
  plim_grad_node *n = node1(t, with_saved_plus_one_backward, a);
  if (n) node_save(t, n, a);
  return finish(t, n, k_unary(t, a), a, NULL);
}

plim_tensor *expm1_(plim_tape *t, plim_tensor *a) {
  plim_grad_node *n = node1(t, with_saved_plus_one_backward, a);
  plim_tensor *out = k_unary(t, a);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, a, NULL);
}

// The number becomes a zero-dimensional tensor in forward and in backward.
static void where_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_dtype dtype = (plim_dtype)in[0]->dtype;
  plim_tensor *number = empty(t, (plim_dims){0}, dtype);
  out[0] = k_binary_as(t, n->saved[0], in[0], dtype);
  plim_consume(t, number);
}

plim_tensor *where(plim_tape *t, plim_tensor *condition, plim_tensor *a) {
  return where_else(t, condition, a, empty(t, (plim_dims){0}, (plim_dtype)a->dtype));
}

// Edges: the two values. Each gets the gradient where the condition chose it.
static void where_both_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                plim_tensor **out) {
  plim_dtype dtype = (plim_dtype)in[0]->dtype;
  for (int i = 1; i >= 0; i--) {
    if (!wants(n, i)) continue;
    plim_tensor *zero = empty(t, (plim_dims){0}, dtype);
    out[i] = k_binary_as(t, n->saved[0], in[0], dtype);
    plim_consume(t, zero);
  }
}

plim_tensor *where_both(plim_tape *t, plim_tensor *condition, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node2(t, where_both_backward, a, b);
  if (n) node_save(t, n, condition);
  plim_tensor *out = k_binary(t, a, b);
  plim_consume(t, condition);
  return finish(t, n, out, a, b);
}

// where(x == number, grad / 2, grad).masked_fill_(x > number, 0)
static void minimum_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *half = k_unary(t, in[0]);
  plim_tensor *is_equal = k_binary_as(t, n->saved[0], NULL, PLIM_BOOL);
  out[0] = k_binary(t, half, in[0]);
  plim_tensor *is_more = k_binary_as(t, n->saved[0], NULL, PLIM_BOOL);
  consume_all(t, is_more, is_equal, half);
}

plim_tensor *minimum(plim_tape *t, plim_tensor *x, plim_tensor *number) {
  (void)number; // has no dimension: the result has the dtype of x
  plim_grad_node *n = node1(t, minimum_backward, x);
  if (n) node_save(t, n, x);
  return finish(t, n, k_unary(t, x), x, NULL);
}

plim_tensor *where_else(plim_tape *t, plim_tensor *condition, plim_tensor *a, plim_tensor *number) {
  plim_dtype dtype = (plim_dtype)a->dtype;
  plim_grad_node *n = node1(t, where_backward, a);
  if (n) node_save(t, n, condition);
  plim_tensor *out = k_binary_as(t, condition, a, dtype);
  plim_consume(t, number);
  return finish(t, n, out, condition, a);
}

// Where x is within its bounds, the gradient passes: one comparison for each bound.
static void clamp_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *zero = empty(t, (plim_dims){0}, (plim_dtype)in[0]->dtype);
  plim_tensor *is_within = k_binary_as(t, n->saved[0], NULL, PLIM_BOOL);
  plim_tensor *second = n->number > 1 ? k_binary_as(t, n->saved[0], NULL, PLIM_BOOL) : NULL;
  out[0] = k_binary_as(t, is_within, in[0], (plim_dtype)in[0]->dtype);
  consume_all(t, second, is_within, zero);
}

plim_tensor *clamp(plim_tape *t, plim_tensor *x, int bounds) {
  plim_grad_node *n = node1(t, clamp_backward, x);
  if (n) n->number = bounds, node_save(t, n, x);
  return finish(t, n, k_unary(t, x), x, NULL);
}

plim_tensor *clamp_in_place(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, clamp_backward, x);
  plim_work_map(t, x, NULL, x);
  if (!n) return x;
  plim_tensor *was = k_unary(t, x);
  n->number = 2;
  node_save(t, n, was);
  plim_consume(t, was);
  return finish(t, n, alias_of(t, x, x->shape, x->stride), x, NULL);
}

// The mask takes one byte per element; only the mask is saved.
plim_tensor *dropout(plim_tape *t, plim_tensor *a, double p) {
  if (p == 0) return a;
  // Restored below: later operators belong to the same module.
  const char *where = plim_tape_point(t).what;
  plim_tape_at(t, "dropout");
  plim_grad_node *n = node1(t, with_saved_backward, a);
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

static void to_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *cast = k_to(t, in[0], (plim_dtype)n->dtype);
  out[0] = cast == in[0] ? pass(cast) : cast;
}

plim_tensor *to(plim_tape *t, plim_tensor *a, plim_dtype dtype) {
  if (a->dtype == dtype) return a;
  plim_grad_node *n = node1(t, to_backward, a);
  if (n) n->dtype = a->dtype;
  return finish(t, n, k_to(t, a, dtype), a, NULL);
}

plim_tensor *to_contiguous(plim_tape *t, plim_tensor *a, plim_dtype dtype) {
  if (a->dtype == dtype) return a;
  plim_grad_node *n = node1(t, to_backward, a);
  if (n) n->dtype = a->dtype;
  return finish(t, n, k_map(t, a->shape, dtype, a, NULL), a, NULL);
}

static void mean_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *spread = k_expand(t, in[0], n->shape);
  out[0] = k_unary(t, spread);
  plim_consume(t, spread);
}

plim_tensor *mean_last(plim_tape *t, plim_tensor *a) {
  plim_grad_node *n = node1(t, mean_backward, a);
  if (n) n->shape = a->shape;
  plim_tensor *out = k_sum(t, a, 1u << (a->shape.n - 1), true, (plim_dtype)a->dtype);
  return finish(t, n, out, a, NULL);
}

plim_tensor *mean_all(plim_tape *t, plim_tensor *a) {
  plim_grad_node *n = node1(t, mean_backward, a);
  if (n) n->shape = a->shape;
  plim_tensor *out = k_sum(t, a, (1u << a->shape.n) - 1, false, (plim_dtype)a->dtype);
  return finish(t, n, out, a, NULL);
}

static void sum_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_dims kept = n->shape;
  kept.at[n->number] = 1;
  plim_tensor *row = k_view(t, in[0], kept);
  out[0] = k_expand(t, row, n->shape);
  plim_consume(t, row);
}

plim_tensor *sum_dim(plim_tape *t, plim_tensor *x, int dim, bool keep, plim_dtype dtype) {
  plim_grad_node *n = node1(t, sum_backward, x);
  if (n) n->shape = x->shape, n->number = dim;
  return finish(t, n, k_sum(t, x, 1u << dim, keep, dtype), x, NULL);
}

// grad * ~isnan(self)
static void sum_numbers_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                 plim_tensor **out) {
  const plim_tensor *self = n->saved[0];
  plim_tensor *is_nan = k_binary_as(t, self, NULL, PLIM_BOOL);
  plim_tensor *is_number = k_binary_as(t, self, NULL, PLIM_BOOL);
  out[0] = k_binary(t, in[0], self);
  consume_all(t, is_number, is_nan);
}

plim_tensor *sum_numbers(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, sum_numbers_backward, x);
  if (n) node_save(t, n, x);
  return finish(t, n, k_sum(t, x, (1u << x->shape.n) - 1, false, PLIM_FP32), x, NULL);
}

// grad / mask.sum(-1, keepdim=True) * mask, where the mask says which elements are the extreme ones. The sum is
// computed from a copy of the mask in 64 bits.
static void extreme_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *mask = k_binary_as(t, n->saved[0], n->saved[1], PLIM_BOOL);
  plim_tensor *count = empty(t, in[0]->shape, PLIM_I64),
              *wide = empty(t, n->saved[0]->shape, PLIM_I64);
  plim_work_map(t, mask, NULL, wide);
  plim_work_sum(t, wide, true, count);
  plim_consume(t, wide);
  plim_tensor *share = k_binary_as(t, in[0], count, (plim_dtype)in[0]->dtype);
  out[0] = k_binary_as(t, mask, share, (plim_dtype)in[0]->dtype);
  consume_all(t, share, count, mask);
}

plim_tensor *plim_op_extreme_last(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, extreme_backward, x);
  if (n) node_save(t, n, x);
  plim_dims shape = x->shape;
  shape.at[shape.n - 1] = 1;
  plim_tensor *row = k_extreme_last(t, x),
              *out = alias_of(t, row, shape, plim_contiguous_strides(&shape));
  plim_consume(t, row);
  if (n) node_save_output(t, n, out);
  return finish(t, n, out, x, NULL);
}

// Zeros of the source's shape, into which the gradient is scattered.
static void max_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = empty(t, n->shape, (plim_dtype)in[0]->dtype);
}

plim_tensor *max_last(plim_tape *t, plim_tensor *x) {
  plim_grad_node *n = node1(t, max_backward, x);
  if (n) n->shape = x->shape;
  plim_dims shape = x->shape;
  shape.at[shape.n - 1] = 1;
  plim_tensor *out = empty(t, shape, (plim_dtype)x->dtype), *where = empty(t, shape, PLIM_I64);
  if (n) node_save_output(t, n, where);
  plim_consume(t, where);
  return finish(t, n, out, x, NULL);
}
