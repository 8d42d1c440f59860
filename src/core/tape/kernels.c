#include "kernels.h"

#include "rounding.h"
#include "tape_impl.h"
#include "work.h"

#include "tape_names.h"

// ---- elementwise ----------------------------------------------------------------------------------

static plim_dims broadcast(const plim_dims *a, const plim_dims *b) {
  plim_dims out = {.n = a->n > b->n ? a->n : b->n};
  for (int i = 0; i < out.n; i++) {
    int ia = i - (out.n - a->n), ib = i - (out.n - b->n);
    int64_t da = ia >= 0 ? a->at[ia] : 1, db = ib >= 0 ? b->at[ib] : 1;
    out.at[i] = da != 1 ? da : db;
  }
  return out;
}

// Strides of x in a broadcast shape: 0 where x is repeated.
static plim_dims broadcast_strides(const plim_tensor *x, const plim_dims *shape) {
  plim_dims out = {.n = shape->n};
  for (int i = 0; i < shape->n; i++) {
    int k = i - (shape->n - x->shape.n);
    bool repeated = k < 0 || (x->shape.at[k] == 1 && shape->at[i] != 1);
    out.at[i] = repeated ? 0 : x->stride.at[k];
  }
  return out;
}

// How TensorIterator orders d0 and d1: 1 swaps them, -1 keeps them, 0 is undecided. The first operand whose strides
// differ decides.
static int should_swap(const plim_dims *shape, const plim_dims *strides, int operands, int d0,
                       int d1) {
  for (int i = 0; i < operands; i++) {
    int64_t a = strides[i].at[d0], b = strides[i].at[d1];
    if (!a || !b) continue;
    if (a != b) return a < b ? -1 : 1;
    if (shape->at[d0] > shape->at[d1]) return 1;
  }
  return 0;
}

// As TensorIterator does: sorts the dimensions by the operands' strides; the output is dense in that order.
static plim_dims iterator_strides(const plim_dims *shape, const plim_dims *operand, int operands) {
  int order[PLIM_MAX_DIMS]; // fastest first
  for (int i = 0; i < shape->n; i++) order[i] = shape->n - 1 - i;
  for (int i = 1; i < shape->n; i++)
    for (int at = i, k = i - 1; k >= 0; k--) {
      int c = should_swap(shape, operand, operands, order[k], order[at]);
      if (c < 0) break;
      if (c == 0) continue;
      int swapped = order[k];
      order[k] = order[at];
      order[at] = swapped;
      at = k;
    }
  plim_dims out = {.n = shape->n};
  int64_t step = 1;
  for (int i = 0; i < shape->n; i++) {
    out.at[order[i]] = step;
    step *= shape->at[order[i]];
  }
  return out;
}

static plim_dims result_shape(const plim_tensor *a, const plim_tensor *b) {
  return b ? broadcast(&a->shape, &b->shape) : a->shape;
}

plim_dims k_strides(const plim_tensor *a, const plim_tensor *b) {
  plim_dims shape = result_shape(a, b);
  bool plain = plim_is_contiguous(a) && plim_same(&a->shape, &shape) &&
               (!b || (plim_is_contiguous(b) && plim_same(&b->shape, &shape)));
  if (plain) return plim_contiguous_strides(&shape);
  plim_dims strides[2] = {broadcast_strides(a, &shape)};
  if (b) strides[1] = broadcast_strides(b, &shape);
  return iterator_strides(&shape, strides, b ? 2 : 1);
}

// A zero-dimensional tensor affects the result's dtype only if its category is higher than the other operand's.
plim_dtype k_promoted(const plim_tensor *a, const plim_tensor *b) {
  if (!b) return (plim_dtype)a->dtype;
  if ((a->shape.n == 0) == (b->shape.n == 0))
    return (plim_dtype)(a->dtype > b->dtype ? a->dtype : b->dtype);
  const plim_tensor *main = a->shape.n ? a : b, *scalar = a->shape.n ? b : a;
  bool lifts = scalar->dtype >= PLIM_BF16 && main->dtype < PLIM_BF16;
  return (plim_dtype)(lifts ? scalar->dtype : main->dtype);
}

plim_tensor *k_binary_as(plim_tape *t, const plim_tensor *a, const plim_tensor *b,
                         plim_dtype dtype) {
  plim_tensor *out = empty_strided(t, result_shape(a, b), k_strides(a, b), dtype);
  plim_work_map(t, a, b, out);
  return out;
}

plim_tensor *k_binary(plim_tape *t, const plim_tensor *a, const plim_tensor *b) {
  return k_binary_as(t, a, b, k_promoted(a, b));
}

plim_tensor *k_like(plim_tape *t, const plim_tensor *x) {
  plim_dims stride = plim_is_dense(x) ? x->stride : k_strides(x, NULL);
  return empty_strided(t, x->shape, stride, (plim_dtype)x->dtype);
}

plim_tensor *k_to(plim_tape *t, plim_tensor *x, plim_dtype dtype) {
  if (x->dtype == dtype) return x;
  plim_dims stride = plim_is_dense(x) ? x->stride : k_strides(x, NULL);
  plim_tensor *out = empty_strided(t, x->shape, stride, dtype);
  plim_work_map(t, x, NULL, out);
  return out;
}

plim_tensor *k_map(plim_tape *t, plim_dims shape, plim_dtype dtype, const plim_tensor *a,
                   const plim_tensor *b) {
  plim_tensor *out = empty(t, shape, dtype);
  plim_work_map(t, a, b, out);
  return out;
}

// ---- reductions -----------------------------------------------------------------------------------

// The scratch space of PyTorch's reduction kernel. Read off recordings on an H200; the names are those of
// setReduceConfig in PyTorch's source.

typedef struct {
  int64_t stride, size;
} axis;

// Sorts the axes by stride and merges neighbours that are contiguous in memory.
static int coalesce(axis *a, int n) {
  for (int i = 1; i < n; i++)
    for (int k = i; k > 0 && a[k].stride < a[k - 1].stride; k--) {
      axis swapped = a[k];
      a[k] = a[k - 1];
      a[k - 1] = swapped;
    }
  int kept = 0;
  for (int i = 0; i < n; i++) {
    if (kept && a[kept - 1].stride * a[kept - 1].size == a[i].stride) a[kept - 1].size *= a[i].size;
    else a[kept++] = a[i];
  }
  return kept;
}

static int64_t product(const axis *a, int n) {
  int64_t p = 1;
  for (int i = 0; i < n; i++) p *= a[i].size;
  return p;
}

static int64_t pow2_at_most(int64_t n, int64_t most) {
  int64_t p = 1;
  while (p * 2 <= n && p * 2 <= most) p *= 2;
  return p;
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

// Output elements that a thread handles at once: 4, halved until it divides all sizes and strides involved.
static int64_t output_vector(const axis *reduced, int nr, const axis *kept, int nk) {
  for (int64_t v = 4; v > 1; v /= 2) {
    bool fits = kept[0].size % v == 0;
    for (int i = 0; i < nr; i++) fits = fits && reduced[i].stride % v == 0;
    for (int i = 1; i < nk; i++) fits = fits && kept[i].stride % v == 0;
    if (fits) return v;
  }
  return 1;
}

typedef struct {
  uint64_t buffer_bytes, semaphore_bytes; // both 0: one block reduces alone
} reduction;

static reduction plan_reduction(const plim_gpu *gpu, const plim_tensor *x, uint32_t mask,
                                int64_t sum_bytes) {
  axis reduced[PLIM_MAX_DIMS], kept[PLIM_MAX_DIMS];
  int nr = 0, nk = 0;
  for (int i = 0; i < x->shape.n; i++) {
    if (x->shape.at[i] == 1) continue;
    axis a = {x->stride.at[i], x->shape.at[i]};
    if (mask >> i & 1) reduced[nr++] = a;
    else kept[nk++] = a;
  }
  nr = coalesce(reduced, nr);
  nk = coalesce(kept, nk);
  if (!nr) return (reduction){0, 0};
  int64_t outputs = product(kept, nk), inputs = product(reduced, nr), vector = 1;
  bool along_fastest = !nk || reduced[0].stride < kept[0].stride;
  int64_t dim0 = along_fastest ? inputs : outputs, dim1 = along_fastest ? outputs : inputs;
  if ((along_fastest ? reduced[0].stride : kept[0].stride) == 1) {
    if (along_fastest && dim0 > 128 && nr + nk == 1) dim0 /= 4;
    else if (!along_fastest) vector = output_vector(reduced, nr, kept, nk), dim0 /= vector;
  }
  int64_t most = (plim_dtype_bytes[x->dtype] <= 4 ? 512 : 256) / vector;
  int64_t p0 = pow2_at_most(dim0, most), p1 = pow2_at_most(dim1, most);
  int64_t width = at_most(p0, 32), height = at_most(p1, most / width);
  width = at_most(p0, most / height);
  int64_t step_in = along_fastest ? width : 1, step_out = along_fastest ? 1 : width;
  bool splits_height = plim_ceil_div(inputs, step_in) >= at_most(height * 16, 256);
  if (splits_height) step_in *= height;
  else step_out *= height;
  int64_t per_thread = plim_ceil_div(inputs, step_in),
          grid = plim_ceil_div(outputs / vector, step_out);
  int64_t target = gpu->multiprocessors * (plim_gpu_threads(gpu) / (width * height));
  if (!splits_height || per_thread < 256 || grid > target) return (reduction){0, 0};
  int64_t blocks = at_most(plim_ceil_div(target, grid), plim_ceil_div(per_thread, 16));
  if (blocks < plim_ceil_div(per_thread, 256)) blocks = plim_ceil_div(per_thread, 256);
  if (blocks <= 1) return (reduction){0, 0};
  int64_t bytes = sum_bytes * outputs * blocks * (along_fastest ? 1 : width * vector);
  return (reduction){(uint64_t)bytes, (uint64_t)(4 * grid)};
}

static void take_scratch(plim_tape *t, reduction plan) {
  if (!plan.buffer_bytes) return;
  plim_tensor *buffer = scratch(t, plan.buffer_bytes);
  plim_release(t, scratch(t, plan.semaphore_bytes));
  plim_release(t, buffer);
}

plim_tensor *k_sum(plim_tape *t, const plim_tensor *x, uint32_t mask, bool keep, plim_dtype dtype) {
  plim_dims shape = {0};
  for (int i = 0; i < x->shape.n; i++) {
    bool gone = mask >> i & 1;
    if (!gone || keep) shape.at[shape.n++] = gone ? 1 : x->shape.at[i];
  }
  plim_tensor *out = empty(t, shape, dtype);
  plim_work_sum(t, x, mask >> (x->shape.n - 1) & 1, out);
  take_scratch(t, plan_reduction(t->gpu, x, mask, 4)); // accumulated in float32
  return out;
}

plim_tensor *k_reduce(plim_tape *t, const plim_tensor *x, plim_dtype dtype) {
  plim_tensor *out = empty(t, (plim_dims){0}, dtype);
  plim_work_sum(t, x, true, out);
  take_scratch(t, plan_reduction(t->gpu, x, (1u << x->shape.n) - 1, plim_dtype_bytes[dtype]));
  return out;
}

plim_tensor *k_all(plim_tape *t, const plim_tensor *x) { return k_reduce(t, x, PLIM_BOOL); }

plim_tensor *k_any_row(plim_tape *t, const plim_tensor *x) {
  plim_tensor *out = empty(t, dims(x->shape.at[1]), PLIM_BOOL);
  plim_work_sum(t, x, false, out);
  take_scratch(t, plan_reduction(t->gpu, x, 1u << 0, 1));
  return out;
}

plim_tensor *k_extreme_last(plim_tape *t, const plim_tensor *x) {
  plim_dims shape = {.n = x->shape.n - 1};
  for (int i = 0; i < shape.n; i++) shape.at[i] = x->shape.at[i];
  plim_tensor *out = empty(t, shape, (plim_dtype)x->dtype);
  plim_work_sum(t, x, true, out);
  take_scratch(t, plan_reduction(t->gpu, x, 1u << shape.n, plim_dtype_bytes[x->dtype]));
  return out;
}

// The result is allocated first, then a copy of the mask in the result's dtype.
plim_tensor *k_count_rows(plim_tape *t, const plim_tensor *mask) {
  plim_tensor *out = empty(t, dims(mask->shape.at[0]), PLIM_I32);
  plim_tensor *wide = empty(t, mask->shape, PLIM_I32);
  plim_work_sum(t, wide, true, out);
  take_scratch(t, plan_reduction(t->gpu, wide, 1u << 1, 4));
  plim_consume(t, wide);
  return out;
}

plim_tensor *k_sum_to(plim_tape *t, plim_tensor *x, plim_dims shape) {
  if (plim_same(&x->shape, &shape)) return x;
  int lead = x->shape.n - shape.n;
  uint32_t mask = 0;
  for (int i = 0; i < x->shape.n; i++)
    if (i < lead || (shape.at[i - lead] == 1 && x->shape.at[i] != 1)) mask |= 1u << i;
  plim_tensor *sum = k_sum(t, x, mask, true, (plim_dtype)x->dtype);
  if (!lead) return sum;
  plim_tensor *view = k_view(t, sum, shape);
  plim_consume(t, sum);
  return view;
}

// ---- sorting and scanning -------------------------------------------------------------------------

enum {
  SORT_ONE_TILE =
      256 * 9,      // pairs that one block sorts; cub's SingleTilePolicy for pairs of 8 bytes
  SORT_TILE = 4608, // pairs per block otherwise; fitted to recordings
  SORT_TILE_BEFORE = 3840, // of CUDA 12.1 (torch 2.4); fitted to 4,096 and 131,072 indices
  SORT_DIGITS = 256,       // 8 bits per pass
  CUB_ALIGN = 256          // alignment of each part of the temporary storage
};

static uint64_t cub_part(int64_t bytes) {
  return (uint64_t)(plim_ceil_div(bytes, CUB_ALIGN) * CUB_ALIGN);
}

// Temporary storage of cub's DispatchRadixSort: digit counters for each pass, one word per block and digit, a second
// buffer of keys and values if there is more than one pass, and a counter of blocks. With 64 bits this matches
// recordings of 4,096 to 65,536 indices.
uint64_t k_sort_bytes(const plim_tape *t, int64_t n, int bits) {
  if (n <= SORT_ONE_TILE) return 1;
  int64_t tile = plim_torch_from(t, 2, 5) ? SORT_TILE : SORT_TILE_BEFORE;
  int64_t passes = plim_ceil_div(bits, 8);
  uint64_t bytes = cub_part(passes * SORT_DIGITS * 8);
  bytes += cub_part(plim_ceil_div(n, tile) * SORT_DIGITS * 4);
  if (passes > 1) bytes += 2 * cub_part(8 * n);
  return bytes + cub_part(4 * passes) + CUB_ALIGN - 1;
}

// Temporary storage of cub's scan: one state per tile (a sum, and its status in as many bytes), 32 states before the
// first, and one small part, which CUDA 12 does not have (torch before 2.11). Recorded with 64 bits, and once with 32 bits
// (8 experts).
uint64_t k_scan_bytes(const plim_tape *t, int64_t n, int64_t tile, plim_dtype dtype) {
  int64_t state_bytes = 2 * plim_dtype_bytes[dtype];
  uint64_t small = plim_torch_from(t, 2, 11) ? CUB_ALIGN : 0;
  return cub_part(state_bytes * (plim_ceil_div(n, tile) + 32)) + small + CUB_ALIGN - 1;
}

// Before torch 2.7 it counts in 32 bits. The tile of CUDA 12.1 (torch 2.4) is fitted to 4,096 and 131,072 indices.
uint64_t k_unique_bytes(const plim_tape *t, int64_t n) {
  enum { TILE = 640 * 7, TILE_BEFORE = 64 * 5 };
  return k_scan_bytes(t, n, plim_torch_from(t, 2, 5) ? TILE : TILE_BEFORE,
                      plim_torch_from(t, 2, 7) ? PLIM_I64 : PLIM_I32);
}

// Allocates the result, then the input converted to 64 bits, if it has fewer. cub scans a single row; several rows need no scratch.
plim_tensor *k_running_sum(plim_tape *t, const plim_tensor *x) {
  plim_tensor *out = empty(t, x->shape, PLIM_I64);
  plim_tensor *wide = x->dtype == PLIM_I64 ? NULL : empty(t, x->shape, PLIM_I64);
  if (x->shape.at[0] == 1)
    plim_consume(t, scratch(t, k_scan_bytes(t, x->shape.at[1], K_SCAN_TILE, PLIM_I64)));
  plim_consume(t, wide);
  return out;
}

// nonzero counts with cub's reduction, then selects. The reduction launches 5 blocks for each block that fits on the
// card; each leaves a partial sum, unless one block does all the work. Tile sizes come from a sweep of 100 to
// 2,097,152 elements.
enum { COUNT_TILE = 4096, SELECT_TILE = 4096, COUNT_BLOCKS = 8 * 5 };

plim_tensor *k_nonzero(plim_tape *t, int64_t n, int64_t dimensions, int64_t found) {
  int64_t blocks = COUNT_BLOCKS * t->gpu->multiprocessors;
  plim_tensor *count = empty(t, (plim_dims){0}, PLIM_I32);
  plim_consume(t, scratch(t, n <= COUNT_TILE ? 1 : cub_part(4 * blocks) + CUB_ALIGN - 1));
  plim_tensor *out = empty(t, dims(found * dimensions), PLIM_I64);
  plim_consume(t, scratch(t, k_scan_bytes(t, n, SELECT_TILE, PLIM_I32)));
  plim_consume(t, count);
  return out;
}

// ---- matrix products ------------------------------------------------------------------------------

enum { CUBLAS, CUBLAS_LT };

// Since torch 2.15 each product has a workspace of its own, which is freed behind it.
static void workspace(plim_tape *t, int which, uint64_t bytes) {
  plim_tensor **kept = &t->workspaces[t->state.thread][which];
  if (which == CUBLAS && !t->has_handle[t->state.thread] && !t->state.is_stopped) {
    t->has_handle[t->state.thread] = true;
    plim_tape_written(t, PLIM_BY_FIRST_PRODUCT);
  }
  if (plim_torch_from(t, 2, 15)) plim_consume(t, scratch(t, bytes));
  else if (!*kept && !t->state.is_stopped) set(t, kept, scratch(t, bytes));
}

// 32 MiB was recorded on Hopper; other cards use the default of PyTorch's parseChosenWorkspaceSize (:4096:2:16:8).
void k_cublas(plim_tape *t) {
  bool is_large = t->gpu->capability >= 90;
  workspace(t, CUBLAS, is_large ? 32 * PLIM_MIB : 2 * 4096 * 1024 + 8 * 16 * 1024);
}

// addmm's workspace: before torch 2.9 and since 2.15 each call allocates one; since 2.12 it is cuBLAS's.
void k_cublas_lt(plim_tape *t) {
  bool is_before = !plim_torch_from(t, 2, 9), is_after = plim_torch_from(t, 2, 15);
  plim_tensor *own = is_before || is_after ? scratch(t, PLIM_MIB) : NULL;
  if (!is_after) k_cublas(t);
  if (own) plim_consume(t, own);
  else if (!plim_torch_from(t, 2, 12)) workspace(t, CUBLAS_LT, PLIM_MIB);
}

// Since torch 2.15 it is a kernel of PyTorch's own.
void k_outer_product(plim_tape *t) {
  if (!plim_torch_from(t, 2, 15)) k_cublas(t);
}

plim_tensor *k_mm(plim_tape *t, const plim_tensor *a, const plim_tensor *b) {
  plim_tensor *out = empty(t, dims(a->shape.at[0], b->shape.at[1]), (plim_dtype)a->dtype);
  k_cublas(t);
  plim_work_matmul(t, a, b, out);
  return out;
}

plim_tensor *k_bmm(plim_tape *t, const plim_tensor *a, const plim_tensor *b) {
  plim_dims shape = dims(a->shape.at[0], a->shape.at[1], b->shape.at[2]);
  plim_tensor *out = empty(t, shape, (plim_dtype)a->dtype);
  k_cublas(t);
  plim_work_matmul(t, a, b, out);
  return out;
}

// ---- views ----------------------------------------------------------------------------------------

// Whether the tensor can be viewed in another shape without a copy, as PyTorch's computeStride decides.
bool k_view_strides(const plim_tensor *x, const plim_dims *shape, plim_dims *stride) {
  *stride = plim_contiguous_strides(shape);
  if (!plim_numel(&x->shape) || !x->shape.n) return true;
  int view = shape->n - 1;
  int64_t chunk = x->stride.at[x->shape.n - 1], have = 1, done = 1;
  for (int i = x->shape.n - 1; i >= 0; i--) {
    have *= x->shape.at[i];
    bool breaks = i == 0 || (x->shape.at[i - 1] != 1 && x->stride.at[i - 1] != have * chunk);
    if (!breaks) continue;
    while (view >= 0 && (done < have || shape->at[view] == 1)) {
      stride->at[view] = done * chunk;
      done *= shape->at[view--];
    }
    if (done != have) return false;
    if (i > 0) chunk = x->stride.at[i - 1], have = done = 1;
  }
  return view == -1;
}

plim_tensor *k_view(plim_tape *t, plim_tensor *x, plim_dims shape) {
  plim_dims stride;
  k_view_strides(x, &shape, &stride);
  return view_of(t, x, shape, stride);
}

plim_tensor *k_reshape(plim_tape *t, plim_tensor *x, plim_dims shape) {
  plim_dims stride;
  if (k_view_strides(x, &shape, &stride)) return view_of(t, x, shape, stride);
  return k_map(t, shape, (plim_dtype)x->dtype, x, NULL); // copies
}

static void swap(int64_t *a, int64_t *b) {
  int64_t c = *a;
  *a = *b;
  *b = c;
}

plim_tensor *k_transpose(plim_tape *t, plim_tensor *x, int a, int b) {
  plim_dims shape = x->shape, stride = x->stride;
  swap(&shape.at[a], &shape.at[b]);
  swap(&stride.at[a], &stride.at[b]);
  return view_of(t, x, shape, stride);
}

plim_tensor *k_expand(plim_tape *t, plim_tensor *x, plim_dims shape) {
  return view_of(t, x, shape, broadcast_strides(x, &shape));
}
