// Unified diffs, as `git apply` and `patch -p1` take them.
//
//   plim_diff diff = {0};
//   err = plim_diff_add(&diff, "conf/train.yaml", old, old_size, new, new_size, &error); // each file
//   fwrite(diff.at, 1, diff.len, stdout);
//   plim_diff_clear(&diff);
#ifndef PLIM_IO_DIFF_H
#define PLIM_IO_DIFF_H

#include "plimsoll.h"

// Bytes not followed by a 0 byte: lines are kept as they are, whatever is in them. A vec of core.
typedef struct {
  char *at;
  size_t len, cap;
} plim_diff;

// Adds what changes one file. `path` is relative to where the diff will be applied. A NULL `before` is
// a file that does not exist yet, a NULL `after` one that goes away. Equal texts add nothing. Lines end
// with \n; a \r before it is part of the line. The diff is the shortest there is unless more than a
// thousand lines differ. The only error is out of memory, and it adds nothing then.
plim_err plim_diff_add(plim_diff *diff, const char *path, const char *before, size_t before_size,
                       const char *after, size_t after_size, plim_error *error);

void plim_diff_clear(plim_diff *diff);

#endif
