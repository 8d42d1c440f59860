// Detects that an apply or undo in the current folder was interrupted, for commands that change nothing.
#ifndef PLIM_CLI_INTERRUPTED_H
#define PLIM_CLI_INTERRUPTED_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  char what[320]; // "apply was interrupted: a.yaml is new, b.sh is still old"
  char fix[96];   // what to type
  bool is_mixed;  // some files have new contents, some old
} interrupted;

// Returns false if nothing was interrupted.
bool interrupted_find(interrupted *out);

#endif
