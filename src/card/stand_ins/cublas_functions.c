// cuBLAS and cuBLASLt: products are counted by their shape and not computed. PyTorch brings their workspace itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"

enum { TYPE_16F = 2, TYPE_16BF = 14 }; // cudaDataType_t; 0 is float32

static plim_compute compute_of(int type) {
  return type == TYPE_16BF  ? PLIM_COMPUTE_BF16
         : type == TYPE_16F ? PLIM_COMPUTE_FP16
                            : PLIM_COMPUTE_FP32;
}

static int count_product(int type, int64_t m, int64_t n, int64_t k, int64_t batch) {
  card_use(card_device());
  card_time_products(compute_of(type), (double)m, (double)n, (double)k, (double)batch);
  return CARD_OK;
}

// What a handle allocates for itself: buffers as ":KIB:COUNT:KIB:COUNT" lists them. The defaults are those of cuBLAS's
// manual; on an H200 the driver's addresses show the 64 MiB.
static uint64_t handle_bytes(void) {
  const char *list = getenv("CUBLAS_WORKSPACE_CONFIG");
  if (!list) list = card()->major >= 9 ? ":32768:2" : ":4096:2:16:8";
  uint64_t kib = 0;
  unsigned size, count;
  int length;
  for (; sscanf(list, ":%u:%u%n", &size, &count, &length) == 2; list += length)
    kib += (uint64_t)size * count;
  return kib << 10;
}

STAND_IN int cublasCreate_v2(void **handle) {
  card_make_handle(card_device(), handle_bytes());
  *handle = card_handle();
  return CARD_OK;
}

STAND_IN int cublasGetPointerMode_v2(void *handle, int *mode) {
  (void)handle;
  *mode = 0;
  return CARD_OK;
}

STAND_IN int cublasGetMathMode(void *handle, int *mode) {
  (void)handle;
  *mode = 0;
  return CARD_OK;
}

#define GEMM(name)                                                                                 \
  STAND_IN int name(void *handle, int transpose_a, int transpose_b, int m, int n, int k) {         \
    (void)handle, (void)transpose_a, (void)transpose_b;                                            \
    return count_product(0, m, n, k, 1);                                                           \
  }
GEMM(cublasSgemm_v2)
GEMM(cublasDgemm_v2)
GEMM(cublasCgemm_v2)
GEMM(cublasZgemm_v2)

// handle, transpositions, m, n, k, alpha, A, its type
#define GEMM_EX(name)                                                                              \
  STAND_IN int name(void *handle, int transpose_a, int transpose_b, int m, int n, int k,           \
                    const void *alpha, const void *a, int a_type) {                                \
    (void)handle, (void)transpose_a, (void)transpose_b, (void)alpha, (void)a;                      \
    return count_product(a_type, m, n, k, 1);                                                      \
  }
GEMM_EX(cublasSgemmEx)
GEMM_EX(cublasGemmEx)

// handle, transpositions, m, n, k, alpha, A, its type, lda, stride, B, its type, ldb, stride, beta, C, its type, ldc,
// stride, batch
STAND_IN int cublasGemmStridedBatchedEx(void *handle, int transpose_a, int transpose_b, int m,
                                        int n, int k, const void *alpha, const void *a, int a_type,
                                        int lda, long long a_stride, const void *b, int b_type,
                                        int ldb, long long b_stride, const void *beta, void *c,
                                        int c_type, int ldc, long long c_stride, int batch) {
  (void)handle, (void)transpose_a, (void)transpose_b, (void)alpha, (void)a, (void)lda;
  (void)a_stride, (void)b, (void)b_type, (void)ldb, (void)b_stride, (void)beta, (void)c;
  (void)c_type, (void)ldc, (void)c_stride;
  return count_product(a_type, m, n, k, batch);
}

#define STRIDED(name)                                                                              \
  STAND_IN int name(void *handle, int transpose_a, int transpose_b, int m, int n, int k,           \
                    const void *alpha, const void *a, int lda, long long a_stride, const void *b,  \
                    int ldb, long long b_stride, const void *beta, void *c, int ldc,               \
                    long long c_stride, int batch) {                                               \
    (void)handle, (void)transpose_a, (void)transpose_b, (void)alpha, (void)a, (void)lda;           \
    (void)a_stride, (void)b, (void)ldb, (void)b_stride, (void)beta, (void)c, (void)ldc;            \
    (void)c_stride;                                                                                \
    return count_product(0, m, n, k, batch);                                                       \
  }
STRIDED(cublasSgemmStridedBatched)
STRIDED(cublasDgemmStridedBatched)

// ---- cuBLASLt -------------------------------------------------------------------------------------------

// A layout remembers its size, for the count.
typedef struct {
  int type;
  uint64_t rows, columns;
} layout;

STAND_IN size_t cublasLtGetVersion(void) { return (size_t)card_cuda_version() * 10; }
STAND_IN size_t cublasLtGetCudartVersion(void) { return (size_t)card_cuda_version(); }

STAND_IN int cublasLtCreate(void **handle) {
  *handle = card_handle();
  return CARD_OK;
}

STAND_IN int cublasLtMatmulDescCreate(void **description, int compute, int scale) {
  (void)compute, (void)scale;
  *description = card_handle();
  return CARD_OK;
}

STAND_IN int cublasLtMatmulPreferenceCreate(void **preference) {
  *preference = card_handle();
  return CARD_OK;
}

STAND_IN int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns,
                                        int64_t stride) {
  (void)stride;
  layout *new = malloc(sizeof *new);
  if (!new) return 3; // CUBLAS_STATUS_ALLOC_FAILED
  *new = (layout){type, rows, columns};
  *out = new;
  return CARD_OK;
}

STAND_IN int cublasLtMatrixLayoutDestroy(void *old) {
  free(old);
  return CARD_OK;
}

// cublasLtMatmulHeuristicResult_t
typedef struct {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
} heuristic;

STAND_IN int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b,
                                            void *c, void *d, void *preference, int wanted,
                                            heuristic *out, int *count) {
  (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
  *count = wanted > 0;
  if (wanted > 0) *out = (heuristic){.waves = 1};
  return CARD_OK;
}

STAND_IN int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a,
                            const layout *a_layout, const void *b, const layout *b_layout,
                            const void *beta, const void *c, const layout *c_layout, void *d,
                            const layout *d_layout) {
  (void)handle, (void)operation, (void)alpha, (void)a, (void)b, (void)beta, (void)c, (void)c_layout;
  (void)d;
  uint64_t in_a = a_layout->rows * a_layout->columns, out_rows = d_layout->rows;
  int64_t inner = out_rows ? (int64_t)(in_a / out_rows) : 0;
  (void)b_layout;
  return count_product(a_layout->type, (int64_t)d_layout->rows, (int64_t)d_layout->columns, inner,
                       1);
}
