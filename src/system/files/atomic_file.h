// Writes a file completely or not at all: into a temporary file in the same folder, then renamed.
//
//   plim_atomic_file file;
//   plim_err err = plim_atomic_open(&file, "timeline.svg", &error);
//   if (err) return err;
//   fprintf(file.out, ...);
//   return plim_atomic_commit(&file, &error); // or plim_atomic_abort(&file)
#ifndef PLIM_SYSTEM_ATOMIC_FILE_H
#define PLIM_SYSTEM_ATOMIC_FILE_H

#include <stdio.h>

#include "plimsoll.h"

typedef struct {
  FILE *out;       // write here; errors stay with the stream until commit
  char *path;      // the final path, symbolic links resolved
  char *temporary; // the path until commit; NULL for pipes and devices, which are written directly
} plim_atomic_file;

// Starts a new version of the file at `path`. An existing file keeps its permissions, and the file
// a symbolic link points to is replaced, not the link.
plim_err plim_atomic_open(plim_atomic_file *file, const char *path, plim_error *error);

// Writes everything to the disk and puts it in place. On failure (also of an earlier write) what
// was at the path is still there, unchanged. Either way the file is closed.
plim_err plim_atomic_commit(plim_atomic_file *file, plim_error *error);

// Closes and removes what was written. May be called after a failed open.
void plim_atomic_abort(plim_atomic_file *file);

#endif
