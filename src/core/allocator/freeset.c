#include "freeset.h"

// ---- a treap whose nodes are blocks -------------------------------------------------------------
// The priority of a node is a hash of its index, so the tree is balanced with high probability whatever the order of
// insertions, and the same input always gives the same tree.

typedef bool less_fn(const plim_block *a, const plim_block *b);

static inline bool by_size(const plim_block *a, const plim_block *b) {
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  if (a->tie != b->tie) return a->tie < b->tie;
  return a->addr < b->addr;
}

static inline bool by_address(const plim_block *a, const plim_block *b) {
  return a->addr < b->addr;
}

static inline uint32_t priority(uint32_t block) { // murmur3's finalizer: no pattern of indices
  block ^= block >> 16;                           // makes a chain of the tree
  block *= 0x85ebca6bu;
  block ^= block >> 13;
  block *= 0xc2b2ae35u;
  return block ^ block >> 16;
}

static inline void tree_insert(uint32_t *link, plim_block *blocks, uint32_t block, less_fn *less) {
  plim_block *self = &blocks[block];
  while (*link && priority(*link) >= priority(block))
    link = less(self, &blocks[*link]) ? &blocks[*link].left : &blocks[*link].right;
  uint32_t rest = *link, *smaller = &self->left, *larger = &self->right;
  *link = block;
  while (rest) {
    plim_block *r = &blocks[rest];
    if (less(r, self)) *smaller = rest, smaller = &r->right, rest = r->right;
    else *larger = rest, larger = &r->left, rest = r->left;
  }
  *smaller = *larger = 0;
}

static inline void tree_erase(uint32_t *link, plim_block *blocks, uint32_t block, less_fn *less) {
  while (*link != block)
    link = less(&blocks[block], &blocks[*link]) ? &blocks[*link].left : &blocks[*link].right;
  uint32_t smaller = blocks[block].left, larger = blocks[block].right;
  while (smaller && larger) {
    if (priority(smaller) > priority(larger))
      *link = smaller, link = &blocks[smaller].right, smaller = *link;
    else *link = larger, link = &blocks[larger].left, larger = *link;
  }
  *link = smaller ? smaller : larger;
}

static inline uint32_t tree_first(uint32_t root, const plim_block *blocks) {
  while (root && blocks[root].left) root = blocks[root].left;
  return root;
}

static inline uint32_t tree_last(uint32_t root, const plim_block *blocks) {
  while (root && blocks[root].right) root = blocks[root].right;
  return root;
}

static inline uint32_t tree_after(uint32_t root, const plim_block *blocks, const plim_block *self,
                                  less_fn *less) {
  uint32_t best = 0;
  while (root) {
    if (less(self, &blocks[root])) best = root, root = blocks[root].left;
    else root = blocks[root].right;
  }
  return best;
}

static inline uint32_t tree_before(uint32_t root, const plim_block *blocks,
                                   const plim_block *self) {
  uint32_t best = 0;
  while (root) {
    if (by_size(&blocks[root], self)) best = root, root = blocks[root].right;
    else root = blocks[root].left;
  }
  return best;
}

// ---- size classes -------------------------------------------------------------------------------

// Sizes below 16 units of 512 bytes have their own class; above that, every power of two has 16 classes.
static inline unsigned class_of(uint64_t bytes) {
  uint64_t units = bytes >> 9;
  if (units < 16) return (unsigned)units;
  unsigned log = 63u - (unsigned)__builtin_clzll(units);
  return (log - 3) * 16 + (unsigned)((units >> (log - 4)) & 15);
}

static unsigned next_class(const plim_freeset *set, unsigned from) {
  for (unsigned w = from / 64; w < FREESET_WORDS; w++) {
    uint64_t bits = set->words[w];
    if (w == from / 64) bits &= ~0ull << (from % 64);
    if (bits) return w * 64 + (unsigned)__builtin_ctzll(bits);
  }
  return FREESET_CLASSES;
}

// The last class at or below `from` that has blocks; FREESET_CLASSES if there is none.
static unsigned previous_class(const plim_freeset *set, unsigned from) {
  for (unsigned w = from / 64 + 1; w-- > 0;) {
    uint64_t bits = set->words[w];
    if (w == from / 64) bits &= ~0ull >> (63 - from % 64);
    if (bits) return w * 64 + 63u - (unsigned)__builtin_clzll(bits);
  }
  return FREESET_CLASSES;
}

static uint32_t first_from(const plim_freeset *set, const plim_block *blocks, unsigned class) {
  if (class >= FREESET_CLASSES) return 0;
  class = next_class(set, class);
  return class < FREESET_CLASSES ? tree_first(set->roots[class], blocks) : 0;
}

static uint32_t last_up_to(const plim_freeset *set, const plim_block *blocks, unsigned class) {
  class = previous_class(set, class);
  return class < FREESET_CLASSES ? tree_last(set->roots[class], blocks) : 0;
}

void plim_freeset_insert(plim_freeset *set, plim_block *blocks, uint32_t block) {
  unsigned class = class_of(blocks[block].bytes);
  tree_insert(&set->roots[class], blocks, block, by_size);
  set->words[class / 64] |= 1ull << (class % 64);
}

void plim_freeset_erase(plim_freeset *set, plim_block *blocks, uint32_t block) {
  unsigned class = class_of(blocks[block].bytes);
  tree_erase(&set->roots[class], blocks, block, by_size);
  if (!set->roots[class]) set->words[class / 64] &= ~(1ull << (class % 64));
}

uint32_t plim_freeset_fit(const plim_freeset *set, const plim_block *blocks, uint64_t bytes) {
  unsigned class = class_of(bytes);
  uint32_t best = 0;
  for (uint32_t root = set->roots[class]; root;) {
    if (blocks[root].bytes >= bytes) best = root, root = blocks[root].left;
    else root = blocks[root].right;
  }
  return best ? best : first_from(set, blocks, class + 1);
}

uint32_t plim_freeset_next(const plim_freeset *set, const plim_block *blocks, uint32_t block) {
  unsigned class = class_of(blocks[block].bytes);
  uint32_t after = tree_after(set->roots[class], blocks, &blocks[block], by_size);
  return after ? after : first_from(set, blocks, class + 1);
}

uint32_t plim_freeset_last(const plim_freeset *set, const plim_block *blocks) {
  return last_up_to(set, blocks, FREESET_CLASSES - 1);
}

uint32_t plim_freeset_prev(const plim_freeset *set, const plim_block *blocks, uint32_t block) {
  unsigned class = class_of(blocks[block].bytes);
  uint32_t before = tree_before(set->roots[class], blocks, &blocks[block]);
  if (before) return before;
  return class ? last_up_to(set, blocks, class - 1) : 0;
}

// ---- by address -----------------------------------------------------------------------------------

void plim_address_tree_insert(uint32_t *root, plim_block *blocks, uint32_t block) {
  tree_insert(root, blocks, block, by_address);
}

void plim_address_tree_erase(uint32_t *root, plim_block *blocks, uint32_t block) {
  tree_erase(root, blocks, block, by_address);
}

uint32_t plim_address_tree_first(uint32_t root, const plim_block *blocks) {
  return tree_first(root, blocks);
}

uint32_t plim_address_tree_next(uint32_t root, const plim_block *blocks, uint32_t block) {
  return tree_after(root, blocks, &blocks[block], by_address);
}

uint32_t plim_address_tree_at_or_before(uint32_t root, const plim_block *blocks, uint64_t addr) {
  uint32_t best = 0;
  while (root) {
    if (blocks[root].addr <= addr) best = root, root = blocks[root].right;
    else root = blocks[root].left;
  }
  return best;
}
