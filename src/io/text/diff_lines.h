// Which lines differ between two texts: Myers' greedy algorithm.
#ifndef PLIM_IO_DIFF_LINES_H
#define PLIM_IO_DIFF_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const char *text; // borrowed; with its \n if it has one
  size_t size;
  uint64_t hash;
  bool differs; // only this side has it
} plim_diff_line;

typedef struct {
  plim_diff_line *at;
  size_t len;
} plim_diff_text;

// Cuts a text into lines; false when out of memory. Free `at`.
bool plim_diff_cut(const char *text, size_t size, plim_diff_text *out);

// Sets `differs` on the lines of both sides; what is left is the same on both, in the same order.
// False when out of memory.
bool plim_diff_compare(plim_diff_text *before, plim_diff_text *after);

#endif
