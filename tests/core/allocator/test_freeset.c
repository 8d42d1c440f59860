// The free set must order blocks like a sorted list, whatever the order of insertions.
#include "freeset.h"
#include "test.h"

enum { BLOCKS = 400, ROUNDS = 20000 };

static uint64_t state = 88172645463325252ull;

static uint64_t random_below(uint64_t bound) { // xorshift64: the same numbers on every machine
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % bound;
}

static plim_block blocks[BLOCKS];
static bool is_in[BLOCKS];
static plim_freeset set;

static bool before(const plim_block *a, const plim_block *b) {
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  return a->tie != b->tie ? a->tie < b->tie : a->addr < b->addr;
}

static uint32_t naive_fit(uint64_t bytes) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < BLOCKS; i++)
    if (is_in[i] && blocks[i].bytes >= bytes && (!best || before(&blocks[i], &blocks[best])))
      best = i;
  return best;
}

static uint32_t naive_beside(uint32_t of, bool next) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < BLOCKS; i++) {
    if (!is_in[i] || i == of || before(&blocks[i], &blocks[of]) == next) continue;
    if (!best || before(&blocks[i], &blocks[best]) == next) best = i;
  }
  return best;
}

static uint64_t random_size(void) {
  static const uint64_t spans[] = {16, 300, 40000, 1ull << 25};
  return 512 * (1 + random_below(spans[random_below(4)]));
}

TEST(order_is_that_of_a_sorted_list) {
  for (int round = 0; round < ROUNDS; round++) {
    uint32_t i = 1 + (uint32_t)random_below(BLOCKS - 1);
    if (is_in[i]) plim_freeset_erase(&set, blocks, i);
    else {
      blocks[i] = (plim_block){.addr = random_below(1 << 20) * 512, .bytes = random_size()};
      blocks[i].tie = random_below(4);
      blocks[i].addr = blocks[i].addr * BLOCKS + i; // all addresses differ
      plim_freeset_insert(&set, blocks, i);
    }
    is_in[i] = !is_in[i];
    uint64_t bytes = random_size();
    CHECK_U64(plim_freeset_fit(&set, blocks, bytes), naive_fit(bytes));
    if (!is_in[i]) continue;
    CHECK_U64(plim_freeset_next(&set, blocks, i), naive_beside(i, true));
    CHECK_U64(plim_freeset_prev(&set, blocks, i), naive_beside(i, false));
  }
}

TEST(the_largest_possible_size_has_a_class) {
  plim_block huge[2] = {{0}, {.addr = 512, .bytes = UINT64_MAX - 511}};
  plim_freeset alone = {0};
  plim_freeset_insert(&alone, huge, 1);
  CHECK_U64(plim_freeset_fit(&alone, huge, 1ull << 62), 1);
  CHECK_U64(plim_freeset_last(&alone, huge), 1);
}

TEST_MAIN
