// What the real cuDNN looks for in the driver, in nvrtc and in cuBLASLt when it plans, and PyTorch does not. An engine
// counts as supported only if all of the functions that it would call are there.
#include "card.h"

STAND_IN int cublasLtGetProperty(int property, int *value) {
  *value = property == 0 ? card_cuda_version() / 1000 : 0;
  return CARD_OK;
}

#define ACCEPTED(name)                                                                             \
  STAND_IN int name(void) { return CARD_OK; }
ACCEPTED(cuKernelSetAttribute)
ACCEPTED(cuLibraryLoadFromFile)
ACCEPTED(cuLinkAddData)
ACCEPTED(cuLinkCreate)
ACCEPTED(cuLinkDestroy)
ACCEPTED(cuModuleGetGlobal)
ACCEPTED(cuOccupancyMaxPotentialClusterSize)
ACCEPTED(__nvrtcCPEx)
ACCEPTED(cublasLtDestroy)
ACCEPTED(cublasLtMatmulDescGetAttribute)
ACCEPTED(cublasLtMatmulDescInit_internal)
ACCEPTED(cublasLtMatmulPreferenceInit_internal)
ACCEPTED(cublasLtMatrixLayoutGetAttribute)
ACCEPTED(cublasLtMatrixLayoutInit_internal)
ACCEPTED(cublasLtMatrixTransform)
ACCEPTED(cublasLtMatrixTransformDescCreate)
ACCEPTED(cublasLtMatrixTransformDescDestroy)
ACCEPTED(cublasLtMatrixTransformDescGetAttribute)
ACCEPTED(cublasLtMatrixTransformDescInit_internal)
ACCEPTED(cublasLtMatrixTransformDescSetAttribute)
