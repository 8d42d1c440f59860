// The CUDA runtime: memory. Like the real one it asks the driver, so that a library in front of the driver sees it too.
#include <string.h>

#include "card.h"
#include "layouts.h"

STAND_IN int cudaMalloc(void **out, size_t bytes) {
  uint64_t address = 0;
  int result = cuMemAlloc_v2(&address, bytes);
  *out = (void *)address;
  return result;
}

STAND_IN int cudaMallocAsync(void **out, size_t bytes, void *stream) {
  (void)stream;
  return cudaMalloc(out, bytes);
}

STAND_IN int cudaMallocManaged(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  return cudaMalloc(out, bytes);
}

STAND_IN int cudaFree(void *pointer) {
  card_use(card_device()); // cudaFree(0) is how programs start CUDA
  return cuMemFree_v2((uint64_t)pointer);
}

STAND_IN int cudaFreeAsync(void *pointer, void *stream) {
  (void)stream;
  return cudaFree(pointer);
}

STAND_IN int cudaMemGetInfo(size_t *left, size_t *total) { return cuMemGetInfo_v2(left, total); }

STAND_IN int cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  return card_host_alloc(bytes, out);
}

STAND_IN int cudaMallocHost(void **out, size_t bytes) { return card_host_alloc(bytes, out); }
STAND_IN int cudaFreeHost(void *pointer) { return card_host_free(pointer); }

STAND_IN int cudaHostGetDevicePointer(void **out, void *host, unsigned flags) {
  (void)flags;
  *out = host;
  return CARD_OK;
}

STAND_IN int cudaPointerGetAttributes(card_pointer_attributes *out, const void *pointer) {
  unsigned type = 0; // 1 host, 2 device; the driver knows nothing of other pointers
  int device = 0;
  cuPointerGetAttribute(&type, CARD_POINTER_TYPE, (uint64_t)pointer);
  cuPointerGetAttribute(&device, CARD_POINTER_DEVICE, (uint64_t)pointer);
  *out = (card_pointer_attributes){.type = (int)type,
                                   .device = device,
                                   .device_pointer = type ? (void *)pointer : NULL,
                                   .host_pointer = type != 2 ? (void *)pointer : NULL};
  return CARD_OK;
}

// ---- copies ---------------------------------------------------------------------------------------------

STAND_IN int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
  (void)kind;
  card_copy(to, from, bytes);
  return CARD_OK;
}

STAND_IN int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
  (void)stream;
  return cudaMemcpy(to, from, bytes, kind);
}

STAND_IN int cudaMemcpyPeerAsync(void *to, int device, const void *from, int from_device,
                                 size_t bytes, void *stream) {
  (void)device, (void)from_device, (void)stream;
  return cudaMemcpy(to, from, bytes, 0);
}

STAND_IN int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                               size_t width, size_t height, int kind, void *stream) {
  (void)kind, (void)stream;
  for (size_t row = 0; row < height; row++)
    card_copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
  return CARD_OK;
}

STAND_IN int cudaMemset(void *to, int byte, size_t bytes) {
  card_fill(to, byte, bytes);
  return CARD_OK;
}

STAND_IN int cudaMemsetAsync(void *to, int byte, size_t bytes, void *stream) {
  (void)stream;
  return cudaMemset(to, byte, bytes);
}

// A variable of a kernel: it has an address on the device that nothing reads.
STAND_IN int cudaGetSymbolAddress(void **out, const void *symbol) {
  (void)symbol;
  static uint64_t variables;
  if (!variables) card_malloc(card_device(), 2 << 20, &variables);
  *out = (void *)variables;
  return variables ? CARD_OK : CARD_OUT_OF_MEMORY;
}
