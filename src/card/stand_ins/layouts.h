// The layouts of CUDA's structures, as far as they are used, and the numbers of device attributes. Written down from the
// CUDA documentation; tests/card/layouts_check.py compares them with the real headers where those are installed.
#ifndef PLIM_CARD_LAYOUTS_H
#define PLIM_CARD_LAYOUTS_H

#include <stddef.h>
#include <stdint.h>

#define CARD_DRIVER_VERSION 13000
#define CARD_ATTRIBUTE_BUS 33

typedef struct {
  unsigned x, y, z;
} card_dim3;

// cudaDeviceProp: CUDA 11 and 12 place these fields alike, 13 dropped some fields before them.
typedef enum {
  CARD_INT32,
  CARD_INT64,
  CARD_NAME,
  CARD_UUID,
  CARD_TOTAL,
  CARD_BUS
} card_property_kind;

typedef struct {
  const char *name;
  int attribute; // the device attribute with the same value; 0: none
  card_property_kind kind;
  uint16_t at_12, at_13;
} card_property;

extern const card_property card_properties[];
extern const size_t card_property_count;
size_t card_properties_bytes(int cuda_major);

// The value of a device attribute (cudaDeviceAttr and CUdevice_attribute have the same numbers).
int64_t card_attribute(int attribute);

// cudaFuncAttributes; CUDA 11 has 56 bytes of it.
typedef struct {
  size_t shared_bytes, constant_bytes, local_bytes;
  int max_threads_per_block, registers, ptx_version, binary_version, cache_mode;
  int max_dynamic_shared_bytes, preferred_carveout;
} card_function_attributes;

// cudaPointerAttributes; CUDA 13 has reserved fields behind it.
typedef struct {
  int type, device; // type: 0 unregistered, 1 host, 2 device, 3 managed
  void *device_pointer, *host_pointer;
} card_pointer_attributes;

// cudaLaunchConfig_t
typedef struct {
  card_dim3 grid, block;
  size_t shared_bytes;
  void *stream;
  void *attributes;
  unsigned attribute_count;
} card_launch;

#endif
