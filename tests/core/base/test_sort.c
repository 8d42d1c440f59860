// Sorting keeps the order of equal elements, however many there are (without memory: test_memory_faults.c).
#include "sort.h"
#include "test.h"

typedef struct {
  char key;
  unsigned place;
  char padding[9];
} item;

static int by_key(const void *x, const void *y) {
  const item *a = x, *b = y;
  return (a->key > b->key) - (a->key < b->key);
}

static bool is_sorted(const item *items, size_t count) {
  for (size_t i = 1; i < count; i++) {
    const item *a = &items[i - 1], *b = &items[i];
    if (a->key > b->key || (a->key == b->key && a->place > b->place)) return false;
  }
  return true;
}

static void fill(item *items, size_t count, unsigned keys) {
  unsigned number = 1;
  for (size_t i = 0; i < count; i++) {
    number = number * 1103515245u + 12345u;
    items[i] = (item){.key = (char)(number >> 16 & (keys - 1)), .place = (unsigned)i};
  }
}

TEST(equals_keep_their_order) {
  static item items[5000];
  const size_t counts[] = {0, 1, 2, 3, 7, 29, 30, 31, 64, 1000, 5000};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    for (unsigned keys = 1; keys <= 64; keys *= 8) {
      fill(items, counts[i], keys);
      plim_sort(items, counts[i], sizeof *items, by_key);
      CHECK(is_sorted(items, counts[i]), "%zu items with %u keys", counts[i], keys);
    }
}

TEST(nothing_can_be_sorted) { plim_sort(NULL, 0, 8, by_key); }

TEST_MAIN
