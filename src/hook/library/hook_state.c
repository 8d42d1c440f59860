#include "hook_state.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hook_functions.h"
#include "hook_spill.h"

static hook_record *record; // NULL: the library does nothing
static hook_process nobody; // stands for a process that found no room in the record
static hook_process *process;
static uint64_t cap_bytes, spill_most_bytes, spilled_bytes;
static uint64_t spare_bytes;  // of the card, which what is cold leaves free
static bool has_host_refused; // memory: more of it is not to be expected
// By the program's number of a device: the record's, plus 1; 0: not known yet.
static uint32_t known_devices[HOOK_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int32_t thread; // 0: not asked yet

static uint64_t load(const uint64_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
static uint64_t add(uint64_t *to, int64_t bytes) {
  return __atomic_add_fetch(to, (uint64_t)bytes, __ATOMIC_ACQ_REL);
}

static void raise_to(uint64_t *peak, uint64_t value) {
  uint64_t was = load(peak);
  while (was < value && !__atomic_compare_exchange_n(peak, &was, value, false, __ATOMIC_ACQ_REL,
                                                     __ATOMIC_ACQUIRE)) {}
}

// ---- start, fork, end ---------------------------------------------------------------------------

static uint64_t bytes_of(const char *text) {
  char *end;
  unsigned long long bytes = text && *text ? strtoull(text, &end, 10) : 0;
  return bytes && *end == 0 ? bytes : 0;
}

// A forked process has nothing of its own on the card, and cannot use its parent's context.
static void after_fork(void) {
  pthread_mutex_init(&lock, NULL);
  hook_table_clear();
  hook_spill_forget();
  __atomic_store_n(&process, NULL, __ATOMIC_RELEASE);
  nobody = (hook_process){0};
  spilled_bytes = spare_bytes = 0;
  has_host_refused = false;
  thread = 0;
}

// False if a library that was loaded before this one has the driver's functions, such as a simulated card: its functions are
// called, and ours would look for a driver behind them in vain.
static bool is_in_front(void) {
  Dl_info ours, first;
  return dladdr((void *)hook_start, &ours) && dladdr((void *)cuMemAlloc_v2, &first) &&
         ours.dli_fbase == first.dli_fbase;
}

bool hook_start(const char *path, const char *cap, const char *spill) {
  static bool is_told_of_forks;
  hook_record_unmap(record);
  memset(known_devices, 0, sizeof known_devices);
  record = path && *path && is_in_front() ? hook_record_map(path) : NULL;
  after_fork();
  cap_bytes = bytes_of(cap);
  spill_most_bytes = bytes_of(spill);
  if (record && !is_told_of_forks) is_told_of_forks = !pthread_atfork(NULL, NULL, after_fork);
  return record;
}

__attribute__((constructor)) static void start(void) {
  hook_start(getenv("PLIMSOLL_HOOK"), getenv("PLIMSOLL_HOOK_CAP"), getenv("PLIMSOLL_HOOK_SPILL"));
}

__attribute__((destructor)) static void end(void) {
  hook_process *mine = __atomic_load_n(&process, __ATOMIC_ACQUIRE);
  if (mine && mine->pid == getpid()) __atomic_store_n(&mine->has_ended, 1, __ATOMIC_RELEASE);
}

bool hook_is_on(void) { return record; }
uint64_t hook_cap(void) { return record ? cap_bytes : 0; }
void hook_lock(void) { pthread_mutex_lock(&lock); }
void hook_unlock(void) { pthread_mutex_unlock(&lock); }

// Most programs of a run (shells, tools, workers that load data) never use the card and need no slot.
static hook_process *process_here(void) {
  hook_process *mine = __atomic_load_n(&process, __ATOMIC_ACQUIRE);
  if (mine) return mine;
  hook_lock();
  if (!process) {
    mine = hook_record_process(record);
    __atomic_store_n(&process, mine ? mine : &nobody, __ATOMIC_RELEASE);
  }
  hook_unlock();
  return process;
}

// ---- devices ------------------------------------------------------------------------------------

static bool ask_uuid(int ordinal, uint8_t uuid[16]) {
  hook_type_cuDeviceGetUuid *ask = REAL(cuDeviceGetUuid_v2);
  if (!ask) ask = REAL(cuDeviceGetUuid);
  return ask && ask(uuid, ordinal) == CU_OK;
}

bool hook_device_of(int ordinal, uint32_t *device) {
  if (!record || ordinal < 0 || ordinal >= HOOK_MAX_DEVICES) return false;
  uint32_t known = __atomic_load_n(&known_devices[ordinal], __ATOMIC_ACQUIRE);
  if (!known) {
    uint8_t uuid[16] = {0};
    size_t total = 0;
    if (!ask_uuid(ordinal, uuid)) uuid[15] = (uint8_t)ordinal; // an old driver
    hook_type_cuDeviceTotalMem_v2 *ask = REAL(cuDeviceTotalMem_v2);
    if (!ask || ask(&total, ordinal) != CU_OK) return false;
    known = hook_record_device(record, uuid, total) + 1;
    __atomic_store_n(&known_devices[ordinal], known, __ATOMIC_RELEASE);
  }
  *device = known - 1;
  return *device < HOOK_MAX_DEVICES;
}

bool hook_device_here(uint32_t *device) {
  int ordinal;
  hook_type_cuCtxGetDevice *ask = record ? REAL(cuCtxGetDevice) : NULL;
  return ask && ask(&ordinal) == CU_OK && hook_device_of(ordinal, device);
}

int hook_ordinal_of(uint32_t device) {
  for (int i = 0; i < HOOK_MAX_DEVICES; i++)
    if (known_devices[i] == device + 1) return i;
  return 0;
}

// ---- counting -----------------------------------------------------------------------------------

uint64_t hook_used(uint32_t device) {
  return hook_record_used(record, device) + load(&nobody.devices[device].current_bytes);
}

static bool has_room_to_spill(uint64_t bytes) {
  uint64_t spilled = load(&spilled_bytes);
  return !__atomic_load_n(&has_host_refused, __ATOMIC_ACQUIRE) && spilled <= spill_most_bytes &&
         bytes <= spill_most_bytes - spilled;
}

// Whether the driver has so much, and something to spare; true if it does not say.
static bool has_driver(uint32_t device, uint64_t bytes, uint64_t spare) {
  size_t left, total;
  uint32_t here;
  hook_type_cuMemGetInfo_v2 *ask = REAL(cuMemGetInfo_v2);
  if (!ask || !hook_device_here(&here) || here != device) return true;
  return ask(&left, &total) != CU_OK || (left >= spare && left - spare >= bytes);
}

bool hook_count(uint32_t device, uint64_t bytes) {
  process_here(); // which takes the lock
  bool is_cold = hook_phase_now() == HOOK_PHASE_COLD && has_room_to_spill(bytes);
  uint64_t spare = is_cold ? load(&spare_bytes) : 0;
  if (spare && !has_driver(device, bytes, spare)) return false;
  hook_lock();
  uint64_t used = cap_bytes ? hook_used(device) : 0, room = used < cap_bytes ? cap_bytes - used : 0;
  bool fits = !cap_bytes || (bytes <= room && spare <= room - bytes);
  if (fits) hook_count_more(device, bytes);
  hook_unlock();
  return fits;
}

void hook_uncount(uint32_t device, uint64_t bytes) {
  add(&process_here()->devices[device].current_bytes, -(int64_t)bytes);
}

void hook_count_more(uint32_t device, uint64_t bytes) {
  add(&process_here()->devices[device].current_bytes, (int64_t)bytes);
}

void hook_count_peak(uint32_t device) {
  hook_holding *mine = &process_here()->devices[device];
  raise_to(&mine->peak_bytes, load(&mine->current_bytes));
}

bool hook_count_spill(uint32_t device, uint64_t bytes) {
  hook_holding *mine = &process_here()->devices[device];
  hook_lock();
  bool fits = has_room_to_spill(bytes);
  if (fits) {
    add(&spilled_bytes, (int64_t)bytes);
    add(&mine->spills, 1);
    raise_to(&mine->peak_spilled_bytes, add(&mine->spilled_bytes, (int64_t)bytes));
  }
  hook_unlock();
  return fits;
}

void hook_uncount_spill(uint32_t device, uint64_t bytes) {
  add(&spilled_bytes, -(int64_t)bytes);
  add(&process_here()->devices[device].spilled_bytes, -(int64_t)bytes);
}

void hook_host_refused(void) { __atomic_store_n(&has_host_refused, true, __ATOMIC_RELEASE); }

void hook_count_managed(uint32_t device, int64_t bytes) {
  add(&process_here()->devices[device].managed_bytes, bytes);
}

void hook_count_refusal(uint32_t device, uint64_t bytes) {
  hook_holding *mine = &process_here()->devices[device];
  add(&mine->refusals, 1);
  raise_to(&mine->largest_refused_bytes, bytes);
  hook_event_now(HOOK_EVENT_REFUSED, device, 0, bytes);
}

bool hook_has_spilled(void) { return record && load(&spilled_bytes) != 0; }

// ---- events and phases --------------------------------------------------------------------------

void hook_event_now(hook_event_kind kind, uint32_t device, uint64_t address, uint64_t bytes) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (!thread) thread = (int32_t)syscall(SYS_gettid);
  hook_event event = {.time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
                      .address = address,
                      .bytes = bytes,
                      .pid = getpid(),
                      .thread = thread,
                      .device = device,
                      .kind = kind};
  hook_record_write(record, &event);
}

hook_phase hook_phase_now(void) {
  hook_process *mine = __atomic_load_n(&process, __ATOMIC_ACQUIRE);
  return mine ? (hook_phase)load(&mine->phase) : HOOK_PHASE_OTHER;
}

void plimsoll_hook_phase(int phase, uint64_t spare) {
  if (!record) return;
  __atomic_store_n(&spare_bytes, spare, __ATOMIC_RELEASE);
  __atomic_store_n(&process_here()->phase, (uint64_t)phase, __ATOMIC_RELEASE);
  hook_event_now(HOOK_EVENT_PHASE, 0, spare, (uint64_t)phase);
}
