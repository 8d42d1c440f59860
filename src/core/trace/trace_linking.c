// Links the events of a trace: which allocation each belongs to, and what existed before the first event.
//
// A recording may start late (after the model was loaded) or be cut by its ring buffer. What existed at its start can
// be seen later: a free, segment_free or unmap of something never allocated, or a block or segment of the final layout
// that no event created.
#include <string.h>

#include "hash.h"
#include "sort.h"
#include "trace.h"

#define START_MARK 0x80000000u  // event.block of a start block, until all slots are known
#define RANGE_ROOM (1ull << 44) // address space assumed after an expandable segment: 16 TiB

typedef struct {
  plim_trace *trace;
  plim_hash live; // address -> slot of live allocations
  vec(uint32_t) free_slots;
  // Slots that become free after the next malloc, which may have completed their frees.
  vec(uint32_t) late_slots;
  uint32_t slots; // slots used, not counting start blocks
} linker;

// Rounding never moves a request across 1 MiB, so its pool does not depend on the settings.
static bool is_large_request(uint64_t bytes) { return bytes > PLIM_MIB; }

// ---- blocks ---------------------------------------------------------------------------------------

static bool add_start_block(linker *k, plim_event *event) {
  plim_start_block block = {.addr = event->addr,
                            .requested_bytes = event->bytes,
                            .block_bytes = PLIM_UNKNOWN,
                            .end_at_most = UINT64_MAX,
                            .stream = event->stream,
                            .pool = event->pool,
                            .is_pending = event->action == PLIM_EV_FREE_COMPLETED};
  event->block = START_MARK | (uint32_t)k->trace->start_blocks.len;
  return vec_push(&k->trace->start_blocks, block);
}

static bool link_alloc(linker *k, plim_event *event) {
  uint32_t *known = plim_hash_find(&k->live, event->addr);
  if (known) { // its free was not recorded: the new tensor takes over the slot
    event->block = *known;
    k->trace->lost_frees++;
    return true;
  }
  event->block = k->free_slots.len ? k->free_slots.at[--k->free_slots.len] : k->slots++;
  while (k->late_slots.len) {
    uint32_t slot = k->late_slots.at[--k->late_slots.len];
    if (!vec_push(&k->free_slots, slot)) return false;
  }
  return plim_hash_put(&k->live, event->addr, event->block);
}

// A malloc that releases everything first waits for all frees. Frees that complete right before such a malloc may have
// completed in that wait; their slots must not be given to the tensor that it allocates.
static bool may_end_inside_malloc(const plim_trace *t, const plim_event *event) {
  if (event->action == PLIM_EV_FREE_COMPLETED) return true;
  const plim_event *next = event + 1;
  return next < t->events.at + t->events.len && plim_event_is_release(next);
}

static bool link_free(linker *k, plim_event *event, bool is_last) {
  uint32_t *known = plim_hash_find(&k->live, event->addr);
  if (!known) {
    if (!add_start_block(k, event)) return false;
    return is_last || plim_hash_put(&k->live, event->addr, event->block);
  }
  event->block = *known;
  if (!is_last) return true;
  plim_hash_remove(&k->live, event->addr, NULL);
  if (event->block & START_MARK) return true;
  return may_end_inside_malloc(k->trace, event) ? vec_push(&k->late_slots, event->block)
                                                : vec_push(&k->free_slots, event->block);
}

static bool link_event(linker *k, plim_event *event) {
  switch (event->action) {
  case PLIM_EV_ALLOC: return link_alloc(k, event);
  case PLIM_EV_FREE:
  case PLIM_EV_FREE_COMPLETED: return link_free(k, event, true);
  case PLIM_EV_FREE_REQUESTED: return link_free(k, event, false);
  default: return true;
  }
}

// Blocks of the final layout that no event created existed from the start to the end.
static bool add_layout_blocks(linker *k) {
  plim_trace *t = k->trace;
  for (size_t s = 0; s < t->layout.len; s++) {
    const plim_layout_segment *segment = &t->layout.at[s];
    for (uint32_t i = 0; i < segment->block_count; i++) {
      const plim_layout_block *b = &t->layout_blocks.at[segment->first_block + i];
      if (b->state == PLIM_BLOCK_INACTIVE || plim_hash_find(&k->live, b->addr)) continue;
      plim_start_block block = {
          .addr = b->addr,
          .requested_bytes = b->requested_bytes == PLIM_UNKNOWN ? b->bytes : b->requested_bytes,
          .block_bytes = b->bytes,
          .end_at_most = b->addr + b->bytes,
          .stack = b->stack,
          .stream = segment->stream,
          .pool = segment->pool,
          .is_pending = b->state == PLIM_BLOCK_PENDING_FREE};
      if (!vec_push(&t->start_blocks, block)) return false;
    }
  }
  return true;
}

static int start_block_order(const void *x, const void *y) {
  const plim_start_block *a = x, *b = y;
  return (a->addr > b->addr) - (a->addr < b->addr);
}

// Start blocks get the slots after all others, so that no slot is reused while its block lives.
static void finish_slots(linker *k) {
  plim_trace *t = k->trace;
  for (size_t i = 0; i < t->start_blocks.len; i++)
    t->start_blocks.at[i].slot = k->slots + (uint32_t)i;
  if (t->start_blocks.len)
    for (size_t i = 0; i < t->events.len; i++)
      if (t->events.at[i].block & START_MARK)
        t->events.at[i].block = k->slots + (t->events.at[i].block & ~START_MARK);
  t->block_slots = k->slots + (uint32_t)t->start_blocks.len;
  if (t->start_blocks.len)
    plim_sort(t->start_blocks.at, t->start_blocks.len, sizeof *t->start_blocks.at,
              start_block_order);
}

static plim_start_block *start_block_before(plim_trace *t, uint64_t addr) {
  size_t low = 0, high = t->start_blocks.len; // the last that starts at or below addr
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (t->start_blocks.at[middle].addr <= addr) low = middle + 1;
    else high = middle;
  }
  return low ? &t->start_blocks.at[low - 1] : NULL;
}

// Memory allocated after a start block while that lived limits where the block ends.
static void bound_start_blocks(plim_trace *t) {
  for (size_t i = 0; t->start_blocks.len && i < t->events.len; i++) {
    const plim_event *e = &t->events.at[i];
    plim_start_block *b = start_block_before(t, e->addr);
    if (!b || b->is_gone) continue;
    if (e->action == PLIM_EV_ALLOC && e->addr < b->end_at_most) b->end_at_most = e->addr;
    bool ends = e->action == PLIM_EV_FREE || e->action == PLIM_EV_FREE_COMPLETED;
    if (ends && e->addr == b->addr) b->is_gone = true;
  }
}

// ---- segments -------------------------------------------------------------------------------------

static bool add_start_segment(plim_trace *t, const plim_start_segment *segment) {
  return vec_push(&t->start_segments, *segment);
}

// The large pool never requests 2 MiB from cudaMalloc: a segment of that size is a small one.
static bool is_large_segment(uint64_t bytes) { return bytes != 2 * PLIM_MIB; }

static bool link_whole_segments(plim_trace *t) {
  plim_hash made = {0};
  bool ok = true;
  for (size_t i = 0; ok && i < t->events.len; i++) {
    const plim_event *e = &t->events.at[i];
    if (e->action == PLIM_EV_SEGMENT_ALLOC) ok = plim_hash_put(&made, e->addr, 1);
    if (e->action != PLIM_EV_SEGMENT_FREE || plim_hash_remove(&made, e->addr, NULL)) continue;
    ok = add_start_segment(t, &(plim_start_segment){.addr = e->addr,
                                                    .bytes = e->bytes,
                                                    .stream = e->stream,
                                                    .pool = e->pool,
                                                    .is_large = is_large_segment(e->bytes)});
  }
  for (size_t i = 0; ok && i < t->layout.len; i++) {
    const plim_layout_segment *s = &t->layout.at[i];
    if (s->is_expandable || plim_hash_find(&made, s->addr)) continue;
    ok = add_start_segment(t, &(plim_start_segment){.addr = s->addr,
                                                    .bytes = s->bytes,
                                                    .stream = s->stream,
                                                    .pool = s->pool,
                                                    .is_large = s->is_large});
  }
  plim_hash_free(&made);
  return ok;
}

// ---- pages of expandable segments -------------------------------------------------------------------

typedef struct {
  uint64_t addr, end;
} interval;

typedef vec(interval) intervals; // by address, not overlapping

// The first interval that ends after an address.
static size_t first_behind(const intervals *set, uint64_t addr) {
  size_t low = 0, high = set->len;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (set->at[middle].end > addr) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Replaces the intervals [from, to) by `count` others.
static bool replace(intervals *set, size_t from, size_t to, const interval *with, size_t count) {
  if (from == to && !count) return true;
  if (!vec_reserve(set, count)) return false;
  memmove(set->at + from + count, set->at + to, (set->len - to) * sizeof *set->at);
  if (count) memcpy(set->at + from, with, count * sizeof *with);
  set->len = set->len - (to - from) + count;
  return true;
}

// Removes [addr, end) and adds every part of it that was not in the set to `missing` (may be NULL).
static bool intervals_remove(intervals *set, uint64_t addr, uint64_t end, intervals *missing) {
  size_t from = first_behind(set, addr), to = from, edges = 0;
  interval edge[2];
  uint64_t reached = addr;
  for (; to < set->len && set->at[to].addr < end; to++) {
    interval v = set->at[to];
    if (v.addr > reached && missing && !vec_push(missing, (interval){reached, v.addr}))
      return false;
    if (v.addr < addr) edge[edges++] = (interval){v.addr, addr};
    if (v.end > end) edge[edges++] = (interval){end, v.end};
    reached = v.end;
  }
  if (reached < end && missing && !vec_push(missing, (interval){reached, end})) return false;
  return replace(set, from, to, edge, edges);
}

static bool intervals_add(intervals *set, uint64_t addr, uint64_t end) {
  if (!intervals_remove(set, addr, end, NULL)) return false;
  size_t at = first_behind(set, addr);
  if (at && set->at[at - 1].end == addr) { // extends the previous one
    set->at[at - 1].end = end;
    return true;
  }
  return replace(set, at, at, &(interval){addr, end}, 1);
}

// Pieces of start memory that the layout does not show; whether they are large is determined later.
static bool add_start_pieces(plim_trace *t, const intervals *missing, plim_start_segment like) {
  for (size_t i = 0; i < missing->len; i++) {
    like.addr = missing->at[i].addr;
    like.bytes = missing->at[i].end - like.addr;
    like.is_expandable = true;
    if (!add_start_segment(t, &like)) return false;
  }
  return true;
}

static bool link_pages(plim_trace *t) {
  intervals mapped = {0}, missing = {0};
  bool ok = true;
  for (size_t i = 0; ok && i < t->events.len; i++) {
    const plim_event *e = &t->events.at[i];
    if (e->action == PLIM_EV_SEGMENT_MAP) ok = intervals_add(&mapped, e->addr, e->addr + e->bytes);
    if (e->action != PLIM_EV_SEGMENT_UNMAP) continue;
    missing.len = 0;
    plim_start_segment like = {.stream = e->stream, .pool = e->pool, .size_is_unknown = true};
    ok = intervals_remove(&mapped, e->addr, e->addr + e->bytes, &missing) &&
         add_start_pieces(t, &missing, like);
  }
  for (size_t i = 0; ok && i < t->layout.len; i++) {
    const plim_layout_segment *s = &t->layout.at[i];
    if (!s->is_expandable) continue;
    missing.len = 0;
    plim_start_segment like = {.stream = s->stream, .pool = s->pool, .is_large = s->is_large};
    ok = intervals_remove(&mapped, s->addr, s->addr + s->bytes, &missing) &&
         add_start_pieces(t, &missing, like);
  }
  vec_free(&mapped);
  vec_free(&missing);
  return ok;
}

static plim_start_segment *start_segment_around(plim_trace *t, uint64_t addr) {
  size_t low = 0, high = t->start_segments.len;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (t->start_segments.at[middle].addr <= addr) low = middle + 1;
    else high = middle;
  }
  if (!low) return NULL;
  plim_start_segment *s = &t->start_segments.at[low - 1];
  return addr - s->addr < s->bytes ? s : NULL;
}

static void learn_size(plim_trace *t, uint64_t addr, uint64_t bytes) {
  plim_start_segment *s = start_segment_around(t, addr);
  if (!s || !s->size_is_unknown) return;
  s->is_large = is_large_request(bytes);
  s->size_is_unknown = false;
}

// Large and small blocks never share a page, so the first block seen in a piece tells which kind it is. A piece without
// blocks was never used; it is large if its size is a multiple of the usual large page.
static void learn_sizes(plim_trace *t) {
  bool any = false;
  for (size_t i = 0; i < t->start_segments.len; i++) any |= t->start_segments.at[i].size_is_unknown;
  if (!any) return;
  for (size_t i = 0; i < t->start_blocks.len; i++)
    learn_size(t, t->start_blocks.at[i].addr, t->start_blocks.at[i].requested_bytes);
  for (size_t i = 0; i < t->events.len; i++)
    if (t->events.at[i].action == PLIM_EV_ALLOC)
      learn_size(t, t->events.at[i].addr, t->events.at[i].bytes);
  for (size_t i = 0; i < t->start_segments.len; i++) {
    plim_start_segment *s = &t->start_segments.at[i];
    if (s->size_is_unknown) s->is_large = s->bytes % (20 * PLIM_MIB) == 0;
  }
}

static bool same_range(const plim_start_segment *a, const plim_start_segment *b) {
  return a->stream == b->stream && a->pool == b->pool && a->is_large == b->is_large &&
         a->is_expandable && b->is_expandable;
}

// The lowest address used by each stream and pool, where its range starts.
typedef vec(plim_start_segment) ranges;

static plim_start_segment *range_of(const ranges *r, const plim_start_segment *s) {
  for (size_t i = 0; i < r->len; i++)
    if (same_range(&r->at[i], s)) return &r->at[i];
  return NULL;
}

// A map belongs to the next malloc, which tells whether it is large.
static void lower_ranges(const plim_trace *t, ranges *r) {
  const plim_event *request = NULL;
  for (size_t i = t->events.len; i-- > 0;) {
    const plim_event *e = &t->events.at[i];
    if (e->action == PLIM_EV_ALLOC || e->action == PLIM_EV_OOM) request = e;
    if (e->action != PLIM_EV_SEGMENT_MAP || !request) continue;
    plim_start_segment like = {.stream = e->stream,
                               .pool = e->pool,
                               .is_large = is_large_request(request->bytes),
                               .is_expandable = true};
    plim_start_segment *range = range_of(r, &like);
    if (range && e->addr < range->addr) range->addr = e->addr;
  }
}

static bool find_ranges(plim_trace *t) {
  ranges r = {0};
  bool ok = true;
  // Sorted by address: the first is the lowest.
  for (size_t i = 0; ok && i < t->start_segments.len; i++) {
    const plim_start_segment *s = &t->start_segments.at[i];
    if (s->is_expandable && !range_of(&r, s)) ok = vec_push(&r, *s);
  }
  if (r.len) lower_ranges(t, &r);
  for (size_t i = 0; ok && i < t->start_segments.len; i++) {
    plim_start_segment *s = &t->start_segments.at[i], *range = range_of(&r, s);
    s->range_start = range ? range->addr : s->addr;
    s->range_end = s->range_start + RANGE_ROOM;
  }
  vec_free(&r);
  return ok;
}

// Adjacent pieces are merged, because a block may span both.
static void join_pieces(plim_trace *t) {
  size_t kept = 0;
  for (size_t i = 1; i < t->start_segments.len; i++) {
    plim_start_segment *last = &t->start_segments.at[kept], *s = &t->start_segments.at[i];
    if (same_range(last, s) && last->addr + last->bytes == s->addr) last->bytes += s->bytes;
    else t->start_segments.at[++kept] = *s;
  }
  t->start_segments.len = kept + 1;
}

static int start_segment_order(const void *x, const void *y) {
  const plim_start_segment *a = x, *b = y;
  return (a->addr > b->addr) - (a->addr < b->addr);
}

static bool link_segments(plim_trace *t) {
  if (!link_whole_segments(t) || !link_pages(t)) return false;
  if (!t->start_segments.len) return true;
  plim_sort(t->start_segments.at, t->start_segments.len, sizeof *t->start_segments.at,
            start_segment_order);
  learn_sizes(t);
  join_pieces(t);
  return find_ranges(t);
}

bool plim_trace_link(plim_trace *trace) {
  linker k = {.trace = trace};
  bool ok = trace->events.len < START_MARK;
  for (size_t i = 0; ok && i < trace->events.len; i++) ok = link_event(&k, &trace->events.at[i]);
  ok = ok && add_layout_blocks(&k);
  if (ok) finish_slots(&k);
  if (ok) bound_start_blocks(trace);
  plim_hash_free(&k.live);
  vec_free(&k.free_slots);
  vec_free(&k.late_slots);
  return ok && link_segments(trace);
}
