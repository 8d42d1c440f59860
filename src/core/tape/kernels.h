// What PyTorch's kernels allocate; operators and gradients are built from these functions. Arguments are
// borrowed and results are floating. Nothing here involves autograd.
#ifndef PLIM_CORE_KERNELS_H
#define PLIM_CORE_KERNELS_H

#include "tape.h"

// The result of an elementwise kernel with one or two operands (b may be NULL): broadcast shape, promoted
// dtype, and the order of dimensions in memory that TensorIterator chooses.
plim_tensor *k_binary(plim_tape *t, const plim_tensor *a, const plim_tensor *b);
plim_tensor *k_binary_as(plim_tape *t, const plim_tensor *a, const plim_tensor *b,
                         plim_dtype dtype);
static inline plim_tensor *k_unary(plim_tape *t, const plim_tensor *a) {
  return k_binary(t, a, NULL);
}
plim_dtype k_promoted(const plim_tensor *a, const plim_tensor *b);
plim_dims k_strides(const plim_tensor *a, const plim_tensor *b);

// Returns x itself if it already has that dtype.
plim_tensor *k_to(plim_tape *t, plim_tensor *x, plim_dtype dtype);
plim_tensor *k_like(plim_tape *t, const plim_tensor *x); // empty_like

// The contiguous result of one kernel that reads a and b (either may be NULL).
plim_tensor *k_map(plim_tape *t, plim_dims shape, plim_dtype dtype, const plim_tensor *a,
                   const plim_tensor *b);

// Sums over the dimensions in the bit mask, with the scratch space of the reduction kernel.
plim_tensor *k_sum(plim_tape *t, const plim_tensor *x, uint32_t dim_mask, bool keep,
                   plim_dtype dtype);
plim_tensor *k_all(plim_tape *t, const plim_tensor *x);     // x.all(), or x.any()
plim_tensor *k_any_row(plim_tape *t, const plim_tensor *x); // x.any(dim=0) of a matrix
plim_tensor *k_reduce(plim_tape *t, const plim_tensor *x, plim_dtype dtype); // x.min(), x.max()
plim_tensor *k_extreme_last(plim_tape *t, const plim_tensor *x);  // x.amin(-1), x.amax(-1)
plim_tensor *k_count_rows(plim_tape *t, const plim_tensor *mask); // mask.sum(-1, dtype=int32)
// nonzero of n elements, `found` of which are not zero: an index per dimension for each of them.
plim_tensor *k_nonzero(plim_tape *t, int64_t n, int64_t dimensions, int64_t found);
// Returns x itself if it already has that shape; otherwise sums over the dimensions that were broadcast.
plim_tensor *k_sum_to(plim_tape *t, plim_tensor *x, plim_dims shape);

// Items that one block of a cub kernel processes at a time, for 8-byte keys on Hopper. Read off a sweep of
// sizes (3,073 to 2,097,152) and confirmed by cub's tuning tables. Some scans of 4-byte items take more
// (K_SCAN_32_TILE).
enum { K_SCAN_TILE = 128 * 7, K_SCAN_32_TILE = 128 * 15 };
// Temporary bytes of cub's scan of n integers with the given tile size.
uint64_t k_scan_bytes(const plim_tape *t, int64_t n, int64_t tile, plim_dtype dtype);
// The same of cub's selection of n indices that differ from the one before.
uint64_t k_unique_bytes(const plim_tape *t, int64_t n);
// torch.cumsum(x, dim=1) of integers narrower than 64 bits; the result has 64 bits.
plim_tensor *k_running_sum(plim_tape *t, const plim_tensor *x);
// Temporary bytes of cub's radix sort of n pairs of 64-bit integers by the lowest `bits` bits of the key.
uint64_t k_sort_bytes(const plim_tape *t, int64_t n, int bits);

// Matrix products. The first product on each thread also allocates cuBLAS's workspace.
plim_tensor *k_mm(plim_tape *t, const plim_tensor *a, const plim_tensor *b);  // 2-D
plim_tensor *k_bmm(plim_tape *t, const plim_tensor *a, const plim_tensor *b); // 3-D
void k_cublas(plim_tape *t);
void k_cublas_lt(plim_tape *t);
void k_outer_product(plim_tape *t); // bmm of a column and a row

// Views. k_reshape copies where no view is possible.
bool k_view_strides(const plim_tensor *x, const plim_dims *shape, plim_dims *stride);
plim_tensor *k_view(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *k_reshape(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *k_transpose(plim_tape *t, plim_tensor *x, int a, int b);
plim_tensor *k_expand(plim_tape *t, plim_tensor *x, plim_dims shape);

#endif
