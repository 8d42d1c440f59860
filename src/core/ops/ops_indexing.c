// Indexing by a tensor of indices: whole rows or single elements.
#include "ops_impl.h"

#include "op_names.h"

static int bits_of(int64_t largest) {
  int bits = 1;
  while (bits < 63 && largest >> bits) bits++;
  return bits;
}

// index_put_with_sort_kernel of CUDA/Indexing.cu: the indices are linearised and sorted.
static void put_sorted(plim_tape *t, const plim_tensor *grad, int64_t dimensions, int64_t slices) {
  int64_t n = grad->shape.at[0];
  plim_tensor *linear = NULL;
  for (int64_t i = 0; i < dimensions; i++) {
    plim_tensor *wrapped = empty(t, dims(n), PLIM_I64), *scaled = empty(t, dims(n), PLIM_I64);
    plim_consume(t, wrapped);
    if (linear) plim_consume(t, scaled);
    else linear = scaled;
  }
  bool copies = !plim_is_contiguous(grad);
  plim_tensor *values = copies ? empty(t, grad->shape, (plim_dtype)grad->dtype) : NULL;
  plim_tensor *sorted = empty(t, dims(n), PLIM_I64), *order = empty(t, dims(n), PLIM_I64);
  plim_tensor *range = empty(t, dims(n), PLIM_I64);
  plim_consume(t, scratch(t, k_sort_bytes(n, bits_of(slices - 1))));
  consume_all(t, range, order, sorted, values, linear);
}

static void index_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = empty(t, n->shape, (plim_dtype)in[0]->dtype); // zeros
  int64_t slices = n->number == 1 ? n->shape.at[0] : plim_numel(&n->shape);
  put_sorted(t, in[0], n->number, slices);
}

static plim_grad_node *index_node(plim_tape *t, plim_tensor *x, int64_t dimensions) {
  plim_grad_node *n = node1(t, index_backward, x);
  if (n) n->shape = x->shape, n->number = dimensions;
  return n;
}

plim_tensor *index_rows(plim_tape *t, plim_tensor *x, plim_tensor *rows) {
  plim_grad_node *n = index_node(t, x, 1);
  if (n) node_save(t, n, rows);
  plim_dims shape = x->shape;
  shape.at[0] = rows->shape.at[0];
  plim_tensor *out = empty(t, shape, (plim_dtype)x->dtype);
  plim_work_map(t, out, rows, out);
  return finish(t, n, out, x, rows);
}

plim_tensor *index_pairs(plim_tape *t, plim_tensor *x, plim_tensor *rows, plim_tensor *columns) {
  plim_grad_node *n = index_node(t, x, 2);
  if (n) node_save(t, n, rows), node_save(t, n, columns);
  plim_tensor *out = empty(t, rows->shape, (plim_dtype)x->dtype);
  plim_work_map(t, out, rows, out);
  return finish(t, n, out, x, NULL);
}

static void gather_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = k_map(t, n->shape, (plim_dtype)in[0]->dtype, NULL, NULL); // zeros
  plim_work_bytes(t, 2 * plim_bytes_of(in[0]));
}

plim_tensor *gather_rows(plim_tape *t, plim_tensor *x, plim_tensor *index) {
  plim_grad_node *n = node1(t, gather_backward, x);
  if (n) n->shape = x->shape, node_save(t, n, index);
  plim_tensor *out = empty(t, index->shape, (plim_dtype)x->dtype);
  plim_work_map(t, out, index, out);
  return finish(t, n, out, x, index);
}
