#include "moe.h"

#include "ops_impl.h"

#include "op_names.h"

static plim_tensor *indices_new(plim_tape *t, int64_t n) { return empty(t, dims(n), PLIM_I64); }

// ---- choosing and sorting -------------------------------------------------------------------------

// Zeros of the source's shape, into which the gradient is scattered.
static void topk_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = empty(t, n->shape, (plim_dtype)in[0]->dtype);
}

void topk(plim_tape *t, plim_tensor *x, int64_t k, plim_tensor **values, plim_tensor **indices) {
  plim_grad_node *n = node1(t, topk_backward, x);
  if (n) n->shape = x->shape;
  plim_dims shape = x->shape;
  shape.at[shape.n - 1] = k;
  plim_tensor *chosen = empty(t, shape, (plim_dtype)x->dtype), *where = empty(t, shape, PLIM_I64);
  plim_work_map(t, x, NULL, chosen);
  if (n) node_save_output(t, n, where), node_output(t, n, chosen);
  set(t, values, chosen);
  set(t, indices, where);
  plim_consume(t, x);
}

// PyTorch's should_use_small_sort: up to this many elements are sorted in place.
enum { SORT_IN_PLACE = 4096 };

void sort_indices(plim_tape *t, plim_tensor *x, plim_tensor **sorted, plim_tensor **order) {
  int64_t count = x->shape.at[0];
  plim_tensor *values = indices_new(t, count), *from = indices_new(t, count);
  plim_tensor *range = indices_new(t, count);
  if (count > SORT_IN_PLACE) plim_consume(t, scratch(t, k_sort_bytes(t, count, 64)));
  plim_consume(t, range);
  set(t, sorted, values);
  set(t, order, from);
  plim_consume(t, x);
}

// ---- elementwise ----------------------------------------------------------------------------------

// The gradient of b needs the old value of a, so a copy of it is saved.
void div_in_place(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_grad_node *n = node2(t, plim_divide_backward, a, b);
  plim_work_map(t, a, b, a);
  if (n) {
    node_save(t, n, b);
    plim_tensor *before = k_like(t, a);
    node_save(t, n, before);
    plim_consume(t, before);
  }
  finish_in_place(t, n, a);
  plim_consume(t, b);
}

static void index_add_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                               plim_tensor **out) {
  if (wants(n, 1)) out[1] = empty(t, n->shape, (plim_dtype)in[0]->dtype);
  if (wants(n, 0)) out[0] = pass(in[0]);
}

// The node saves x for its shape alone.
void index_add_in_place(plim_tape *t, plim_tensor *sum, plim_tensor *rows, plim_tensor *x) {
  plim_grad_node *n = node2(t, index_add_backward, sum, x);
  if (n) n->shape = x->shape, node_save(t, n, rows), node_save(t, n, x);
  plim_work_map(t, x, rows, x);
  finish_in_place(t, n, sum);
  plim_consume(t, x);
}

static void masked_fill_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                 plim_tensor **out) {
  (void)n;
  out[0] = k_map(t, in[0]->shape, (plim_dtype)in[0]->dtype, in[0], NULL);
}

// A contiguous copy, whose elements are then filled.
plim_tensor *masked_fill(plim_tape *t, plim_tensor *x, plim_tensor *mask) {
  plim_grad_node *n = node1(t, masked_fill_backward, x);
  if (n) node_save(t, n, mask);
  return finish(t, n, empty(t, x->shape, (plim_dtype)x->dtype), x, NULL);
}

void masked_fill_in_place(plim_tape *t, plim_tensor *x, plim_tensor *mask) {
  plim_grad_node *n = node1(t, masked_fill_backward, x);
  plim_work_map(t, x, mask, x);
  if (n) node_save(t, n, mask);
  finish_in_place(t, n, x);
}

// ---- spreading rows ---------------------------------------------------------------------------------

// grad.gather(1, index)
static void scatter_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = empty(t, n->saved[0]->shape, (plim_dtype)in[0]->dtype);
}

plim_tensor *scatter_along(plim_tape *t, const plim_tensor *like, plim_tensor *index,
                           plim_tensor *values) {
  plim_tensor *out = empty(t, like->shape, (plim_dtype)like->dtype);
  plim_grad_node *n = node1(t, scatter_backward, values);
  if (n) node_save(t, n, index);
  plim_work_map(t, values, index, out);
  return finish(t, n, out, values, NULL);
}

// The gradient's copies, added up.
static void repeat_rows_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                 plim_tensor **out) {
  plim_tensor *copies = k_view(t, in[0], dims(-1, n->shape.at[0], n->shape.at[1]));
  out[0] = k_sum(t, copies, 1, false, (plim_dtype)in[0]->dtype);
  plim_consume(t, copies);
}

plim_tensor *repeat_rows(plim_tape *t, plim_tensor *x, int64_t times) {
  plim_grad_node *n = node1(t, repeat_rows_backward, x);
  if (n) n->shape = x->shape;
  plim_tensor *out = empty(t, dims(times * x->shape.at[0], x->shape.at[1]), (plim_dtype)x->dtype);
  return finish(t, n, out, x, NULL);
}

// ---- products -------------------------------------------------------------------------------------

// Cards of compute capability 9 and 10 have a grouped kernel for bfloat16; otherwise the groups are multiplied one by
// one (PyTorch's GroupedBlas.cpp, use_fast_path).
static bool has_group_kernel(const plim_gpu *gpu, plim_dtype dtype) {
  int major = gpu->capability / 10;
  return dtype == PLIM_BF16 && (major == 9 || major == 10);
}

// PyTorch's GroupMM.cu: for each group the pointers (an even number), strides and extents of three matrices; and 4
// descriptors of 128 bytes per multiprocessor, recorded on Hopper.
static void group_workspace(plim_tape *t, plim_dtype dtype, int64_t groups) {
  if (!has_group_kernel(plim_tape_gpu(t), dtype)) {
    k_cublas(t);
    return;
  }
  int64_t pointers = (groups + 1) / 2 * 2 * 8;
  plim_tensor *arguments = scratch(t, (uint64_t)(3 * pointers + groups * (3 * 8 + 3 * 4)));
  plim_consume(t, scratch(t, 4ull * 128 * plim_tape_gpu(t)->multiprocessors));
  plim_consume(t, arguments);
}

// Strides of the stacked weights, whose matrices may be transposed.
static plim_dims stack_strides(const plim_grad_node *n) {
  plim_dims shape = n->shape;
  int64_t rows = shape.at[1], columns = shape.at[2];
  return n->is_transposed ? dims(rows * columns, 1, rows) : plim_contiguous_strides(&shape);
}

// Saved: weight (if the rows need a gradient), offsets, rows (if the weight needs one).
static void grouped_mm_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                                plim_tensor **out) {
  plim_dtype dtype = (plim_dtype)in[0]->dtype;
  int64_t groups = n->shape.at[0], width = n->shape.at[1];
  if (wants(n, 1)) {
    out[1] = empty_strided(t, n->shape, stack_strides(n), dtype);
    group_workspace(t, dtype, groups);
    const plim_tensor *rows = n->saved[n->saved_count - 1];
    plim_work_products(t, rows->shape.at[0] / groups, rows, in[0], out[1]);
  }
  if (!wants(n, 0)) return;
  out[0] = empty(t, dims(in[0]->shape.at[0], width), dtype);
  group_workspace(t, dtype, groups);
  plim_work_matmul(t, in[0], n->saved[0], out[0]);
}

plim_tensor *grouped_mm(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *offsets) {
  plim_tensor *rows = to(t, x, (plim_dtype)weight->dtype);
  plim_grad_node *n = node2(t, grouped_mm_backward, rows, weight);
  if (n) n->shape = weight->shape, n->is_transposed = weight->stride.at[1] == 1;
  if (n && wants(n, 0)) node_save(t, n, weight);
  if (n) node_save(t, n, offsets);
  if (n && wants(n, 1)) node_save(t, n, rows);
  plim_dims shape = dims(rows->shape.at[0], weight->shape.at[2]);
  plim_tensor *out = empty(t, shape, (plim_dtype)rows->dtype);
  group_workspace(t, (plim_dtype)rows->dtype, weight->shape.at[0]);
  plim_work_matmul(t, rows, weight, out);
  return finish(t, n, out, rows, weight);
}
