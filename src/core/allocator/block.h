// A block: one piece of a segment, as in PyTorch's allocator. Blocks are stored in one array and refer to each other by
// index; index 0 means "none". Internal to the allocator.
#ifndef PLIM_CORE_BLOCK_H
#define PLIM_CORE_BLOCK_H

#include "plimsoll.h"
#include "vec.h"

typedef enum {
  BLOCK_FREE,      // cached: in the free set of its free list
  BLOCK_ALLOCATED, // handed out
  BLOCK_PENDING,   // freed by the user, still in use on another stream
  BLOCK_UNMAPPED   // address space of an expandable segment without memory behind it
} block_state;

typedef struct {
  uint64_t addr, bytes;
  uint64_t tie;             // second key of the free set: address, or segment registration number
  uint64_t requested_bytes; // while allocated or pending
  uint64_t searches_before; // searches of its pool when it became free, for its age
  uint64_t range_start;     // of the expandable segment it is part of; 0 = an ordinary segment
  uint32_t prev, next;      // neighbours in the segment
  uint32_t left, right;     // children in a free set's or unmapped set's tree
  uint32_t freelist;        // the free list it belongs to
  uint8_t state;            // a block_state
  bool is_chosen;           // marked for release by the current collection
} plim_block;

typedef vec(plim_block) plim_blocks;

static inline bool block_is_expandable(const plim_block *b) { return b->range_start != 0; }

static inline bool block_is_split(const plim_block *b) { return b->prev || b->next; }

#endif
