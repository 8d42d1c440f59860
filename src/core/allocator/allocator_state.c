// Inspecting an allocator block by block, and setting its state segment by segment.
#include "allocator_impl.h"

// ---- inspecting -----------------------------------------------------------------------------------

static plim_block_view view_of(const plim_allocator *a, const plim_block *b) {
  const plim_block *prev = &a->blocks.at[b->prev];
  const plim_freelist *l = &a->freelists.at[b->freelist];
  return (plim_block_view){
      .addr = b->addr,
      .bytes = b->bytes,
      .requested_bytes = b->requested_bytes,
      .stream = l->stream,
      .pool = l->pool,
      .starts_segment = !b->prev || prev->state == BLOCK_UNMAPPED,
      .is_large = l->is_large,
      .is_expandable = block_is_expandable(b),
      .is_free = b->state == BLOCK_FREE,
      .is_pending = b->state == BLOCK_PENDING,
  };
}

void plim_allocator_visit(const plim_allocator *a,
                          void (*visit)(void *context, const plim_block_view *block),
                          void *context) {
  for (size_t head = 1; head < a->blocks.len; head++) {
    if (!a->blocks.at[head].bytes || a->blocks.at[head].prev) continue;
    for (uint32_t i = (uint32_t)head; i; i = a->blocks.at[i].next) {
      if (a->blocks.at[i].state == BLOCK_UNMAPPED) continue;
      plim_block_view view = view_of(a, &a->blocks.at[i]);
      visit(context, &view);
    }
  }
}

void plim_allocator_visit_slots(const plim_allocator *a,
                                void (*visit)(void *context, uint32_t slot, uint64_t addr,
                                              bool is_large),
                                void *context) {
  for (size_t slot = 0; slot < a->block_of_slot.len; slot++) {
    const plim_block *b = &a->blocks.at[a->block_of_slot.at[slot]];
    if (a->block_of_slot.at[slot])
      visit(context, (uint32_t)slot, b->addr, a->freelists.at[b->freelist].is_large);
  }
}

// ---- setting --------------------------------------------------------------------------------------

static uint32_t unmapped_around(plim_allocator *a, uint32_t freelist, uint64_t addr, uint64_t end) {
  uint32_t i =
      plim_address_tree_at_or_before(freelist_at(a, freelist)->unmapped, a->blocks.at, addr);
  return i && end <= block_at(a, i)->addr + block_at(a, i)->bytes ? i : 0;
}

static uint32_t unmapped_beside(plim_allocator *a, uint32_t whole, uint64_t addr, uint64_t bytes) {
  uint32_t block = block_new_beside(a, whole, addr, bytes);
  if (!block) return 0;
  block_at(a, block)->state = BLOCK_UNMAPPED;
  plim_address_tree_insert(&freelist_at(a, block_at(a, block)->freelist)->unmapped, a->blocks.at,
                           block);
  return block;
}

// Cuts [addr, end) out of the unmapped block `whole`; the rest on both sides stays unmapped.
static bool carve(plim_allocator *a, uint32_t whole, uint64_t addr, uint64_t end) {
  plim_block old = *block_at(a, whole);
  plim_address_tree_erase(&freelist_at(a, old.freelist)->unmapped, a->blocks.at, whole);
  block_move_to(a, block_at(a, whole), addr);
  block_at(a, whole)->bytes = end - addr;
  if (addr > old.addr) {
    uint32_t before = unmapped_beside(a, whole, old.addr, addr - old.addr);
    if (!before) return false;
    block_link_before(a, before, whole);
  }
  if (end < old.addr + old.bytes) {
    uint32_t after = unmapped_beside(a, whole, end, old.addr + old.bytes - end);
    if (!after) return false;
    block_link_after(a, after, whole);
  }
  return true;
}

static uint32_t seed_whole(plim_allocator *a, const plim_seed_segment *s, uint32_t freelist) {
  uint64_t end = s->addr + s->bytes;
  if (!s->is_expandable) {
    uint32_t whole = block_new(a, freelist, s->addr, s->bytes);
    if (whole && a->options.order == PLIM_ORDER_REGISTRATION)
      block_at(a, whole)->tie = a->registrations++;
    return whole;
  }
  uint32_t whole = unmapped_around(a, freelist, s->addr, end);
  if (!whole) whole = range_block_new(a, freelist, s->range_start, s->range_end - s->range_start);
  return whole && carve(a, whole, s->addr, end) ? whole : 0;
}

// Splits a seeded block off the front of `rest`, which is in no set. Returns the remainder, or 0.
static uint32_t seed_piece(plim_allocator *a, uint32_t rest, uint64_t bytes) {
  plim_block old = *block_at(a, rest);
  if (bytes == old.bytes) return 0;
  uint32_t behind = block_new_beside(a, rest, old.addr + bytes, old.bytes - bytes);
  if (!behind) {
    a->out_of_host_memory = true;
    return 0;
  }
  block_at(a, rest)->bytes = bytes;
  block_link_after(a, behind, rest);
  return behind;
}

static void seed_in_use(plim_allocator *a, uint32_t block, const plim_seed_block *seed) {
  plim_block *b = block_at(a, block);
  b->state = seed->is_pending ? BLOCK_PENDING : BLOCK_ALLOCATED;
  b->requested_bytes = seed->requested_bytes;
  a->block_of_slot.at[seed->slot] = block;
  count_allocated(a, b);
  if (!seed->is_pending) return;
  a->stats.now.allocated_bytes -= b->bytes;
  if (!vec_push(&a->pending, seed->slot)) a->out_of_host_memory = true;
}

static bool seeds_fit(const plim_seed_segment *s, const plim_seed_block *blocks, size_t count) {
  uint64_t at = s->addr, end = s->addr + s->bytes;
  for (size_t i = 0; i < count; at = blocks[i].addr + blocks[i].bytes, i++)
    if (blocks[i].addr < at || !blocks[i].bytes || blocks[i].bytes > end - blocks[i].addr ||
        blocks[i].addr > end)
      return false;
  return s->bytes && s->addr < end;
}

bool plim_allocator_seed(plim_allocator *a, const plim_seed_segment *s,
                         const plim_seed_block *blocks, size_t count) {
  if (!is_known(a, s->stream, s->pool) || !seeds_fit(s, blocks, count)) return false;
  uint32_t freelist = freelist_of(a, s->stream, s->pool, s->is_large);
  uint32_t rest = freelist == UINT32_MAX ? 0 : seed_whole(a, s, freelist);
  if (!rest) {
    a->out_of_host_memory = true;
    return false;
  }
  for (size_t i = 0; i < count && rest; i++) {
    uint64_t gap = blocks[i].addr - block_at(a, rest)->addr;
    if (gap) {
      uint32_t unused = rest;
      rest = seed_piece(a, unused, gap);
      free_insert(a, unused);
    }
    if (!rest || !slots_reach(a, blocks[i].slot)) {
      a->out_of_host_memory = true;
      return false;
    }
    uint32_t used = rest;
    rest = seed_piece(a, used, blocks[i].bytes);
    seed_in_use(a, used, &blocks[i]);
  }
  if (rest) free_insert(a, rest);
  a->stats.now.reserved_bytes += s->bytes;
  raise_peak(a->stats.now.reserved_bytes, &a->stats.peak.reserved_bytes);
  return !a->out_of_host_memory;
}
