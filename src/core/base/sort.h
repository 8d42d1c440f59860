// Sorts like qsort, but keeps the order of equal elements, which C libraries do in different ways or not at all. Nothing
// else in src/ sorts, so that answers are the same everywhere.
#ifndef PLIM_CORE_SORT_H
#define PLIM_CORE_SORT_H

#include <stddef.h>

// `at` may be NULL if `count` is 0.
void plim_sort(void *at, size_t count, size_t element_bytes,
               int (*order)(const void *a, const void *b));

#endif
