#include "allocator.h"

#include <stdio.h>
#include <string.h>

#include "allocator_impl.h"

// ---- sizes --------------------------------------------------------------------------------------

static uint64_t pow2_floor(uint64_t value) { return 1ull << (63 - __builtin_clzll(value)); }

static uint64_t round_to_division(uint64_t bytes, uint32_t divisions) {
  if ((bytes & (bytes - 1)) == 0) return bytes;
  uint64_t step = pow2_floor(bytes) / pow2_floor(divisions);
  return step ? round_up(bytes, step) : pow2_floor(bytes) << 1;
}

uint64_t plim_round_request(const plim_alloc_conf *conf, uint64_t bytes) {
  if (bytes < MIN_BLOCK) return MIN_BLOCK;
  int index = 63 - __builtin_clzll(bytes) - 20; // entry 0 stands for 1 MiB
  if (index < 0) index = 0;
  if (index >= PLIM_DIVISION_SLOTS) index = PLIM_DIVISION_SLOTS - 1;
  uint32_t divisions = conf->divisions[index];
  if (divisions > 1 && bytes > (uint64_t)MIN_BLOCK * divisions)
    return round_to_division(bytes, divisions);
  return round_up(bytes, MIN_BLOCK);
}

bool plim_request_is_large(const plim_alloc_conf *conf, uint64_t bytes) {
  return plim_round_request(conf, bytes) > SMALL_LIMIT;
}

bool plim_block_is_split(const plim_alloc_conf *conf, bool is_large, uint64_t bytes,
                         uint64_t rest_bytes) {
  if (!is_large || conf->expandable_segments) return rest_bytes >= MIN_BLOCK;
  return bytes < conf->max_split_bytes && rest_bytes > SMALL_LIMIT;
}

static uint64_t segment_request(const plim_alloc_conf *conf, uint64_t rounded) {
  if (rounded <= SMALL_LIMIT) return SMALL_SEGMENT;
  if (rounded < LARGE_FROM) return conf->large_segment_bytes;
  return round_up(rounded, LARGE_ROUND);
}

uint64_t plim_allocator_segment_request(const plim_allocator *a, uint64_t bytes) {
  return segment_request(&a->options.conf, plim_round_request(&a->options.conf, bytes));
}

bool plim_block_order_of(const char *torch_version, plim_block_order *order) {
  unsigned major, minor;
  if (sscanf(torch_version, "%u.%u", &major, &minor) != 2) return false;
  bool counts = major > 2 || (major == 2 && minor >= 13);
  *order = counts ? PLIM_ORDER_REGISTRATION : PLIM_ORDER_ADDRESS;
  return true;
}

// ---- slots and free lists -------------------------------------------------------------------------

bool slots_reach(plim_allocator *a, uint32_t slot) {
  size_t need = (size_t)slot + 1, have = a->block_of_slot.len;
  if (need <= have) return true;
  if (!vec_reserve(&a->block_of_slot, need - have)) return false;
  size_t all = a->block_of_slot.cap; // nearly every request takes a new slot
  memset(a->block_of_slot.at + have, 0, (all - have) * sizeof *a->block_of_slot.at);
  a->block_of_slot.len = all;
  return true;
}

static bool freelist_before(const plim_allocator *a, const plim_freelist *x,
                            const plim_freelist *y) {
  uint64_t hx = a->options.streams[x->stream], hy = a->options.streams[y->stream];
  return hx != hy ? hx < hy : x->pool < y->pool;
}

static uint32_t freelist_new(plim_allocator *a, uint32_t stream, uint32_t pool, bool is_large) {
  plim_freelist fresh = {.stream = stream, .pool = pool, .is_large = is_large};
  if (!vec_push(&a->freelists, fresh) || !vec_push(&a->freelist_order, 0)) return UINT32_MAX;
  uint32_t index = (uint32_t)a->freelists.len - 1;
  size_t i = a->freelist_order.len - 1;
  for (; i > 0 && freelist_before(a, &fresh, freelist_at(a, a->freelist_order.at[i - 1])); i--)
    a->freelist_order.at[i] = a->freelist_order.at[i - 1];
  a->freelist_order.at[i] = index;
  return index;
}

uint32_t freelist_of(plim_allocator *a, uint32_t stream, uint32_t pool, bool is_large) {
  size_t key = ((size_t)pool * a->options.stream_count + stream) * 2 + is_large;
  if (!a->freelist_table.at[key]) {
    uint32_t made = freelist_new(a, stream, pool, is_large);
    if (made == UINT32_MAX) return UINT32_MAX;
    a->freelist_table.at[key] = made + 1;
  }
  return a->freelist_table.at[key] - 1;
}

// ---- blocks -------------------------------------------------------------------------------------

uint32_t block_new(plim_allocator *a, uint32_t freelist, uint64_t addr, uint64_t bytes) {
  uint32_t block = a->spare_blocks;
  if (block) a->spare_blocks = block_at(a, block)->next;
  else {
    if (a->blocks.len >= UINT32_MAX || !vec_push(&a->blocks, (plim_block){0})) return 0;
    block = (uint32_t)a->blocks.len - 1;
  }
  *block_at(a, block) =
      (plim_block){.addr = addr, .bytes = bytes, .tie = addr, .freelist = freelist};
  return block;
}

uint32_t block_new_beside(plim_allocator *a, uint32_t block, uint64_t addr, uint64_t bytes) {
  uint32_t fresh = block_new(a, block_at(a, block)->freelist, addr, bytes);
  if (!fresh) return 0;
  plim_block *f = block_at(a, fresh), *b = block_at(a, block);
  f->range_start = b->range_start;
  if (a->options.order == PLIM_ORDER_REGISTRATION) f->tie = b->tie;
  return fresh;
}

void block_delete(plim_allocator *a, uint32_t block) {
  block_at(a, block)->bytes = 0;
  block_at(a, block)->next = a->spare_blocks;
  a->spare_blocks = block;
}

void block_link_before(plim_allocator *a, uint32_t block, uint32_t next) {
  plim_block *b = block_at(a, block), *n = block_at(a, next);
  b->prev = n->prev;
  b->next = next;
  if (b->prev) block_at(a, b->prev)->next = block;
  n->prev = block;
}

void block_link_after(plim_allocator *a, uint32_t block, uint32_t prev) {
  plim_block *b = block_at(a, block), *p = block_at(a, prev);
  b->next = p->next;
  b->prev = prev;
  if (b->next) block_at(a, b->next)->prev = block;
  p->next = block;
}

void free_insert(plim_allocator *a, uint32_t block) {
  plim_block *b = block_at(a, block);
  plim_freelist *l = freelist_at(a, b->freelist);
  b->state = BLOCK_FREE;
  b->searches_before = *searches_of(a, l);
  plim_freeset_insert(&l->free, a->blocks.at, block);
  if (a->has_free_at && !plim_hash_put(&a->free_at, b->addr, block)) a->out_of_host_memory = true;
}

void free_erase(plim_allocator *a, uint32_t block) {
  if (a->has_free_at) plim_hash_remove(&a->free_at, block_at(a, block)->addr, NULL);
  plim_freeset_erase(&freelist_at(a, block_at(a, block)->freelist)->free, a->blocks.at, block);
}

// If blocks are ordered by address, the tie key follows the address; a registration number stays.
void block_move_to(plim_allocator *a, plim_block *b, uint64_t addr) {
  b->addr = addr;
  if (a->options.order == PLIM_ORDER_ADDRESS) b->tie = addr;
}

static void unset(plim_allocator *a, uint32_t block) {
  plim_block *b = block_at(a, block);
  if (b->state == BLOCK_FREE) free_erase(a, block);
  else plim_address_tree_erase(&freelist_at(a, b->freelist)->unmapped, a->blocks.at, block);
}

static void absorb(plim_allocator *a, uint32_t block, uint32_t other, block_state state) {
  if (!other || block_at(a, other)->state != state) return;
  unset(a, other);
  plim_block *b = block_at(a, block), *o = block_at(a, other);
  if (b->prev == other) {
    block_move_to(a, b, o->addr);
    b->prev = o->prev;
    if (b->prev) block_at(a, b->prev)->next = block;
  } else {
    b->next = o->next;
    if (b->next) block_at(a, b->next)->prev = block;
  }
  b->bytes += o->bytes;
  block_delete(a, other);
}

void block_merge(plim_allocator *a, uint32_t block) {
  block_state state = block_at(a, block)->state == BLOCK_UNMAPPED ? BLOCK_UNMAPPED : BLOCK_FREE;
  absorb(a, block, block_at(a, block)->prev, state);
  absorb(a, block, block_at(a, block)->next, state);
}

// ---- search and split -----------------------------------------------------------------------------

// Best fit counts the unmapped space after a block as part of it, so that small requests do not use up the growing tail
// of an expandable segment.
static uint64_t room_behind(const plim_allocator *a, const plim_block *b) {
  const plim_block *next = &a->blocks.at[b->next];
  return b->next && next->state == BLOCK_UNMAPPED ? next->bytes : 0;
}

static uint64_t expandable_bytes(const plim_allocator *a, const plim_block *b) {
  return b->bytes + room_behind(a, b);
}

// Without room behind it, the smallest block that fits has the least of all.
static uint32_t prefer_less_room(const plim_allocator *a, const plim_freelist *l, uint32_t found) {
  const plim_block *blocks = a->blocks.at;
  while (block_is_expandable(&blocks[found]) && room_behind(a, &blocks[found])) {
    uint32_t next = plim_freeset_next(&l->free, blocks, found);
    if (!next || expandable_bytes(a, &blocks[next]) >= expandable_bytes(a, &blocks[found])) break;
    found = next;
  }
  return found;
}

static uint32_t skip_expandable(const plim_allocator *a, const plim_freelist *l, uint32_t found) {
  while (found && block_is_expandable(&a->blocks.at[found]))
    found = plim_freeset_next(&l->free, a->blocks.at, found);
  return found;
}

// max_split_size reserves large blocks for large requests, and keeps those from taking much larger ones.
static bool may_serve(const plim_alloc_conf *conf, uint64_t bytes, uint64_t have) {
  if (bytes < conf->max_split_bytes) return have < conf->max_split_bytes;
  return have - bytes < conf->max_non_split_rounding_bytes;
}

// The cached block for a (rounded) request; 0 on a miss. PyTorch considers only one candidate: if max_split_size
// forbids it, the search has missed.
static uint32_t search(const plim_allocator *a, const plim_freelist *l, uint64_t bytes) {
  const plim_alloc_conf *conf = &a->options.conf;
  uint32_t found = plim_freeset_fit(&l->free, a->blocks.at, bytes);
  if (!found) return 0;
  if (block_is_expandable(&a->blocks.at[found]))
    found =
        conf->expandable_segments ? prefer_less_room(a, l, found) : skip_expandable(a, l, found);
  return found && may_serve(conf, bytes, a->blocks.at[found].bytes) ? found : 0;
}

static bool should_split(const plim_allocator *a, const plim_block *b, uint64_t bytes) {
  bool is_large = a->freelists.at[b->freelist].is_large;
  return plim_block_is_split(&a->options.conf, is_large, bytes, b->bytes - bytes);
}

void count_allocated(plim_allocator *a, const plim_block *b) {
  plim_usage *now = &a->stats.now, *peak = &a->stats.peak;
  now->allocated_bytes += b->bytes;
  now->active_bytes += b->bytes;
  now->requested_bytes += b->requested_bytes;
  raise_peak(now->allocated_bytes, &peak->allocated_bytes);
  raise_peak(now->active_bytes, &peak->active_bytes);
  raise_peak(now->requested_bytes, &peak->requested_bytes);
}

// Hands out `block`, which is in no free set: the front goes to the user, and a remainder worth splitting goes to the
// free set.
static bool take(plim_allocator *a, uint32_t slot, uint32_t block, uint64_t bytes,
                 uint64_t requested) {
  if (should_split(a, block_at(a, block), bytes)) {
    uint32_t front = block_new_beside(a, block, block_at(a, block)->addr, bytes);
    if (!front) return false;
    plim_block *rest = block_at(a, block);
    block_link_before(a, front, block);
    block_move_to(a, rest, rest->addr + bytes);
    rest->bytes -= bytes;
    free_insert(a, block);
    block = front;
  }
  plim_block *b = block_at(a, block);
  b->state = BLOCK_ALLOCATED;
  b->requested_bytes = requested;
  a->block_of_slot.at[slot] = block;
  count_allocated(a, b);
  return true;
}

// ---- malloc ---------------------------------------------------------------------------------------

static uint32_t find_cached(plim_allocator *a, uint32_t freelist, uint64_t bytes) {
  if (gc_is_on(a)) ++*searches_of(a, freelist_at(a, freelist));
  uint32_t found = search(a, freelist_at(a, freelist), bytes);
  if (found) free_erase(a, found);
  return found;
}

// After a miss: collects garbage, asks for a segment, then releases more and more memory and asks again. PyTorch does
// not search again after a release, even if that freed a fitting block (recorded).
static uint32_t find_new(plim_allocator *a, uint32_t freelist, uint64_t bytes) {
  uint64_t request = segment_request(&a->options.conf, bytes);
  if (gc_is_on(a)) release_old(a);
  uint32_t found = a->out_of_host_memory ? 0 : segment_obtain(a, freelist, bytes, request);
  if (found || a->options.conf.throw_on_cudamalloc_oom || a->out_of_host_memory) return found;
  if (release_oversize(a, freelist, bytes)) found = segment_obtain(a, freelist, bytes, request);
  if (found || a->out_of_host_memory) return found; // does not touch a half-changed state
  release_all(a);
  a->stats.retries++;
  return a->out_of_host_memory ? 0 : segment_obtain(a, freelist, bytes, request);
}

// The slot is requested again while it is held: its free, or the completion of its free, was not recorded.
static void vacate(plim_allocator *a, uint32_t slot) {
  if (!a->block_of_slot.at[slot]) return;
  plim_allocator_free(a, slot);
  plim_allocator_complete(a, slot);
}

bool is_known(const plim_allocator *a, uint32_t stream, uint32_t pool) {
  return stream < a->options.stream_count && pool < a->options.pool_count;
}

plim_malloc_result plim_allocator_malloc(plim_allocator *a, uint32_t slot, uint64_t requested,
                                         uint32_t stream, uint32_t pool) {
  if (!is_known(a, stream, pool) || !slots_reach(a, slot)) return PLIM_MALLOC_NO_HOST_MEMORY;
  vacate(a, slot);
  if (requested > MAX_REQUEST) {
    a->stats.ooms++;
    return PLIM_MALLOC_OOM;
  }
  uint64_t bytes = plim_round_request(&a->options.conf, requested);
  uint32_t freelist = freelist_of(a, stream, pool, bytes > SMALL_LIMIT);
  if (freelist == UINT32_MAX) return PLIM_MALLOC_NO_HOST_MEMORY;
  uint32_t block = find_cached(a, freelist, bytes);
  if (!block) block = find_new(a, freelist, bytes);
  if (a->out_of_host_memory) return PLIM_MALLOC_NO_HOST_MEMORY;
  if (!block) {
    a->stats.ooms++;
    return PLIM_MALLOC_OOM;
  }
  return take(a, slot, block, bytes, requested) ? PLIM_MALLOC_OK : PLIM_MALLOC_NO_HOST_MEMORY;
}

// ---- free -----------------------------------------------------------------------------------------

static uint32_t block_of(const plim_allocator *a, uint32_t slot) {
  return slot < a->block_of_slot.len ? a->block_of_slot.at[slot] : 0;
}

static void give_back(plim_allocator *a, uint32_t slot, uint32_t block) {
  plim_block *b = block_at(a, block);
  a->stats.now.active_bytes -= b->bytes;
  a->stats.now.requested_bytes -= b->requested_bytes;
  a->block_of_slot.at[slot] = 0;
  b->state = BLOCK_FREE;
  block_merge(a, block);
  free_insert(a, block);
}

void plim_allocator_free(plim_allocator *a, uint32_t slot) {
  uint32_t block = block_of(a, slot);
  if (!block || block_at(a, block)->state != BLOCK_ALLOCATED) return;
  a->stats.now.allocated_bytes -= block_at(a, block)->bytes;
  give_back(a, slot, block);
}

void plim_allocator_free_later(plim_allocator *a, uint32_t slot) {
  uint32_t block = block_of(a, slot);
  if (!block || block_at(a, block)->state != BLOCK_ALLOCATED) return;
  if (!vec_push(&a->pending, slot)) {
    a->out_of_host_memory = true;
    return;
  }
  a->stats.now.allocated_bytes -= block_at(a, block)->bytes;
  block_at(a, block)->state = BLOCK_PENDING;
}

void plim_allocator_complete(plim_allocator *a, uint32_t slot) {
  uint32_t block = block_of(a, slot);
  if (!block || block_at(a, block)->state != BLOCK_PENDING) return;
  size_t i = a->pending_first; // usually the oldest
  while (a->pending.at[i] != slot) i++;
  a->pending.at[i] = NO_SLOT;
  while (a->pending_first < a->pending.len && a->pending.at[a->pending_first] == NO_SLOT)
    a->pending_first++;
  if (a->pending_first == a->pending.len) a->pending_first = a->pending.len = 0;
  give_back(a, slot, block);
}

void complete_all(plim_allocator *a) {
  for (size_t i = a->pending_first; i < a->pending.len; i++) {
    uint32_t slot = a->pending.at[i];
    if (slot != NO_SLOT) give_back(a, slot, block_of(a, slot));
  }
  a->pending_first = a->pending.len = 0;
}

void plim_allocator_empty_cache(plim_allocator *a) { release_all(a); }

// ---- queries --------------------------------------------------------------------------------------

uint64_t plim_allocator_addr(const plim_allocator *a, uint32_t slot) {
  uint32_t block = block_of(a, slot);
  return block ? a->blocks.at[block].addr : PLIM_UNKNOWN;
}

uint64_t plim_allocator_block_bytes(const plim_allocator *a, uint32_t slot) {
  uint32_t block = block_of(a, slot);
  return block ? a->blocks.at[block].bytes : PLIM_UNKNOWN;
}

uint64_t plim_allocator_would_reuse(const plim_allocator *a, uint64_t requested, uint32_t stream,
                                    uint32_t pool) {
  if (!is_known(a, stream, pool) || requested > MAX_REQUEST) return PLIM_UNKNOWN;
  uint64_t bytes = plim_round_request(&a->options.conf, requested);
  size_t key = ((size_t)pool * a->options.stream_count + stream) * 2 + (bytes > SMALL_LIMIT);
  if (!a->freelist_table.at[key]) return PLIM_UNKNOWN;
  uint32_t found = search(a, &a->freelists.at[a->freelist_table.at[key] - 1], bytes);
  return found ? a->blocks.at[found].addr : PLIM_UNKNOWN;
}

static bool is_or_will_be_free(const plim_block *b) {
  return b->state == BLOCK_FREE || b->state == BLOCK_PENDING;
}

bool plim_allocator_serves_when_complete(const plim_allocator *a, uint32_t slot,
                                         uint64_t requested) {
  uint32_t block = block_of(a, slot);
  const plim_block *blocks = a->blocks.at;
  if (!block || blocks[block].state != BLOCK_PENDING) return false;
  uint64_t have = blocks[block].bytes;
  for (uint32_t i = blocks[block].prev; i && is_or_will_be_free(&blocks[i]); i = blocks[i].prev)
    have += blocks[i].bytes;
  for (uint32_t i = blocks[block].next; i && is_or_will_be_free(&blocks[i]); i = blocks[i].next)
    have += blocks[i].bytes;
  uint64_t bytes = plim_round_request(&a->options.conf, requested);
  bool same_size_class = a->freelists.at[blocks[block].freelist].is_large == (bytes > SMALL_LIMIT);
  return same_size_class && have >= bytes && may_serve(&a->options.conf, bytes, have);
}

// ---- at a given address ---------------------------------------------------------------------------

static bool index_free(plim_allocator *a) {
  a->has_free_at = true;
  for (uint32_t i = 1; i < a->blocks.len; i++) {
    const plim_block *b = block_at(a, i);
    if (b->bytes && b->state == BLOCK_FREE && !plim_hash_put(&a->free_at, b->addr, i)) return false;
  }
  return true;
}

bool plim_allocator_place(plim_allocator *a, uint32_t slot, uint64_t requested, uint32_t stream,
                          uint32_t pool, uint64_t addr) {
  if (!is_known(a, stream, pool) || requested > MAX_REQUEST || !slots_reach(a, slot)) return false;
  uint64_t bytes = plim_round_request(&a->options.conf, requested);
  uint32_t freelist = freelist_of(a, stream, pool, bytes > SMALL_LIMIT);
  if (freelist == UINT32_MAX) return false;
  vacate(a, slot);
  if (!a->has_free_at && !index_free(a)) return false;
  const uint32_t *found = plim_hash_find(&a->free_at, addr);
  uint32_t i = found ? *found : 0;
  if (!i || block_at(a, i)->freelist != freelist || block_at(a, i)->bytes < bytes) return false;
  if (gc_is_on(a)) ++*searches_of(a, freelist_at(a, freelist));
  free_erase(a, i);
  return take(a, slot, i, bytes, requested);
}
