// A driver for the tests of the hook library: libcuda.so.1 with two devices of 1 GiB, whose memory consists of addresses.
// It has contexts, limits, memory with and without addresses, and cuGetProcAddress with versions and default streams as the
// CUDA driver API describes them. $FAKE_OLD_DRIVER: it has no UUIDs, no cuGetProcAddress_v2 and no place "host".
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_driver.h"

enum { MAX_PIECES = 4096, MAX_DEVICES = 2 };
#define TOTAL (1ull << 30)

typedef enum { FREE, LINEAR, HOST, MANAGED, CREATED, MAPPED, ARRAY, POOL } piece_kind;
typedef struct {
  piece_kind kind;
  uint64_t key, bytes;
  uint64_t other;      // of a mapping: the index of its memory
  int device;          // -1: the host
  int handles, mapped; // of created memory
} piece;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static piece pieces[MAX_PIECES];
static uint64_t last_key = 0x700000000000, last_handle = 0x100;
static __thread int current = -1; // the device of this thread's context
static char log_text[1 << 16];
static fake_properties last_properties;

static bool is_old(void) { return getenv("FAKE_OLD_DRIVER"); }

static int note(const char *name) {
  pthread_mutex_lock(&lock);
  size_t used = strlen(log_text);
  if (used + strlen(name) + 2 < sizeof log_text)
    snprintf(log_text + used, sizeof log_text - used, "%s ", name);
  pthread_mutex_unlock(&lock);
  return 0;
}

EXPORT const char *fake_log(void) { return log_text; }
EXPORT void fake_clear_log(void) { log_text[0] = 0; }
EXPORT const fake_properties *fake_last_properties(void) { return &last_properties; }

static uint64_t used_on(int device) {
  uint64_t bytes = 0;
  for (int i = 0; i < MAX_PIECES; i++)
    if (pieces[i].kind != FREE && pieces[i].kind != MAPPED && pieces[i].kind != MANAGED &&
        pieces[i].device == device)
      bytes += pieces[i].bytes;
  return bytes;
}
EXPORT uint64_t fake_used(int device) { return used_on(device); }

static piece *find(piece_kind kind, uint64_t key) {
  for (int i = 0; i < MAX_PIECES; i++)
    if (pieces[i].kind == kind && pieces[i].key == key) return &pieces[i];
  return NULL;
}

static piece *add(piece_kind kind, int device, uint64_t bytes) {
  for (int i = 0; i < MAX_PIECES; i++)
    if (pieces[i].kind == FREE) {
      uint64_t step = (bytes + 0xffff) & ~0xffffull;
      pieces[i] = (piece){.kind = kind, .bytes = bytes, .device = device};
      pieces[i].key = kind == CREATED ? (last_handle += 16) : (last_key += step + 0x10000) - step;
      return &pieces[i];
    }
  return NULL;
}

static int allocate(piece_kind kind, int device, uint64_t bytes, uint64_t *key) {
  int result = 2;
  if (device < -1 || device >= MAX_DEVICES) return 201; // no context
  if (!bytes) return 1;
  pthread_mutex_lock(&lock);
  bool fits = device < 0 || kind == MANAGED || bytes <= TOTAL - used_on(device);
  piece *new = fits ? add(kind, device, bytes) : NULL;
  if (new) {
    *key = new->key;
    result = 0;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

static int release(piece_kind kind, uint64_t key) {
  pthread_mutex_lock(&lock);
  piece *found = find(kind, key);
  if (!found && kind == LINEAR) found = find(MANAGED, key);
  if (found) *found = (piece){0};
  pthread_mutex_unlock(&lock);
  return found ? 0 : 1;
}

// ---- contexts and devices -----------------------------------------------------------------------

EXPORT int cuInit(unsigned flags) { return (int)flags * 0; }
EXPORT int cuCtxGetDevice(int *device) {
  *device = current < 0 ? 12345 : current;
  return current < 0 ? 201 : 0;
}
EXPORT int cuCtxSetCurrent(void *context) {
  current = (int)(intptr_t)context - 1;
  return 0;
}
EXPORT int cuCtxSynchronize(void) { return note("cuCtxSynchronize"); }
EXPORT int cuStreamSynchronize(void *stream) {
  return note(stream ? "cuStreamSynchronize" : "cuStreamSynchronize(0)");
}
EXPORT int cuStreamSynchronize_ptsz(void *stream) {
  (void)stream;
  return note("cuStreamSynchronize_ptsz");
}
EXPORT int cuDevicePrimaryCtxReset_v2(int device);
EXPORT int cuDevicePrimaryCtxReset(int device) { return cuDevicePrimaryCtxReset_v2(device); }
EXPORT int cuDevicePrimaryCtxReset_v2(int device) {
  for (int i = 0; i < MAX_PIECES; i++)
    if (pieces[i].device == device && pieces[i].kind != CREATED && pieces[i].kind != MAPPED)
      pieces[i] = (piece){0};
  return note("cuDevicePrimaryCtxReset_v2");
}
EXPORT int cuDeviceGetUuid_v2(uint8_t *uuid, int device) {
  memset(uuid, 7, 16);
  uuid[0] =
      (uint8_t)(getenv("FAKE_FIRST_DEVICE") ? atoi(getenv("FAKE_FIRST_DEVICE")) + device : device);
  return is_old() ? 1 : 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  *bytes = TOTAL;
  return device < 0 || device >= MAX_DEVICES ? 101 : 0;
}
EXPORT int cuMemGetInfo_v2(size_t *left, size_t *total) {
  if (current < 0) return 201;
  *left = TOTAL - used_on(current);
  *total = TOTAL;
  return 0;
}

// ---- memory with addresses ----------------------------------------------------------------------

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  note("cuMemAlloc_v2");
  return allocate(LINEAR, current < 0 ? -2 : current, bytes, address);
}
EXPORT int cuMemAllocPitch_v2(uint64_t *address, size_t *pitch, size_t width, size_t height,
                              unsigned element) {
  (void)element;
  *pitch = (width + 511) / 512 * 512;
  return allocate(LINEAR, current < 0 ? -2 : current, *pitch * height, address);
}
EXPORT int cuMemAllocManaged(uint64_t *address, size_t bytes, unsigned flags) {
  (void)flags;
  return allocate(MANAGED, current < 0 ? -2 : current, bytes, address);
}
EXPORT int cuMemFree_v2(uint64_t address) {
  note("cuMemFree_v2");
  if (getenv("FAKE_BROKEN")) return 700; // a kernel failed before
  return release(LINEAR, address);
}
EXPORT int cuMemAllocAsync(uint64_t *address, size_t bytes, void *stream) {
  (void)stream;
  note("cuMemAllocAsync");
  return allocate(LINEAR, current < 0 ? -2 : current, bytes, address);
}
EXPORT int cuMemAllocAsync_ptsz(uint64_t *address, size_t bytes, void *stream) {
  (void)stream;
  note("cuMemAllocAsync_ptsz");
  return allocate(LINEAR, current < 0 ? -2 : current, bytes, address);
}
EXPORT int cuMemFreeAsync(uint64_t address, void *stream) {
  (void)stream;
  return release(LINEAR, address);
}
EXPORT int cuMemFreeAsync_ptsz(uint64_t address, void *stream) {
  return cuMemFreeAsync(address, stream);
}
EXPORT int cuMemPoolCreate(void **pool, const int *properties) {
  uint64_t key = 0;
  int device = properties[2] == 1 ? properties[3] : -1;
  int result = allocate(POOL, device, 1, &key);
  pthread_mutex_lock(&lock);
  if (!result) find(POOL, key)->bytes = 0;
  pthread_mutex_unlock(&lock);
  *pool = (void *)key;
  return result;
}
EXPORT int cuMemPoolDestroy(void *pool) { return release(POOL, (uint64_t)pool); }
EXPORT int cuMemAllocFromPoolAsync(uint64_t *address, size_t bytes, void *pool, void *stream) {
  (void)stream;
  piece *found = find(POOL, (uint64_t)pool);
  return found ? allocate(LINEAR, found->device, bytes, address) : 1;
}
EXPORT int cuMemAllocFromPoolAsync_ptsz(uint64_t *address, size_t bytes, void *pool, void *stream) {
  note("cuMemAllocFromPoolAsync_ptsz");
  return cuMemAllocFromPoolAsync(address, bytes, pool, stream);
}

// The host's: 3 is portable and mapped for the device, whose address is another one.
#define HOST_OFFSET 0x1000
EXPORT int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  uint64_t key = 0;
  int result = getenv("FAKE_NO_HOST") ? 2 : flags == 3 ? allocate(HOST, -1, bytes, &key) : 1;
  *out = (void *)key;
  return result;
}
EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *out, void *host, unsigned flags) {
  *out = (uint64_t)host + HOST_OFFSET;
  return (int)flags;
}
EXPORT int cuMemFreeHost(void *host) {
  note("cuMemFreeHost");
  return release(HOST, (uint64_t)host);
}

static piece *containing(uint64_t address) {
  for (int i = 0; i < MAX_PIECES; i++) {
    uint64_t start = pieces[i].key + (pieces[i].kind == HOST ? HOST_OFFSET : 0);
    bool has_address =
        pieces[i].kind == LINEAR || pieces[i].kind == HOST || pieces[i].kind == MAPPED;
    if (has_address && address >= start && address - start < pieces[i].bytes) return &pieces[i];
  }
  return NULL;
}

static int attribute_of(void *out, int attribute, const piece *p) {
  int device = p->kind == MAPPED ? pieces[p->other].device : p->device;
  if (attribute == 2) *(unsigned *)out = device < 0 ? 1 : 2;
  else if (attribute == 9) *(int *)out = device < 0 ? 0 : device;
  else if (attribute == 4) {
    *(void **)out = device < 0 ? (void *)p->key : NULL;
    return device < 0 ? 0 : 1;
  } else *(uint64_t *)out = p->key;
  return 0;
}
EXPORT int cuPointerGetAttribute(void *out, int attribute, uint64_t address) {
  piece *p = containing(address);
  return p ? attribute_of(out, attribute, p) : 1;
}
EXPORT int cuPointerGetAttributes(unsigned count, const int *attributes, void **out,
                                  uint64_t address) {
  piece *p = containing(address);
  for (unsigned i = 0; p && i < count; i++) attribute_of(out[i], attributes[i], p);
  return p ? 0 : 1;
}
EXPORT int cuMemGetAddressRange_v2(uint64_t *start, size_t *bytes, uint64_t address) {
  piece *p = containing(address);
  if (!p || p->kind != LINEAR) return 500;
  *start = p->key;
  *bytes = p->bytes;
  return 0;
}

// ---- memory and addresses apart -----------------------------------------------------------------

EXPORT int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t wanted,
                               uint64_t flags) {
  (void)alignment, (void)wanted, (void)flags;
  pthread_mutex_lock(&lock);
  last_key = (last_key + 0x3fffff) & ~0x1fffffull;
  *address = last_key;
  last_key += bytes;
  pthread_mutex_unlock(&lock);
  return 0;
}
EXPORT int cuMemCreate(uint64_t *handle, size_t bytes, const fake_properties *p,
                       unsigned long long flags) {
  (void)flags;
  bool is_on_device = p->location_type == 1;
  bool is_host = p->location_type == 2 || p->location_type == 3;
  last_properties = *p;
  note("cuMemCreate");
  if (bytes % (2u << 20) || (!is_on_device && !is_host)) return 1;
  if (is_host && (p->handle_types || p->is_rdma_capable || (p->location_type == 2 && is_old())))
    return 1;
  if (is_host && getenv("FAKE_NO_HOST")) return 2;
  int result = allocate(CREATED, is_on_device ? p->location : -1, bytes, handle);
  if (!result) find(CREATED, *handle)->handles = 1;
  return result;
}

static void end_if_unused(piece *p) {
  if (!p->handles && !p->mapped) *p = (piece){0};
}
EXPORT int cuMemRelease(uint64_t handle) {
  if (getenv("FAKE_BROKEN")) return 700;
  piece *p = find(CREATED, handle);
  if (!p || !p->handles) return 1;
  p->handles--;
  end_if_unused(p);
  return 0;
}
EXPORT int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle,
                    unsigned long long flags) {
  (void)offset, (void)flags;
  piece *memory = find(CREATED, handle), *new = memory ? add(MAPPED, 0, bytes) : NULL;
  if (!new || !memory->handles) return 1;
  new->key = address;
  new->other = (uint64_t)(memory - pieces);
  memory->mapped++;
  return 0;
}
EXPORT int cuMemUnmap(uint64_t address, size_t bytes) {
  int found = 0;
  for (int i = 0; i < MAX_PIECES; i++) {
    piece *p = &pieces[i];
    if (p->kind != MAPPED || p->key < address || p->key >= address + bytes) continue;
    piece *memory = &pieces[p->other];
    *p = (piece){0};
    memory->mapped--;
    end_if_unused(memory);
    found++;
  }
  return found ? 0 : 1;
}
EXPORT int cuMemSetAccess(uint64_t address, size_t bytes, const void *descriptions, size_t count) {
  (void)bytes, (void)descriptions, (void)count;
  return find(MAPPED, address) ? note("cuMemSetAccess") : 1;
}
EXPORT int cuMemRetainAllocationHandle(uint64_t *handle, void *address) {
  piece *p = containing((uint64_t)address);
  if (!p || p->kind != MAPPED) return 1;
  pieces[p->other].handles++;
  *handle = pieces[p->other].key;
  return 0;
}

// ---- arrays and graphs --------------------------------------------------------------------------

static int make_array(void **array, uint64_t bytes) {
  uint64_t key = 0;
  int result = allocate(ARRAY, current < 0 ? -2 : current, bytes, &key);
  *array = (void *)key;
  return result;
}
EXPORT int cuArrayCreate_v2(void **array, const size_t *d) {
  return make_array(array, d[0] * d[1]);
}
EXPORT int cuArray3DCreate_v2(void **array, const size_t *d) {
  return make_array(array, d[0] * d[1] * d[2]);
}
EXPORT int cuArrayDestroy(void *array) { return release(ARRAY, (uint64_t)array); }
EXPORT int cuMipmappedArrayCreate(void **array, const size_t *d, unsigned levels) {
  return make_array(array, d[0] * d[1] * d[2] * levels);
}
EXPORT int cuMipmappedArrayDestroy(void *array) { return release(ARRAY, (uint64_t)array); }
EXPORT int cuGraphAddMemAllocNode(void **node, void *graph, void *const *dependencies, size_t count,
                                  uint64_t *parameters) {
  (void)graph, (void)dependencies, (void)count;
  *node = parameters;
  parameters[14] = 0x1234000; // the address, behind pool properties, access and size
  return 0;
}

// ---- functions by name --------------------------------------------------------------------------

typedef struct {
  const char *base;
  int since;
  bool is_per_thread;
  void *function;
} row;

EXPORT int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags);
EXPORT int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                               int *status);
// A function with other arguments than cuMemAlloc_v2, of a CUDA that nobody knows yet.
EXPORT int cuMemAlloc_v3(void) { return note("cuMemAlloc_v3"); }
// What cuMemAlloc was in CUDA 2, with addresses of 32 bits.
EXPORT int cuMemAlloc(void) { return note("cuMemAlloc"); }

#define ROW(base, since, symbol)                                                                   \
  { #base, since, false, (void *)symbol }
static const row rows[] = {
    ROW(cuGetProcAddress, 11030, cuGetProcAddress),
    ROW(cuGetProcAddress, 12000, cuGetProcAddress_v2),
    ROW(cuMemAlloc, 2000, cuMemAlloc),
    ROW(cuMemAlloc, 3020, cuMemAlloc_v2),
    ROW(cuMemAlloc, 99000, cuMemAlloc_v3),
    ROW(cuMemAllocPitch, 3020, cuMemAllocPitch_v2),
    ROW(cuMemAllocManaged, 6000, cuMemAllocManaged),
    ROW(cuMemFree, 3020, cuMemFree_v2),
    ROW(cuMemAllocAsync, 11020, cuMemAllocAsync),
    {"cuMemAllocAsync", 11020, true, (void *)cuMemAllocAsync_ptsz},
    ROW(cuMemFreeAsync, 11020, cuMemFreeAsync),
    {"cuMemFreeAsync", 11020, true, (void *)cuMemFreeAsync_ptsz},
    ROW(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync),
    {"cuMemAllocFromPoolAsync", 11020, true, (void *)cuMemAllocFromPoolAsync_ptsz},
    ROW(cuMemPoolCreate, 11020, cuMemPoolCreate),
    ROW(cuMemPoolDestroy, 11020, cuMemPoolDestroy),
    ROW(cuMemCreate, 10020, cuMemCreate),
    ROW(cuMemRelease, 10020, cuMemRelease),
    ROW(cuMemMap, 10020, cuMemMap),
    ROW(cuMemUnmap, 10020, cuMemUnmap),
    ROW(cuMemSetAccess, 10020, cuMemSetAccess),
    ROW(cuMemRetainAllocationHandle, 11000, cuMemRetainAllocationHandle),
    ROW(cuMemAddressReserve, 10020, cuMemAddressReserve),
    ROW(cuArrayCreate, 3020, cuArrayCreate_v2),
    ROW(cuArray3DCreate, 3020, cuArray3DCreate_v2),
    ROW(cuArrayDestroy, 2000, cuArrayDestroy),
    ROW(cuMipmappedArrayCreate, 5000, cuMipmappedArrayCreate),
    ROW(cuMipmappedArrayDestroy, 5000, cuMipmappedArrayDestroy),
    ROW(cuGraphAddMemAllocNode, 11040, cuGraphAddMemAllocNode),
    ROW(cuDevicePrimaryCtxReset, 7000, cuDevicePrimaryCtxReset),
    ROW(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2),
    ROW(cuMemGetInfo, 3020, cuMemGetInfo_v2),
    ROW(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2),
    ROW(cuPointerGetAttribute, 4000, cuPointerGetAttribute),
    ROW(cuPointerGetAttributes, 7000, cuPointerGetAttributes),
    ROW(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2),
    ROW(cuCtxSetCurrent, 4000, cuCtxSetCurrent),
};

// Status: 0 found, 1 no such name, 2 the version is not sufficient.
static int look_up(const char *name, void **out, int version, uint64_t flags, int *status) {
  const row *best = NULL;
  int found = 1;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row *r = &rows[i];
    if (strcmp(r->base, name) != 0) continue;
    if (found == 1) found = 2;
    if (r->since > version || (r->is_per_thread && !(flags & 2))) continue;
    if (!best || r->since >= best->since) best = r;
  }
  *out = best ? best->function : NULL;
  if (status) *status = best ? 0 : found;
  return best ? 0 : 500;
}
EXPORT int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags) {
  return look_up(name, out, version, flags, NULL);
}
EXPORT int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                               int *status) {
  look_up(name, out, version, flags, status);
  return 0; // the status says what was found
}
