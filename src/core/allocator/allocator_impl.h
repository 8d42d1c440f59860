// Shared by the files of the allocator: allocator.c (requests), allocator_life.c (creation), allocator_state.c
// (inspecting and setting its state), segments.c (cudaMalloc, pages), release.c (returning memory to the driver).
// Private to this folder.
#ifndef PLIM_CORE_ALLOCATOR_IMPL_H
#define PLIM_CORE_ALLOCATOR_IMPL_H

#include "allocator.h"
#include "block.h"
#include "freeset.h"
#include "hash.h"

#define MIN_BLOCK 512                // PyTorch kMinBlockSize
#define SMALL_LIMIT PLIM_MIB         // requests up to here use the small pool; kSmallSize
#define SMALL_SEGMENT (2 * PLIM_MIB) // segment and page of the small pool; kSmallBuffer
#define LARGE_FROM (10 * PLIM_MIB)   // requests from here on get their own segment; kMinLargeAlloc
#define LARGE_ROUND (2 * PLIM_MIB) // the size of such a segment is rounded up to this; kRoundLarge
#define MAX_REQUEST (1ull << 50)   // no card has a pebibyte; keeps sums far from overflow
#define NO_SLOT UINT32_MAX

// The free blocks of one stream in one pool; small and large blocks never mix.
typedef struct {
  plim_freeset free;
  uint32_t unmapped; // address tree of unmapped blocks
  uint32_t stream, pool;
  bool is_large;
} plim_freelist;

struct plim_allocator {
  plim_allocator_options options;
  plim_allocator_stats_t stats;
  plim_blocks blocks;    // [0] means "none"
  uint32_t spare_blocks; // list of unused entries, linked by next
  vec(plim_freelist) freelists;
  vec(uint32_t) freelist_order; // sorted by (stream handle, pool), the order of PyTorch's sets
  vec(uint32_t) freelist_table; // (pool * streams + stream) * 2 + is_large -> free list + 1
  vec(uint64_t) searches;       // by pool * 2 + is_large; counted while garbage collection is on
  vec(uint32_t) block_of_slot;  // 0 = slot is empty
  vec(uint32_t) pending;        // slots with a pending free, oldest first; NO_SLOT: completed
  size_t pending_first;         // all before it are completed
  uint64_t registrations;       // number of segments created
  plim_hash free_at; // address -> free block; maintained from the first plim_allocator_place on
  bool has_free_at;
  bool out_of_host_memory;
};

static inline plim_block *block_at(plim_allocator *a, uint32_t block) {
  return &a->blocks.at[block];
}

static inline plim_freelist *freelist_at(plim_allocator *a, uint32_t index) {
  return &a->freelists.at[index];
}

static inline uint64_t *searches_of(plim_allocator *a, const plim_freelist *l) {
  return &a->searches.at[l->pool * 2 + l->is_large];
}

static inline bool gc_is_on(const plim_allocator *a) {
  return a->options.conf.gc_threshold > 0 && a->options.limit_bytes != PLIM_UNKNOWN;
}

static inline uint64_t round_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

static inline void raise_peak(uint64_t now, uint64_t *peak) {
  if (now > *peak) *peak = now;
}

// allocator.c
bool is_known(const plim_allocator *a, uint32_t stream, uint32_t pool);
bool slots_reach(plim_allocator *a, uint32_t slot); // false when out of memory
// The free list of a stream and pool, created at first use; UINT32_MAX when out of memory.
uint32_t freelist_of(plim_allocator *a, uint32_t stream, uint32_t pool, bool is_large);
void count_allocated(plim_allocator *a, const plim_block *b);
uint32_t block_new(plim_allocator *a, uint32_t freelist, uint64_t addr, uint64_t bytes);
// A block for another piece of the segment of `block`; not linked yet.
uint32_t block_new_beside(plim_allocator *a, uint32_t block, uint64_t addr, uint64_t bytes);
void block_move_to(plim_allocator *a, plim_block *b, uint64_t addr);
void block_delete(plim_allocator *a, uint32_t block);
void block_link_before(plim_allocator *a, uint32_t block, uint32_t next);
void block_link_after(plim_allocator *a, uint32_t block, uint32_t prev);
void free_insert(plim_allocator *a, uint32_t block);
void free_erase(plim_allocator *a, uint32_t block);
// Merges `block` with its neighbours of the same mapped state that are not in use. `block` itself is in no set; it
// keeps its index and grows.
void block_merge(plim_allocator *a, uint32_t block);
void complete_all(plim_allocator *a);

// segments.c
uint32_t range_block_new(plim_allocator *a, uint32_t freelist, uint64_t addr, uint64_t bytes);
uint64_t page_bytes(const plim_allocator *a, bool is_large);
void emit(plim_allocator *a, plim_segment_action action, uint64_t addr, uint64_t bytes);
// Gets a block of at least `bytes`, in no free set, from the driver; 0 if the limit or the driver refuses.
uint32_t segment_obtain(plim_allocator *a, uint32_t freelist, uint64_t bytes, uint64_t request);
void segment_release(plim_allocator *a, uint32_t block);
void pages_release(plim_allocator *a, uint32_t block);
// The full pages inside a free block of an expandable segment; *bytes is 0 if there are none.
uint64_t pages_inside(const plim_allocator *a, const plim_block *b, uint64_t *bytes);

// release.c
void release_old(plim_allocator *a); // garbage collection
bool release_oversize(plim_allocator *a, uint32_t freelist, uint64_t bytes);
void release_all(plim_allocator *a);

#endif
