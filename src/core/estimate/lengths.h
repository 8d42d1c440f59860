// The numbers of tokens of a data set's samples: which batches occur.
#ifndef PLIM_CORE_LENGTHS_H
#define PLIM_CORE_LENGTHS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int64_t *at; // in ascending order
  size_t count;
} plim_lengths;

// Sorts them.
void plim_lengths_sort(plim_lengths *l);

// The longest sample, if those longer than `most` are cut.
int64_t plim_lengths_longest(const plim_lengths *l, int64_t most);
// The mean over all samples, cut in the same way.
double plim_lengths_mean(const plim_lengths *l, int64_t most);
// The mean length of a batch of `batch` samples in random order, each padded to the longest of its batch.
double plim_lengths_padded(const plim_lengths *l, int64_t batch, int64_t most);

#endif
