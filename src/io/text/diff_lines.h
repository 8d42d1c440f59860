// Finds the lines that differ between two texts, with Myers' greedy algorithm.
#ifndef PLIM_IO_DIFF_LINES_H
#define PLIM_IO_DIFF_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const char *text; // borrowed; with its \n if it has one
  size_t size;
  uint64_t hash;
  bool differs; // only this text has the line
} plim_diff_line;

typedef struct {
  plim_diff_line *at;
  size_t len;
} plim_diff_text;

// Splits a text into lines. Returns false when out of memory. The caller frees `at`.
bool plim_diff_cut(const char *text, size_t size, plim_diff_text *out);

// Sets `differs` on the lines of both texts; all other lines are equal and in the same order. Returns false when out of
// memory.
bool plim_diff_compare(plim_diff_text *before, plim_diff_text *after);

#endif
