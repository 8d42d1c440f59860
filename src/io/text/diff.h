// Writes unified diffs that `git apply` and `patch -p1` accept.
//
//   plim_diff diff = {0};
//   err = plim_diff_add(&diff, "conf/train.yaml", old, old_size, new, new_size, &error); // each file
//   fwrite(diff.at, 1, diff.len, stdout);
//   plim_diff_clear(&diff);
#ifndef PLIM_IO_DIFF_H
#define PLIM_IO_DIFF_H

#include "plimsoll.h"

// The bytes of the diff, without a terminating 0 byte: lines are copied unchanged, whatever they contain. A vec (vec.h).
typedef struct {
  char *at;
  size_t len, cap;
} plim_diff;

// Adds the changes of one file. `path` is relative to the folder where the diff will be applied. `before` is NULL if
// the file does not exist yet, `after` is NULL if the file is deleted. Equal texts add nothing. Lines end with \n; a
// \r before it is part of the line. The diff is the shortest possible one unless more than a thousand lines differ.
// The only possible error is out of memory; then nothing is added.
plim_err plim_diff_add(plim_diff *diff, const char *path, const char *before, size_t before_size,
                       const char *after, size_t after_size, plim_error *error);

void plim_diff_clear(plim_diff *diff);

#endif
