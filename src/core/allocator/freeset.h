// The free blocks of one stream in one pool, ordered by (size, tie, address) like PyTorch's std::set. They are divided
// into size classes, each a small search tree, so that best fit is a bitmap lookup and a short descent. All operations
// are O(log n).
#ifndef PLIM_CORE_FREESET_H
#define PLIM_CORE_FREESET_H

#include "block.h"

#define FREESET_CLASSES 896 // 16 per power of two of 512-byte units, up to 2^64 bytes
#define FREESET_WORDS (FREESET_CLASSES / 64)

typedef struct {
  uint64_t words[FREESET_WORDS]; // bit i is set if class i has blocks
  uint32_t roots[FREESET_CLASSES];
} plim_freeset;

void plim_freeset_insert(plim_freeset *set, plim_block *blocks, uint32_t block);
void plim_freeset_erase(plim_freeset *set, plim_block *blocks, uint32_t block);

// The first block of at least `bytes`; 0 if there is none.
uint32_t plim_freeset_fit(const plim_freeset *set, const plim_block *blocks, uint64_t bytes);

// The block after or before `block` (which need not be in the set any more); 0 at the ends.
uint32_t plim_freeset_next(const plim_freeset *set, const plim_block *blocks, uint32_t block);
uint32_t plim_freeset_last(const plim_freeset *set, const plim_block *blocks);
uint32_t plim_freeset_prev(const plim_freeset *set, const plim_block *blocks, uint32_t block);

// The same tree ordered by address only, for the unmapped parts of expandable segments.
void plim_address_tree_insert(uint32_t *root, plim_block *blocks, uint32_t block);
void plim_address_tree_erase(uint32_t *root, plim_block *blocks, uint32_t block);
uint32_t plim_address_tree_first(uint32_t root, const plim_block *blocks);
uint32_t plim_address_tree_next(uint32_t root, const plim_block *blocks, uint32_t block);
uint32_t plim_address_tree_at_or_before(uint32_t root, const plim_block *blocks, uint64_t addr);

#endif
