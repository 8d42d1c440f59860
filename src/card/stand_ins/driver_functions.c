// The CUDA driver (libcuda.so.1): what PyTorch, Triton and bitsandbytes fetch from it by name.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "card.h"
#include "layouts.h"

const char *card_error_text(int code, bool is_name);

// One context per device.
static void *context_of(int device) { return (void *)(uintptr_t)(0x4000 + device * 16); }
static int device_of_context(const void *context) {
  return (int)(((uintptr_t)context - 0x4000) / 16);
}

STAND_IN int cuInit(unsigned flags) {
  (void)flags;
  return card_device_count() ? CARD_OK : 100;
}

STAND_IN int cuDriverGetVersion(int *version) {
  *version = CARD_DRIVER_VERSION;
  return CARD_OK;
}

STAND_IN int cuDeviceGetCount(int *count) {
  *count = card_device_count();
  return CARD_OK;
}

STAND_IN int cuDeviceGet(int *device, int number) {
  *device = number;
  return number >= 0 && number < card_device_count() ? CARD_OK : CARD_INVALID_DEVICE;
}

STAND_IN int cuDeviceGetName(char *out, int size, int device) {
  (void)device;
  snprintf(out, (size_t)size, "%s", card()->name);
  return CARD_OK;
}

STAND_IN int cuDeviceGetUuid(char *out, int device) {
  memset(out, 0, 16);
  out[15] = (char)card_physical(device);
  return CARD_OK;
}
STAND_IN int cuDeviceGetUuid_v2(char *out, int device) { return cuDeviceGetUuid(out, device); }

STAND_IN int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  (void)device;
  *bytes = card()->total_bytes;
  return CARD_OK;
}

STAND_IN int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value =
      attribute == CARD_ATTRIBUTE_BUS ? card_physical(device) + 1 : (int)card_attribute(attribute);
  return CARD_OK;
}

STAND_IN int cuGetErrorString(int code, const char **text) {
  *text = card_error_text(code, false);
  return CARD_OK;
}

STAND_IN int cuGetErrorName(int code, const char **text) {
  *text = card_error_text(code, true);
  return CARD_OK;
}

// ---- contexts -------------------------------------------------------------------------------------------

STAND_IN int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active) {
  *flags = 0;
  *is_active = card_process_here()->devices[card_physical(device)].context_bytes != 0;
  return CARD_OK;
}

STAND_IN int cuDevicePrimaryCtxRetain(void **context, int device) {
  card_use(device);
  *context = context_of(device);
  return CARD_OK;
}

STAND_IN int cuCtxGetCurrent(void **context) {
  *context = context_of(card_device());
  return CARD_OK;
}

STAND_IN int cuCtxSetCurrent(void *context) {
  return !context || card_set_device(device_of_context(context)) ? CARD_OK : CARD_INVALID_VALUE;
}

STAND_IN int cuCtxGetDevice(int *device) {
  *device = card_device();
  return CARD_OK;
}

// CU_LIMIT_*: a limit has the value that the program set last. Triton sets the size of printf's buffer.
static size_t limits[16];

STAND_IN int cuCtxSetLimit(unsigned limit, size_t value) {
  if (limit >= sizeof limits / sizeof *limits) return CARD_INVALID_VALUE;
  limits[limit] = value;
  return CARD_OK;
}

STAND_IN int cuCtxGetLimit(size_t *value, unsigned limit) {
  if (limit >= sizeof limits / sizeof *limits) return CARD_INVALID_VALUE;
  *value = limits[limit];
  return CARD_OK;
}

STAND_IN int cuMemGetInfo_v2(size_t *left, size_t *total) {
  if (card_faults_fail()) return CARD_UNKNOWN;
  *left = card_free_bytes(card_device());
  *total = card()->total_bytes;
  return CARD_OK;
}

// ---- memory ---------------------------------------------------------------------------------------------

STAND_IN int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  return card_malloc(card_device(), bytes, address);
}

STAND_IN int cuMemFree_v2(uint64_t address) { return card_free(address); }

STAND_IN int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  (void)stream;
  card_copy((void *)to, from, bytes);
  return CARD_OK;
}

STAND_IN int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  (void)stream;
  card_copy(to, (const void *)from, bytes);
  return CARD_OK;
}

STAND_IN int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void *stream) {
  (void)stream;
  card_fill_words((void *)to, value, count);
  return CARD_OK;
}

STAND_IN int cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
  (void)flags;
  return card_host_register(pointer, bytes);
}

STAND_IN int cuMemHostUnregister(void *pointer) { return card_host_unregister(pointer); }

STAND_IN int cuMemGetAddressRange_v2(uint64_t *start, size_t *bytes, uint64_t address) {
  uint64_t first, size;
  if (!card_range_of(address, &first, &size)) return CARD_INVALID_VALUE;
  if (start) *start = first;
  if (bytes) *bytes = size;
  return CARD_OK;
}

STAND_IN int cuPointerGetAttribute(void *out, int attribute, uint64_t address) {
  int device = card_device_of((const void *)address);
  bool is_on_device = device >= 0;
  uint64_t start = 0, bytes = 0;
  if (!is_on_device && !card_is_pinned((const void *)address)) return CARD_INVALID_VALUE;
  switch (attribute) {
  case CARD_POINTER_CONTEXT: *(void **)out = context_of(is_on_device ? device : 0); return CARD_OK;
  case CARD_POINTER_MEMORY_TYPE: *(int *)out = is_on_device ? 2 : 1; return CARD_OK;
  case CARD_POINTER_ON_DEVICE: *(uint64_t *)out = address; return CARD_OK;
  case CARD_POINTER_ON_HOST:
    if (is_on_device) return CARD_INVALID_VALUE;
    *(uint64_t *)out = address;
    return CARD_OK;
  case CARD_POINTER_IS_MANAGED: *(bool *)out = false; return CARD_OK;
  case CARD_POINTER_DEVICE_NUMBER: *(int *)out = is_on_device ? device : 0; return CARD_OK;
  case CARD_POINTER_RANGE_START:
  case CARD_POINTER_RANGE_BYTES:
    if (!card_range_of(address, &start, &bytes)) return CARD_INVALID_VALUE;
    *(uint64_t *)out = attribute == CARD_POINTER_RANGE_START ? start : bytes;
    return CARD_OK;
  default: card_unmodelled_call("cuPointerGetAttribute"); return CARD_INVALID_VALUE;
  }
}

STAND_IN int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  return card_host_alloc(bytes, out);
}

STAND_IN int cuMemFreeHost(void *host) { return card_host_free(host); }

STAND_IN int cuMemHostGetDevicePointer_v2(uint64_t *out, void *host, unsigned flags) {
  (void)flags;
  *out = (uint64_t)host;
  return CARD_OK;
}

// ---- virtual memory: expandable segments ----------------------------------------------------------------

// CUmemAllocationProp begins with the type, the handle types and the location {type, device}.
typedef struct {
  int type, handle_types, location_type, device;
} allocation_property;

STAND_IN int cuMemGetAllocationGranularity(size_t *bytes, const void *property, int option) {
  (void)property, (void)option;
  *bytes = 2u << 20;
  return CARD_OK;
}

STAND_IN int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t wanted,
                                 uint64_t flags) {
  (void)alignment, (void)wanted, (void)flags;
  return card_reserve(card_device(), bytes, address);
}

STAND_IN int cuMemAddressFree(uint64_t address, size_t bytes) {
  card_unreserve(address, bytes);
  return CARD_OK;
}

STAND_IN int cuMemCreate(uint64_t *handle, size_t bytes, const allocation_property *property,
                         uint64_t flags) {
  (void)flags;
  bool is_on_device =
      property->location_type == 1; // CU_MEM_LOCATION_TYPE_DEVICE; others are the host's
  return card_create(is_on_device ? property->device : -1, bytes, handle);
}

STAND_IN int cuMemRelease(uint64_t handle) { return card_release(handle); }

STAND_IN int cuMemUnmap(uint64_t address, size_t bytes) {
  madvise((void *)address, bytes, MADV_DONTNEED);
  return CARD_OK;
}

// ---- modules and kernels: Triton, nvrtc -----------------------------------------------------------------

STAND_IN int cuModuleLoadData(void **module, const void *image) {
  (void)image;
  *module = card_handle();
  return CARD_OK;
}

STAND_IN int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                                void **values) {
  (void)count, (void)options, (void)values;
  return cuModuleLoadData(module, image);
}

STAND_IN int cuModuleGetFunction(void **function, void *module, const char *name) {
  (void)module, (void)name;
  *function = card_handle();
  return CARD_OK;
}

STAND_IN int cuLibraryLoadData(void **library, const void *image) {
  return cuModuleLoadData(library, image);
}

STAND_IN int cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  return cuModuleGetFunction(kernel, library, name);
}

// CU_FUNC_ATTRIBUTE_*: 0 threads of a block, 4 registers.
STAND_IN int cuFuncGetAttribute(int *value, int attribute, void *function) {
  (void)function;
  *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : 0;
  return CARD_OK;
}

STAND_IN int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads,
                                                         size_t shared_bytes) {
  (void)function, (void)shared_bytes;
  *blocks = threads > 0 ? card()->threads_per_multiprocessor / threads : 1;
  return CARD_OK;
}

STAND_IN int cuOccupancyMaxActiveClusters(int *clusters, void *function, const void *config) {
  (void)function, (void)config;
  *clusters = card()->multiprocessors;
  return CARD_OK;
}

static int launch(void) {
  card_count_launch(card_device(), NULL);
  return CARD_OK;
}
STAND_IN int cuLaunchKernel(void) { return launch(); }
STAND_IN int cuLaunchKernelEx(void) { return launch(); }
STAND_IN int cuLaunchCooperativeKernel(void) { return launch(); }

// ---- functions by name ------------------------------------------------------------------------------------

// A request for "cuMemAlloc" means the newest version of it: cuMemAlloc_v2.
static void *function_named(const char *name) {
  char newer[128];
  static void *here;
  if (!here) {
    Dl_info about;
    dladdr((void *)function_named, &about);
    here = dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }
  snprintf(newer, sizeof newer, "%s_v2", name);
  void *found = dlsym(here, newer);
  return found ? found : dlsym(here, name);
}

// Returned for names that are not known. Programs look up many functions that they never call.
static int accept(void) {
  card_unmodelled_call("a driver function whose name is not known");
  return CARD_OK;
}

static int find(const char *name, void **out) {
  *out = NULL;
  if (*card_is_hidden()) return CARD_NOT_FOUND;
  *out = function_named(name);
  if (!*out) *out = (void *)accept;
  return CARD_OK;
}

STAND_IN int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags) {
  (void)version, (void)flags;
  return find(name, out);
}

STAND_IN int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                                 int *status) {
  (void)version, (void)flags;
  if (status) *status = 0;
  return find(name, out);
}

STAND_IN int cudaGetDriverEntryPoint(const char *name, void **out, uint64_t flags, int *status) {
  (void)flags;
  if (card_cuda_version() >= 12000 && status) *status = 0; // CUDA 11 has no such argument
  return find(name, out);
}

STAND_IN int cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                              uint64_t flags, int *status) {
  (void)version, (void)flags;
  if (status) *status = 0;
  return find(name, out);
}
