// Prints the layouts that the stand-ins and the hook library use, for layouts_check.py to compare with CUDA's own headers:
//   property NAME ATTRIBUTE OFFSET_12 OFFSET_13, struct NAME MAJOR BYTES, field STRUCT NAME OFFSET,
//   driver STRUCT NAME OFFSET, constant NAME VALUE, hooked NAME VERSION STREAM.
#include <stdio.h>

#include "hook_functions.h"
#include "layouts.h"

#define FIELD(type, ours, cuda, theirs)                                                            \
  printf("field " cuda " " theirs " %zu\n", offsetof(type, ours))

#define DRIVER(type, ours, cuda, theirs)                                                           \
  printf("driver " cuda " " theirs " %zu\n", offsetof(type, ours))

static void print_driver(void) {
  DRIVER(hook_allocation_properties, type, "CUmemAllocationProp", "type");
  DRIVER(hook_allocation_properties, handle_types, "CUmemAllocationProp", "requestedHandleTypes");
  DRIVER(hook_allocation_properties, location_type, "CUmemAllocationProp", "location.type");
  DRIVER(hook_allocation_properties, location, "CUmemAllocationProp", "location.id");
  DRIVER(hook_allocation_properties, security, "CUmemAllocationProp", "win32HandleMetaData");
  DRIVER(hook_allocation_properties, is_rdma_capable, "CUmemAllocationProp",
         "allocFlags.gpuDirectRDMACapable");
  printf("driver CUmemAllocationProp sizeof %zu\n", sizeof(hook_allocation_properties));
  DRIVER(hook_pool_properties, type, "CUmemPoolProps", "allocType");
  DRIVER(hook_pool_properties, location_type, "CUmemPoolProps", "location.type");
  DRIVER(hook_pool_properties, location, "CUmemPoolProps", "location.id");
  DRIVER(hook_array_description, width, "CUDA_ARRAY_DESCRIPTOR", "Width");
  DRIVER(hook_array_description, height, "CUDA_ARRAY_DESCRIPTOR", "Height");
  DRIVER(hook_array_description, format, "CUDA_ARRAY_DESCRIPTOR", "Format");
  DRIVER(hook_array_description, channels, "CUDA_ARRAY_DESCRIPTOR", "NumChannels");
  DRIVER(hook_array_3d_description, depth, "CUDA_ARRAY3D_DESCRIPTOR", "Depth");
  DRIVER(hook_array_3d_description, format, "CUDA_ARRAY3D_DESCRIPTOR", "Format");
  DRIVER(hook_array_3d_description, channels, "CUDA_ARRAY3D_DESCRIPTOR", "NumChannels");
  DRIVER(hook_graph_allocation, bytes, "CUDA_MEM_ALLOC_NODE_PARAMS", "bytesize");
  DRIVER(hook_graph_allocation, address, "CUDA_MEM_ALLOC_NODE_PARAMS", "dptr");
}

static void print_constants(void) {
  static const struct {
    const char *name;
    int value;
  } constants[] = {
      {"CUDA_ERROR_OUT_OF_MEMORY", CU_OUT_OF_MEMORY},
      {"CUDA_ERROR_INVALID_VALUE", CU_INVALID_VALUE},
      {"CUDA_ERROR_NO_DEVICE", CU_NO_DEVICE},
      {"CU_MEM_LOCATION_TYPE_DEVICE", CU_ON_DEVICE},
      {"CU_MEM_LOCATION_TYPE_HOST", CU_ON_HOST},
      {"CU_MEM_LOCATION_TYPE_HOST_NUMA", CU_ON_HOST_NODE},
      {"CU_MEM_ALLOCATION_TYPE_PINNED", CU_PINNED},
      {"CU_MEMHOSTALLOC_PORTABLE", CU_HOST_PORTABLE},
      {"CU_MEMHOSTALLOC_DEVICEMAP", CU_HOST_DEVICEMAP},
      {"CU_POINTER_ATTRIBUTE_MEMORY_TYPE", CU_POINTER_MEMORY_TYPE},
      {"CU_POINTER_ATTRIBUTE_HOST_POINTER", CU_POINTER_HOST},
      {"CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL", CU_POINTER_DEVICE},
      {"CU_MEMORYTYPE_DEVICE", CU_TYPE_DEVICE},
      {"CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM", CU_FIND_PER_THREAD},
  };
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    printf("constant %s %d\n", constants[i].name, constants[i].value);
}

static void print_hooked(void) {
#define X(symbol, base, since, stream, arguments)                                                  \
  if (*base) printf("hooked " base " %d " #stream "\n", since);
  HOOKED_FUNCTIONS(X)
#undef X
}

int main(void) {
  print_driver();
  print_constants();
  print_hooked();
  for (size_t i = 0; i < card_property_count; i++)
    printf("property %s %d %u %u\n", card_properties[i].name, card_properties[i].attribute,
           card_properties[i].at_12, card_properties[i].at_13);
  for (int major = 11; major <= 13; major++)
    printf("struct cudaDeviceProp %d %zu\n", major, card_properties_bytes(major));
  FIELD(card_function_attributes, shared_bytes, "cudaFuncAttributes", "sharedSizeBytes");
  FIELD(card_function_attributes, constant_bytes, "cudaFuncAttributes", "constSizeBytes");
  FIELD(card_function_attributes, local_bytes, "cudaFuncAttributes", "localSizeBytes");
  FIELD(card_function_attributes, max_threads_per_block, "cudaFuncAttributes",
        "maxThreadsPerBlock");
  FIELD(card_function_attributes, registers, "cudaFuncAttributes", "numRegs");
  FIELD(card_function_attributes, ptx_version, "cudaFuncAttributes", "ptxVersion");
  FIELD(card_function_attributes, binary_version, "cudaFuncAttributes", "binaryVersion");
  FIELD(card_function_attributes, cache_mode, "cudaFuncAttributes", "cacheModeCA");
  FIELD(card_function_attributes, max_dynamic_shared_bytes, "cudaFuncAttributes",
        "maxDynamicSharedSizeBytes");
  FIELD(card_function_attributes, preferred_carveout, "cudaFuncAttributes",
        "preferredShmemCarveout");
  FIELD(card_pointer_attributes, type, "cudaPointerAttributes", "type");
  FIELD(card_pointer_attributes, device, "cudaPointerAttributes", "device");
  FIELD(card_pointer_attributes, device_pointer, "cudaPointerAttributes", "devicePointer");
  FIELD(card_pointer_attributes, host_pointer, "cudaPointerAttributes", "hostPointer");
  FIELD(card_launch, grid, "cudaLaunchConfig_t", "gridDim");
  FIELD(card_launch, block, "cudaLaunchConfig_t", "blockDim");
  FIELD(card_launch, shared_bytes, "cudaLaunchConfig_t", "dynamicSmemBytes");
  FIELD(card_launch, stream, "cudaLaunchConfig_t", "stream");
  FIELD(card_launch, attributes, "cudaLaunchConfig_t", "attrs");
  FIELD(card_launch, attribute_count, "cudaLaunchConfig_t", "numAttrs");
  return 0;
}
