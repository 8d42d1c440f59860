#include "lengths.h"

#include <stdlib.h>

#include "sort.h"

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

void plim_lengths_sort(plim_lengths *l) { plim_sort(l->at, l->count, sizeof *l->at, compare); }

static int64_t cut(int64_t length, int64_t most) { return length < most ? length : most; }

int64_t plim_lengths_longest(const plim_lengths *l, int64_t most) {
  return cut(l->at[l->count - 1], most);
}

double plim_lengths_mean(const plim_lengths *l, int64_t most) {
  double sum = 0;
  for (size_t i = 0; i < l->count; i++) sum += (double)cut(l->at[i], most);
  return sum / (double)l->count;
}

// Of n samples, the k-th shortest is the longest of a batch of b with the probability C(k-1, b-1) / C(n, b). Going down from
// k = n, where it is b / n, each is the one above times (k - b) / (k - 1).
double plim_lengths_padded(const plim_lengths *l, int64_t batch, int64_t most) {
  size_t n = l->count;
  if ((uint64_t)batch >= n) return (double)plim_lengths_longest(l, most);
  double probability = (double)batch / (double)n, mean = 0;
  for (size_t k = n; k >= (size_t)batch; k--) {
    mean += probability * (double)cut(l->at[k - 1], most);
    if (k > 1) probability *= (double)(k - (size_t)batch) / (double)(k - 1);
  }
  return mean;
}
