// Processes of this machine. As in machine.h, everything is read below `root`.
#ifndef PLIM_SYSTEM_PROCESS_H
#define PLIM_SYSTEM_PROCESS_H

#include "plimsoll.h"

typedef struct {
  char name[96]; // the program, and for an interpreter its script: "python3 train.py"
  char user[40]; // its owner's name, or number if there is no name; empty: unknown
} plim_process;

// A process that the driver names. False if it is not visible from here: in a container the driver's numbers are the
// host's, where the same number may be another process.
bool plim_process_read(const char *root, unsigned pid, plim_process *out);

// Whether a process runs that was there at this time (Unix seconds; negative: at any time). A later process with the
// same number is another one, and one that has ended but was not waited for does not run.
bool plim_process_runs(const char *root, unsigned pid, double at_seconds);

#endif
