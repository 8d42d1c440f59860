#include "card.h"

#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static card_record *record; // NULL: there is no card
static card_process
    nobody; // used by a process that has no record: it did not use the card yet, or there was no room
static card_process *process = &nobody;
static bool found_no_room;
static pthread_mutex_t slots = PTHREAD_MUTEX_INITIALIZER;
static card_description description;
static char folder[4096];
static int visible[CARD_MAX_DEVICES], visible_count; // the record's devices that the program sees
static bool has_visible;                             // they were looked for

// ---- the description ----------------------------------------------------------------------------

// What the architectures have, from the table "Technical Specifications per Compute Capability" of the CUDA programming
// guide. L2 and bus width are those of the largest common card; no known decision about memory depends on them.
static const struct {
  int capability, threads, blocks, shared_kib, l2_mib, bus_bits;
} architectures[] = {
    {60, 2048, 32, 64, 4, 4096},   {61, 2048, 32, 96, 3, 352},    {70, 2048, 32, 96, 6, 4096},
    {75, 1024, 16, 64, 6, 384},    {80, 2048, 32, 164, 40, 5120}, {86, 1536, 16, 100, 6, 384},
    {89, 1536, 24, 100, 72, 384},  {90, 2048, 32, 228, 60, 6144}, {100, 2048, 32, 228, 126, 8192},
    {120, 1536, 24, 100, 96, 512},
};

static void describe(const plim_gpu *gpu) {
  size_t best = 0;
  for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
    if (architectures[i].capability <= gpu->capability) best = i;
  static char name[128];
  bool has_maker = strncmp(gpu->name, "NVIDIA", 6) == 0;
  snprintf(name, sizeof name, "%s%s", has_maker ? "" : "NVIDIA ", gpu->name);
  description = (card_description){
      .gpu = gpu,
      .name = name,
      .total_bytes = record->total_bytes,
      .major = gpu->capability / 10,
      .minor = gpu->capability % 10,
      .multiprocessors = gpu->multiprocessors,
      .threads_per_multiprocessor = architectures[best].threads,
      .blocks_per_multiprocessor = architectures[best].blocks,
      .shared_per_multiprocessor = architectures[best].shared_kib << 10,
      .shared_per_block_optin =
          gpu->capability < 70 ? 48 << 10 : (architectures[best].shared_kib - 1) << 10,
      .l2_bytes = architectures[best].l2_mib << 20,
      .bus_bits = architectures[best].bus_bits,
  };
}

// ---- the process ----------------------------------------------------------------------------------

// What this process held before it was replaced by exec is gone.
static void end_earlier_programs(uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (record->processes[i].pid == getpid()) record->processes[i].has_ended = 1;
}

static void take_slot(void) {
  uint32_t slot = __atomic_fetch_add(&record->process_count, 1, __ATOMIC_SEQ_CST);
  end_earlier_programs(slot < CARD_MAX_PROCESSES ? slot : CARD_MAX_PROCESSES);
  if (slot < CARD_MAX_PROCESSES) {
    card_process *mine = &record->processes[slot]; // zeros, as nobody had it before
    mine->pid = getpid();
    __atomic_store_n(&process, mine, __ATOMIC_RELEASE);
  } else found_no_room = true;
}

// Most programs of a run (shells, tools, workers that load data) never use the card and need no slot.
card_process *card_process_here(void) {
  card_process *mine = __atomic_load_n(&process, __ATOMIC_ACQUIRE);
  if (mine != &nobody || !record || found_no_room) return mine;
  pthread_mutex_lock(&slots);
  if (process == &nobody && !found_no_room) take_slot();
  pthread_mutex_unlock(&slots);
  return process;
}

bool card_has_room(void) { return card_process_here() != &nobody || !record; }

// A forked process starts without memory on the card. If its parent used the card, PyTorch in the child raises an error when
// it uses CUDA.
static void after_fork(void) {
  pthread_mutex_init(&slots, NULL);
  process = &nobody;
  found_no_room = has_visible = false;
  card_memory_after_fork();
}

// The program may change its working folder, so the path becomes an absolute one.
static void keep_folder(const char *path) {
  char *whole = realpath(path, NULL), *end = whole ? strrchr(whole, '/') : NULL;
  if (end) *end = 0;
  int length = end ? snprintf(folder, sizeof folder, "%s", whole) : -1;
  if (length < 0 || (size_t)length >= sizeof folder) folder[0] = 0;
  free(whole);
}

bool card_open(const char *path) {
  record = card_record_map(path);
  const plim_gpu *gpu = record ? plim_gpu_named(record->gpu) : NULL;
  if (!gpu) {
    card_record_unmap(record);
    record = NULL;
    return false;
  }
  describe(gpu);
  keep_folder(path);
  process = &nobody;
  found_no_room = has_visible = false;
  return true;
}

__attribute__((constructor)) static void start(void) {
  const char *path = getenv("PLIMSOLL_CARD");
  if (!path || !card_open(path)) return;
  pthread_atfork(NULL, NULL, after_fork);
}

__attribute__((destructor)) static void end(void) {
  if (process->pid == getpid()) process->has_ended = 1;
}

const card_description *card(void) { return &description; }

// ---- which devices the program sees ----------------------------------------------------------------

void card_uuid(int device, char *out, size_t size) {
  snprintf(out, size, "GPU-00000000-0000-0000-0000-%012x", (unsigned)device);
}

// The device of an entry of CUDA_VISIBLE_DEVICES: a number, or the first letters of one UUID alone. -1: there is none.
static int device_named(const char *entry, char **end, int count) {
  char uuid[64];
  int found = -1, matches = 0;
  if (strncmp(entry, "GPU-", 4) != 0) {
    long number = strtol(entry, end, 10);
    return *end != entry && number >= 0 && number < count ? (int)number : -1;
  }
  size_t length = strcspn(entry, ",");
  *end = (char *)entry + length;
  for (int i = 0; i < count; i++) {
    card_uuid(i, uuid, sizeof uuid);
    if (strncmp(uuid, entry, length) == 0) found = i, matches++;
  }
  return matches == 1 ? found : -1;
}

static bool is_among(const int *devices, int count, int device) {
  while (count > 0 && devices[count - 1] != device) count--;
  return count > 0;
}

// As the driver reads it: up to the first entry that is no device. With a device twice, the program sees none.
static int read_visible(int out[CARD_MAX_DEVICES]) {
  int count = record ? (int)record->device_count : 0, seen = 0;
  const char *list = getenv("CUDA_VISIBLE_DEVICES");
  for (int i = 0; i < count && !list; i++) out[seen++] = i;
  while (list && *list) {
    char *end;
    int device = device_named(list, &end, count);
    if (device < 0) break;
    if (is_among(out, seen, device)) return 0;
    out[seen++] = device;
    if (*end != ',') break;
    list = end + 1;
  }
  return seen;
}

// CUDA reads the variable once, when it is first used: what the program sets later has no effect.
int card_device_count(void) {
  if (__atomic_load_n(&has_visible, __ATOMIC_ACQUIRE)) return visible_count;
  pthread_mutex_lock(&slots);
  if (!has_visible) visible_count = read_visible(visible);
  __atomic_store_n(&has_visible, true, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&slots);
  return visible_count;
}

int card_physical(int number) {
  return number >= 0 && number < card_device_count() ? visible[number] : 0;
}

card_record *card_record_here(void) { return record; }
const char *card_folder(void) { return record && folder[0] ? folder : NULL; }

// ---- CUDA's version ---------------------------------------------------------------------------------

// The number behind "libcudart.so." among the libraries that an object needs; 0: it does not need it.
static int needed_runtime(const ElfW(Dyn) * dynamic) {
  const char *names = NULL;
  for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++)
    if (d->d_tag == DT_STRTAB) names = (const char *)d->d_un.d_ptr;
  for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL && names; d++) {
    static const char runtime[] = "libcudart.so.";
    if (d->d_tag != DT_NEEDED) continue;
    const char *name = names + d->d_un.d_val;
    if (strncmp(name, runtime, sizeof runtime - 1) == 0) return atoi(name + sizeof runtime - 1);
  }
  return 0;
}

static int look_at_object(struct dl_phdr_info *object, size_t size, void *context) {
  (void)size;
  int *major = context;
  for (int i = 0; i < object->dlpi_phnum && !*major; i++)
    if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
      *major = needed_runtime((const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr));
  return *major != 0;
}

int card_cuda_version(void) {
  static int version; // several threads may find it at once: they find the same
  if (version) return version;
  int major = 0;
  dl_iterate_phdr(look_at_object, &major);
  if (!major) return 13000; // the program has not loaded its libraries yet
  version = major == 11 ? 11080 : major * 1000;
  return version;
}

// ---- devices, handles -------------------------------------------------------------------------------

static __thread int device;

int card_device(void) { return device; }

bool card_set_device(int number) {
  if (number < 0 || number >= card_device_count()) return false;
  device = number;
  return true;
}

static __thread int last_error;

int card_result(int code) {
  if (code) last_error = code;
  return code;
}

STAND_IN int cudaPeekAtLastError(void) { return last_error; }

STAND_IN int cudaGetLastError(void) {
  int code = last_error;
  last_error = CARD_OK;
  return code;
}

bool *card_is_hidden(void) {
  static __thread bool is_hidden;
  return &is_hidden;
}

void *card_handle(void) {
  static uintptr_t last = 0x1000;
  return (void *)__atomic_add_fetch(&last, 16, __ATOMIC_RELAXED);
}

void card_unmodelled_call(const char *name) {
  card_process *mine = card_process_here();
  pthread_mutex_lock(&slots);
  const uint32_t last = CARD_MAX_NAMES - 1; // for all that have no entry of their own
  uint32_t i = 0;
  while (i < mine->unmodelled_count && i < last && strcmp(mine->unmodelled[i].name, name) != 0) i++;
  card_unmodelled *entry = &mine->unmodelled[i];
  if (i == mine->unmodelled_count)
    snprintf(entry->name, sizeof entry->name, "%s", i < last ? name : "other functions");
  entry->calls++;
  if (i == mine->unmodelled_count) mine->unmodelled_count++;
  pthread_mutex_unlock(&slots);
}

static card_work work_between(const card_work *from, const card_work *to) {
  return (card_work){to->launches - from->launches,
                     to->product_seconds - from->product_seconds,
                     to->attention_seconds - from->attention_seconds,
                     to->product_bytes - from->product_bytes,
                     to->listed_bytes - from->listed_bytes,
                     to->allocated_bytes - from->allocated_bytes};
}

// `handed_out` is the sum of all allocations of the process.
STAND_IN void plimsoll_card_step(uint64_t steps, uint64_t allocated_bytes, uint64_t handed_out) {
  card_process *mine = card_process_here();
  if (steps > mine->steps) {
    mine->work.launches = mine->launches;
    mine->work.allocated_bytes = (double)handed_out;
    if (mine->steps) mine->step = work_between(&mine->at_step, &mine->work);
    mine->at_step = mine->work;
    mine->steps = steps;
    card_faults_leak();
    card_faults_look(0);
  }
  mine->steps = steps;
  mine->allocated_bytes = allocated_bytes;
}
