#include "sort.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  size_t bytes; // of an element
  int (*order)(const void *a, const void *b);
  char *room; // for half of the elements, rounded up
} sorter;

// Merges the sorted halves of an array. The left one is copied away first.
static void merge(const sorter *s, char *at, size_t left, size_t count) {
  char *a = s->room, *a_end = a + left * s->bytes;
  char *b = at + left * s->bytes, *b_end = at + count * s->bytes;
  memcpy(a, at, left * s->bytes);
  for (char *out = at; a < a_end; out += s->bytes) {
    char **from = b < b_end && s->order(b, a) < 0 ? &b : &a;
    memcpy(out, *from, s->bytes);
    *from += s->bytes;
  }
}

static void sort(const sorter *s, char *at, size_t count) {
  if (count < 2) return;
  size_t left = count - count / 2;
  char *right = at + left * s->bytes;
  sort(s, at, left);
  sort(s, right, count - left);
  if (s->order(right - s->bytes, right) > 0) merge(s, at, left, count);
}

static void swap(char *a, char *b, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    char kept = a[i];
    a[i] = b[i];
    b[i] = kept;
  }
}

// Needs no memory, but quadratic time.
static void sort_in_place(const sorter *s, char *at, size_t count) {
  for (size_t i = 1; i < count; i++)
    for (char *b = at + i * s->bytes; b > at && s->order(b - s->bytes, b) > 0; b -= s->bytes)
      swap(b - s->bytes, b, s->bytes);
}

void plim_sort(void *at, size_t count, size_t element_bytes,
               int (*order)(const void *a, const void *b)) {
  max_align_t own[512 / sizeof(max_align_t)];
  size_t needed = (count - count / 2) * element_bytes;
  bool is_small = needed <= sizeof own;
  sorter s = {element_bytes, order, is_small ? (char *)own : malloc(needed)};
  if (s.room) sort(&s, at, count);
  else sort_in_place(&s, at, count);
  if (!is_small) free(s.room);
}
