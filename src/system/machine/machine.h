// Reads the state of this machine other than its cards: memory, container limits, shared memory, processes.
//
// Everything is read below `root`, which is "" for the machine itself; tests pass a folder with files of the
// same names.
#ifndef PLIM_SYSTEM_MACHINE_H
#define PLIM_SYSTEM_MACHINE_H

#include "plimsoll.h"

// Values that the system does not report are PLIM_UNKNOWN.
typedef struct {
  uint64_t total_bytes, available_bytes; // of memory; available: without swapping
  uint64_t swap_total_bytes, swap_free_bytes;
  uint64_t limit_bytes;      // of the control group with the least left; PLIM_UNKNOWN: no limit
  uint64_t limit_used_bytes; // used in that group, without reclaimable cache
  uint64_t
      oom_kills; // processes that the kernel killed in this process's control group since it was made
  uint64_t shm_total_bytes, shm_free_bytes; // /dev/shm
  uint64_t locked_bytes;                    // ulimit -l; PLIM_UNKNOWN: no limit
  bool is_container, is_wsl;
} plim_machine;

void plim_machine_read(const char *root, plim_machine *out);

// Memory that new processes can get: the available memory within the limit.
uint64_t plim_machine_room(const plim_machine *m);

// The name of a process; false if the process is not visible from here.
bool plim_process_name(const char *root, unsigned pid, char *name, size_t size);

#endif
