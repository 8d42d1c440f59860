// Functions of the driver, nvrtc and cuBLASLt that the real cuDNN looks up when it plans, and that PyTorch does not use. cuDNN
// regards an engine as supported only if all functions that it would call exist. Other programs that call them would get
// results that are not there, so their calls are written down.
#include "card.h"

STAND_IN int cublasLtGetProperty(int property, int *value) {
  *value = property == 0 ? card_cuda_version() / 1000 : 0;
  return CARD_OK;
}

#define LOOKED_FOR(name)                                                                           \
  STAND_IN int name(void) {                                                                        \
    if (!*card_is_hidden()) card_unmodelled_call(#name);                                           \
    return CARD_OK;                                                                                \
  }
LOOKED_FOR(cuKernelSetAttribute)
LOOKED_FOR(cuLibraryLoadFromFile)
LOOKED_FOR(cuLinkAddData)
LOOKED_FOR(cuLinkCreate)
LOOKED_FOR(cuLinkDestroy)
LOOKED_FOR(cuModuleGetGlobal)
LOOKED_FOR(cuOccupancyMaxPotentialClusterSize)
LOOKED_FOR(__nvrtcCPEx)
LOOKED_FOR(cublasLtMatmulDescGetAttribute)
LOOKED_FOR(cublasLtMatmulDescInit_internal)
LOOKED_FOR(cublasLtMatmulPreferenceInit_internal)
LOOKED_FOR(cublasLtMatrixLayoutGetAttribute)
LOOKED_FOR(cublasLtMatrixLayoutInit_internal)
LOOKED_FOR(cublasLtMatrixTransform)
LOOKED_FOR(cublasLtMatrixTransformDescCreate)
LOOKED_FOR(cublasLtMatrixTransformDescDestroy)
LOOKED_FOR(cublasLtMatrixTransformDescGetAttribute)
LOOKED_FOR(cublasLtMatrixTransformDescInit_internal)
LOOKED_FOR(cublasLtMatrixTransformDescSetAttribute)
