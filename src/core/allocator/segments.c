// Getting memory from the driver: whole segments by cudaMalloc, or pages mapped into expandable segments.
#include "allocator_impl.h"

#define UNBOUNDED_RANGE (1ull << 40) // address space if the card's size is unknown: 1 TiB

uint64_t page_bytes(const plim_allocator *a, bool is_large) {
  return is_large ? a->options.conf.large_segment_bytes : SMALL_SEGMENT;
}

void emit(plim_allocator *a, plim_segment_action action, uint64_t addr, uint64_t bytes) {
  plim_allocator_stats_t *stats = &a->stats;
  if (action == PLIM_SEGMENT_ALLOC || action == PLIM_SEGMENT_MAP) {
    stats->segment_allocs++;
    stats->now.reserved_bytes += bytes;
    raise_peak(stats->now.reserved_bytes, &stats->peak.reserved_bytes);
  } else {
    stats->segment_frees++;
    stats->now.reserved_bytes -= bytes;
  }
  plim_segment_event event = {action, addr, bytes};
  if (a->options.on_segment) a->options.on_segment(a->options.context, &event);
}

static bool card_has(const plim_allocator *a, uint64_t bytes) {
  return a->options.capacity_bytes == PLIM_UNKNOWN ||
         a->stats.now.reserved_bytes + bytes <= a->options.capacity_bytes;
}

static uint32_t fail_host(plim_allocator *a) {
  a->out_of_host_memory = true;
  return 0;
}

static uint32_t cuda_malloc(plim_allocator *a, uint32_t freelist, uint64_t bytes) {
  if (!card_has(a, bytes)) return 0;
  uint64_t addr = a->options.driver.reserve(a->options.driver.self, bytes);
  if (addr == PLIM_DRIVER_FAILED) return fail_host(a);
  if (addr == PLIM_UNKNOWN) return 0;
  uint32_t block = block_new(a, freelist, addr, bytes);
  if (!block) return fail_host(a);
  if (a->options.order == PLIM_ORDER_REGISTRATION) block_at(a, block)->tie = a->registrations++;
  emit(a, PLIM_SEGMENT_ALLOC, addr, bytes);
  return block;
}

void segment_release(plim_allocator *a, uint32_t block) {
  plim_block *b = block_at(a, block);
  free_erase(a, block);
  emit(a, PLIM_SEGMENT_FREE, b->addr, b->bytes);
  a->options.driver.release(a->options.driver.self, b->addr, b->bytes);
  block_delete(a, block);
}

// ---- expandable segments --------------------------------------------------------------------------

uint32_t range_block_new(plim_allocator *a, uint32_t freelist, uint64_t addr, uint64_t bytes) {
  uint32_t block = block_new(a, freelist, addr, bytes);
  if (!block) return fail_host(a);
  plim_block *b = block_at(a, block);
  b->range_start = addr;
  b->state = BLOCK_UNMAPPED;
  if (a->options.order == PLIM_ORDER_REGISTRATION) b->tie = a->registrations++;
  plim_address_tree_insert(&freelist_at(a, freelist)->unmapped, a->blocks.at, block);
  return block;
}

static uint32_t range_new(plim_allocator *a, uint32_t freelist, uint64_t bytes) {
  uint64_t page = page_bytes(a, freelist_at(a, freelist)->is_large);
  uint64_t range =
      a->options.range_bytes == PLIM_UNKNOWN ? UNBOUNDED_RANGE : a->options.range_bytes;
  range = round_up(range, page);
  if (bytes > range) return 0;
  uint64_t addr = a->options.driver.reserve(a->options.driver.self, range);
  if (addr == PLIM_DRIVER_FAILED) return fail_host(a);
  if (addr == PLIM_UNKNOWN) return 0;
  return range_block_new(a, freelist, addr, range);
}

static bool usable(const plim_allocator *a, uint32_t block) {
  if (!block) return false;
  uint8_t state = a->blocks.at[block].state;
  return state == BLOCK_FREE || state == BLOCK_UNMAPPED;
}

static bool has_room(const plim_allocator *a, uint32_t block, uint64_t bytes) {
  uint64_t room = 0;
  for (; room < bytes && usable(a, block); block = a->blocks.at[block].next)
    room += a->blocks.at[block].bytes;
  return room >= bytes;
}

// Where to grow: the lowest unmapped block that, together with the free block before it, has enough room.
static uint32_t place_to_grow(plim_allocator *a, uint32_t freelist, uint64_t bytes) {
  uint32_t root = freelist_at(a, freelist)->unmapped;
  for (uint32_t hole = plim_address_tree_first(root, a->blocks.at); hole;
       hole = plim_address_tree_next(root, a->blocks.at, hole)) {
    uint32_t before = block_at(a, hole)->prev;
    uint32_t start = usable(a, before) ? before : hole;
    if (has_room(a, start, bytes)) return start;
  }
  return range_new(a, freelist, bytes);
}

// Maps enough pages for `bytes` at the start of an unmapped block. The block becomes free memory, is merged with its
// neighbours, and is in the free set again under the same index.
static bool map_pages(plim_allocator *a, uint32_t block, uint64_t bytes) {
  plim_block *b = block_at(a, block);
  plim_freelist *l = freelist_at(a, b->freelist);
  uint64_t mapped = round_up(bytes, page_bytes(a, l->is_large));
  if (mapped > b->bytes) mapped = b->bytes;
  if (!card_has(a, mapped)) return false;
  plim_address_tree_erase(&l->unmapped, a->blocks.at, block);
  emit(a, PLIM_SEGMENT_MAP, b->addr, mapped);
  if (mapped < b->bytes) {
    uint32_t rest = block_new_beside(a, block, b->addr + mapped, b->bytes - mapped);
    if (!rest) return fail_host(a);
    b = block_at(a, block);
    block_at(a, rest)->state = BLOCK_UNMAPPED;
    block_link_after(a, rest, block);
    b->bytes = mapped;
    plim_address_tree_insert(&l->unmapped, a->blocks.at, rest);
  }
  b->state = BLOCK_FREE;
  block_merge(a, block);
  free_insert(a, block);
  return true;
}

static uint64_t at_most(uint64_t bytes, uint64_t limit) { return bytes < limit ? bytes : limit; }

static uint32_t grow(plim_allocator *a, uint32_t freelist, uint64_t bytes) {
  uint32_t block = place_to_grow(a, freelist, bytes);
  if (!block) return 0;
  if (block_at(a, block)->state == BLOCK_UNMAPPED &&
      !map_pages(a, block, at_most(bytes, block_at(a, block)->bytes)))
    return 0;
  while (block_at(a, block)->bytes < bytes) {
    uint32_t hole = block_at(a, block)->next;
    uint64_t missing = bytes - block_at(a, block)->bytes;
    if (!map_pages(a, hole, at_most(missing, block_at(a, hole)->bytes))) return 0;
    block = hole; // it was merged with the block before it
  }
  free_erase(a, block);
  return block;
}

uint64_t pages_inside(const plim_allocator *a, const plim_block *b, uint64_t *bytes) {
  uint64_t page = page_bytes(a, a->freelists.at[b->freelist].is_large), base = b->range_start;
  uint64_t first = base + round_up(b->addr - base, page);
  uint64_t end = base + (b->addr + b->bytes - base) / page * page;
  *bytes = end > first ? end - first : 0;
  return first;
}

// Splits off one end of a free block, which keeps its memory.
static bool keep_edge(plim_allocator *a, uint32_t block, uint64_t addr, uint64_t bytes,
                      bool front) {
  if (!bytes) return true;
  uint32_t edge = block_new_beside(a, block, addr, bytes);
  if (!edge) return fail_host(a);
  if (front) block_link_before(a, edge, block);
  else block_link_after(a, edge, block);
  free_insert(a, edge);
  return true;
}

static void range_delete_if_empty(plim_allocator *a, uint32_t block) {
  plim_block *b = block_at(a, block);
  if (block_is_split(b)) return;
  plim_address_tree_erase(&freelist_at(a, b->freelist)->unmapped, a->blocks.at, block);
  a->options.driver.release(a->options.driver.self, b->addr, b->bytes);
  block_delete(a, block);
}

void pages_release(plim_allocator *a, uint32_t block) {
  uint64_t bytes, first = pages_inside(a, block_at(a, block), &bytes);
  if (!bytes) return;
  free_erase(a, block);
  plim_block old = *block_at(a, block);
  if (!keep_edge(a, block, old.addr, first - old.addr, true)) return;
  uint64_t end = first + bytes;
  if (!keep_edge(a, block, end, old.addr + old.bytes - end, false)) return;
  plim_block *b = block_at(a, block);
  block_move_to(a, b, first);
  b->bytes = bytes;
  b->state = BLOCK_UNMAPPED;
  emit(a, PLIM_SEGMENT_UNMAP, first, bytes);
  block_merge(a, block);
  plim_address_tree_insert(&freelist_at(a, b->freelist)->unmapped, a->blocks.at, block);
  range_delete_if_empty(a, block);
}

// ---- both kinds of segments -----------------------------------------------------------------------

uint32_t segment_obtain(plim_allocator *a, uint32_t freelist, uint64_t bytes, uint64_t request) {
  uint64_t limit = a->options.limit_bytes;
  if (limit != PLIM_UNKNOWN && a->stats.now.reserved_bytes + request > limit) return 0;
  if (a->options.conf.expandable_segments) return grow(a, freelist, bytes);
  return cuda_malloc(a, freelist, request);
}
