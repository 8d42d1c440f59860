#include "card_record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static card_record *map_file(int file) {
  void *at = mmap(NULL, sizeof(card_record), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? NULL : at;
}

plim_err card_record_create(const char *path, const char *gpu, uint32_t device_count,
                            uint64_t total_bytes, uint64_t context_bytes, plim_error *error) {
  if (device_count == 0 || device_count > CARD_MAX_DEVICES)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%u GPUs cannot be simulated, 1 to %d can",
                     device_count, CARD_MAX_DEVICES);
  int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return plim_fail(error, PLIM_ERR_IO, "%s: %s", path, strerror(errno));
  // Pages that nobody writes take no space.
  card_record *record = ftruncate(file, sizeof(card_record)) == 0 ? map_file(file) : NULL;
  int why = errno;
  close(file);
  if (!record) {
    unlink(path);
    return plim_fail(error, PLIM_ERR_IO, "%s: %s", path, strerror(why));
  }
  record->device_count = device_count;
  record->total_bytes = total_bytes;
  record->context_bytes = context_bytes;
  snprintf(record->gpu, sizeof record->gpu, "%s", gpu);
  memcpy(record->magic, CARD_MAGIC, sizeof record->magic);
  card_record_unmap(record);
  return PLIM_OK;
}

card_record *card_record_map(const char *path) {
  struct stat about;
  card_record *record = NULL;
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return NULL;
  if (fstat(file, &about) == 0 && about.st_size == sizeof(card_record)) record = map_file(file);
  close(file);
  if (!record) return NULL;
  record->gpu[sizeof record->gpu - 1] = 0;
  bool is_one = memcmp(record->magic, CARD_MAGIC, sizeof record->magic) == 0 &&
                record->device_count >= 1 && record->device_count <= CARD_MAX_DEVICES;
  if (is_one) return record;
  card_record_unmap(record);
  return NULL;
}

void card_record_unmap(card_record *record) {
  if (record) munmap(record, sizeof *record);
}

// A process that was killed has given its memory back, whether its parent has asked for its status or not.
static bool is_zombie(int pid) {
  char path[32], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  text[size > 0 ? size : 0] = 0;
  const char *name_end = strrchr(text, ')'); // "123 (name) S ..."
  return name_end && strncmp(name_end, ") Z", 3) == 0;
}

bool card_process_runs(const card_process *process) {
  int pid = process->pid;
  if (pid <= 0 || process->has_ended) return false;
  return pid == getpid() || (kill(pid, 0) == 0 ? !is_zombie(pid) : errno != ESRCH);
}

uint64_t card_record_others(const card_record *record) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < record->fault_count && i < CARD_MAX_FAULTS; i++) {
    const card_fault *f = &record->faults[i];
    bool is_there = __atomic_load_n(&f->has_begun, __ATOMIC_SEQ_CST);
    if (is_there && f->kind == CARD_FAULT_OTHER_PROCESS) bytes += f->amount;
  }
  return bytes;
}

uint64_t card_record_used(const card_record *record, int device) {
  uint64_t used = card_record_others(record);
  for (uint32_t i = 0; i < record->process_count && i < CARD_MAX_PROCESSES; i++) {
    const card_process *process = &record->processes[i];
    const card_holding *holding = &process->devices[device];
    if ((holding->context_bytes || holding->used_bytes) && card_process_runs(process))
      used += holding->context_bytes + holding->used_bytes;
  }
  return used;
}
