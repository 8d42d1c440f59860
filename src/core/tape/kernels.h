// What PyTorch's kernels allocate: the parts that operators and gradients are made of. Arguments are
// borrowed, results floating; nothing here knows of autograd.
#ifndef PLIM_CORE_KERNELS_H
#define PLIM_CORE_KERNELS_H

#include "tape.h"

// An elementwise result of one or two operands (b may be NULL): broadcast shape, promoted dtype, and
// the memory order TensorIterator chooses.
plim_tensor *k_binary(plim_tape *t, const plim_tensor *a, const plim_tensor *b);
plim_tensor *k_binary_as(plim_tape *t, const plim_tensor *a, const plim_tensor *b,
                         plim_dtype dtype);
static inline plim_tensor *k_unary(plim_tape *t, const plim_tensor *a) {
  return k_binary(t, a, NULL);
}
plim_dims k_strides(const plim_tensor *a, const plim_tensor *b);

// x itself if it has that dtype already.
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
plim_tensor *k_count_rows(plim_tape *t, const plim_tensor *mask); // mask.sum(-1, dtype=int32)
// nonzero of a vector: where `found` of its n elements are.
plim_tensor *k_nonzero(plim_tape *t, int64_t n, int64_t found);
// x itself if it has that shape already; otherwise summed over what was broadcast.
plim_tensor *k_sum_to(plim_tape *t, plim_tensor *x, plim_dims shape);

// What one block of cub's kernels takes at a time, of 8-byte keys on Hopper; read off a sweep of
// sizes (3,073 to 2,097,152) and found again in cub's tuning tables. Of 4 bytes a scan takes
// more in places (K_SCAN_32_TILE).
enum { K_UNIQUE_TILE = 640 * 7, K_SCAN_TILE = 128 * 7, K_SCAN_32_TILE = 128 * 15 };
// Temporary bytes of cub's scan of n integers, so many at a time.
uint64_t k_scan_bytes(int64_t n, int64_t tile, plim_dtype dtype);
// torch.cumsum(x, dim=1) of integers, in 64 bits; x has fewer.
plim_tensor *k_running_sum(plim_tape *t, const plim_tensor *x);
// Temporary bytes of cub's radix sort of n pairs of 64-bit integers, of whose keys the lowest `bits`
// count.
uint64_t k_sort_bytes(int64_t n, int bits);

// Matrix products; the first on each thread takes cuBLAS's workspace.
plim_tensor *k_mm(plim_tape *t, const plim_tensor *a, const plim_tensor *b);  // 2-D
plim_tensor *k_bmm(plim_tape *t, const plim_tensor *a, const plim_tensor *b); // 3-D
void k_cublas(plim_tape *t);
void k_cublas_lt(plim_tape *t);

// Views. reshape copies where it must.
bool k_view_strides(const plim_tensor *x, const plim_dims *shape, plim_dims *stride);
plim_tensor *k_view(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *k_reshape(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *k_transpose(plim_tape *t, plim_tensor *x, int a, int b);
plim_tensor *k_expand(plim_tape *t, plim_tensor *x, plim_dims shape);

#endif
