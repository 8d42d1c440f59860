// The one list of functions that the library stands in front of. The exported functions, the answers of dlsym and those of
// cuGetProcAddress all follow from it.
//
//   X(symbol, base, since, stream, arguments)
//   symbol     the name that libcuda.so.1 or libnvidia-ml.so.1 exports
//   base       the name under which cuGetProcAddress has it; "" for NVML
//   since      the first version of CUDA in which `base` means this symbol
//   stream     LEGACY, or PER_THREAD for the variant with a default stream for each thread
//   arguments  its parameters; all return an int
//
// From the CUDA driver API and NVML references; tests/card/layouts_check.py compares the versions with cudaTypedefs.h.
#ifndef PLIM_HOOK_FUNCTIONS_H
#define PLIM_HOOK_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "hook_layouts.h"

#define HOOKED_FUNCTIONS(X)                                                                        \
  X(cuGetProcAddress, "cuGetProcAddress", 11030, LEGACY,                                           \
    (const char *name, void **out, int version, uint64_t flags))                                   \
  X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, LEGACY,                                        \
    (const char *name, void **out, int version, uint64_t flags, int *status))                      \
  X(cuMemAlloc_v2, "cuMemAlloc", 3020, LEGACY, (uint64_t * address, size_t bytes))                 \
  X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, LEGACY,                                           \
    (uint64_t * address, size_t * pitch, size_t width, size_t height, unsigned element))           \
  X(cuMemAllocManaged, "cuMemAllocManaged", 6000, LEGACY,                                          \
    (uint64_t * address, size_t bytes, unsigned flags))                                            \
  X(cuMemFree_v2, "cuMemFree", 3020, LEGACY, (uint64_t address))                                   \
  X(cuMemAllocAsync, "cuMemAllocAsync", 11020, LEGACY,                                             \
    (uint64_t * address, size_t bytes, void *stream))                                              \
  X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, PER_THREAD,                                    \
    (uint64_t * address, size_t bytes, void *stream))                                              \
  X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, LEGACY,                             \
    (uint64_t * address, size_t bytes, void *pool, void *stream))                                  \
  X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, PER_THREAD,                    \
    (uint64_t * address, size_t bytes, void *pool, void *stream))                                  \
  X(cuMemFreeAsync, "cuMemFreeAsync", 11020, LEGACY, (uint64_t address, void *stream))             \
  X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, PER_THREAD, (uint64_t address, void *stream))    \
  X(cuMemPoolCreate, "cuMemPoolCreate", 11020, LEGACY,                                             \
    (void **pool, const hook_pool_properties *properties))                                         \
  X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, LEGACY, (void *pool))                             \
  X(cuMemCreate, "cuMemCreate", 10020, LEGACY,                                                     \
    (uint64_t * handle, size_t bytes, const hook_allocation_properties *properties,                \
     unsigned long long flags))                                                                    \
  X(cuMemRelease, "cuMemRelease", 10020, LEGACY, (uint64_t handle))                                \
  X(cuMemMap, "cuMemMap", 10020, LEGACY,                                                           \
    (uint64_t address, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags))    \
  X(cuMemUnmap, "cuMemUnmap", 10020, LEGACY, (uint64_t address, size_t bytes))                     \
  X(cuMemSetAccess, "cuMemSetAccess", 10020, LEGACY,                                               \
    (uint64_t address, size_t bytes, const void *descriptions, size_t count))                      \
  X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, LEGACY,                     \
    (uint64_t * handle, void *address))                                                            \
  X(cuArrayCreate_v2, "cuArrayCreate", 3020, LEGACY,                                               \
    (void **array, const hook_array_description *description))                                     \
  X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, LEGACY,                                           \
    (void **array, const hook_array_3d_description *description))                                  \
  X(cuArrayDestroy, "cuArrayDestroy", 2000, LEGACY, (void *array))                                 \
  X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, LEGACY,                                \
    (void **array, const hook_array_3d_description *description, unsigned levels))                 \
  X(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, LEGACY, (void *array))               \
  X(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode", 11040, LEGACY,                               \
    (void **node, void *graph, void *const *dependencies, size_t count,                            \
     hook_graph_allocation *parameters))                                                           \
  X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, LEGACY, (int device))                \
  X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, LEGACY, (int device))            \
  X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, LEGACY, (size_t * left, size_t * total))                \
  X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, LEGACY, (size_t * bytes, int device))           \
  X(cuPointerGetAttribute, "cuPointerGetAttribute", 4000, LEGACY,                                  \
    (void *out, int attribute, uint64_t address))                                                  \
  X(cuPointerGetAttributes, "cuPointerGetAttributes", 7000, LEGACY,                                \
    (unsigned count, const int *attributes, void **out, uint64_t address))                         \
  X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, LEGACY,                                 \
    (uint64_t * start, size_t * bytes, uint64_t address))                                          \
  X(nvmlDeviceGetMemoryInfo, "", 0, LEGACY, (void *device, hook_nvml_memory *out))                 \
  X(nvmlDeviceGetMemoryInfo_v2, "", 0, LEGACY, (void *device, hook_nvml_memory_v2 *out))

// Functions of the driver that the library calls, and does not stand in front of.
#define CALLED_FUNCTIONS(X)                                                                        \
  X(cuCtxGetDevice, "", 0, LEGACY, (int *device))                                                  \
  X(cuCtxSynchronize, "", 0, LEGACY, (void))                                                       \
  X(cuDeviceGetUuid, "", 0, LEGACY, (uint8_t * uuid, int device))                                  \
  X(cuDeviceGetUuid_v2, "", 0, LEGACY, (uint8_t * uuid, int device))                               \
  X(cuMemHostAlloc, "", 0, LEGACY, (void **out, size_t bytes, unsigned flags))                     \
  X(cuMemHostGetDevicePointer_v2, "", 0, LEGACY, (uint64_t * out, void *host, unsigned flags))     \
  X(cuMemFreeHost, "", 0, LEGACY, (void *host))                                                    \
  X(cuStreamSynchronize, "", 0, LEGACY, (void *stream))                                            \
  X(cuStreamSynchronize_ptsz, "", 0, LEGACY, (void *stream))

typedef enum {
#define X(symbol, base, since, stream, arguments) HOOK_##symbol,
  HOOKED_FUNCTIONS(X) HOOK_HOOKED, // so many are hooked
  HOOK_BEFORE_CALLED = HOOK_HOOKED - 1,
  CALLED_FUNCTIONS(X) HOOK_FUNCTIONS
#undef X
} hook_function;

#define X(symbol, base, since, stream, arguments)                                                  \
  typedef int hook_type_##symbol arguments;                                                        \
  __attribute__((visibility("default"))) hook_type_##symbol symbol;
HOOKED_FUNCTIONS(X)
#undef X

#define X(symbol, base, since, stream, arguments) typedef int hook_type_##symbol arguments;
CALLED_FUNCTIONS(X)
#undef X

// The driver's own function; NULL if it has none or is not loaded.
void *hook_real(hook_function function);
#define REAL(symbol) ((hook_type_##symbol *)hook_real(HOOK_##symbol))

// The first line of a function of the list: `real` is what it stands in front of.
#define FIND_REAL(symbol)                                                                          \
  hook_type_##symbol *real = REAL(symbol);                                                         \
  if (!real) return CU_NO_DEVICE

#endif
