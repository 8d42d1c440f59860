#include "cudnn_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "layouts.h"

static struct {
  void *file;
  size_t (*version)(void);
  int (*create)(int type, void **out);
  int (*destroy)(void *d);
  int (*set)(void *d, int name, int type, int64_t count, const void *values);
  int (*finalize)(void *d);
  int (*get)(void *d, int name, int type, int64_t wanted, int64_t *count, void *values);
  void *device; // the descriptor with the properties of the simulated card
} library;

// ---- the card as cuDNN describes it ---------------------------------------------------------------------

// Clocks as cuDNN reads them from a real card.
static const struct {
  const char *name;
  int clock_khz, memory_clock_khz;
} recorded[] = {{"H200", 1980000, 3201000}};

// Other cards: float32 operations per second are multiprocessors x lanes x 2 x clock, and the bandwidth is the bus width
// times two transfers per clock.
static void clocks_of(const card_description *c, int *clock_khz, int *memory_clock_khz) {
  for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++)
    if (strcmp(recorded[i].name, c->gpu->name) == 0) {
      *clock_khz = recorded[i].clock_khz, *memory_clock_khz = recorded[i].memory_clock_khz;
      return;
    }
  int capability = c->gpu->capability;
  bool has_few = capability == 60 || (capability >= 70 && capability <= 80);
  double lanes = has_few ? 64 : 128;
  *clock_khz = (int)(c->gpu->fp32_tflops * 1e9 / (c->multiprocessors * lanes * 2));
  *memory_clock_khz = (int)(c->gpu->bandwidth_gbs * 1e6 * 8 / (2.0 * c->bus_bits));
}

// The text that cuDNN 9.19 writes for an H200, with the values of the simulated card.
static int write_properties(char *out, size_t size) {
  const card_description *c = card();
  int clock_khz, memory_clock_khz;
  clocks_of(c, &clock_khz, &memory_clock_khz);
  return snprintf(
      out, size,
      "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
      "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"warpSize\":32,"
      "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
      "\"reservedSharedMemoryPerBlock\":%d,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":%d,"
      "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,\"pciDeviceId\":1,\"isTccDriver\":0,"
      "\"supportCoopLaunch\":1,\"totalGlobalMem\":%llu,\"smClockRateKHz\":%d,"
      "\"memClockRateKHz\":%d,\"l2CacheSize\":%d,\"cudaDeviceId\":0,\"deviceVer\":%d,"
      "\"driverVer\":%d,\"deviceName\":\"%s\"}",
      c->multiprocessors, c->shared_per_block_optin, c->major >= 8 ? 1024 : 0,
      c->blocks_per_multiprocessor, c->threads_per_multiprocessor,
      (unsigned long long)c->total_bytes, clock_khz, memory_clock_khz, c->l2_bytes,
      c->major * 100 + c->minor * 10, CARD_DRIVER_VERSION, c->name);
}

static bool make_device(void) {
  char text[1024];
  int length = write_properties(text, sizeof text);
  if (library.create(CUDNN_DEVICE, &library.device)) return false;
  if (!library.set(library.device, CUDNN_DEVICE_JSON, CUDNN_TYPE_CHAR, length, text) &&
      !library.finalize(library.device))
    return true;
  library.destroy(library.device);
  return false;
}

// ---- the file -------------------------------------------------------------------------------------------

static int look_at_object(struct dl_phdr_info *object, size_t size, void *folder) {
  (void)size;
  const char *slash = strrchr(object->dlpi_name, '/');
  if (!slash || strncmp(slash, "/libtorch_cuda", 14) != 0) return 0;
  snprintf(folder, PATH_MAX, "%.*s", (int)(slash - object->dlpi_name), object->dlpi_name);
  return 1;
}

// dlopen by path loads the file although the simulated card is loaded under the same name. No one else sees its functions.
static void *open_file(void) {
  static const char *const beside_torch[] = {"/../../nvidia/cudnn/lib", "", "/../../../.."};
  const char *named = getenv("PLIMSOLL_CUDNN");
  char torch[PATH_MAX] = "", path[PATH_MAX + 64];
  void *file = NULL;
  if (named) return dlopen(named, RTLD_NOW | RTLD_LOCAL);
  dl_iterate_phdr(look_at_object, torch);
  for (size_t i = 0; *torch && !file && i < sizeof beside_torch / sizeof *beside_torch; i++) {
    snprintf(path, sizeof path, "%s%s/libcudnn.so.9", torch, beside_torch[i]);
    file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  return file;
}

int cudnnBackendFinalize(cudnn_descriptor *d); // the stand-in

static bool find_functions(void *file) {
  *(void **)&library.version = dlsym(file, "cudnnGetVersion");
  *(void **)&library.create = dlsym(file, "cudnnBackendCreateDescriptor");
  *(void **)&library.destroy = dlsym(file, "cudnnBackendDestroyDescriptor");
  *(void **)&library.set = dlsym(file, "cudnnBackendSetAttribute");
  *(void **)&library.finalize = dlsym(file, "cudnnBackendFinalize");
  *(void **)&library.get = dlsym(file, "cudnnBackendGetAttribute");
  bool is_complete = library.version && library.create && library.destroy && library.set &&
                     library.finalize && library.get;
  bool is_ours = (void *)library.finalize == (void *)cudnnBackendFinalize; // a link to the card
  return is_complete && !is_ours;
}

static void open_library(void) {
  *card_is_hidden() = true;
  void *file = card_record_here() ? open_file() : NULL;
  if (file && find_functions(file) && make_device()) library.file = file;
  else if (file) dlclose(file);
  *card_is_hidden() = false;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool was_looked_for;

bool cudnn_library_is_usable(void) {
  pthread_mutex_lock(&lock);
  if (!was_looked_for) open_library();
  was_looked_for = true;
  bool is_usable = library.file != NULL;
  pthread_mutex_unlock(&lock);
  return is_usable;
}

void cudnn_library_close(void) {
  if (library.file) {
    library.destroy(library.device);
    dlclose(library.file);
  }
  memset(&library, 0, sizeof library);
  was_looked_for = false;
}

size_t cudnn_library_version(void) { return cudnn_library_is_usable() ? library.version() : 0; }

// ---- descriptors ----------------------------------------------------------------------------------------

void cudnn_library_destroy(void *real) {
  if (real && library.file) library.destroy(real);
}

static int repeat(cudnn_descriptor *d);

// The equivalents of the descriptors among an attribute's values; NULL when out of memory.
static void **equivalents(const cudnn_attribute *a, int *status) {
  cudnn_descriptor *const *parts = a->values;
  void **out = calloc((size_t)a->count + 1, sizeof *out);
  *status = out ? CARD_OK : CUDNN_NO_HOST_MEMORY;
  for (int64_t i = 0; i < a->count && !*status; i++) {
    if (!parts[i]) continue;
    if (!parts[i]->real) *status = repeat(parts[i]);
    out[i] = parts[i]->real;
  }
  return out;
}

static int set_equivalent(void *real, const cudnn_attribute *a) {
  if (a->type == CUDNN_TYPE_HANDLE) return CARD_OK; // handles are ours
  if (a->type != CUDNN_TYPE_DESCRIPTOR)
    return library.set(real, a->name, a->type, a->count, a->values);
  int status;
  void **parts = equivalents(a, &status);
  if (!status) status = library.set(real, a->name, a->type, a->count, parts);
  free(parts);
  return status;
}

static int set_device(void *real, int type) {
  int name = type == CUDNN_HEURISTIC ? CUDNN_HEURISTIC_DEVICE
             : type == CUDNN_ENGINE  ? CUDNN_ENGINE_DEVICE
                                     : 0;
  return name ? library.set(real, name, CUDNN_TYPE_DESCRIPTOR, 1, &library.device) : CARD_OK;
}

static int repeat(cudnn_descriptor *d) {
  void *real = NULL;
  int status = library.create(d->type, &real);
  for (size_t i = 0; i < d->attributes.len && !status; i++)
    status = set_equivalent(real, &d->attributes.at[i]);
  if (!status) status = set_device(real, d->type);
  if (!status) status = library.finalize(real);
  if (status) cudnn_library_destroy(real);
  else d->real = real;
  return status;
}

int cudnn_library_repeat(cudnn_descriptor *d) {
  *card_is_hidden() = true;
  int status = repeat(d);
  *card_is_hidden() = false;
  return status;
}

static int get(cudnn_descriptor *d, int name, int type, int64_t wanted, int64_t *count,
               void *values) {
  if (type != CUDNN_TYPE_DESCRIPTOR || !values)
    return library.get(d->real, name, type, wanted, count, values);
  cudnn_descriptor **asked = values;
  void **answers = calloc((size_t)wanted + 1, sizeof *answers);
  int status = answers ? CARD_OK : CUDNN_NO_HOST_MEMORY;
  for (int64_t i = 0; i < wanted && !status; i++) {
    if (!asked[i]->real) status = library.create(asked[i]->type, &asked[i]->real);
    answers[i] = asked[i]->real;
  }
  if (!status) status = library.get(d->real, name, type, wanted, count, answers);
  free(answers);
  return status;
}

int cudnn_library_get(cudnn_descriptor *d, int name, int type, int64_t wanted, int64_t *count,
                      void *values) {
  *card_is_hidden() = true;
  int status = get(d, name, type, wanted, count, values);
  *card_is_hidden() = false;
  return status;
}
