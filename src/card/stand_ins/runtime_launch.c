// The CUDA runtime: streams, events and kernels. A kernel is counted and does nothing, so everything is done at once.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "card.h"
#include "card_images.h"
#include "layouts.h"
#include "sort.h"
#include "vec.h"

// ---- streams and events ---------------------------------------------------------------------------------

STAND_IN int cudaStreamCreate(void **stream) {
  card_use(card_device());
  *stream = card_handle();
  return CARD_OK;
}

STAND_IN int cudaStreamCreateWithFlags(void **stream, unsigned flags) {
  (void)flags;
  return cudaStreamCreate(stream);
}

STAND_IN int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
  (void)flags, (void)priority;
  return cudaStreamCreate(stream);
}

STAND_IN int cudaStreamGetPriority(void *stream, int *priority) {
  (void)stream;
  *priority = 0;
  return CARD_OK;
}

STAND_IN int cudaStreamIsCapturing(void *stream, int *status) {
  (void)stream;
  *status = 0;
  return CARD_OK;
}

// Its arguments behind the status differ between versions; without a capture none is written.
STAND_IN int cudaStreamGetCaptureInfo(void *stream, int *status) {
  return cudaStreamIsCapturing(stream, status);
}

STAND_IN int cudaStreamGetCaptureInfo_v2(void *stream, int *status) {
  return cudaStreamIsCapturing(stream, status);
}

STAND_IN int cudaStreamAddCallback(void *stream, void (*call)(void *, int, void *), void *data,
                                   unsigned flags) {
  (void)flags;
  call(stream, CARD_OK, data);
  return CARD_OK;
}

STAND_IN int cudaLaunchHostFunc(void *stream, void (*call)(void *), void *data) {
  (void)stream;
  call(data);
  return CARD_OK;
}

STAND_IN int cudaEventCreate(void **event) {
  *event = card_handle();
  return CARD_OK;
}

STAND_IN int cudaEventCreateWithFlags(void **event, unsigned flags) {
  (void)flags;
  return cudaEventCreate(event);
}

STAND_IN int cudaEventElapsedTime(float *milliseconds, void *begin, void *end) {
  (void)begin, (void)end;
  *milliseconds = 1; // programs divide by it
  return CARD_OK;
}

STAND_IN int cudaEventElapsedTime_v2(float *milliseconds, void *begin, void *end) {
  return cudaEventElapsedTime(milliseconds, begin, end);
}

// ---- kernels --------------------------------------------------------------------------------------------

// A library registers its images first, and then its kernels with their names and images.
typedef struct {
  const void *wrapper; // of the images
} module;

typedef struct {
  const void *function;
  const char *name;
  const module *module;
  card_kernel_kind kind;
} named_kernel;

static vec(named_kernel) kernels;
static bool is_sorted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// A forked process may load libraries: the list must be whole there, and the lock free.
static void lock_kernels(void) { pthread_mutex_lock(&lock); }
static void unlock_kernels(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void prepare_forks(void) {
  pthread_atfork(lock_kernels, unlock_kernels, unlock_kernels);
}

static int by_function(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)((const named_kernel *)a)->function,
            y = (uintptr_t)((const named_kernel *)b)->function;
  return (x > y) - (x < y);
}

// The name belongs to the library, which stays loaded. A name that could not be kept is unknown.
STAND_IN void __cudaRegisterFunction(void **of, const void *function, char *device_function,
                                     const char *name) {
  (void)device_function;
  pthread_mutex_lock(&lock);
  vec_push(&kernels, (named_kernel){function, name, (const module *)of, CARD_KERNEL_NEW});
  is_sorted = false;
  pthread_mutex_unlock(&lock);
}

static named_kernel kernel_of(const void *function) {
  named_kernel wanted = {.function = function}, *found = NULL;
  pthread_mutex_lock(&lock);
  if (!is_sorted && kernels.len) plim_sort(kernels.at, kernels.len, sizeof wanted, by_function);
  is_sorted = true;
  if (kernels.len) found = bsearch(&wanted, kernels.at, kernels.len, sizeof wanted, by_function);
  if (found && found->kind == CARD_KERNEL_NEW && found->name)
    found->kind = card_kernel_kind_of(found->name);
  named_kernel kernel = found ? *found : wanted;
  pthread_mutex_unlock(&lock);
  return kernel;
}

static card_image image_of(const module *of) {
  return card_image_of(of ? of->wrapper : NULL, card()->major * 10 + card()->minor);
}

static bool lacks_images; // some library has none for this card

static int launch(const void *function, card_dim3 grid) {
  int device = card_device();
  named_kernel kernel = kernel_of(function);
  if (lacks_images && !image_of(kernel.module).binary) return card_result(CARD_NO_IMAGE);
  card_count_launch(device, kernel.name);
  card_time_kernel(kernel.kind, kernel.name, grid.x, grid.y, grid.z);
  return CARD_OK;
}

STAND_IN void **__cudaRegisterFatBinary(void *wrapper) {
  module *new = malloc(sizeof *new);
  if (!new) return NULL;
  *new = (module){wrapper};
  if (!image_of(new).binary) lacks_images = true;
  return (void **)new;
}

// The configuration between <<< and >>> is pushed before the arguments are evaluated and popped by the launch.
static __thread card_launch pushed[8];
static __thread unsigned depth;

STAND_IN unsigned __cudaPushCallConfiguration(card_dim3 grid, card_dim3 block, size_t shared_bytes,
                                              void *stream) {
  if (depth < sizeof pushed / sizeof *pushed)
    pushed[depth] = (card_launch){grid, block, shared_bytes, stream, NULL, 0};
  depth++;
  return 0;
}

STAND_IN int __cudaPopCallConfiguration(card_dim3 *grid, card_dim3 *block, size_t *shared_bytes,
                                        void **stream) {
  if (!depth) return CARD_INVALID_VALUE;
  if (--depth >= sizeof pushed / sizeof *pushed) return CARD_INVALID_VALUE;
  *grid = pushed[depth].grid, *block = pushed[depth].block;
  *shared_bytes = pushed[depth].shared_bytes, *stream = pushed[depth].stream;
  return CARD_OK;
}

STAND_IN int __cudaGetKernel(void **kernel, const void *function) {
  *kernel = (void *)function;
  return CARD_OK;
}

STAND_IN int __cudaLaunchKernel(const void *function, card_dim3 grid) {
  return launch(function, grid);
}
STAND_IN int cudaLaunchKernel(const void *function, card_dim3 grid) {
  return launch(function, grid);
}
STAND_IN int cudaLaunchCooperativeKernel(const void *function, card_dim3 grid) {
  return launch(function, grid);
}
STAND_IN int cudaLaunchKernelExC(const card_launch *configuration, const void *function) {
  return launch(function, configuration->grid);
}

// CUB and PyTorch size their temporary storage by these.
STAND_IN int cudaFuncGetAttributes(card_function_attributes *out, const void *function) {
  card_image image = image_of(kernel_of(function).module);
  if (!image.binary) return card_result(CARD_NO_IMAGE);
  *out = (card_function_attributes){.max_threads_per_block = 1024,
                                    .registers = 32,
                                    .ptx_version = image.ptx,
                                    .binary_version = image.binary,
                                    .max_dynamic_shared_bytes = 48 << 10};
  return CARD_OK;
}

STAND_IN int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *function, int threads, size_t shared_bytes, unsigned flags) {
  (void)function, (void)shared_bytes, (void)flags;
  const card_description *c = card();
  int most = threads > 0 ? c->threads_per_multiprocessor / threads : 1;
  *blocks = most < 1                              ? 1
            : most > c->blocks_per_multiprocessor ? c->blocks_per_multiprocessor
                                                  : most;
  return CARD_OK;
}

STAND_IN int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                           int threads, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                shared_bytes, 0);
}

STAND_IN int cudaOccupancyMaxActiveClusters(int *clusters, const void *function,
                                            const card_launch *configuration) {
  (void)function, (void)configuration;
  *clusters = card()->multiprocessors;
  return CARD_OK;
}
