// The simulated card, called as libtorch calls CUDA's libraries.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "card.h"
#include "card_images.h"
#include "folder.h"
#include "layouts.h"
#include "test.h"

// ---- CUDA's functions, as far as they are called here ---------------------------------------------------

int cudaGetDeviceCount(int *);
int cudaSetDevice(int);
int cudaGetDevice(int *);
int cudaGetDeviceProperties(void *, int);
int cudaDeviceGetAttribute(int *, int, int);
int cudaMalloc(void **, size_t);
int cudaMallocManaged(void **, size_t, unsigned);
int cudaFree(void *);
int cudaMemGetInfo(size_t *, size_t *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemset(void *, int, size_t);
int cudaHostAlloc(void **, size_t, unsigned);
int cudaFreeHost(void *);
int cudaHostRegister(void *, size_t, unsigned);
int cudaHostUnregister(void *);
int cudaMallocManaged(void **, size_t, unsigned);
int cudaMemPrefetchAsync(const void *, size_t, int, void *);
int cudaMallocArray(void);
int cudaDeviceSetLimit(unsigned, size_t);
int cudaDeviceGetLimit(size_t *, unsigned);
int cudaMemcpy2DAsync(void *, size_t, const void *, size_t, size_t, size_t, int, void *);
int cuMemsetD32Async(uint64_t, unsigned, size_t, void *);
int cuPointerGetAttribute(void *, int, uint64_t);
int cudaPointerGetAttributes(card_pointer_attributes *, const void *);
int cudaStreamCreate(void **);
int cudaEventCreate(void **);
unsigned __cudaPushCallConfiguration(card_dim3, card_dim3, size_t, void *);
int __cudaPopCallConfiguration(card_dim3 *, card_dim3 *, size_t *, void **);
int cudaLaunchKernel(const void *);
void **__cudaRegisterFatBinary(void *);
int cudaFuncGetAttributes(card_function_attributes *, const void *);
void __cudaRegisterFunction(void **, const void *, char *, const char *);
const char *cudaGetErrorString(int);
int cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, uint64_t, int *);
int cuCtxGetLimit(size_t *, unsigned);
int cuCtxSetLimit(unsigned, size_t);
int cufftXtMakePlanMany(void);
int cusolverDnSgesvdj_bufferSize(void *, int, int, int, int, const float *, int, const float *,
                                 const float *, int, const float *, int, int *, void *);
int cusolverDnSgesvdj(void *, int, int, int, int, float *, int, float *, float *, int, float *, int,
                      float *, int, int *, void *);
int cusolverDnSpotrfBatched(void *, int, int, float **, int, int *, int);
int cusolverDnXgeev_bufferSize(void *, void *, int, int, int64_t, int, const void *, int64_t, int,
                               const void *, int, const void *, int64_t, int, const void *, int64_t,
                               int, size_t *, size_t *);
int cudaGetLastError(void);
int cudaPeekAtLastError(void);
int cudaProfilerInitialize(void);
int nvmlDeviceGetComputeRunningProcesses(void *, unsigned *, void *);
int nvmlDeviceGetGpuFabricInfoV(void *, unsigned *);
int nvmlDeviceGetHandleByIndex_v2(unsigned, void **);
int nvmlDeviceGetHandleByUUID(const char *, void **);
int nvmlDeviceGetMemoryInfo(void *, void *);
int nvmlDeviceGetNvLinkRemoteDeviceType(void *, unsigned, int *);
int nvmlDeviceGetP2PStatus(void *, void *, int, int *);
int nvmlDeviceGetUUID(void *, char *, unsigned);
int nvtxRangePushA(void);
int nvtxRangePop(void);
int cublasCreate_v2(void **);
int cublasSgemm_v2(void *, int, int, int, int, int);
int cudnnBackendCreateDescriptor(int, void **);
int cudnnBackendSetAttribute(void *, int, int, int64_t, const void *);
int cudnnBackendGetAttribute(void *, int, int, int64_t, int64_t *, void *);
int cudnnBackendDestroyDescriptor(void *);
void plimsoll_card_answer(uint64_t);
void plimsoll_card_forget_answer(void);
void plimsoll_card_step(uint64_t, uint64_t, uint64_t);

#define GIB (1ull << 30)
#define MIB (1ull << 20)
#define CONTEXT (512 * MIB)

static char record_path[512];
static void *of_parent;

// A card with 4 GiB, of which the context takes half a GiB.
static bool open_card(uint32_t devices) {
  static int number;
  char name[32];
  plim_error error = {0};
  snprintf(name, sizeof name, "record%d", number++);
  const char *path = folder_path(name);
  snprintf(record_path, sizeof record_path, "%s", path);
  if (card_record_create(path, "H100", devices, 4 * GIB, CONTEXT, &error))
    return printf("%s\n", error.message), false;
  return card_open(path);
}

// ---- devices --------------------------------------------------------------------------------------------

TEST(a_record_is_made_once_and_recognised) {
  plim_error error = {0};
  CHECK(open_card(2), "a card");
  CHECK(card_record_create(folder_path("record0"), "H100", 1, GIB, 0, &error), "it exists");
  CHECK(card_record_create(folder_path("many"), "H100", 1000, GIB, 0, &error) &&
            strstr(error.message, "1 to 64"),
        "%s", error.message);
  folder_write_text("text", "not a record");
  CHECK(!card_record_map(folder_path("text")) && !card_record_map(folder_path("missing")), "none");
}

TEST(devices_are_those_of_the_record) {
  int count = 0, device = -1;
  CHECK(open_card(4), "a card");
  CHECK(!cudaGetDeviceCount(&count) && count == 4, "%d", count);
  CHECK(!cudaSetDevice(3) && !cudaGetDevice(&device) && device == 3, "%d", device);
  CHECK(cudaSetDevice(4) && !cudaGetDevice(&device) && device == 3, "there is no fifth");
  cudaSetDevice(0);
}

TEST(the_program_sees_the_devices_that_the_environment_lists) {
  static const struct {
    const char *list;
    int count, first;
  } rows[] = {{"2,1,7,0", 2, 2}, // up to the first that is missing
              {"3", 1, 3},
              {"", 0, 0},
              {"-1", 0, 0},
              {"1,1", 0, 0},
              {"GPU-00000000-0000-0000-0000-000000000002,0", 2, 2},
              {"GPU-00000000-0000", 0, 0}, // of all of them
              {"GPU-1", 0, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int count = -1;
    setenv("CUDA_VISIBLE_DEVICES", rows[i].list, 1);
    CHECK(open_card(4), "a card");
    cudaGetDeviceCount(&count);
    CHECK(count == rows[i].count && card_physical(0) == rows[i].first, "%s: %d", rows[i].list,
          count);
  }
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(a_list_of_devices_that_changes_later_has_no_effect) {
  void *mine;
  int count = 0;
  CHECK(open_card(2) && !cudaMalloc(&mine, GIB), "a card");
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  CHECK(!cudaGetDeviceCount(&count) && count == 2 && !cudaFree(mine), "%d", count);
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK_U64(card_process_here()->devices[0].used_bytes, 0);
  CHECK_U64(card_process_here()->devices[1].used_bytes, 0);
}

TEST(nvml_knows_its_devices_and_no_others) {
  uint64_t memory[3];
  void *device = NULL, *same = NULL;
  char uuid[64] = "";
  int type, status = -1;
  CHECK(open_card(2) && !nvmlDeviceGetHandleByIndex_v2(1, &device), "a device");
  CHECK(!nvmlDeviceGetUUID(device, uuid, sizeof uuid) && !nvmlDeviceGetHandleByUUID(uuid, &same) &&
            same == device,
        "%s", uuid);
  CHECK(!nvmlDeviceGetMemoryInfo(device, memory) && memory[0] == 4 * GIB && memory[2] == 0,
        "empty");
  CHECK(nvmlDeviceGetHandleByUUID("GPU-other", &same), "a device of another machine");
  CHECK(nvmlDeviceGetMemoryInfo(NULL, memory) && nvmlDeviceGetUUID(NULL, uuid, sizeof uuid),
        "no device");
  CHECK(nvmlDeviceGetNvLinkRemoteDeviceType(device, 0, &type), "a link that is not there");
  CHECK(!nvmlDeviceGetP2PStatus(device, device, 0, &status) && status == 0, "%d", status);
}

TEST(properties_are_those_of_the_catalogue) {
  unsigned char properties[1200];
  int value, multiprocessors, major;
  uint64_t total;
  CHECK(open_card(1), "a card");
  memset(properties, 0xee, sizeof properties);
  CHECK(!cudaGetDeviceProperties(properties, 0), "properties");
  memcpy(&total, properties + 288, 8);
  memcpy(&multiprocessors, properties + 384,
         4); // CUDA 13, which is assumed where no library says otherwise
  memcpy(&major, properties + 360, 4);
  CHECK(strstr((char *)properties, "H100") && total == 4 * GIB && multiprocessors == 132 &&
            major == 9,
        "%s %" PRIu64 " %d %d", properties, total, multiprocessors, major);
  CHECK(properties[card_properties_bytes(13)] == 0xee, "nothing is written behind the structure");
  CHECK(!cudaDeviceGetAttribute(&value, 16, 0) && value == 132, "%d", value);
  CHECK(cudaGetDeviceProperties(properties, 1) && cudaDeviceGetAttribute(&value, 16, 1),
        "no device");
}

TEST(every_property_lies_within_the_structure) {
  static const size_t sizes[] = {4, 8, 256, 16, 8, 4}; // by card_property_kind
  for (size_t i = 0; i < card_property_count; i++) {
    const card_property *p = &card_properties[i];
    CHECK(p->at_12 + sizes[p->kind] <= card_properties_bytes(11), "%s", p->name);
    CHECK(p->at_13 + sizes[p->kind] <= card_properties_bytes(13), "%s", p->name);
    for (size_t k = 0; k < i; k++) {
      const card_property *q = &card_properties[k];
      CHECK(p->at_12 >= q->at_12 + sizes[q->kind] && p->at_13 >= q->at_13 + sizes[q->kind],
            "%s and %s overlap", q->name, p->name);
    }
  }
}

// ---- faults on demand -----------------------------------------------------------------------------------

static card_fault *add_fault(const char *text) {
  card_record *record = card_record_here();
  card_fault *f = &record->faults[record->fault_count];
  if (card_fault_parse(text, f, NULL)) return NULL;
  record->fault_count++;
  return f;
}

TEST(faults_are_read_or_refused) {
  static const char *const wrong[] = {
      "",
      "refuse=",
      "refuse=0",
      "refuse=some",
      "refuse@",
      "refuse@step",
      "refuse@step=",
      "refuse@step=0",
      "refuse@step=x",
      "refuse@=3",
      "refuse@start=1",
      "refuse@step=3@step=4",
      "leak",
      "leak=0",
      "leak=all",
      "other-process",
      "other-process=much",
      "driver-hangs=3",
      "@step=3",
      "=3",
      "refuses",
      "refuse@allocation=99999999999999999999999999999999999999999"};
  card_fault f;
  plim_error error = {0};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    CHECK(card_fault_parse(wrong[i], &f, &error) == PLIM_ERR_ARGUMENT && *error.hint, "%s",
          wrong[i]);
  CHECK(!card_fault_parse("refuse=all@used=1.5GiB", &f, &error) && f.kind == CARD_FAULT_REFUSE &&
            f.amount == CARD_FAULT_ALL && f.moment == CARD_MOMENT_USED && f.at == 3 * GIB / 2 &&
            !f.has_begun,
        "with everything");
  CHECK(!card_fault_parse("driver-fails", &f, &error) && f.has_begun, "from the start");
}

TEST(requests_are_refused_as_often_as_asked) {
  void *at = NULL;
  CHECK(open_card(1), "a card");
  card_fault *f = add_fault("refuse=2@allocation=3");
  CHECK(!cudaMalloc(&at, MIB) && !cudaMalloc(&at, MIB), "before it");
  CHECK(cudaMalloc(&at, MIB) == CARD_OUT_OF_MEMORY && cudaGetLastError() == CARD_OUT_OF_MEMORY &&
            cudaMalloc(&at, MIB) == CARD_OUT_OF_MEMORY,
        "refused");
  CHECK(!cudaMalloc(&at, MIB), "after it");
  CHECK_U64(f->times, 2);
  CHECK_U64(card_process_here()->devices[0].refusals, 2);
  CHECK_U64(card_process_here()->devices[0].used_bytes, 6 * MIB);
}

TEST(requests_are_refused_from_a_size_on) {
  void *at = NULL;
  CHECK(open_card(1) && add_fault("refuse=all@used=1GiB"), "a card");
  CHECK(!cudaMalloc(&at, 500 * MIB), "below"); // with the context's 512
  CHECK(cudaMalloc(&at, 20 * MIB) && cudaMalloc(&at, MIB), "from there on, small ones too");
}

TEST(another_process_takes_memory_in_a_step) {
  void *at = NULL, *device = NULL;
  size_t left, total;
  uint64_t memory[3];
  struct {
    unsigned pid;
    unsigned long long bytes;
  } users[4] = {0};
  unsigned count = 1;
  CHECK(open_card(1) && add_fault("other-process=3GiB@step=2"), "a card");
  CHECK(!cudaMalloc(&at, 256 * MIB) && !cudaMemGetInfo(&left, &total), "in step 1");
  CHECK_U64(left, 4 * GIB - CONTEXT - 256 * MIB);
  plimsoll_card_step(1, 0, 0);
  CHECK(!cudaMemGetInfo(&left, &total), "in step 2");
  CHECK_U64(left, GIB - CONTEXT - 256 * MIB);
  CHECK(cudaMalloc(&at, 300 * MIB) && !cudaMalloc(&at, 200 * MIB), "only the rest is left");
  CHECK(!nvmlDeviceGetHandleByIndex_v2(0, &device) && !nvmlDeviceGetMemoryInfo(device, memory),
        "NVML");
  CHECK_U64(memory[2], 3 * GIB + CONTEXT + 456 * MIB);
  CHECK(nvmlDeviceGetComputeRunningProcesses(device, &count, users) == 7 && count == 2,
        "%u processes, and room for one", count);
  CHECK(!nvmlDeviceGetComputeRunningProcesses(device, &count, users), "processes");
  CHECK(users[0].pid == (unsigned)getpid() && users[1].pid == 1 << 22, "%u", users[1].pid);
  CHECK_U64(users[0].bytes, CONTEXT + 456 * MIB);
  CHECK_U64(users[1].bytes, 3 * GIB);
  CHECK_U64(card_record_here()->peak_bytes[0], CONTEXT + 456 * MIB); // the program's own
}

TEST(a_leak_takes_memory_with_every_step) {
  size_t left, total;
  CHECK(open_card(1), "a card");
  card_fault *f = add_fault("leak=10MiB@step=2");
  for (uint64_t step = 1; step <= 5; step++) {
    plimsoll_card_step(step, 0, 0);
    plimsoll_card_step(step, 0, 0); // of another optimizer
  }
  CHECK(!cudaMemGetInfo(&left, &total), "free");
  CHECK_U64(left, 4 * GIB - CONTEXT - 40 * MIB);
  CHECK_U64(f->times, 40 * MIB);
}

TEST(a_driver_that_fails_says_so) {
  size_t left, total;
  void *device = NULL;
  uint64_t memory[3];
  CHECK(open_card(1) && !nvmlDeviceGetHandleByIndex_v2(0, &device), "a card");
  CHECK(!nvmlDeviceGetMemoryInfo(device, memory), "before");
  card_fault *f = add_fault("driver-fails");
  CHECK(nvmlDeviceGetMemoryInfo(device, memory) == 999 && cudaMemGetInfo(&left, &total) == 999,
        "it fails");
  CHECK_U64(f->times, 2);
  cudaGetLastError();
}

TEST(a_driver_that_hangs_does_not_return) {
  void *device = NULL;
  uint64_t memory[3];
  CHECK(open_card(1) && !nvmlDeviceGetHandleByIndex_v2(0, &device), "a card");
  card_fault *f = add_fault("driver-hangs");
  pid_t child = fork();
  if (child == 0) _exit(nvmlDeviceGetMemoryInfo(device, memory));
  while (!__atomic_load_n(&f->times, __ATOMIC_SEQ_CST)) usleep(1000);
  int ended = waitpid(child, NULL, WNOHANG);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  CHECK(ended == 0, "it has returned");
}

// ---- memory ---------------------------------------------------------------------------------------------

TEST(memory_ends_where_the_card_does) {
  void *large = NULL, *small = NULL, *more = NULL;
  size_t left, total;
  CHECK(open_card(1), "a card");
  CHECK(!cudaMemGetInfo(&left, &total) && total == 4 * GIB && left == 4 * GIB - CONTEXT, "%zu",
        left);
  CHECK(!cudaMalloc(&large, 3 * GIB) && large, "it fits");
  CHECK(!cudaMalloc(&small, 1) && !cudaMemGetInfo(&left, &total) && left == 510 * MIB,
        "a page of 2 MiB: %zu", left);
  CHECK(cudaMalloc(&more, GIB) == 2 && strstr(cudaGetErrorString(2), "out of memory"), "too much");
  CHECK(cudaGetLastError() == 2 && !cudaGetLastError(), "the error is kept until it is asked for");
  CHECK(!cudaFree(large) && !cudaMalloc(&more, GIB), "after a free it fits");
  CHECK(!cudaFree(more) && !cudaFree(small) && !cudaFree(NULL), "all");
  CHECK(cudaFree(more) == 1, "not twice");
  const card_holding *mine = &card_process_here()->devices[0];
  CHECK(mine->used_bytes == 0 && mine->refusals == 1, "%" PRIu64, mine->refusals);
  CHECK_U64(card_record_here()->peak_bytes[0], 3 * GIB + 2 * MIB + CONTEXT);
  CHECK(cudaMalloc(&more, SIZE_MAX) == 2, "the largest number");
}

TEST(addresses_tell_their_device) {
  void *a = NULL, *b = NULL, *pinned = NULL;
  card_pointer_attributes about;
  int host;
  CHECK(open_card(2), "a card");
  CHECK(!cudaMalloc(&a, MIB) && !cudaSetDevice(1) && !cudaMalloc(&b, MIB), "on each");
  CHECK(!cudaPointerGetAttributes(&about, b) && about.type == 2 && about.device == 1, "device 1");
  CHECK(!cudaPointerGetAttributes(&about, a) && about.type == 2 && about.device == 0, "device 0");
  CHECK(!cudaPointerGetAttributes(&about, &host) && about.type == 0, "the host's");
  CHECK(!cudaHostAlloc(&pinned, 100 * GIB, 0), "pinned memory that nobody touches costs nothing");
  CHECK(!cudaPointerGetAttributes(&about, (char *)pinned + GIB) && about.type == 1, "pinned");
  CHECK(card_process_here()->pinned_bytes == 100 * GIB, "counted");
  CHECK(!cudaFreeHost(pinned) && card_process_here()->pinned_bytes == 0, "and given back");
  cudaSetDevice(0);
  CHECK(!cudaFree(a) && !cudaFree(b), "freed from another device");
}

TEST(rows_are_copied_as_one_and_words_are_filled) {
  enum { WIDTH = 1024, FEW = 16, MANY = 1024 }; // many rows are as large as a tensor of floats
  static char host[WIDTH * MANY], back[WIDTH * MANY];
  uint32_t words[4] = {0};
  void *a = NULL;
  CHECK(open_card(1) && !cudaMalloc(&a, 4 * MIB), "memory");
  memset(host, 7, sizeof host);
  cudaMemcpy2DAsync(a, 2 * WIDTH, host, WIDTH, WIDTH, FEW, 1, NULL);
  cudaMemcpy2DAsync(back, WIDTH, a, 2 * WIDTH, WIDTH, FEW, 2, NULL);
  CHECK(memcmp(host, back, WIDTH * FEW) == 0 && back[WIDTH * FEW] == 0, "few rows");
  cudaMemcpy2DAsync((char *)a + MIB, WIDTH, host, WIDTH, WIDTH, MANY, 1, NULL);
  CHECK(((char *)a)[MIB] == 0, "many rows");
  CHECK(!cuMemsetD32Async((uint64_t)a, 0x01020304, 3, NULL) && !cudaMemcpy(words, a, 16, 2),
        "words");
  CHECK(words[0] == 0x01020304 && words[2] == 0x01020304 && words[3] == 0x07070707, "%x", words[3]);
  cudaFree(a);
}

TEST(a_pointer_has_the_attributes_that_are_known) {
  void *a = NULL;
  uint64_t number = 0;
  int type = 0;
  CHECK(open_card(1) && !cudaMalloc(&a, 4 * MIB), "memory");
  uint64_t start = (uint64_t)a;
  CHECK(!cuPointerGetAttribute(&type, 2, start) && type == 2, "type %d", type);
  CHECK(!cuPointerGetAttribute(&number, 11, start + MIB) && number == start, "start");
  CHECK(!cuPointerGetAttribute(&number, 12, start + MIB) && number == 4 * MIB, "%" PRIu64, number);
  number = 5;
  CHECK(cuPointerGetAttribute(&number, 15, start) && number == 5, "nothing is written");
  CHECK(strcmp(card_process_here()->unmodelled[0].name, "cuPointerGetAttribute") == 0, "named");
  CHECK(cuPointerGetAttribute(&type, 2, (uint64_t)&type), "memory of the host");
  cudaFree(a);
}

TEST(managed_memory_counts_as_the_host_s) {
  card_pointer_attributes about;
  void *paged = NULL;
  CHECK(open_card(1) && !cudaMallocManaged(&paged, 8 * GIB, 1), "more than the card has");
  CHECK_U64(card_process_here()->devices[0].used_bytes, 0);
  ((char *)paged)[8 * GIB - 1] = 7; // by the host
  CHECK(!cudaPointerGetAttributes(&about, paged) && about.type == 3, "type %d", about.type);
  CHECK(!cudaMemPrefetchAsync(paged, 8 * GIB, 0, NULL), "it is moved");
  CHECK(strstr(card_process_here()->unmodelled[0].name, "cudaMallocManaged"), "it is named");
  CHECK(!cudaFree(paged) && cudaFree(paged), "freed once");
}

// Libraries refer to functions that they never call.
TEST(a_function_of_the_runtime_that_is_not_simulated_is_refused_and_named) {
  size_t value = 0;
  CHECK(open_card(1), "a card");
  CHECK(cudaMallocArray() == CARD_NOT_SUPPORTED && cudaGetLastError() == CARD_NOT_SUPPORTED,
        "done");
  CHECK(strcmp(card_process_here()->unmodelled[0].name, "cudaMallocArray") == 0, "its name");
  CHECK(!cudaDeviceSetLimit(0, 99) && !cudaDeviceGetLimit(&value, 0) && value == 99, "%zu", value);
}

TEST(memory_of_the_program_is_pinned_while_it_is_registered) {
  static char own[8192];
  void *pinned = NULL;
  card_pointer_attributes about;
  CHECK(open_card(1), "a card");
  CHECK(!cudaHostRegister(own, sizeof own, 0) && !cudaPointerGetAttributes(&about, own + 100) &&
            about.type == 1,
        "type %d", about.type);
  CHECK_U64(card_process_here()->pinned_bytes, sizeof own);
  CHECK(cudaHostRegister(own, sizeof own, 0) && cudaFreeHost(own), "twice, or freed");
  CHECK(!cudaHostUnregister(own) && cudaHostUnregister(own), "once");
  CHECK(!cudaPointerGetAttributes(&about, own) && about.type == 0, "type %d", about.type);
  CHECK(!cudaHostAlloc(&pinned, 100, 0) && cudaHostUnregister(pinned) && !cudaFreeHost(pinned),
        "what the card allocated is not the program's");
  CHECK_U64(card_process_here()->pinned_bytes, 0);
  CHECK_U64(card_process_here()->peak_pinned_bytes, sizeof own);
}

TEST(small_copies_are_true) {
  char text[16] = "";
  void *a = NULL, *b = NULL;
  uint64_t count = 0;
  CHECK(open_card(1) && !cudaMalloc(&a, GIB) && !cudaMalloc(&b, MIB), "a card");
  CHECK(!cudaMemcpy(a, "positions", 10, 1) && !cudaMemcpy(b, a, 10, 3), "to it, and on it");
  CHECK(!cudaMemcpy(text, b, 10, 2) && !strcmp(text, "positions"), "and back: %s", text);
  CHECK(!cudaMemset(b, 'x', 3) && !cudaMemcpy(text, b, 10, 2) && !strcmp(text, "xxxitions"), "%s",
        text);
  char *weights = malloc(64 * MIB);
  CHECK(weights && !cudaMemcpy(a, weights, 64 * MIB, 1), "large ones are not made");
  free(weights);
  plimsoll_card_answer(77);
  CHECK(!cudaMemcpy(&count, a, 8, 2) && count == 77, "an answer is given once");
  CHECK(!cudaMemcpy(&count, b, 8, 2) && count != 77, "and then no more");
  plimsoll_card_answer(78);
  plimsoll_card_forget_answer();
  CHECK(!cudaMemcpy(&count, b, 8, 2) && count != 78, "nor when nobody asked for it in time");
  CHECK(!cudaFree(a) && !cudaFree(b), "freed");
}

static void *segments[16];
static size_t segment_count;

static int64_t mib_above(const char *start, size_t mib) {
  void **new = &segments[segment_count++];
  return cudaMalloc(new, mib * MIB) ? INT64_MIN : ((char *)*new - start) / (int64_t)MIB;
}

// The addresses that an H200 gave to the first segments of a Falcon model, in MiB above the 30 MiB in front of the first.
TEST(addresses_are_those_that_were_recorded) {
  static const char normal, fill, gather;
  void *first = NULL, *handle;
  CHECK(open_card(8) && !cudaSetDevice(7), "a card that no other test uses");
  __cudaRegisterFunction(NULL, &gather, NULL, "vectorized_gather_kernel");
  __cudaRegisterFunction(NULL, &fill, NULL, "vectorized_elementwise_kernel<FillFunctor>");
  __cudaRegisterFunction(NULL, &normal, NULL, "distribution_elementwise_grid_stride_kernel");
  CHECK(!cudaMalloc(&first, 2 * MIB), "the first");
  const char *start = (char *)first - 30 * MIB;
  int64_t weights = mib_above(start, 254);
  cudaLaunchKernel(&normal);
  int64_t small = mib_above(start, 20);
  int64_t upper = mib_above(start, 32);
  int64_t lower = mib_above(start, 32);
  CHECK(weights == -640 && small == 104 && upper == -672 && lower == -704,
        "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, weights, small, upper, lower);
  cudaLaunchKernel(&fill);
  lower = mib_above(start, 20);
  upper = mib_above(start, 32);
  CHECK(lower == -384 && upper == -364, "where the smaller local memory was: %" PRId64, lower);
  cudaLaunchKernel(&gather);
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:2:16:8", 1);
  CHECK(!cublasCreate_v2(&handle), "a handle");
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  int64_t next = mib_above(start, 20);
  CHECK(next == -332 + 10 + 10, "behind 10 MiB for assert() and 8.1 MiB for cuBLAS: %" PRId64,
        next);
  CHECK(!cublasCreate_v2(&handle), "another, with the default of Hopper");
  next = mib_above(start, 20);
  CHECK(next == -292 + 64, "behind 64 MiB for cuBLAS, whose code is there: %" PRId64, next);
  while (segment_count) cudaFree(segments[--segment_count]);
  cudaFree(first);
  cudaSetDevice(0);
}

// As on a real card, where a model that leaves the host makes room for its own weights.
TEST(addresses_are_those_that_the_program_leaves_free) {
  void *before = NULL, *in_hole = NULL, *smaller = NULL, *after = NULL;
  CHECK(open_card(8) && !cudaSetDevice(6), "a card that no other test uses");
  char *host = mmap(NULL, GIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(host != MAP_FAILED && !cudaMalloc(&before, 300 * MIB), "something on the host");
  CHECK((char *)before < host, "below what the program has: %p, %p", before, (void *)host);
  munmap(host, GIB);
  CHECK(!cudaMalloc(&in_hole, 302 * MIB) && (char *)in_hole > (char *)before, "where it was: %p",
        in_hole);
  CHECK(!cudaMalloc(&smaller, 10 * MIB) && (char *)smaller == (char *)in_hole + 302 * MIB,
        "the newest range is filled first, not the lowest: %p", smaller);
  CHECK(!cudaMalloc(&after, 10 * MIB) && (char *)after == (char *)before + 300 * MIB,
        "then the one before: %p", after);
  cudaFree(before), cudaFree(in_hole), cudaFree(smaller), cudaFree(after);
  cudaSetDevice(0);
}

// The driver's functions, by name.
static void *entry(const char *name) {
  void *function = NULL;
  return cudaGetDriverEntryPointByVersion(name, &function, 12000, 0, NULL) ? NULL : function;
}

TEST(the_drivers_memory_of_the_host_is_not_the_cards) {
  int (*create)(uint64_t *, size_t, const void *, uint64_t) = entry("cuMemCreate");
  int (*release)(uint64_t) = entry("cuMemRelease");
  int (*host_alloc)(void **, size_t, unsigned) = entry("cuMemHostAlloc");
  int (*device_pointer)(uint64_t *, void *, unsigned) = entry("cuMemHostGetDevicePointer");
  int (*host_free)(void *) = entry("cuMemFreeHost");
  int on_host[8] = {1, 0, 2, 0};
  uint64_t page, address;
  void *host;
  CHECK(open_card(1), "a card");
  CHECK(!create(&page, 64 * GIB, on_host, 0), "more than the card has");
  CHECK(!host_alloc(&host, MIB, 3) && !device_pointer(&address, host, 0), "pinned");
  CHECK(address == (uint64_t)host, "one address for host and device");
  CHECK_U64(card_process_here()->pinned_bytes, 64 * GIB + MIB);
  CHECK_U64(card_process_here()->devices[0].used_bytes, 0);
  CHECK(!release(page) && !host_free(host), "freed");
  CHECK_U64(card_process_here()->pinned_bytes, 0);
  CHECK_U64(card_process_here()->peak_pinned_bytes, 64 * GIB + MIB);
}

TEST(expandable_segments_map_pages_into_addresses) {
  int (*reserve)(uint64_t *, size_t, size_t, uint64_t, uint64_t) = entry("cuMemAddressReserve");
  int (*create)(uint64_t *, size_t, const void *, uint64_t) = entry("cuMemCreate");
  int (*map)(uint64_t, size_t, size_t, uint64_t, uint64_t) = entry("cuMemMap");
  int (*unmap)(uint64_t, size_t) = entry("cuMemUnmap");
  int (*release)(uint64_t) = entry("cuMemRelease");
  int (*unreserve)(uint64_t, size_t) = entry("cuMemAddressFree");
  int property[8] = {1, 0, 1, 0};
  uint64_t addresses, page[3];
  CHECK(open_card(1), "a card");
  CHECK(!reserve(&addresses, 5 * GIB, 0, 0, 0), "more addresses than memory");
  CHECK(!create(&page[0], 2 * GIB, property, 0) && !map(addresses, 2 * GIB, 0, page[0], 0), "one");
  CHECK(!create(&page[1], GIB, property, 0), "two");
  CHECK(create(&page[2], GIB, property, 0) == 2, "the third does not fit");
  memset((void *)addresses, 1, 4096);
  CHECK(!unmap(addresses, 2 * GIB) && *(char *)addresses == 0, "what was there is gone");
  CHECK(!release(page[0]) && !create(&page[2], GIB, property, 0), "now it fits");
  CHECK(!release(page[1]) && !release(page[2]) && release(page[2]) == 1, "not twice");
  CHECK(!unreserve(addresses, 5 * GIB), "freed");
  CHECK(card_process_here()->devices[0].used_bytes == 0, "all is given back");
}

// ---- processes and threads --------------------------------------------------------------------------------

// Runs `act` in a forked process that has just opened the same record, as a program that was started does.
static int in_another_process(int (*act)(void)) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    card_open(record_path);
    _exit(act());
  }
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                               : -1;
}

static int take_a_gib(void) {
  void *mine;
  return cudaMalloc(&mine, GIB);
}

static int open_nothing(void) {
  void *mine;
  card_open(folder_path("none"));
  return !cudaMalloc(&mine, GIB);
}

// Waits for its parent's end of a pipe with a GiB on the card.
static int pipes[2];
static int hold_a_gib(void) {
  char byte;
  close(pipes[1]);
  if (take_a_gib()) return 1;
  return read(pipes[0], &byte, 1) == 0 ? 0 : 1;
}

static size_t left_here(void) {
  size_t left = 0, total;
  return cudaMemGetInfo(&left, &total) ? 0 : left;
}

TEST(processes_share_a_card) {
  CHECK(open_card(1) && !pipe(pipes), "a card");
  CHECK(in_another_process(open_nothing) == 0, "a process without a record has no card");
  CHECK_U64(left_here(), 4 * GIB - CONTEXT);
  pid_t child = fork();
  if (child == 0) {
    card_open(record_path);
    _exit(hold_a_gib());
  }
  close(pipes[0]);
  for (int i = 0; i < 12000 && left_here() != 3 * GIB - 2 * CONTEXT; i++) usleep(5000);
  size_t left = left_here();
  close(pipes[1]);
  int status;
  waitpid(child, &status, 0);
  CHECK_U64(left, 3 * GIB - 2 * CONTEXT);
  CHECK_U64(left_here(), 4 * GIB - CONTEXT); // until it ends
}

TEST(a_process_that_was_killed_holds_nothing) {
  siginfo_t ended;
  CHECK(open_card(1) && !pipe(pipes), "a card");
  pid_t child = fork();
  if (child == 0) {
    card_open(record_path);
    if (take_a_gib() || write(pipes[1], "", 1) != 1) _exit(1);
    pause();
  }
  char byte;
  CHECK(read(pipes[0], &byte, 1) == 1, "it has a GiB");
  CHECK_U64(left_here(), 3 * GIB - 2 * CONTEXT);
  CHECK(!kill(child, SIGKILL) && !waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), "killed");
  CHECK_U64(left_here(), 4 * GIB - CONTEXT); // although nobody has asked for its status
  waitpid(child, NULL, 0);
  close(pipes[0]), close(pipes[1]);
}

TEST(the_peak_of_a_device_is_of_what_was_in_use_at_the_same_time) {
  void *mine;
  CHECK(open_card(2), "a card");
  for (int i = 0; i < 3; i++) CHECK(in_another_process(take_a_gib) == 0, "process %d", i);
  CHECK_U64(card_record_here()->peak_bytes[0], GIB + CONTEXT);
  CHECK(!cudaMalloc(&mine, GIB) && in_another_process(take_a_gib) == 0, "two at once");
  CHECK_U64(card_record_here()->peak_bytes[0], 2 * (GIB + CONTEXT));
  CHECK_U64(card_record_here()->peak_bytes[1], 0);
  cudaFree(mine);
}

// The card asks by kill() whether another process still runs: what that process would see in use just then.
static uint64_t asked_for;
int kill(pid_t process, int signal) {
  if (signal == 0) asked_for = card_process_here()->devices[0].used_bytes;
  return (int)syscall(SYS_kill, process, signal);
}

TEST(what_a_process_asks_for_is_in_use_before_it_looks_at_others) {
  void *mine;
  CHECK(open_card(1) && !pipe(pipes), "a card");
  pid_t child = fork();
  if (child == 0) {
    card_open(record_path);
    _exit(hold_a_gib());
  }
  close(pipes[0]);
  for (int i = 0; i < 12000 && left_here() != 3 * GIB - 2 * CONTEXT; i++) usleep(5000);
  CHECK(!cudaMalloc(&mine, GIB), "there is room");
  CHECK_U64(asked_for, GIB); // so that not both get what only one can have
  CHECK(cudaMalloc(&mine, 2 * GIB) == CARD_OUT_OF_MEMORY, "more than the card has");
  CHECK_U64(card_process_here()->devices[0].used_bytes, GIB);
  close(pipes[1]);
  waitpid(child, NULL, 0);
}

TEST(a_forked_process_does_not_own_what_its_parent_holds) {
  CHECK(open_card(1) && !cudaMalloc(&of_parent, GIB), "a card");
  pid_t child = fork();
  int status;
  if (child == 0) {
    card_memory_after_fork(); // the library registers it with pthread_atfork
    _exit(cudaFree(of_parent) ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0, "it freed its parent's memory");
  CHECK_U64(left_here(), 3 * GIB - CONTEXT);
  CHECK(!cudaFree(of_parent), "the parent cannot");
}

static int do_nothing(void) { return 0; }

TEST(only_processes_that_use_the_card_are_recorded) {
  CHECK(open_card(1), "a card");
  for (int i = 0; i < 600; i++) CHECK(in_another_process(do_nothing) == 0, "process %d", i);
  CHECK(card_record_here()->process_count == 0, "%u", card_record_here()->process_count);
  CHECK(in_another_process(take_a_gib) == 0, "one that uses it");
  CHECK(card_record_here()->process_count == 1, "%u", card_record_here()->process_count);
}

TEST(a_full_record_refuses_memory) {
  CHECK(open_card(1), "a card");
  card_record_here()->process_count = CARD_MAX_PROCESSES;
  CHECK(take_a_gib() == CARD_OUT_OF_MEMORY, "memory that nobody counts");
}

// ---- images of kernels ----------------------------------------------------------------------------------

// A wrapper around images of these kinds (1: PTX, 2: machine code) and architectures, up to kind 0.
static const void *wrap(const int entries[][2]) {
  static struct {
    uint32_t magic, version;
    const void *images;
    void *file;
  } wrapper;
  static unsigned char images[1024];
  size_t used = 16;
  for (; (*entries)[0]; entries++, used += 64 + 40) {
    uint16_t kind = (uint16_t)(*entries)[0];
    uint32_t header = 64, arch = (uint32_t)(*entries)[1];
    uint64_t size = 40;
    memcpy(images + used, &kind, 2);
    memcpy(images + used + 4, &header, 4);
    memcpy(images + used + 8, &size, 8);
    memcpy(images + used + 28, &arch, 4);
  }
  uint32_t magic = 0xba55ed50u;
  uint16_t version = 1, header = 16;
  uint64_t bytes = used - 16;
  memcpy(images, &magic, 4);
  memcpy(images + 4, &version, 2);
  memcpy(images + 6, &header, 2);
  memcpy(images + 8, &bytes, 8);
  wrapper.magic = 0x466243b1u, wrapper.images = images;
  return &wrapper;
}

TEST(the_image_is_the_newest_that_the_card_runs) {
  static const int wheel[][2] = {{2, 75}, {2, 80}, {2, 86}, {2, 90}, {2, 120}, {0, 0}};
  static const int source[][2] = {{2, 80}, {1, 80}, {0, 0}};
  const struct {
    const int (*entries)[2];
    int capability, binary, ptx;
  } rows[] = {{wheel, 89, 86, 86},  {wheel, 90, 90, 90}, {wheel, 80, 80, 80},
              {wheel, 70, 0, 0},    {wheel, 100, 0, 0},  {source, 90, 90, 80},
              {source, 86, 80, 80}, {source, 75, 0, 0},  {NULL, 89, 89, 89}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    card_image image =
        card_image_of(rows[i].entries ? wrap(rows[i].entries) : NULL, rows[i].capability);
    CHECK(image.binary == rows[i].binary && image.ptx == rows[i].ptx, "row %zu: %d %d", i,
          image.binary, image.ptx);
  }
}

TEST(a_kernel_without_an_image_is_refused) {
  static const int old[][2] = {{2, 75}, {0, 0}};
  static char kernel;
  CHECK(open_card(1), "a card");
  void **module = __cudaRegisterFatBinary((void *)wrap(old));
  card_function_attributes about;
  __cudaRegisterFunction(module, &kernel, NULL, "old_kernel");
  CHECK(cudaLaunchKernel(&kernel) == CARD_NO_IMAGE, "it is launched");
  CHECK(cudaPeekAtLastError() == CARD_NO_IMAGE && cudaGetLastError() == CARD_NO_IMAGE &&
            cudaGetLastError() == CARD_OK,
        "PyTorch asks for the error after a launch, once");
  CHECK(cudaFuncGetAttributes(&about, &kernel) == CARD_NO_IMAGE, "it has attributes");
  CHECK(!cudaLaunchKernel(NULL), "others are refused, too");
}

static void *allocate_and_free(void *failures) {
  for (int i = 0; i < 2000; i++) {
    void *a = NULL, *b = NULL, *stream, *event;
    bool ok = !cudaMalloc(&a, 3 * MIB) && !cudaMalloc(&b, 20 * MIB) && a != b;
    ok = ok && !cudaStreamCreate(&stream) && !cudaEventCreate(&event) && stream != event;
    ok = ok && !cudaLaunchKernel(NULL) && !cudaFree(a) && !cudaFree(b);
    if (!ok) __atomic_add_fetch((int *)failures, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

TEST(threads_share_a_card) {
  pthread_t threads[8];
  int failures = 0;
  CHECK(open_card(1), "a card");
  for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, allocate_and_free, &failures);
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  CHECK(failures == 0 && card_process_here()->devices[0].used_bytes == 0, "%d", failures);
  CHECK(card_process_here()->launches == 16000, "%" PRIu64, card_process_here()->launches);
}

static void *launch_until_told(void *is_over) {
  while (!__atomic_load_n((bool *)is_over, __ATOMIC_RELAXED)) cudaLaunchKernel(&is_over);
  return NULL;
}

TEST(a_forked_process_may_load_libraries_while_its_parent_launches_kernels) {
  pthread_t thread;
  bool is_over = false;
  static char kernel;
  int failures = 0;
  CHECK(open_card(1) && !pthread_create(&thread, NULL, launch_until_told, &is_over), "a thread");
  for (int i = 0; i < 200 && !failures; i++) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
      alarm(20); // if it waits for ever
      __cudaRegisterFunction(NULL, &kernel, NULL, "kernel");
      _exit(0);
    }
    failures += waitpid(child, &status, 0) != child || status != 0;
  }
  __atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
  CHECK(failures == 0, "a process waits for a thread that it does not have");
}

// ---- the libraries ----------------------------------------------------------------------------------------

TEST(a_launch_gets_its_configuration) {
  card_dim3 grid, block;
  size_t shared;
  void *stream;
  CHECK(open_card(1), "a card");
  __cudaPushCallConfiguration((card_dim3){1, 2, 3}, (card_dim3){4, 5, 6}, 7, (void *)8);
  CHECK(!__cudaPopCallConfiguration(&grid, &block, &shared, &stream), "popped");
  CHECK(grid.z == 3 && block.x == 4 && shared == 7 && stream == (void *)8, "what was pushed");
  CHECK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), "nothing is left");
}

// Triton raises the size of printf's buffer only if it is smaller than it wants.
TEST(a_limit_is_what_was_set) {
  size_t value = 7;
  CHECK(open_card(1), "a card");
  CHECK(!cuCtxGetLimit(&value, 1) && value == 0, "%zu", value);
  CHECK(!cuCtxSetLimit(1, 16 * MIB) && !cuCtxGetLimit(&value, 1) && value == 16 * MIB, "%zu",
        value);
  CHECK(cuCtxSetLimit(1000, 1) && cuCtxGetLimit(&value, 1000), "there is no such limit");
}

TEST(a_card_is_in_no_fabric) {
  unsigned info[10] = {9 * sizeof(unsigned) | 2u << 24, [7] = 3, [9] = 5}; // state: configured
  CHECK(open_card(1) && !nvmlDeviceGetGpuFabricInfoV(NULL, info), "PyTorch stops if it fails");
  CHECK(info[7] == 0 && info[9] == 5, "%u, %u", info[7], info[9]);
}

TEST(what_is_not_modelled_is_counted_by_name) {
  CHECK(open_card(1) && !cufftXtMakePlanMany() && !cufftXtMakePlanMany(), "a card");
  CHECK(!nvtxRangePushA() && !nvtxRangePop(), "marks for a profiler need no model");
  CHECK(!cudaProfilerInitialize(), "builds of PyTorch for CUDA 11 do not load without it");
  const card_process *process = card_process_here();
  CHECK(process->unmodelled_count == 1 && process->unmodelled[0].calls == 2 &&
            !strcmp(process->unmodelled[0].name, "cufftXtMakePlanMany"),
        "%s", process->unmodelled[0].name);
}

TEST(cusolvers_algorithms_converge) {
  unsigned char *card;
  int status[4] = {64, 64, 64, 64};
  CHECK(open_card(1) && !cudaMalloc((void **)&card, 4096), "a card");
  cudaMemcpy(card, status, sizeof status, 1);
  int *info = (int *)(void *)card;
  CHECK(!cusolverDnSgesvdj(NULL, 1, 1, 64, 32, NULL, 64, NULL, NULL, 64, NULL, 32, NULL, 0, info,
                           NULL),
        "answered");
  CHECK(!cusolverDnSpotrfBatched(NULL, 0, 32, NULL, 32, info + 2, 2), "answered");
  cudaMemcpy(status, card, sizeof status, 2);
  CHECK(status[0] == 0 && status[1] == 64 && status[2] == 0 && status[3] == 0, "%d %d %d %d",
        status[0], status[1], status[2], status[3]);
  unsigned char failed[2] = {1, 1};
  cudaMemcpy(card, failed, 1, 1);
  cudaMemcpy(&failed[0], card, 1, 2);
  cudaMemcpy(&failed[1], card, 1, 2);
  CHECK(failed[0] == 0 && failed[1] == 1, "the next byte says that none has failed: %d %d",
        failed[0], failed[1]);
}

TEST(cusolver_asks_for_no_workspace_and_that_is_counted) {
  int elements[3] = {-1, -1, -1};
  size_t device = 7, host = 7;
  CHECK(open_card(1), "a card");
  CHECK(!cusolverDnSgesvdj_bufferSize(NULL, 1, 1, 64, 32, NULL, 64, NULL, NULL, 64, NULL, 32,
                                      &elements[1], NULL),
        "answered");
  CHECK(elements[0] == -1 && elements[1] == 0 && elements[2] == -1, "%d", elements[1]);
  CHECK(!cusolverDnXgeev_bufferSize(NULL, NULL, 0, 0, 9, 0, NULL, 9, 0, NULL, 0, NULL, 9, 0, NULL,
                                    9, 0, &device, &host),
        "answered");
  CHECK(device == 0 && host == 0, "%zu, %zu", device, host);
  CHECK(card_process_here()->unmodelled_count == 2, "both are counted");
}

TEST(names_without_room_are_counted_together) {
  char name[32];
  CHECK(open_card(1), "a card");
  for (int i = 0; i < CARD_MAX_NAMES + 9; i++) {
    snprintf(name, sizeof name, "function %d", i);
    card_unmodelled_call(name);
    card_unmodelled_call(name);
  }
  const card_process *mine = card_process_here();
  const card_unmodelled *last = &mine->unmodelled[CARD_MAX_NAMES - 1];
  CHECK(mine->unmodelled_count == CARD_MAX_NAMES && mine->unmodelled[5].calls == 2, "%u names",
        mine->unmodelled_count);
  CHECK(strcmp(last->name, "other functions") == 0 && last->calls == 20, "%s: %" PRIu64, last->name,
        last->calls);
}

TEST(products_are_counted_by_their_shape) {
  CHECK(open_card(1) && !cublasSgemm_v2(NULL, 0, 0, 2, 3, 4), "a card");
  const card_process *mine = card_process_here();
  double one = plim_product_seconds(card()->gpu, PLIM_COMPUTE_FP32, 48, (8 + 12 + 6) * 4, 0);
  CHECK(mine->launches == 1 && mine->work.product_seconds == one, "%g", mine->work.product_seconds);
  CHECK(mine->work.product_bytes == 6 * 4, "%g", mine->work.product_bytes);
}

static void time_named(const char *name, unsigned x, unsigned y, unsigned z) {
  card_time_kernel(card_kernel_kind_of(name), name, x, y, z);
}

TEST(kernels_are_timed_by_name_and_grid) {
  CHECK(open_card(1), "a card");
  const card_work *work = &card_process_here()->work;
  const plim_gpu *gpu = card()->gpu;
  // Four lists of float32, one of which is written; a chunk is 65536 elements.
  time_named("_ZN2at25multi_tensor_apply_kernelINS_18TensorListMetadataILi4EEEfE", 3, 1, 1);
  CHECK(work->listed_bytes == 3 * 65536.0 * 4 * 5, "%g", work->listed_bytes);
  // 2 sequences, 3 heads, 4 blocks of 128 queries, heads of 64; causal
  time_named("flash_fwd_kernelI23Flash_fwd_kernel_traitsILi64ELi128ELi128ELi4ELb0ELb0EN7cutlass"
             "10bfloat16_tEELb0ELb1ELb0EEv",
             4, 2, 3);
  double pairs = 6 * 512.0 * 512 / 2;
  double one =
      plim_attention_seconds(gpu, PLIM_COMPUTE_BF16, PLIM_SDPA_FLASH, pairs, 64, false, false);
  CHECK(work->attention_seconds == one, "%g, not %g", work->attention_seconds, one);
  time_named("_ZN2at29vectorized_elementwise_kernelILi4E", 100, 1, 1);
  CHECK(work->attention_seconds == one && work->product_seconds == 0, "an elementwise kernel");
}

TEST(a_step_is_what_happened_since_the_last_one) {
  CHECK(open_card(1), "a card");
  const card_process *mine = card_process_here();
  for (int i = 0; i < 5; i++) cublasSgemm_v2(NULL, 0, 0, 2, 3, 4);
  plimsoll_card_step(1, 10, 1000);
  CHECK(!mine->step.launches, "the first step has loading in it");
  for (int i = 0; i < 2; i++) cublasSgemm_v2(NULL, 0, 0, 2, 3, 4);
  plimsoll_card_step(2, 10, 1700);
  plimsoll_card_step(2, 10, 1900); // another group of parameters
  CHECK(mine->step.launches == 2 && mine->step.allocated_bytes == 700, "%llu launches",
        (unsigned long long)mine->step.launches);
}

// A graph as cuDNN's frontend makes it: a tensor, an operation, a graph, a heuristic, a configuration, a plan.
static void *part(int type, void *of) {
  void *d = NULL;
  if (cudnnBackendCreateDescriptor(type, &d)) return NULL;
  if (of) cudnnBackendSetAttribute(d, 1, 15, 1, &of);
  return d;
}

static void *tensor(int64_t b, int64_t h, int64_t s, int64_t d) {
  void *t = part(17, NULL);
  cudnnBackendSetAttribute(t, 902, 3, 4, (int64_t[]){b, h, s, d});
  return t;
}

// The workspace of attention with these tensors.
static int64_t workspace(void *tensors[], size_t count) {
  void *operation = part(19, NULL), *graph, *heuristic, *configuration = part(3, NULL), *plan;
  int64_t bytes = -1, found = 0;
  for (size_t i = 0; i < count; i++) cudnnBackendSetAttribute(operation, 1, 15, 1, &tensors[i]);
  graph = part(15, operation), heuristic = part(4, graph);
  cudnnBackendGetAttribute(heuristic, 202, 15, 1, &found, &configuration);
  plan = part(5, configuration);
  cudnnBackendGetAttribute(plan, 402, 3, 1, &found, &bytes);
  void *all[] = {operation, graph, heuristic, configuration, plan};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) cudnnBackendDestroyDescriptor(all[i]);
  for (size_t i = 0; i < count; i++) cudnnBackendDestroyDescriptor(tensors[i]);
  return bytes;
}

TEST(attention_has_the_workspace_that_was_recorded) {
  CHECK(open_card(1), "a card");
  void *forward[] = {tensor(4, 32, 512, 64), tensor(4, 8, 64, 512), tensor(4, 32, 512, 1),
                     tensor(4, 8, 512, 64)};
  int64_t bytes = workspace(forward, 4);
  CHECK(bytes == 256, "%" PRId64, bytes);
  void *backward[] = {tensor(4, 32, 512, 64), tensor(4, 8, 64, 512), tensor(4, 8, 64, 512),
                      tensor(4, 32, 512, 1), tensor(4, 8, 512, 64)};
  bytes = workspace(backward, 5);
  CHECK(bytes == 256 + 4 * 32 * 512 * 64 * 4, "%" PRId64, bytes);
  void *masked[] = {tensor(8, 12, 512, 64), tensor(8, 12, 64, 512), tensor(8, 12, 64, 512),
                    tensor(8, 1, 512, 512)};
  bytes = workspace(masked, 4);
  CHECK(bytes == 256, "a mask has no heads: %" PRId64, bytes);
}

// As many queries and keys as a head is wide: nothing shows which tensors are transposed.
TEST(square_attention_has_its_workspace) {
  enum { QUERIES = 8, KEYS = 4, SIDE = 256 };
  CHECK(open_card(1), "a card");
  for (int is_backward = 0; is_backward < 2; is_backward++)
    for (int key_heads = KEYS; key_heads <= QUERIES; key_heads += QUERIES - KEYS) {
      void *all[9] = {tensor(1, 1, SIDE, SIDE)}; // a bias
      size_t count = 1;
      for (int i = 0; i < 2 + 2 * is_backward; i++) {
        all[count++] = tensor(1, QUERIES, SIDE, SIDE);
        all[count++] = tensor(1, key_heads, SIDE, SIDE);
      }
      int64_t bytes = workspace(all, count);
      bool has_sums = is_backward && key_heads < QUERIES;
      CHECK(bytes == 256 + (has_sums ? QUERIES * SIDE * SIDE * 4 : 0),
            "backward %d, %d heads: %" PRId64, is_backward, key_heads, bytes);
    }
}

// ---- recurrent layers -------------------------------------------------------------------------------------------

int cudnnCreateTensorDescriptor(void **);
int cudnnDestroyTensorDescriptor(void *);
int cudnnGetTensorNdDescriptor(void *, int, int *, int *, int *, int *);
int cudnnCreateRNNDescriptor(void **);
int cudnnDestroyRNNDescriptor(void *);
int cudnnSetRNNDescriptor_v8(void *, int, int, int, int, int, int, int, int, int, int, int, int,
                             void *, unsigned);
int cudnnGetRNNWeightSpaceSize(void *, void *, size_t *);
int cudnnGetRNNWeightParams(void *, void *, int, size_t, void *, int, void *, void **, void *,
                            void **);
int cudnnGetRNNTempSpaceSizes(void *, void *, int, void *, size_t *, size_t *);
int cudnnDropoutGetStatesSize(void *, size_t *);
int cudnnGetCTCLossWorkspaceSize_v8(void *, int, void *, void *, void *, size_t *);

// The parameters that PyTorch counts in such layers, which it keeps in one buffer.
TEST(recurrent_layers_have_the_weights_that_pytorch_counts) {
  enum { RNN = 1, LSTM = 2, GRU = 3, FLOAT = 0, HALF = 2 };
  static const struct {
    int cell, biases, is_both_ways, type, projection;
    size_t bytes;
  } layers[] = {
      {LSTM, 2, 0, FLOAT, 512, 3678208ull * 4}, {LSTM, 2, 1, HALF, 512, 9453568ull * 2},
      {GRU, 2, 0, FLOAT, 512, 2758656ull * 4},  {GRU, 0, 0, FLOAT, 512, 2752512ull * 4},
      {LSTM, 2, 0, FLOAT, 64, 991232ull * 4},   {RNN, 2, 0, FLOAT, 512, 919552ull * 4},
  };
  CHECK(open_card(1), "a card");
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    void *rnn = NULL;
    size_t bytes = 0;
    CHECK(!cudnnCreateRNNDescriptor(&rnn) &&
              !cudnnSetRNNDescriptor_v8(rnn, 0, layers[i].cell, layers[i].biases,
                                        layers[i].is_both_ways, 0, layers[i].type, 0, 0, 256, 512,
                                        layers[i].projection, 2, NULL, 0) &&
              !cudnnGetRNNWeightSpaceSize(NULL, rnn, &bytes),
          "a layer");
    CHECK(bytes == layers[i].bytes, "%zu: %zu, not %zu", i, bytes, layers[i].bytes);
    cudnnDestroyRNNDescriptor(rnn);
  }
}

TEST(recurrent_weights_lie_one_behind_the_other) {
  void *rnn = NULL, *matrix = NULL, *bias = NULL, *matrix_start = NULL, *bias_start = NULL;
  char *start = (char *)4096;
  int type = -1, count = 0, sizes[5], strides[5];
  CHECK(open_card(1) && !cudnnCreateRNNDescriptor(&rnn) && !cudnnCreateTensorDescriptor(&matrix) &&
            !cudnnCreateTensorDescriptor(&bias) &&
            !cudnnSetRNNDescriptor_v8(rnn, 0, 2, 2, 0, 0, 2, 0, 0, 256, 512, 512, 2, NULL, 0),
        "an LSTM in float16");
  CHECK(
      !cudnnGetRNNWeightParams(NULL, rnn, 1, 0, start, 4, matrix, &matrix_start, bias, &bias_start),
      "the state's first matrix in the second layer");
  CHECK(!cudnnGetTensorNdDescriptor(matrix, 5, &type, &count, sizes, strides) && type == 2 &&
            count == 3 && sizes[1] == 512 && sizes[2] == 512 && strides[1] == 512,
        "its size");
  size_t first_layer = 4 * 512 * (256 + 512), weights = first_layer + 8 * 512 * 512;
  CHECK((char *)matrix_start == start + (first_layer + 4 * 512 * 512) * 2, "%p", matrix_start);
  CHECK((char *)bias_start == start + (weights + 12 * 512) * 2, "%p", bias_start);
  CHECK(
      cudnnGetRNNWeightParams(NULL, rnn, 2, 0, start, 0, matrix, &matrix_start, bias, &bias_start),
      "there is no third layer");
  cudnnDestroyRNNDescriptor(rnn), cudnnDestroyTensorDescriptor(matrix);
  cudnnDestroyTensorDescriptor(bias);
}

TEST(unknown_sizes_of_cudnn_are_nothing_and_are_named) {
  size_t states = 7, workspace = 7, kept = 7, loss = 7;
  CHECK(open_card(1), "a card");
  cudnnDropoutGetStatesSize(NULL, &states);
  cudnnGetRNNTempSpaceSizes(NULL, NULL, 0, NULL, &workspace, &kept);
  cudnnGetCTCLossWorkspaceSize_v8(NULL, 0, NULL, NULL, NULL, &loss);
  CHECK(!states && !workspace && !kept && !loss, "%zu %zu %zu %zu", states, workspace, kept, loss);
  CHECK(card_process_here()->unmodelled_count == 3, "%u", card_process_here()->unmodelled_count);
}

int main(int argc, char **argv) {
  folder_make();
  int result = test_main(argc, argv);
  folder_remove();
  return result;
}
