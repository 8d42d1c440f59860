// Functions of the driver, nvrtc and cuBLASLt that the real cuDNN looks up when it plans, and that PyTorch does not use. cuDNN
// regards an engine as supported only if all functions that it would call exist.
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
