// Reads the snapshots under tests/truth, each with torch's own counters in a .json file next to it.
#ifndef PLIM_TESTS_TRUTH_H
#define PLIM_TESTS_TRUTH_H

#include "replay.h"
#include "snapshot.h"

typedef struct {
  char name[96]; // "allocator/cap2"
  char path[512];
  // From the .json file; PLIM_UNKNOWN if it has no such key.
  uint64_t limit_bytes, peak_allocated_bytes, peak_reserved_bytes, retries, ooms;
} truth_file;

typedef vec(truth_file) truth_files;

// Every snapshot of the given folders of tests/truth, by name. Ends the program on failure.
truth_files truth_list(const char *const *folders, size_t count);

// The text of a truth .json ("families/llama-bf16"); valid until the next call. NULL if missing.
const char *truth_json(const char *name);

// The number after "key": in a truth .json; NaN if it is missing or null.
double truth_number(const char *json, const char *key);

// Reads and links a snapshot; false with a printed message on failure.
bool truth_load(const truth_file *file, plim_trace *trace);

#endif
