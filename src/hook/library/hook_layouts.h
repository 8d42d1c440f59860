// The layouts of the driver's structures and the numbers of its constants, as far as they are used. Written from the CUDA
// documentation; tests/card/layouts_check.py compares them with the real headers where those are installed.
#ifndef PLIM_HOOK_LAYOUTS_H
#define PLIM_HOOK_LAYOUTS_H

#include <stddef.h>
#include <stdint.h>

// CUresult
enum {
  CU_OK = 0,
  CU_INVALID_VALUE = 1,
  CU_OUT_OF_MEMORY = 2,
  CU_NO_DEVICE = 100,
};

// CUmemLocationType
enum { CU_ON_DEVICE = 1, CU_ON_HOST = 2, CU_ON_HOST_NODE = 3 };

// CUmemAllocationType: memory that stays where it is.
enum { CU_PINNED = 1 };

// CU_MEMHOSTALLOC_*
enum { CU_HOST_PORTABLE = 1, CU_HOST_DEVICEMAP = 2 };

// CUpointer_attribute
enum { CU_POINTER_MEMORY_TYPE = 2, CU_POINTER_HOST = 4, CU_POINTER_DEVICE = 9 };

// CUmemorytype
enum { CU_TYPE_DEVICE = 2 };

// CUdriverProcAddress_flags
enum { CU_FIND_PER_THREAD = 2 };

// The newest CUDA whose functions were looked at.
#define CU_KNOWN_VERSION 13040

// CUmemAllocationProp
typedef struct {
  int type, handle_types;
  int location_type, location;
  void *security;
  uint8_t compression, is_rdma_capable;
  uint16_t usage;
  uint8_t reserved[4];
} hook_allocation_properties;

// CUmemPoolProps
typedef struct {
  int type, handle_types;
  int location_type, location;
  void *security;
  size_t most_bytes;
  uint16_t usage;
  uint8_t reserved[54];
} hook_pool_properties;

// CUDA_ARRAY_DESCRIPTOR
typedef struct {
  size_t width, height;
  int format;
  unsigned channels;
} hook_array_description;

// CUDA_ARRAY3D_DESCRIPTOR
typedef struct {
  size_t width, height, depth;
  int format;
  unsigned channels, flags;
} hook_array_3d_description;

// CUDA_MEM_ALLOC_NODE_PARAMS
typedef struct {
  hook_pool_properties pool;
  const void *access;
  size_t access_count;
  size_t bytes;
  uint64_t address; // filled by the driver
} hook_graph_allocation;

// nvmlMemory_t, nvmlMemory_v2_t
typedef struct {
  unsigned long long total, left, used;
} hook_nvml_memory;

typedef struct {
  unsigned version;
  unsigned long long total, reserved, left, used;
} hook_nvml_memory_v2;

#endif
