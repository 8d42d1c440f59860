// A disk on which the N-th call fails, or during which the process ends or the power is cut.
#ifndef PLIM_TESTS_FAULT_DISK_H
#define PLIM_TESTS_FAULT_DISK_H

#include "disk.h"

typedef enum {
  FAULT_NONE,
  FAULT_FAIL,       // the call fails with `number`
  FAULT_FAIL_ON,    // the call and all after it fail
  FAULT_SHORT,      // a write writes only some of the bytes; other calls work
  FAULT_DIE_BEFORE, // the process ends before the call
  FAULT_DIE_WITHIN, // the process ends in the middle of a write, or right after any other call
  FAULT_KINDS
} fault_kind;

// What is lost in a power cut: everything that was not synced in...
typedef enum {
  CUT_NOTHING, // only the process ended
  CUT_PROJECT, // ...folders called .plimsoll
  CUT_FILES,   // ...all other folders
  CUT_BOTH
} fault_cut;

typedef struct {
  fault_kind kind;
  int at; // the call, counted from 0
  int number;
  fault_cut cut;
  uint64_t seed; // 0: everything unsynced is lost; else each part at random
} fault;

#define FAULT_EXIT 77 // exit code of a process that dies

extern const plim_disk fault_disk;

// Restarts the count. `shadow` is a folder on the same disk, for links to files that a power cut brings back.
void fault_set(fault f, const char *shadow);
bool fault_struck(void); // whether the call was reached
const char *fault_call(void);

#endif
