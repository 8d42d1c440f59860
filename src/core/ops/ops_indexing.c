// Indexing by a tensor of indices: whole rows or single elements.
#include "ops_impl.h"
#include "rounding.h"

#include "op_names.h"

// index_put_with_sort_kernel of CUDA/Indexing.cu: the indices are linearised and sorted.
// There are `n` of them for each indexed dimension. `found` are indices that were made for it, or NULL.
static void put_sorted(plim_tape *t, const plim_tensor *grad, int64_t n, int64_t dimensions,
                       int64_t slices, plim_tensor *found) {
  plim_tensor *linear = NULL;
  for (int64_t i = 0; i < dimensions; i++) {
    plim_tensor *wrapped = empty(t, dims(n), PLIM_I64), *scaled = empty(t, dims(n), PLIM_I64);
    plim_consume(t, wrapped);
    if (linear) plim_consume(t, scaled);
    else linear = scaled;
  }
  plim_consume(t, found);
  bool copies = !plim_is_contiguous(grad);
  plim_tensor *values = copies ? empty(t, grad->shape, (plim_dtype)grad->dtype) : NULL;
  plim_tensor *sorted = empty(t, dims(n), PLIM_I64), *order = empty(t, dims(n), PLIM_I64);
  plim_tensor *range = empty(t, dims(n), PLIM_I64);
  plim_consume(t, scratch(t, k_sort_bytes(t, n, plim_bits_of(slices - 1))));
  consume_all(t, range, order, sorted, values, linear);
}

static void index_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = empty(t, n->shape, (plim_dtype)in[0]->dtype); // zeros
  int64_t slices = n->shape.at[0] * (n->number == 1 ? 1 : n->shape.at[1]);
  int64_t width = plim_numel(&n->shape) / slices;
  put_sorted(t, in[0], plim_numel(&in[0]->shape) / width, n->number, slices, NULL);
}

static plim_grad_node *index_node(plim_tape *t, plim_tensor *x, int64_t dimensions) {
  plim_grad_node *n = node1(t, index_backward, x);
  if (n) n->shape = x->shape, n->number = dimensions;
  return n;
}

plim_tensor *index_rows(plim_tape *t, plim_tensor *x, plim_tensor *rows) {
  plim_grad_node *n = index_node(t, x, 1);
  if (n) node_save(t, n, rows);
  plim_dims shape = rows->shape;
  for (int i = 1; i < x->shape.n; i++) shape.at[shape.n++] = x->shape.at[i];
  plim_tensor *out = empty(t, shape, (plim_dtype)x->dtype);
  plim_work_map(t, out, rows, out);
  return finish(t, n, out, x, rows);
}

// number: the dimension.
static void index_one_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                               plim_tensor **out) {
  out[0] = empty(t, n->shape, (plim_dtype)in[0]->dtype); // zeros
  put_sorted(t, in[0], 1, 1, n->shape.at[n->number], NULL);
}

plim_tensor *index_one(plim_tape *t, plim_tensor *x, int dim) {
  plim_tensor *index = empty(t, dims(1), PLIM_I64);
  plim_grad_node *n = node1(t, index_one_backward, x);
  if (n) n->shape = x->shape, n->number = dim, node_save(t, n, index);
  plim_dims shape = x->shape;
  shape.at[dim] = 1;
  plim_tensor *out = empty(t, shape, (plim_dtype)x->dtype);
  plim_work_map(t, out, NULL, out);
  return finish(t, n, out, x, index);
}

plim_tensor *index_pairs(plim_tape *t, plim_tensor *x, plim_tensor *rows, plim_tensor *columns) {
  plim_grad_node *n = index_node(t, x, 2);
  if (n) n->drops_in_order = true, node_save(t, n, rows), node_save(t, n, columns); // a list
  plim_dims shape = rows->shape;
  if (x->shape.n > 2) shape = dims(shape.at[0], x->shape.at[2]);
  plim_tensor *out = empty(t, shape, (plim_dtype)x->dtype);
  plim_work_map(t, out, rows, out);
  return finish(t, n, out, x, NULL);
}

static void gather_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = k_map(t, n->shape, (plim_dtype)in[0]->dtype, NULL, NULL); // zeros
  plim_work_bytes(t, 2 * plim_bytes_of(in[0]));
}

plim_tensor *gather_last(plim_tape *t, plim_tensor *x, plim_tensor *index) {
  plim_grad_node *n = node1(t, gather_backward, x);
  if (n) n->shape = x->shape, node_save(t, n, index), node_save(t, n, x);
  plim_tensor *out = empty(t, index->shape, (plim_dtype)x->dtype);
  plim_work_map(t, out, index, out);
  return finish(t, n, out, x, index);
}

plim_tensor *gather_rows(plim_tape *t, plim_tensor *x, plim_tensor *index) {
  plim_grad_node *n = node1(t, gather_backward, x);
  if (n) n->shape = x->shape, node_save(t, n, index);
  plim_tensor *out = empty(t, index->shape, (plim_dtype)x->dtype);
  plim_work_map(t, out, index, out);
  return finish(t, n, out, x, index);
}

// ---- masks ------------------------------------------------------------------------------------------

// The mask becomes indices, in forward and again in backward, because only the mask is saved.
static void index_masked_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                  plim_tensor **out) {
  const plim_dims *mask = &n->saved[0]->shape;
  out[0] = empty(t, n->shape, (plim_dtype)in[0]->dtype); // zeros
  plim_tensor *found = k_nonzero(t, plim_numel(mask), mask->n, in[0]->shape.at[0]);
  put_sorted(t, in[0], in[0]->shape.at[0], mask->n, plim_numel(mask), found);
}

plim_tensor *index_masked(plim_tape *t, plim_tensor *x, plim_tensor *mask, int64_t found) {
  plim_grad_node *n = node1(t, index_masked_backward, x);
  if (n) n->shape = x->shape, node_save(t, n, mask);
  plim_dims shape = {.n = 1, .at = {found}};
  for (int i = mask->shape.n; i < x->shape.n; i++) shape.at[shape.n++] = x->shape.at[i];
  plim_tensor *indices = k_nonzero(t, plim_numel(&mask->shape), mask->shape.n, found);
  plim_tensor *out = empty(t, shape, (plim_dtype)x->dtype);
  plim_work_map(t, out, NULL, out);
  plim_consume(t, indices);
  return finish(t, n, out, x, mask);
}

// grad.masked_select(mask)
static void masked_scatter_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                    plim_tensor **out) {
  const plim_dims *mask = &n->saved[0]->shape;
  plim_tensor *indices = k_nonzero(t, plim_numel(mask), mask->n, n->shape.at[0]);
  out[0] = empty(t, n->shape, (plim_dtype)in[0]->dtype);
  plim_consume(t, indices);
}

// The copy that is written into, and a running sum of the mask.
plim_tensor *masked_scatter(plim_tape *t, plim_tensor *mask, plim_tensor *x) {
  plim_grad_node *n = node1(t, masked_scatter_backward, x);
  if (n) n->shape = x->shape, node_save(t, n, mask);
  plim_tensor *zeros = empty(t, mask->shape, (plim_dtype)x->dtype);
  plim_tensor *out = k_unary(t, zeros), *places = empty(t, mask->shape, PLIM_I64);
  plim_consume(t, scratch(t, k_scan_bytes(t, plim_numel(&mask->shape), K_SCAN_TILE, PLIM_I64)));
  plim_consume(t, places);
  plim_work_map(t, zeros, x, out);
  plim_consume(t, zeros);
  return finish(t, n, out, x, NULL);
}

plim_tensor *select_rows(plim_tape *t, plim_tensor *x, plim_tensor *rows) {
  plim_grad_node *n = node1(t, gather_backward, x);
  if (n) n->shape = x->shape, node_save(t, n, rows);
  plim_dims shape = x->shape;
  shape.at[0] = rows->shape.at[0];
  plim_tensor *out = empty(t, shape, (plim_dtype)x->dtype);
  plim_work_map(t, out, rows, out);
  return finish(t, n, out, x, rows);
}

// Saves x itself as well.
plim_tensor *gather_each(plim_tape *t, plim_tensor *x, plim_tensor *index) {
  plim_grad_node *n = node1(t, gather_backward, x);
  if (n) n->shape = x->shape, node_save(t, n, index), node_save(t, n, x);
  plim_tensor *out = empty(t, dims(x->shape.at[0], x->shape.at[1], 1), (plim_dtype)x->dtype);
  plim_work_map(t, out, index, out);
  return finish(t, n, out, index, NULL);
}

// CopySlices: the gradient of the whole tensor, and copies of the part for the assignment's own gradient.
static void assign_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)n;
  out[0] = k_unary(t, in[0]);
  plim_tensor *part = k_unary(t, in[0]), *assigned = k_unary(t, in[0]);
  consume_all(t, part, assigned);
}

static void copied_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = k_map(t, n->shape, (plim_dtype)in[0]->dtype, in[0], NULL);
}

plim_tensor *assign_masked(plim_tape *t, plim_tensor *x, plim_tensor *mask) {
  plim_grad_node *n = node1(t, assign_backward, x);
  plim_tensor *whole = alias_of(t, x, x->shape, x->stride);
  if (n) node_save(t, n, mask), node_output(t, n, whole);
  plim_grad_node *v = node1(t, copied_backward, whole);
  plim_tensor *out = alias_of(t, whole, x->shape, x->stride);
  if (v) v->shape = x->shape, node_output(t, v, out);
  consume_all(t, whole, mask);
  return out;
}
