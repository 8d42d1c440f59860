// The CUDA runtime: memory. Like the real one it asks the driver, so that a library in front of the driver sees it too.
#include <string.h>

#include "card.h"
#include "layouts.h"

STAND_IN int cudaMalloc(void **out, size_t bytes) {
  uint64_t address = 0;
  int result = cuMemAlloc_v2(&address, bytes);
  *out = (void *)address;
  return card_result(result);
}

STAND_IN int cudaMallocAsync(void **out, size_t bytes, void *stream) {
  (void)stream;
  return cudaMalloc(out, bytes);
}

// Managed memory moves to the host when the card needs room, so a program fits without it.
STAND_IN int cudaMallocManaged(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  uint64_t address = 0;
  card_use(card_device());
  int result = card_managed_alloc(bytes, &address);
  *out = (void *)address;
  return card_result(result);
}

STAND_IN int cudaFree(void *pointer) {
  card_use(card_device()); // cudaFree(0) is how programs start CUDA
  return card_result(cuMemFree_v2((uint64_t)pointer));
}

STAND_IN int cudaFreeAsync(void *pointer, void *stream) {
  (void)stream;
  return cudaFree(pointer);
}

STAND_IN int cudaMemGetInfo(size_t *left, size_t *total) {
  return card_result(cuMemGetInfo_v2(left, total));
}

STAND_IN int cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  return card_result(card_host_alloc(bytes, out));
}

STAND_IN int cudaMallocHost(void **out, size_t bytes) { return cudaHostAlloc(out, bytes, 0); }
STAND_IN int cudaFreeHost(void *pointer) { return card_result(card_host_free(pointer)); }

STAND_IN int cudaHostRegister(void *pointer, size_t bytes, unsigned flags) {
  (void)flags;
  return card_result(card_host_register(pointer, bytes));
}

STAND_IN int cudaHostUnregister(void *pointer) {
  return card_result(card_host_unregister(pointer));
}

STAND_IN int cudaHostGetDevicePointer(void **out, void *host, unsigned flags) {
  (void)flags;
  *out = host;
  return CARD_OK;
}

STAND_IN int cudaPointerGetAttributes(card_pointer_attributes *out, const void *pointer) {
  int device = 0, type = card_is_managed(pointer)
                             ? 3
                             : 0; // 1 is the host, 2 a device; the driver knows no other pointers
  if (!type) cuPointerGetAttribute(&type, CARD_POINTER_MEMORY_TYPE, (uint64_t)pointer);
  if (type) cuPointerGetAttribute(&device, CARD_POINTER_DEVICE_NUMBER, (uint64_t)pointer);
  *out = (card_pointer_attributes){.type = type,
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

STAND_IN int cudaMemcpyPeer(void *to, int device, const void *from, int from_device, size_t bytes) {
  return cudaMemcpyPeerAsync(to, device, from, from_device, bytes, NULL);
}

STAND_IN int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                               size_t width, size_t height, int kind, void *stream) {
  (void)kind, (void)stream;
  card_copy_rows(to, to_pitch, from, from_pitch, width, height);
  return CARD_OK;
}

STAND_IN int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                          size_t width, size_t height, int kind) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, NULL);
}

// cudaChannelFormatDesc, which describes an element of a texture.
typedef struct {
  int bits[4], kind;
} channel_format;

STAND_IN channel_format cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return (channel_format){{x, y, z, w}, kind};
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
