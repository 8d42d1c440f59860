// Prints the layouts that the stand-ins use, for layouts_check.py to compare with CUDA's own headers:
//   property NAME ATTRIBUTE OFFSET_12 OFFSET_13, struct NAME MAJOR BYTES, field STRUCT NAME OFFSET.
#include <stdio.h>

#include "layouts.h"

#define FIELD(type, ours, cuda, theirs)                                                            \
  printf("field " cuda " " theirs " %zu\n", offsetof(type, ours))

int main(void) {
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
