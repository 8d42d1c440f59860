// This machine beside its cards: memory, what a container allows of it, shared memory, processes.
//
// Everything is read below `root`, which is "" for the machine itself; tests give a folder with files of
// the same names.
#ifndef PLIM_SYSTEM_MACHINE_H
#define PLIM_SYSTEM_MACHINE_H

#include "plimsoll.h"

// What the system does not say is PLIM_UNKNOWN.
typedef struct {
  uint64_t total_bytes, available_bytes; // of memory; available: without swapping
  uint64_t swap_total_bytes, swap_free_bytes;
  uint64_t limit_bytes;      // of the control group that leaves the least; PLIM_UNKNOWN: no limit
  uint64_t limit_used_bytes; // in it, without the cache that would give way
  uint64_t shm_total_bytes, shm_free_bytes; // /dev/shm
  uint64_t locked_bytes;                    // ulimit -l; PLIM_UNKNOWN: no limit
  bool is_container, is_wsl;
} plim_machine;

void plim_machine_read(const char *root, plim_machine *out);

// Memory that new processes can have: what is available, within the limit.
uint64_t plim_machine_room(const plim_machine *m);

// What a process calls itself; false if it cannot be seen from here.
bool plim_process_name(const char *root, unsigned pid, char *name, size_t size);

#endif
