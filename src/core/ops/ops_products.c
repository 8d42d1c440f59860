// Matrix products and the linear layer.
#include "ops_impl.h"

#include "op_names.h"

// The gradient of the second operand has that operand's memory order: transposed if the operand is.
static plim_tensor *second_gradient(plim_tape *t, const plim_grad_node *n, plim_tensor *first,
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

// DeepSpeed replaces torch's linear by its own, which saves its input even if the weight is frozen, and computes the
// gradient of the input first.
static bool is_deepspeeds(const plim_tape *t, const plim_grad_node *n) {
  return plim_const_state(t)->has_own_linear && n->is_transposed;
}

static void mm_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  bool is_weight_first = !is_deepspeeds(t, n);
  plim_tensor *input = n->saved[n->saved_count - 1];
  if (wants(n, 1) && is_weight_first) out[1] = second_gradient(t, n, input, in[0]);
  if (wants(n, 0)) {
    plim_tensor *flipped = k_transpose(t, n->saved[0], 0, 1);
    out[0] = k_mm(t, in[0], flipped);
    plim_consume(t, flipped);
  }
  if (wants(n, 1) && !is_weight_first) out[1] = second_gradient(t, n, input, in[0]);
}

plim_tensor *mm(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node2(t, mm_backward, a, b);
  if (n) n->is_transposed = b->stride.at[0] == 1;
  if (n && wants(n, 0)) node_save(t, n, b);
  if (n && (wants(n, 1) || is_deepspeeds(t, n))) node_save(t, n, a);
  return finish(t, n, k_mm(t, a, b), a, b);
}

static void bmm_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
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
  plim_grad_node *n = node2(t, bmm_backward, a, b);
  if (n && wants(n, 0)) node_save(t, n, b);
  if (n && wants(n, 1)) node_save(t, n, a);
  return finish(t, n, k_bmm(t, a, b), a, b);
}

// Each product is then multiplied by a number.
static plim_tensor *scaled_product(plim_tape *t, const plim_tensor *a, const plim_tensor *b) {
  plim_tensor *product = k_bmm(t, a, b), *out = k_unary(t, product);
  plim_consume(t, product);
  return out;
}

static void add_product_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                 plim_tensor **out) {
  plim_tensor *flipped_b = k_transpose(t, n->saved[1], 1, 2);
  out[0] = scaled_product(t, in[0], flipped_b);
  plim_tensor *flipped_a = k_transpose(t, n->saved[0], 1, 2);
  out[1] = scaled_product(t, flipped_a, in[0]);
  consume_all(t, flipped_b, flipped_a);
}

plim_tensor *add_product(plim_tape *t, plim_tensor *bias, plim_tensor *a, plim_tensor *b) {
  plim_tensor *low_b = cast(t, b), *low_a = cast(t, a), *low = cast(t, bias);
  plim_grad_node *n = node2(t, add_product_backward, low_a, low_b);
  if (n) node_save(t, n, low_a), node_save(t, n, low_b);
  plim_tensor *out = finish(t, n, k_bmm(t, low_a, low_b), low_a, low_b);
  plim_consume(t, low);
  return out;
}

// The shape of a product: its leading dimensions are broadcast.
static plim_dims product_shape(const plim_tensor *a, const plim_tensor *b) {
  plim_dims shape = a->shape;
  int last = shape.n - 1;
  for (int i = 0; i < last - 1; i++)
    if (shape.at[i] == 1) shape.at[i] = b->shape.at[i];
  shape.at[last] = b->shape.at[last];
  return shape;
}

// (B,H,M,N) -> (B*H,M,N), or with one more leading dimension.
static plim_tensor *fold_batch(plim_tape *t, plim_tensor *x, plim_dims shape) {
  int last = shape.n - 1;
  int64_t rows = x->shape.at[last - 1], columns = x->shape.at[last];
  shape.at[last - 1] = shape.at[last] = -1;
  return reshape(t, expand(t, x, shape), dims(-1, rows, columns));
}

// Autocast casts the arguments from right to left. The reshaped tensors are freed from right to left, too.
plim_tensor *matmul(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  b = cast(t, b);
  a = cast(t, a);
  plim_dims shape = product_shape(a, b);
  bool a_was = hold(a), b_was = hold(b);
  plim_tensor *left = fold_batch(t, a, shape), *right = fold_batch(t, b, shape);
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

// Edges: bias, input, weight. Computes the input's gradient, then the weight's; the bias gets the incoming gradient.
static void addmm_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
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
  plim_grad_node *n = node_begin(t, addmm_backward, (plim_tensor *[]){bias, a, b}, 3);
  if (n) n->is_transposed = b->stride.at[0] == 1;
  if (n && (wants(n, 2) || is_deepspeeds(t, n))) node_save(t, n, a);
  if (n && wants(n, 1)) node_save(t, n, b);
  plim_tensor *out = empty(t, dims(a->shape.at[0], b->shape.at[1]), (plim_dtype)a->dtype);
  // A product, then += bias.
  bool adds_apart = plim_const_state(t)->has_own_linear && b->stride.at[0] == 1;
  bool is_vector = b->shape.at[0] == 1 || b->shape.at[1] == 1; // cuBLASLt is not used for it
  adds_apart || is_vector ? k_cublas(t) : k_cublas_lt(t);
  plim_work_matmul(t, a, b, out);
  if (n) node_output(t, n, out);
  consume_all(t, bias, a, b); // consumes autocast's copies
  return out;
}

// With a bias, the input is flattened before the weight is transposed (_flatten_nd_linear); without one, after it
// (matmul). Backward runs the two nodes in reverse order.
static plim_tensor *linear_rows(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                plim_tensor *bias) {
  plim_dims shape = x->shape, flat = dims(-1, shape.at[shape.n - 1]);
  bool is_flat = shape.n == 2;
  plim_tensor *rows = bias && !is_flat ? reshape(t, x, flat) : x;
  plim_tensor *flipped = transpose(t, weight, 0, 1);
  if (is_flat) return bias ? addmm(t, bias, x, flipped) : mm(t, x, flipped);
  if (!bias) rows = reshape(t, x, flat);
  shape.at[shape.n - 1] = weight->shape.at[0];
  if (bias) return view(t, addmm(t, bias, rows, flipped), shape);
  return unsafe_view(t, mm(t, rows, flipped), shape);
}

// Autocast casts the arguments from right to left. Arguments and casts live until the end and are freed from left to
// right.
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
