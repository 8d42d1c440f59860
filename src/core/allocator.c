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
  int index = 63 - __builtin_clzll(bytes) - 20; // entry 0 is for 1 MiB
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

// ---- life ---------------------------------------------------------------------------------------

static bool zero_extend(plim_allocator *a, uint32_t slot) {
  size_t need = (size_t)slot + 1, have = a->block_of_slot.len;
  if (need <= have) return true;
  if (!vec_reserve(&a->block_of_slot, need - have)) return false;
  memset(a->block_of_slot.at + have, 0, (need - have) * sizeof *a->block_of_slot.at);
  a->block_of_slot.len = need;
  return true;
}

static bool copy_streams(plim_allocator *a) {
  static const uint64_t just_default[] = {0};
  const uint64_t *from = a->options.streams ? a->options.streams : just_default;
  if (!a->options.streams || !a->options.stream_count) a->options.stream_count = 1;
  uint64_t *copy = malloc(a->options.stream_count * sizeof *copy);
  a->options.streams = copy;
  if (copy) memcpy(copy, from, a->options.stream_count * sizeof *copy);
  return copy;
}

static bool make_tables(plim_allocator *a) {
  size_t pools = a->options.pool_count, lanes = pools * a->options.stream_count * 2;
  if (!vec_reserve(&a->lane_table, lanes) || !vec_reserve(&a->searches, pools * 2)) return false;
  memset(a->lane_table.at, 0, lanes * sizeof *a->lane_table.at);
  memset(a->searches.at, 0, pools * 2 * sizeof *a->searches.at);
  a->lane_table.len = lanes;
  a->searches.len = pools * 2;
  return vec_push(&a->blocks, (plim_block){0});
}

plim_allocator *plim_allocator_new(const plim_allocator_options *options) {
  plim_allocator *a = calloc(1, sizeof *a);
  if (!a) return NULL;
  a->options = *options;
  if (!a->options.pool_count) a->options.pool_count = 1;
  if (copy_streams(a) && make_tables(a)) return a;
  plim_allocator_delete(a);
  return NULL;
}

void plim_allocator_delete(plim_allocator *a) {
  if (!a) return;
  free((void *)a->options.streams);
  vec_free(&a->blocks);
  vec_free(&a->lanes);
  vec_free(&a->lane_order);
  vec_free(&a->lane_table);
  vec_free(&a->searches);
  vec_free(&a->block_of_slot);
  vec_free(&a->pending);
  plim_hash_free(&a->free_at);
  free(a);
}

static bool copy_state(const plim_allocator *from, plim_allocator *to) {
  size_t bytes = from->options.stream_count * sizeof *from->options.streams;
  uint64_t *streams = malloc(bytes + 1);
  to->options.streams = streams;
  if (streams && bytes) memcpy(streams, from->options.streams, bytes);
  return streams && vec_copy(&to->blocks, &from->blocks) && vec_copy(&to->lanes, &from->lanes) &&
         vec_copy(&to->lane_order, &from->lane_order) &&
         vec_copy(&to->lane_table, &from->lane_table) && vec_copy(&to->searches, &from->searches) &&
         vec_copy(&to->block_of_slot, &from->block_of_slot) &&
         vec_copy(&to->pending, &from->pending);
}

plim_allocator *plim_allocator_clone(const plim_allocator *a, plim_driver driver,
                                     uint64_t limit_bytes) {
  plim_allocator *copy = calloc(1, sizeof *copy);
  if (!copy) return NULL;
  copy->options = a->options;
  copy->options.driver = driver;
  copy->options.limit_bytes = limit_bytes;
  copy->stats = a->stats;
  copy->spare_blocks = a->spare_blocks;
  copy->pending_first = a->pending_first;
  copy->registrations = a->registrations;
  if (copy_state(a, copy)) return copy;
  plim_allocator_delete(copy);
  return NULL;
}

const plim_allocator_stats_t *plim_allocator_stats(const plim_allocator *a) { return &a->stats; }

bool plim_allocator_out_of_host_memory(const plim_allocator *a) { return a->out_of_host_memory; }

void plim_allocator_reset_peaks(plim_allocator *a) { a->stats.peak = a->stats.now; }

void plim_allocator_set_limit(plim_allocator *a, uint64_t limit_bytes) {
  a->options.limit_bytes = limit_bytes;
}

// ---- lanes --------------------------------------------------------------------------------------

static bool lane_before(const plim_allocator *a, const plim_lane *x, const plim_lane *y) {
  uint64_t hx = a->options.streams[x->stream], hy = a->options.streams[y->stream];
  return hx != hy ? hx < hy : x->pool < y->pool;
}

static uint32_t lane_new(plim_allocator *a, uint32_t stream, uint32_t pool, bool is_large) {
  plim_lane fresh = {.stream = stream, .pool = pool, .is_large = is_large};
  if (!vec_push(&a->lanes, fresh) || !vec_push(&a->lane_order, 0)) return UINT32_MAX;
  uint32_t index = (uint32_t)a->lanes.len - 1;
  size_t i = a->lane_order.len - 1;
  for (; i > 0 && lane_before(a, &fresh, lane_at(a, a->lane_order.at[i - 1])); i--)
    a->lane_order.at[i] = a->lane_order.at[i - 1];
  a->lane_order.at[i] = index;
  return index;
}

// The lane of a stream and pool, made at its first use; UINT32_MAX when memory is out.
static uint32_t lane_of(plim_allocator *a, uint32_t stream, uint32_t pool, bool is_large) {
  size_t key = ((size_t)pool * a->options.stream_count + stream) * 2 + is_large;
  if (!a->lane_table.at[key]) {
    uint32_t made = lane_new(a, stream, pool, is_large);
    if (made == UINT32_MAX) return UINT32_MAX;
    a->lane_table.at[key] = made + 1;
  }
  return a->lane_table.at[key] - 1;
}

// ---- blocks -------------------------------------------------------------------------------------

uint32_t block_new(plim_allocator *a, uint32_t lane, uint64_t addr, uint64_t bytes) {
  uint32_t block = a->spare_blocks;
  if (block) a->spare_blocks = block_at(a, block)->next;
  else {
    if (a->blocks.len >= UINT32_MAX || !vec_push(&a->blocks, (plim_block){0})) return 0;
    block = (uint32_t)a->blocks.len - 1;
  }
  *block_at(a, block) = (plim_block){.addr = addr, .bytes = bytes, .tie = addr, .lane = lane};
  return block;
}

uint32_t block_new_beside(plim_allocator *a, uint32_t block, uint64_t addr, uint64_t bytes) {
  uint32_t fresh = block_new(a, block_at(a, block)->lane, addr, bytes);
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
  plim_lane *l = lane_at(a, b->lane);
  b->state = BLOCK_FREE;
  b->searches_before = *searches_of(a, l);
  plim_freeset_insert(&l->free, a->blocks.at, block);
  if (a->has_free_at && !plim_hash_put(&a->free_at, b->addr, block)) a->out_of_host_memory = true;
}

void free_erase(plim_allocator *a, uint32_t block) {
  if (a->has_free_at) plim_hash_remove(&a->free_at, block_at(a, block)->addr, NULL);
  plim_freeset_erase(&lane_at(a, block_at(a, block)->lane)->free, a->blocks.at, block);
}

// The tie key follows the address in address order; a registration number stays.
void block_move_to(plim_allocator *a, plim_block *b, uint64_t addr) {
  b->addr = addr;
  if (a->options.order == PLIM_ORDER_ADDRESS) b->tie = addr;
}

static void unset(plim_allocator *a, uint32_t block) {
  plim_block *b = block_at(a, block);
  if (b->state == BLOCK_FREE) free_erase(a, block);
  else plim_address_tree_erase(&lane_at(a, b->lane)->unmapped, a->blocks.at, block);
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

// Best fit counts the unmapped space behind a block as part of it, so that small requests do not
// eat the growing tail of an expandable segment.
static uint64_t expandable_bytes(const plim_allocator *a, const plim_block *b) {
  const plim_block *next = &a->blocks.at[b->next];
  return b->bytes + (b->next && next->state == BLOCK_UNMAPPED ? next->bytes : 0);
}

static uint32_t prefer_less_room(const plim_allocator *a, const plim_lane *l, uint32_t found) {
  const plim_block *blocks = a->blocks.at;
  while (block_is_expandable(&blocks[found])) {
    uint32_t next = plim_freeset_next(&l->free, blocks, found);
    if (!next || expandable_bytes(a, &blocks[next]) >= expandable_bytes(a, &blocks[found])) break;
    found = next;
  }
  return found;
}

static uint32_t skip_expandable(const plim_allocator *a, const plim_lane *l, uint32_t found) {
  while (found && block_is_expandable(&a->blocks.at[found]))
    found = plim_freeset_next(&l->free, a->blocks.at, found);
  return found;
}

// max_split_size keeps large blocks for large requests, and those from wasting larger ones.
static bool may_serve(const plim_alloc_conf *conf, uint64_t bytes, uint64_t have) {
  if (bytes < conf->max_split_bytes) return have < conf->max_split_bytes;
  return have - bytes < conf->max_non_split_rounding_bytes;
}

// The cached block a request of `bytes` (rounded) gets; 0 on a miss. PyTorch looks at one
// candidate only: if max_split_size forbids it, the search has missed.
static uint32_t search(const plim_allocator *a, const plim_lane *l, uint64_t bytes) {
  const plim_alloc_conf *conf = &a->options.conf;
  uint32_t found = plim_freeset_fit(&l->free, a->blocks.at, bytes);
  if (!found) return 0;
  if (block_is_expandable(&a->blocks.at[found]))
    found =
        conf->expandable_segments ? prefer_less_room(a, l, found) : skip_expandable(a, l, found);
  return found && may_serve(conf, bytes, a->blocks.at[found].bytes) ? found : 0;
}

static bool should_split(const plim_allocator *a, const plim_block *b, uint64_t bytes) {
  bool is_large = a->lanes.at[b->lane].is_large;
  return plim_block_is_split(&a->options.conf, is_large, bytes, b->bytes - bytes);
}

static void count_allocated(plim_allocator *a, const plim_block *b) {
  plim_usage *now = &a->stats.now, *peak = &a->stats.peak;
  now->allocated_bytes += b->bytes;
  now->active_bytes += b->bytes;
  now->requested_bytes += b->requested_bytes;
  raise_peak(now->allocated_bytes, &peak->allocated_bytes);
  raise_peak(now->active_bytes, &peak->active_bytes);
  raise_peak(now->requested_bytes, &peak->requested_bytes);
}

// Hands out `block` (in no set) for a request: the front goes to the user, a splittable rest back
// to the free set.
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

static uint32_t find_cached(plim_allocator *a, uint32_t lane, uint64_t bytes) {
  if (gc_is_on(a)) ++*searches_of(a, lane_at(a, lane));
  uint32_t found = search(a, lane_at(a, lane), bytes);
  if (found) free_erase(a, found);
  return found;
}

// A miss: collect garbage, ask for a segment, then release more and more and ask again. PyTorch
// does not search again after a release, even if that freed a fitting block (recorded).
static uint32_t find_new(plim_allocator *a, uint32_t lane, uint64_t bytes) {
  uint64_t request = segment_request(&a->options.conf, bytes);
  if (gc_is_on(a)) release_old(a);
  uint32_t found = segment_obtain(a, lane, bytes, request);
  if (found || a->options.conf.throw_on_cudamalloc_oom) return found;
  if (release_oversize(a, lane, bytes)) found = segment_obtain(a, lane, bytes, request);
  if (found) return found;
  release_all(a);
  a->stats.retries++;
  return segment_obtain(a, lane, bytes, request);
}

// A slot that is asked for again while it is held: its free, or the end of its wait, was lost.
static void vacate(plim_allocator *a, uint32_t slot) {
  if (!a->block_of_slot.at[slot]) return;
  plim_allocator_free(a, slot);
  plim_allocator_complete(a, slot);
}

static bool known(const plim_allocator *a, uint32_t stream, uint32_t pool) {
  return stream < a->options.stream_count && pool < a->options.pool_count;
}

plim_malloc_result plim_allocator_malloc(plim_allocator *a, uint32_t slot, uint64_t requested,
                                         uint32_t stream, uint32_t pool) {
  if (!known(a, stream, pool) || !zero_extend(a, slot)) return PLIM_MALLOC_NO_HOST_MEMORY;
  vacate(a, slot);
  if (requested > MAX_REQUEST) {
    a->stats.ooms++;
    return PLIM_MALLOC_OOM;
  }
  uint64_t bytes = plim_round_request(&a->options.conf, requested);
  uint32_t lane = lane_of(a, stream, pool, bytes > SMALL_LIMIT);
  if (lane == UINT32_MAX) return PLIM_MALLOC_NO_HOST_MEMORY;
  uint32_t block = find_cached(a, lane, bytes);
  if (!block) block = find_new(a, lane, bytes);
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
  size_t i = a->pending_first; // mostly the oldest
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

// ---- looking inside -------------------------------------------------------------------------------

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
  if (!known(a, stream, pool) || requested > MAX_REQUEST) return PLIM_UNKNOWN;
  uint64_t bytes = plim_round_request(&a->options.conf, requested);
  size_t key = ((size_t)pool * a->options.stream_count + stream) * 2 + (bytes > SMALL_LIMIT);
  if (!a->lane_table.at[key]) return PLIM_UNKNOWN;
  uint32_t found = search(a, &a->lanes.at[a->lane_table.at[key] - 1], bytes);
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
  bool same_size_class = a->lanes.at[blocks[block].lane].is_large == (bytes > SMALL_LIMIT);
  return same_size_class && have >= bytes && may_serve(&a->options.conf, bytes, have);
}

static plim_block_view view_of(const plim_allocator *a, const plim_block *b) {
  const plim_block *prev = &a->blocks.at[b->prev];
  const plim_lane *l = &a->lanes.at[b->lane];
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
                                void (*visit)(void *context, uint32_t slot, uint64_t addr),
                                void *context) {
  for (size_t slot = 0; slot < a->block_of_slot.len; slot++) {
    uint32_t block = a->block_of_slot.at[slot];
    if (block) visit(context, (uint32_t)slot, a->blocks.at[block].addr);
  }
}

// ---- setting a state ------------------------------------------------------------------------------

static uint32_t unmapped_around(plim_allocator *a, uint32_t lane, uint64_t addr, uint64_t end) {
  uint32_t i = plim_address_tree_at_or_before(lane_at(a, lane)->unmapped, a->blocks.at, addr);
  return i && end <= block_at(a, i)->addr + block_at(a, i)->bytes ? i : 0;
}

static uint32_t unmapped_beside(plim_allocator *a, uint32_t whole, uint64_t addr, uint64_t bytes) {
  uint32_t block = block_new_beside(a, whole, addr, bytes);
  if (!block) return 0;
  block_at(a, block)->state = BLOCK_UNMAPPED;
  plim_address_tree_insert(&lane_at(a, block_at(a, block)->lane)->unmapped, a->blocks.at, block);
  return block;
}

// Cuts [addr, end) out of the unmapped block `whole`; what is left on either side stays unmapped.
static bool carve(plim_allocator *a, uint32_t whole, uint64_t addr, uint64_t end) {
  plim_block old = *block_at(a, whole);
  plim_address_tree_erase(&lane_at(a, old.lane)->unmapped, a->blocks.at, whole);
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

static uint32_t seed_whole(plim_allocator *a, const plim_seed_segment *s, uint32_t lane) {
  uint64_t end = s->addr + s->bytes;
  if (!s->is_expandable) {
    uint32_t whole = block_new(a, lane, s->addr, s->bytes);
    if (whole && a->options.order == PLIM_ORDER_REGISTRATION)
      block_at(a, whole)->tie = a->registrations++;
    return whole;
  }
  uint32_t whole = unmapped_around(a, lane, s->addr, end);
  if (!whole) whole = range_block_new(a, lane, s->range_start, s->range_end - s->range_start);
  return whole && carve(a, whole, s->addr, end) ? whole : 0;
}

// Cuts a seeded block off the front of `rest`, which is in no set; returns what is left, or 0.
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
  if (!known(a, s->stream, s->pool) || !seeds_fit(s, blocks, count)) return false;
  uint32_t lane = lane_of(a, s->stream, s->pool, s->is_large);
  uint32_t rest = lane == UINT32_MAX ? 0 : seed_whole(a, s, lane);
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
    if (!rest || !zero_extend(a, blocks[i].slot)) {
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
  if (!known(a, stream, pool) || requested > MAX_REQUEST || !zero_extend(a, slot)) return false;
  uint64_t bytes = plim_round_request(&a->options.conf, requested);
  uint32_t lane = lane_of(a, stream, pool, bytes > SMALL_LIMIT);
  if (lane == UINT32_MAX) return false;
  vacate(a, slot);
  if (!a->has_free_at && !index_free(a)) return false;
  const uint32_t *found = plim_hash_find(&a->free_at, addr);
  uint32_t i = found ? *found : 0;
  if (!i || block_at(a, i)->lane != lane || block_at(a, i)->bytes < bytes) return false;
  if (gc_is_on(a)) ++*searches_of(a, lane_at(a, lane));
  free_erase(a, i);
  return take(a, slot, i, bytes, requested);
}
