// Mistakes that a memory snapshot of PyTorch shows, as sentences with the lines of the program: models that are in memory more
// than once, and memory that every step leaves behind. `run` asks for them while the program runs; the snapshots are written
// by src/card/python/plimsoll_history.py.
//
//   findings found;
//   plim_err err = findings_of_duplicates("123.first.pickle", &found, &error);
//   for (size_t i = 0; !err && i < found.list.len; i++) ... found.list.at[i].message ...
//   findings_clear(&found);
#ifndef PLIM_APP_FINDINGS_H
#define PLIM_APP_FINDINGS_H

#include "trace_analysis.h"

// A line of the program and what it allocated.
typedef struct {
  char *name; // "train.py:31 (main)"; safe to print; owned
  uint64_t bytes;
} findings_line;

typedef struct {
  char *message; // one sentence without a full stop; owned
  // Duplicates: what keeping one of the smallest copies would free. Leaks: what each step leaves behind.
  uint64_t bytes;
  // Duplicates: the line that made each copy, in the order of allocation. Leaks: the line that allocates, and if that is a
  // library's, the program's line that called it; bytes are those alive at the end.
  vec(findings_line) lines;
} finding;

typedef struct {
  vec(finding) list;
  size_t steps; // training steps in the snapshot
} findings;

// Fewer steps than this prove no leak: findings_of_leaks then finds none, and nothing is known.
enum { FINDINGS_LEAK_STEPS = 6 };

// Reads the snapshot of the device with the most entries. If it cannot be read, *out is empty and needs no clearing.
plim_err findings_of_duplicates(const char *snapshot, findings *out, plim_error *error);
plim_err findings_of_leaks(const char *snapshot, findings *out, plim_error *error);
void findings_clear(findings *found); // NULL is fine

// "290 tensors are in memory twice (one copy is twice as large, probably float32); keeping ..."
void findings_duplicate_text(const plim_duplicate *duplicate, char *text, size_t size);

#endif
