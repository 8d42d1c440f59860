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

plim_tensor *normalize(plim_tape *t, plim_tensor *x) {
  plim_tensor *denominator = NULL;
  bool was = hold(x);
  plim_tensor *norms = clamp(t, vector_norm(t, x), 1);
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

// ---- logsumexp of each row of a batch ---------------------------------------------------------------

// torch.stack([logsumexp(row) for row in x]): every row has a result and later a gradient of its own. A node cannot
// have as many outputs as there may be rows, so the rows' tensors are kept here.
enum { ROWS_OF_A_BLOCK = 60 };

typedef struct row_block {
  plim_tensor *at[ROWS_OF_A_BLOCK];
  struct row_block *next;
} row_block;

static row_block *row_blocks_new(plim_tape *t, int64_t rows) {
  row_block *first = plim_tape_object(t, sizeof *first);
  for (row_block *b = first; b && rows > ROWS_OF_A_BLOCK; rows -= ROWS_OF_A_BLOCK)
    b = b->next = plim_tape_object(t, sizeof *b);
  return first;
}

static plim_tensor **of_row(row_block *b, int64_t row) {
  for (; row >= ROWS_OF_A_BLOCK && b->next; row -= ROWS_OF_A_BLOCK) b = b->next;
  return &b->at[row];
}

// grad * exp(x - result) of each row, from the last; each gradient takes the place of a result. What is handed on only
// stands for them.
static void rows_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)in;
  plim_dims row = dims(n->shape.at[1], n->shape.at[2]);
  for (int64_t i = n->shape.at[0]; i-- > 0;) {
    plim_tensor *difference = empty(t, row, PLIM_FP32);
    plim_tensor *power = k_unary(t, difference), *grad = k_unary(t, power);
    consume_all(t, power, difference);
    set(t, of_row(n->context, i), grad);
  }
  out[0] = alias_of(t, n->saved[0], n->shape, n->saved[0]->stride);
}

static void unbind_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)in;
  out[0] = k_map(t, n->shape, PLIM_FP32, NULL, NULL);
  for (int64_t i = 0; i < n->shape.at[0]; i++) drop(t, of_row(n->context, i));
}

static plim_grad_node *rows_node(plim_tape *t, plim_backward_fn *function, plim_tensor *x,
                                 row_block *rows) {
  plim_grad_node *n = node1(t, function, x);
  if (n) n->shape = x->shape, n->context = rows;
  return n;
}

plim_tensor *logsumexp_rows(plim_tape *t, plim_tensor *x) {
  int64_t rows = x->shape.at[0], length = x->shape.at[1], width = x->shape.at[2];
  row_block *results = row_blocks_new(t, rows);
  if (!results) return empty(t, dims(rows, length), PLIM_FP32);
  plim_tensor *unbound = alias_of(t, x, x->shape, x->stride);
  plim_grad_node *u = rows_node(t, unbind_backward, x, results);
  if (u) node_output(t, u, unbound);
  plim_grad_node *n = rows_node(t, rows_backward, unbound, results);
  bool was = set_grad_mode(t, false);
  for (int64_t i = 0; i < rows; i++) {
    plim_tensor *row = view_of(t, x, dims(length, width), dims(x->stride.at[1], x->stride.at[2]));
    set(t, of_row(results, i), logsumexp(t, row));
  }
  set_grad_mode(t, was);
  plim_tensor *out = empty(t, dims(rows, length), PLIM_FP32);
  for (int64_t i = rows; !n && i-- > 0;) drop(t, of_row(results, i));
  if (n) {
    node_save(t, n, unbound), node_save(t, n, *of_row(results, 0));
    node_output(t, n, out);
    drop(t, of_row(results, 0)); // the node of the first row is the last to be done
  }
  plim_consume(t, unbound);
  return out;
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
