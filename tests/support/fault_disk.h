// A disk on which the N-th call fails, or at which the process or the power ends.
#ifndef PLIM_TESTS_FAULT_DISK_H
#define PLIM_TESTS_FAULT_DISK_H

#include "disk.h"

typedef enum {
  FAULT_NONE,
  FAULT_FAIL,       // the call fails with `number`
  FAULT_FAIL_ON,    // it and all after it
  FAULT_SHORT,      // a write takes a part of the bytes; other calls are as always
  FAULT_DIE_BEFORE, // the process ends; before the next call is after this one
  FAULT_DIE_WITHIN, // in the middle of a write; right after any other call
  FAULT_KINDS
} fault_kind;

// What a power cut takes with it: what was not synced in...
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
  uint64_t seed; // 0: all of it; else each part by a lot of its own
} fault;

#define FAULT_EXIT 77 // how a process ends that dies

extern const plim_disk fault_disk;

// Starts counting anew. `shadow` is a folder on the same disk, for links to what a power cut brings back.
void fault_set(fault f, const char *shadow);
bool fault_struck(void); // whether there were as many calls as that
const char *fault_call(void);

#endif
