// The embedding and its gradient.
#include "ops_impl.h"
#include "rounding.h"

#include "op_names.h"

// PyTorch's embedding_dense_backward sorts the indices if there are more than this.
#define SORT_FROM 3072

static plim_tensor *indices(plim_tape *t, int64_t n) { return empty(t, dims(n), PLIM_I64); }

// With few rows and many partial sums, the partial sums are added to the rows atomically instead of being stored;
// PyTorch's use_fused_kernel, MAX_ATOMIC_ACCUM_BLOCKS_PER_SM = 4. Since torch 2.11.
static bool embedding_adds_atomically(const plim_tape *t, int64_t rows, int64_t parts,
                                      int64_t width) {
  int64_t warped = (width + 31) / 32 * 32, block = warped < 1024 ? warped : 1024;
  int64_t grid = (rows * warped + block - 1) / block;
  return plim_torch_from(t, 2, 11) && grid < 4 * plim_tape_gpu(t)->multiprocessors &&
         parts > 4 * grid;
}

// The gradient for many indices: they are sorted and split into runs of equal indices; each run is reduced to partial
// sums in float32, which are added to the table.
static plim_tensor *embedding_gradient_sorted(plim_tape *t, int64_t n, plim_dims table,
                                              plim_dtype dtype) {
  int64_t rows = table.at[0], width = table.at[1], runs = n < rows ? n : rows;
  plim_tensor *sorted = indices(t, n), *order = indices(t, n), *range = indices(t, n);
  int bits = plim_torch_from(t, 2, 13) ? plim_bits_of(rows - 1) : 64; // of the indices, or all
  plim_consume(t, scratch(t, k_sort_bytes(t, n, bits)));
  plim_consume(t, range);
  plim_tensor *out = empty(t, table, dtype);
  plim_tensor *starts = indices(t, n), *count = indices(t, 1), *unused = indices(t, n);
  plim_consume(t, scratch(t, k_unique_bytes(t, n)));
  plim_consume(t, unused);
  plim_tensor *per_run = indices(t, runs), *offsets = indices(t, runs);
  plim_consume(t, scratch(t, k_scan_bytes(t, runs, K_SCAN_TILE, PLIM_I64)));
  int64_t parts = n / 10 + runs;
  plim_tensor *part_count = indices(t, 1), *part_starts = indices(t, parts);
  bool adds_atomically = embedding_adds_atomically(t, runs, parts, width);
  plim_tensor *run_of_part = adds_atomically ? indices(t, parts) : NULL;
  plim_tensor *sums = !adds_atomically     ? empty(t, dims(parts, width), PLIM_FP32)
                      : dtype != PLIM_FP32 ? empty(t, table, PLIM_FP32)
                                           : NULL;
  consume_all(t, sums, run_of_part, part_starts, part_count, offsets, per_run, count, starts, order,
              sorted);
  return out;
}

static void embedding_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                               plim_tensor **out) {
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
  plim_grad_node *n = node1(t, embedding_backward, weight);
  if (n) n->shape = weight->shape, node_save(t, n, ids);
  plim_dims shape = ids->shape;
  shape.at[shape.n++] = weight->shape.at[1];
  plim_tensor *flat =
      k_reshape(t, ids, dims(plim_numel(&ids->shape))); // a copy if ids are expanded
  plim_tape_written(t, PLIM_BY_CHECKING_KERNEL);
  plim_tensor *out = empty(t, shape, (plim_dtype)weight->dtype);
  plim_consume(t, flat);
  plim_work_map(t, out, ids, out); // reads as many rows as it writes
  return finish(t, n, out, weight, ids);
}
