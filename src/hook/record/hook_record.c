#include "hook_record.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t load(const uint64_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
static void store(uint64_t *at, uint64_t value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }

// ---- the file -----------------------------------------------------------------------------------

static hook_record *map_file(int file) {
  void *at = mmap(NULL, sizeof(hook_record), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? NULL : at;
}

// Takes the space on the disk now: a program that writes to a page for which there is none later would be killed.
static int take_space(int file) { return posix_fallocate(file, 0, sizeof(hook_record)); }

plim_err hook_record_create(const char *path, plim_error *error) {
  int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return plim_fail(error, PLIM_ERR_IO, "%.200s: %s", path, strerror(errno));
  int why = take_space(file);
  hook_record *record = why ? NULL : map_file(file);
  if (!why && !record) why = errno;
  close(file);
  if (!record) {
    unlink(path);
    return plim_fail(error, PLIM_ERR_IO, "%.200s: %s", path, strerror(why));
  }
  memcpy(record->magic, HOOK_MAGIC, sizeof record->magic);
  hook_record_unmap(record);
  return PLIM_OK;
}

hook_record *hook_record_map(const char *path) {
  struct stat about;
  hook_record *record = NULL;
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return NULL;
  if (fstat(file, &about) == 0 && about.st_size == sizeof(hook_record)) record = map_file(file);
  close(file);
  if (!record || memcmp(record->magic, HOOK_MAGIC, sizeof record->magic) == 0) return record;
  hook_record_unmap(record);
  return NULL;
}

void hook_record_unmap(hook_record *record) {
  if (record) munmap(record, sizeof *record);
}

// ---- processes and devices ----------------------------------------------------------------------

bool hook_process_lives(const hook_process *process) {
  int32_t pid = __atomic_load_n(&process->pid, __ATOMIC_ACQUIRE);
  if (pid <= 0 || __atomic_load_n(&process->has_ended, __ATOMIC_ACQUIRE)) return false;
  return kill(pid, 0) == 0 || errno != ESRCH;
}

uint32_t hook_record_processes(const hook_record *record) {
  uint64_t count = load(&record->process_count);
  return count < HOOK_MAX_PROCESSES ? (uint32_t)count : HOOK_MAX_PROCESSES;
}

uint64_t hook_record_used(const hook_record *record, uint32_t device) {
  uint64_t used = 0;
  for (uint32_t i = 0; i < hook_record_processes(record); i++) {
    const hook_process *process = &record->processes[i];
    uint64_t bytes = load(&process->devices[device].current_bytes);
    if (bytes && hook_process_lives(process)) used += bytes;
  }
  return used;
}

// What this process held before it was replaced by exec is gone.
static void end_earlier_programs(hook_record *record, int32_t pid) {
  for (uint32_t i = 0; i < hook_record_processes(record); i++)
    if (__atomic_load_n(&record->processes[i].pid, __ATOMIC_ACQUIRE) == pid)
      __atomic_store_n(&record->processes[i].has_ended, 1, __ATOMIC_RELEASE);
}

hook_process *hook_record_process(hook_record *record) {
  int32_t pid = getpid();
  end_earlier_programs(record, pid);
  uint64_t slot = __atomic_fetch_add(&record->process_count, 1, __ATOMIC_ACQ_REL);
  if (slot >= HOOK_MAX_PROCESSES) return NULL;
  __atomic_store_n(&record->processes[slot].pid, pid, __ATOMIC_RELEASE);
  return &record->processes[slot];
}

// FNV-1a; never 0.
static uint64_t identity_of(const uint8_t uuid[16]) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int i = 0; i < 16; i++) hash = (hash ^ uuid[i]) * 0x100000001b3u;
  return hash ? hash : 1;
}

uint32_t hook_record_device(hook_record *record, const uint8_t uuid[16], uint64_t total_bytes) {
  uint64_t identity = identity_of(uuid);
  for (uint32_t i = 0; i < HOOK_MAX_DEVICES; i++) {
    hook_device *device = &record->devices[i];
    uint64_t was = 0;
    bool is_new = __atomic_compare_exchange_n(&device->identity, &was, identity, false,
                                              __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (!is_new && was != identity) continue;
    memcpy(device->uuid, uuid, sizeof device->uuid); // every process writes the same
    store(&device->total_bytes, total_bytes);
    return i;
  }
  return HOOK_MAX_DEVICES;
}

// ---- events -------------------------------------------------------------------------------------

static uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

static uint64_t check_of(const hook_slot *s) {
  uint64_t hash = mixed(mixed(mixed(1, s->number), s->time_ns), s->address);
  return mixed(mixed(mixed(hash, s->bytes), s->who), s->what);
}

void hook_record_write(hook_record *record, const hook_event *event) {
  hook_slot new = {
      .number = __atomic_add_fetch(&record->events, 1, __ATOMIC_ACQ_REL),
      .time_ns = event->time_ns,
      .address = event->address,
      .bytes = event->bytes,
      .who = (uint64_t)(uint32_t)event->pid << 32 | (uint32_t)event->thread,
      .what = (uint64_t)event->kind << 32 | event->device,
  };
  hook_slot *slot = &record->ring[(new.number - 1) % HOOK_RING];
  store(&slot->number, new.number);
  store(&slot->time_ns, new.time_ns);
  store(&slot->address, new.address);
  store(&slot->bytes, new.bytes);
  store(&slot->who, new.who);
  store(&slot->what, new.what);
  store(&slot->check, check_of(&new));
}

// False: the event is not there, or another one is being written in its place.
static bool read_slot(const hook_slot *slot, uint64_t number, hook_event *event) {
  hook_slot s = {.check = load(&slot->check)};
  s.number = load(&slot->number);
  s.time_ns = load(&slot->time_ns);
  s.address = load(&slot->address);
  s.bytes = load(&slot->bytes);
  s.who = load(&slot->who);
  s.what = load(&slot->what);
  uint32_t kind = (uint32_t)(s.what >> 32), device = (uint32_t)s.what;
  if (s.number != number || s.check != check_of(&s)) return false;
  if (kind == HOOK_EVENT_NONE || kind >= HOOK_EVENT_COUNT || device >= HOOK_MAX_DEVICES)
    return false;
  *event = (hook_event){s.time_ns,      s.address, s.bytes, (int32_t)(s.who >> 32),
                        (int32_t)s.who, device,    kind};
  return true;
}

// A writer may be at it just now, or was killed there.
static bool wait_for_slot(const hook_slot *slot, uint64_t number, hook_event *event) {
  enum { PATIENCE = 100 };
  for (int i = 0; i < PATIENCE; i++) {
    if (read_slot(slot, number, event)) return true;
    sched_yield();
  }
  return false;
}

size_t hook_record_read(const hook_record *record, uint64_t *next, uint64_t *lost,
                        hook_event *events, size_t most) {
  size_t read = 0;
  uint64_t end = load(&record->events);
  if (end > HOOK_RING && *next < end - HOOK_RING) {
    *lost += end - HOOK_RING - *next;
    *next = end - HOOK_RING;
  }
  for (; *next < end && read < most; ++*next) {
    const hook_slot *slot = &record->ring[*next % HOOK_RING];
    if (wait_for_slot(slot, *next + 1, &events[read])) read++;
    else ++*lost;
  }
  return read;
}
