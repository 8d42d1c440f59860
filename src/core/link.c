// Links the events of a trace: which allocation is each about, and what was there before the first.
//
// A recording may start late (after the model was loaded) or be cut by its ring buffer. What existed
// at its start shows itself: a free, segment_free or unmap of something never allocated, or a block
// or segment of the final layout that no event made.
#include <string.h>

#include "hash.h"
#include "trace.h"

#define START_MARK 0x80000000u  // event.block of a start block, until all slots are known
#define RANGE_ROOM (1ull << 44) // address space assumed behind an expandable segment: 16 TiB

typedef struct {
  plim_trace *trace;
  plim_hash live; // address -> slot of what was allocated and not yet freed
  vec(uint32_t) free_slots;
  vec(uint32_t) late_slots; // free after the next malloc: that may be what completed their frees
  uint32_t slots;           // slots given out, start blocks not counted
} linker;

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

// A malloc that releases everything first waits for all frees. Those that end right before such a
// malloc may be of this kind; their slots must not go to the tensor it is for.
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

// Blocks of the final layout that no event made were there from the start to the end.
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

// Start blocks get the slots after all others, so that no slot is reused before its block is gone.
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
    qsort(t->start_blocks.at, t->start_blocks.len, sizeof *t->start_blocks.at, start_block_order);
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

// Memory handed out behind a start block, while that lived, shows where the block ends at most.
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

// cudaMalloc never gives the large pool 2 MiB: a segment of that size is a small one.
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

// Removes [addr, end) and hands every part of it that was not there to `missing` (may be NULL).
static bool intervals_remove(intervals *set, uint64_t addr, uint64_t end, intervals *missing) {
  intervals left = {0};
  bool ok = true;
  for (size_t i = 0; ok && i < set->len; i++) {
    interval v = set->at[i];
    if (v.end <= addr || v.addr >= end) {
      ok = vec_push(&left, v);
      continue;
    }
    if (v.addr > addr && missing) ok = vec_push(missing, (interval){addr, v.addr});
    if (v.addr < addr) ok = ok && vec_push(&left, (interval){v.addr, addr});
    if (v.end > end) ok = ok && vec_push(&left, (interval){end, v.end});
    if (v.end > addr) addr = v.end;
  }
  if (ok && addr < end && missing) ok = vec_push(missing, (interval){addr, end});
  vec_free(set);
  *set = left;
  return ok;
}

static bool intervals_add(intervals *set, uint64_t addr, uint64_t end) {
  if (!intervals_remove(set, addr, end, NULL) || !vec_reserve(set, 1)) return false;
  size_t at = 0;
  while (at < set->len && set->at[at].addr < addr) at++;
  if (at && set->at[at - 1].end == addr) { // grows the one before
    set->at[at - 1].end = end;
    return true;
  }
  memmove(set->at + at + 1, set->at + at, (set->len++ - at) * sizeof *set->at);
  set->at[at] = (interval){addr, end};
  return true;
}

// A map belongs to the malloc behind it, which tells the pool and stream.
static const plim_event *malloc_behind(const plim_trace *t, size_t i) {
  for (; i < t->events.len; i++)
    if (t->events.at[i].action == PLIM_EV_ALLOC || t->events.at[i].action == PLIM_EV_OOM)
      return &t->events.at[i];
  return NULL;
}

// Pages of the large pool are at least 12 MiB, of the small pool 2 MiB. A piece of start memory is
// large if a large block was seen in it, or else if it cannot be told apart by size.
static bool is_large_piece(const plim_trace *t, uint64_t addr, uint64_t end) {
  for (size_t i = 0; i < t->start_blocks.len; i++) {
    const plim_start_block *b = &t->start_blocks.at[i];
    if (b->addr >= addr && b->addr < end) return b->requested_bytes > PLIM_MIB;
  }
  for (size_t i = 0; i < t->events.len; i++) {
    const plim_event *e = &t->events.at[i];
    if (e->action == PLIM_EV_ALLOC && e->addr >= addr && e->addr < end) return e->bytes > PLIM_MIB;
  }
  return (end - addr) % (20 * PLIM_MIB) == 0;
}

static bool add_start_pieces(plim_trace *t, const intervals *missing, uint16_t stream, uint8_t pool,
                             const bool *is_large) {
  for (size_t i = 0; i < missing->len; i++) {
    interval v = missing->at[i];
    plim_start_segment piece = {.addr = v.addr,
                                .bytes = v.end - v.addr,
                                .stream = stream,
                                .pool = pool,
                                .is_expandable = true};
    piece.is_large = is_large ? *is_large : is_large_piece(t, v.addr, v.end);
    if (!add_start_segment(t, &piece)) return false;
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
    ok = intervals_remove(&mapped, e->addr, e->addr + e->bytes, &missing) &&
         add_start_pieces(t, &missing, e->stream, e->pool, NULL);
  }
  for (size_t i = 0; ok && i < t->layout.len; i++) {
    const plim_layout_segment *s = &t->layout.at[i];
    if (!s->is_expandable) continue;
    missing.len = 0;
    ok = intervals_remove(&mapped, s->addr, s->addr + s->bytes, &missing) &&
         add_start_pieces(t, &missing, s->stream, s->pool, &s->is_large);
  }
  vec_free(&mapped);
  vec_free(&missing);
  return ok;
}

static bool same_range(const plim_start_segment *a, const plim_start_segment *b) {
  return a->stream == b->stream && a->pool == b->pool && a->is_large == b->is_large &&
         a->is_expandable && b->is_expandable;
}

// The range of a piece starts at the lowest address its stream and pool are seen to use.
static void find_ranges(plim_trace *t) {
  for (size_t i = 0; i < t->start_segments.len; i++) {
    plim_start_segment *s = &t->start_segments.at[i];
    s->range_start = s->addr;
    for (size_t k = 0; k < i; k++)
      if (same_range(&t->start_segments.at[k], s)) {
        s->range_start = t->start_segments.at[k].range_start;
        break;
      }
    s->range_end = s->range_start + RANGE_ROOM;
  }
}

static void lower_ranges(plim_trace *t) {
  for (size_t i = 0; i < t->events.len; i++) {
    const plim_event *e = &t->events.at[i];
    const plim_event *m = e->action == PLIM_EV_SEGMENT_MAP ? malloc_behind(t, i) : NULL;
    if (!m) continue;
    for (size_t k = 0; k < t->start_segments.len; k++) {
      plim_start_segment *s = &t->start_segments.at[k];
      bool same = s->is_expandable && s->stream == e->stream && s->pool == e->pool &&
                  s->is_large == (m->bytes > PLIM_MIB);
      if (same && e->addr < s->range_start) s->range_start = e->addr;
    }
  }
}

// Pieces that touch are one piece: a block may lie across the seam.
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
  qsort(t->start_segments.at, t->start_segments.len, sizeof *t->start_segments.at,
        start_segment_order);
  join_pieces(t);
  find_ranges(t);
  lower_ranges(t);
  return true;
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
