// Memory with an address: cuMemAlloc, asynchronous and from pools, managed; arrays; nodes of graphs.
#include "hook_functions.h"
#include "hook_memory.h"

// ---- allocation ---------------------------------------------------------------------------------

// Ends an allocation whose address the driver wrote to *address.
static int finish(const hook_attempt *attempt, int result, uint64_t *address) {
  uint64_t host = 0;
  uint64_t key = result == CU_OK ? *address : 0;
  if (!hook_end(attempt, result, HOOK_SPACE_ADDRESS, key, true)) return result;
  result = hook_spill_alloc(attempt->request.bytes, address, &host);
  return hook_end_spill(attempt, result, HOOK_SPACE_ADDRESS, *address, host);
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  FIND_REAL(cuMemAlloc_v2);
  uint32_t device;
  if (!address || !hook_device_here(&device)) return real(address, bytes);
  hook_attempt attempt = hook_begin(device, bytes, false);
  int result = attempt.is_counted ? real(address, bytes) : CU_OUT_OF_MEMORY;
  return finish(&attempt, result, address);
}

// Rows have gaps, whose size the driver chooses. They cannot be spilled: the gaps depend on the device.
int cuMemAllocPitch_v2(uint64_t *address, size_t *pitch, size_t width, size_t height,
                       unsigned element) {
  FIND_REAL(cuMemAllocPitch_v2);
  uint32_t device;
  if (!address || !pitch || !hook_device_here(&device))
    return real(address, pitch, width, height, element);
  hook_attempt attempt = hook_begin(device, (uint64_t)width * height, false);
  int result = attempt.is_counted ? real(address, pitch, width, height, element) : CU_OUT_OF_MEMORY;
  if (result == CU_OK && *pitch > width) {
    hook_count_more(device, (*pitch - width) * height);
    attempt.request.bytes = *pitch * height;
  }
  hook_end(&attempt, result, HOOK_SPACE_ADDRESS, result == CU_OK ? *address : 0, false);
  return result;
}

// The driver moves managed memory between host and device, so it does not count towards the cap.
int cuMemAllocManaged(uint64_t *address, size_t bytes, unsigned flags) {
  FIND_REAL(cuMemAllocManaged);
  uint32_t device;
  int result = real(address, bytes, flags);
  if (result != CU_OK || !hook_device_here(&device)) return result;
  hook_count_managed(device, (int64_t)bytes);
  hook_remember(&(hook_piece){.space = HOOK_SPACE_ADDRESS,
                              .key = *address,
                              .bytes = bytes,
                              .device = device,
                              .place = HOOK_MANAGED});
  return result;
}

static int alloc_async(hook_type_cuMemAllocAsync *real, uint64_t *address, size_t bytes,
                       void *stream) {
  uint32_t device;
  if (!address || !hook_device_here(&device)) return real(address, bytes, stream);
  hook_attempt attempt = hook_begin(device, bytes, false);
  int result = attempt.is_counted ? real(address, bytes, stream) : CU_OUT_OF_MEMORY;
  return finish(&attempt, result, address);
}

int cuMemAllocAsync(uint64_t *address, size_t bytes, void *stream) {
  FIND_REAL(cuMemAllocAsync);
  return alloc_async(real, address, bytes, stream);
}

int cuMemAllocAsync_ptsz(uint64_t *address, size_t bytes, void *stream) {
  FIND_REAL(cuMemAllocAsync_ptsz);
  return alloc_async(real, address, bytes, stream);
}

// ---- pools --------------------------------------------------------------------------------------

// A pool that the program made belongs to a device, or to none; the driver's own pools to the device of the thread.
static bool device_of_pool(void *pool, uint32_t *device) {
  hook_lock();
  const hook_piece *known = hook_table_find(HOOK_SPACE_POOL, (uint64_t)pool);
  bool is_elsewhere = known && known->device >= HOOK_MAX_DEVICES;
  if (known) *device = known->device;
  hook_unlock();
  return known ? !is_elsewhere : hook_device_here(device);
}

int cuMemPoolCreate(void **pool, const hook_pool_properties *properties) {
  FIND_REAL(cuMemPoolCreate);
  int result = real(pool, properties);
  if (result != CU_OK || !hook_is_on()) return result;
  hook_piece piece = {.space = HOOK_SPACE_POOL, .key = (uint64_t)*pool};
  bool is_on_device = properties->location_type == CU_ON_DEVICE && properties->type == CU_PINNED;
  if (!is_on_device || !hook_device_of(properties->location, &piece.device))
    piece.device = HOOK_MAX_DEVICES;
  hook_lock();
  hook_table_put(&piece);
  hook_unlock();
  return result;
}

int cuMemPoolDestroy(void *pool) {
  FIND_REAL(cuMemPoolDestroy);
  hook_piece piece;
  int result = real(pool);
  if (result != CU_OK || !hook_is_on()) return result;
  hook_lock();
  hook_table_take(HOOK_SPACE_POOL, (uint64_t)pool, &piece);
  hook_unlock();
  return result;
}

static int alloc_from_pool(hook_type_cuMemAllocFromPoolAsync *real, uint64_t *address, size_t bytes,
                           void *pool, void *stream) {
  uint32_t device;
  if (!address || !hook_is_on() || !device_of_pool(pool, &device))
    return real(address, bytes, pool, stream);
  hook_attempt attempt = hook_begin(device, bytes, false);
  int result = attempt.is_counted ? real(address, bytes, pool, stream) : CU_OUT_OF_MEMORY;
  return finish(&attempt, result, address);
}

int cuMemAllocFromPoolAsync(uint64_t *address, size_t bytes, void *pool, void *stream) {
  FIND_REAL(cuMemAllocFromPoolAsync);
  return alloc_from_pool(real, address, bytes, pool, stream);
}

int cuMemAllocFromPoolAsync_ptsz(uint64_t *address, size_t bytes, void *pool, void *stream) {
  FIND_REAL(cuMemAllocFromPoolAsync_ptsz);
  return alloc_from_pool(real, address, bytes, pool, stream);
}

// ---- freeing ------------------------------------------------------------------------------------

// What is taken is put back if the driver refuses to free it. It is taken before: another thread may get the same address.
static bool take(hook_space space, uint64_t key, hook_piece *piece) {
  if (!hook_is_on()) return false;
  hook_lock();
  bool is_known = hook_table_take(space, key, piece);
  hook_unlock();
  return is_known;
}

static int finish_free(const hook_piece *piece, int result) {
  if (result == CU_OK) {
    hook_forget(piece);
    return result;
  }
  hook_lock();
  hook_table_put(piece);
  hook_unlock();
  return result;
}

// Work that uses the memory must be done, as the driver takes care of for its own memory.
static int free_host(const hook_piece *piece, int (*wait)(void *stream), void *stream) {
  hook_type_cuMemFreeHost *release = REAL(cuMemFreeHost);
  int result = wait ? wait(stream) : CU_OK;
  if (result != CU_OK || !release) return finish_free(piece, result ? result : CU_NO_DEVICE);
  return finish_free(piece, release((void *)piece->other));
}

static int wait_for_all(void *stream) {
  (void)stream;
  hook_type_cuCtxSynchronize *wait = REAL(cuCtxSynchronize);
  return wait ? wait() : CU_OK;
}

int cuMemFree_v2(uint64_t address) {
  FIND_REAL(cuMemFree_v2);
  hook_piece piece;
  if (!take(HOOK_SPACE_ADDRESS, address, &piece)) return real(address);
  if (piece.place == HOOK_SPILLED) return free_host(&piece, wait_for_all, NULL);
  return finish_free(&piece, real(address));
}

int cuMemFreeAsync(uint64_t address, void *stream) {
  FIND_REAL(cuMemFreeAsync);
  hook_piece piece;
  if (!take(HOOK_SPACE_ADDRESS, address, &piece)) return real(address, stream);
  if (piece.place == HOOK_SPILLED) return free_host(&piece, REAL(cuStreamSynchronize), stream);
  return finish_free(&piece, real(address, stream));
}

int cuMemFreeAsync_ptsz(uint64_t address, void *stream) {
  FIND_REAL(cuMemFreeAsync_ptsz);
  hook_piece piece;
  if (!take(HOOK_SPACE_ADDRESS, address, &piece)) return real(address, stream);
  if (piece.place == HOOK_SPILLED) return free_host(&piece, REAL(cuStreamSynchronize_ptsz), stream);
  return finish_free(&piece, real(address, stream));
}

static int finish_reset(int ordinal, int result) {
  uint32_t device;
  if (result == CU_OK && hook_device_of(ordinal, &device)) hook_forget_context(device);
  return result;
}

// The CUDA runtime asks for the first version.
int cuDevicePrimaryCtxReset(int ordinal) {
  FIND_REAL(cuDevicePrimaryCtxReset);
  return finish_reset(ordinal, real(ordinal));
}

int cuDevicePrimaryCtxReset_v2(int ordinal) {
  FIND_REAL(cuDevicePrimaryCtxReset_v2);
  return finish_reset(ordinal, real(ordinal));
}

// ---- arrays -------------------------------------------------------------------------------------

// CUarray_format, of those with one size for each channel; 0: not known.
static uint64_t format_bytes(int format) {
  switch (format) {
  case 0x01:
  case 0x08: return 1;
  case 0x02:
  case 0x09:
  case 0x10: return 2;
  case 0x03:
  case 0x0a:
  case 0x20: return 4;
  default: return 0;
  }
}

static uint64_t at_least_one(uint64_t n) { return n ? n : 1; }

// Without what the driver adds to align it.
static uint64_t array_bytes(const hook_array_3d_description *a, unsigned levels) {
  uint64_t bytes = 0, width = a->width, height = at_least_one(a->height),
           depth = at_least_one(a->depth);
  for (unsigned i = 0; i < levels && i < 32; i++) {
    bytes += width * height * depth * a->channels * format_bytes(a->format);
    width = at_least_one(width / 2);
    height = at_least_one(height / 2);
    depth = at_least_one(depth / 2);
  }
  return bytes;
}

static int finish_array(const hook_attempt *attempt, int result, void **array) {
  uint64_t key = result == CU_OK ? (uint64_t)*array : 0;
  hook_end(attempt, result, HOOK_SPACE_ARRAY, key, false);
  return result;
}

int cuArrayCreate_v2(void **array, const hook_array_description *d) {
  FIND_REAL(cuArrayCreate_v2);
  uint32_t device;
  if (!array || !d || !hook_device_here(&device)) return real(array, d);
  hook_array_3d_description whole = {d->width, d->height, 0, d->format, d->channels, 0};
  hook_attempt attempt = hook_begin(device, array_bytes(&whole, 1), false);
  return finish_array(&attempt, attempt.is_counted ? real(array, d) : CU_OUT_OF_MEMORY, array);
}

int cuArray3DCreate_v2(void **array, const hook_array_3d_description *d) {
  FIND_REAL(cuArray3DCreate_v2);
  uint32_t device;
  if (!array || !d || !hook_device_here(&device)) return real(array, d);
  hook_attempt attempt = hook_begin(device, array_bytes(d, 1), false);
  return finish_array(&attempt, attempt.is_counted ? real(array, d) : CU_OUT_OF_MEMORY, array);
}

int cuMipmappedArrayCreate(void **array, const hook_array_3d_description *d, unsigned levels) {
  FIND_REAL(cuMipmappedArrayCreate);
  uint32_t device;
  if (!array || !d || !hook_device_here(&device)) return real(array, d, levels);
  hook_attempt attempt = hook_begin(device, array_bytes(d, levels), false);
  int result = attempt.is_counted ? real(array, d, levels) : CU_OUT_OF_MEMORY;
  return finish_array(&attempt, result, array);
}

int cuArrayDestroy(void *array) {
  FIND_REAL(cuArrayDestroy);
  hook_piece piece;
  if (!take(HOOK_SPACE_ARRAY, (uint64_t)array, &piece)) return real(array);
  return finish_free(&piece, real(array));
}

int cuMipmappedArrayDestroy(void *array) {
  FIND_REAL(cuMipmappedArrayDestroy);
  hook_piece piece;
  if (!take(HOOK_SPACE_ARRAY, (uint64_t)array, &piece)) return real(array);
  return finish_free(&piece, real(array));
}

// ---- graphs -------------------------------------------------------------------------------------

// The memory comes from a pool of the driver's when the graph is launched, and nodes share it: only the node is recorded.
int cuGraphAddMemAllocNode(void **node, void *graph, void *const *dependencies, size_t count,
                           hook_graph_allocation *parameters) {
  FIND_REAL(cuGraphAddMemAllocNode);
  uint32_t device;
  int result = real(node, graph, dependencies, count, parameters);
  if (result == CU_OK && hook_device_of(parameters->pool.location, &device))
    hook_event_now(HOOK_EVENT_GRAPH, device, parameters->address, parameters->bytes);
  return result;
}
