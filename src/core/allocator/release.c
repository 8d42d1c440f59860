// Which memory is returned to the driver, and in which order. Each kind of release first chooses its blocks and then
// releases them, so that a forecast can use the choice alone.
#include "allocator_impl.h"

typedef vec(uint32_t) choice;

static bool choose(plim_allocator *a, choice *chosen, uint32_t block) {
  if (!vec_push(chosen, block)) {
    a->out_of_host_memory = true;
    return false;
  }
  return block_at(a, block)->is_chosen = true;
}

static void unmark(plim_allocator *a, const choice *chosen) {
  for (size_t i = 0; i < chosen->len; i++) block_at(a, chosen->at[i])->is_chosen = false;
}

// ---- garbage collection -----------------------------------------------------------------------------

typedef struct {
  uint64_t total_age, count;
} ages;

static uint64_t age_of(plim_allocator *a, const plim_block *b) {
  return *searches_of(a, freelist_at(a, b->freelist)) - b->searches_before;
}

static bool is_collected_freelist(const plim_freelist *l) {
  return l->is_large && l->pool == PLIM_DEFAULT_POOL;
}

static ages measure_ages(plim_allocator *a) {
  ages sum = {0, 0};
  for (size_t i = 0; i < a->freelist_order.len; i++) {
    plim_freelist *l = freelist_at(a, a->freelist_order.at[i]);
    if (!is_collected_freelist(l)) continue;
    for (uint32_t b = plim_freeset_fit(&l->free, a->blocks.at, 0); b;
         b = plim_freeset_next(&l->free, a->blocks.at, b)) {
      if (block_is_split(block_at(a, b))) continue;
      sum.total_age += age_of(a, block_at(a, b));
      sum.count++;
    }
  }
  return sum;
}

// One pass of garbage collection: chooses every whole block that is at least as old as the mean. Returns its bytes.
static uint64_t choose_old_pass(plim_allocator *a, ages *left, choice *chosen) {
  double mean = (double)left->total_age / (double)left->count;
  uint64_t bytes = 0;
  for (size_t i = 0; i < a->freelist_order.len; i++) {
    plim_freelist *l = freelist_at(a, a->freelist_order.at[i]);
    if (!is_collected_freelist(l)) continue;
    for (uint32_t b = plim_freeset_fit(&l->free, a->blocks.at, 0); b;
         b = plim_freeset_next(&l->free, a->blocks.at, b)) {
      plim_block *block = block_at(a, b);
      if (block_is_split(block) || block_is_expandable(block) || block->is_chosen) continue;
      uint64_t age = age_of(a, block);
      if ((double)age < mean) continue;
      if (!choose(a, chosen, b)) return 0;
      left->total_age -= age;
      left->count--;
      bytes += block->bytes;
    }
  }
  return bytes;
}

// Passes repeat with the mean age of the remaining blocks until reserved memory is under the threshold; a pass is never
// cut short.
static void choose_old(plim_allocator *a, choice *chosen) {
  double share = a->options.conf.gc_threshold * (double)a->options.limit_bytes;
  uint64_t threshold = (uint64_t)share, reserved = a->stats.now.reserved_bytes;
  if (reserved <= threshold) return;
  uint64_t target = reserved - threshold, bytes = 0;
  ages left = measure_ages(a);
  while (bytes < target && left.count) {
    uint64_t more = choose_old_pass(a, &left, chosen);
    if (!more) return;
    bytes += more;
  }
}

// ---- oversize blocks --------------------------------------------------------------------------------

// Chooses one block that is large enough, or several from the largest down. Returns whether they suffice. Blocks chosen
// on the way are released in any case.
static bool choose_oversize(plim_allocator *a, uint32_t freelist_index, uint64_t bytes,
                            choice *chosen) {
  uint64_t oversize = a->options.conf.max_split_bytes;
  if (oversize == UINT64_MAX) return false;
  const plim_freeset *set = &freelist_at(a, freelist_index)->free;
  uint64_t wanted = bytes > oversize ? bytes : oversize, have = 0;
  uint32_t b = plim_freeset_fit(set, a->blocks.at, wanted);
  while (b && block_at(a, b)->is_chosen) b = plim_freeset_next(set, a->blocks.at, b);
  if (b && !block_is_expandable(block_at(a, b)) && !block_is_split(block_at(a, b)))
    return choose(a, chosen, b);
  for (b = b ? b : plim_freeset_last(set, a->blocks.at); b && have < wanted;
       b = plim_freeset_prev(set, a->blocks.at, b)) {
    const plim_block *block = block_at(a, b);
    if (block->bytes < oversize) break;
    if (block_is_expandable(block) || block->is_chosen || block_is_split(block)) continue;
    have += block->bytes;
    if (!choose(a, chosen, b)) return false;
  }
  return have >= wanted;
}

// ---- everything ---------------------------------------------------------------------------------------

// For each free list: whole segments first, then the free blocks of expandable segments.
static void choose_all_of(plim_allocator *a, bool is_large, bool expandable, choice *chosen) {
  for (size_t i = 0; i < a->freelist_order.len; i++) {
    plim_freelist *l = freelist_at(a, a->freelist_order.at[i]);
    if (l->is_large != is_large || l->pool != PLIM_DEFAULT_POOL) continue;
    for (uint32_t b = plim_freeset_fit(&l->free, a->blocks.at, 0); b;
         b = plim_freeset_next(&l->free, a->blocks.at, b)) {
      const plim_block *block = block_at(a, b);
      if (block->is_chosen || block_is_expandable(block) != expandable) continue;
      if (!expandable && block_is_split(block)) continue;
      if (!choose(a, chosen, b)) return;
    }
  }
}

static void choose_all(plim_allocator *a, choice *chosen) {
  choose_all_of(a, true, false, chosen);
  choose_all_of(a, true, true, chosen);
  choose_all_of(a, false, false, chosen);
  choose_all_of(a, false, true, chosen);
}

// ---- releasing ------------------------------------------------------------------------------------------

static void release_chosen(plim_allocator *a, choice *chosen) {
  unmark(a, chosen);
  for (size_t i = 0; i < chosen->len && !a->out_of_host_memory; i++) {
    if (block_is_expandable(block_at(a, chosen->at[i]))) pages_release(a, chosen->at[i]);
    else segment_release(a, chosen->at[i]);
  }
  vec_free(chosen);
}

void release_old(plim_allocator *a) {
  choice chosen = {0};
  choose_old(a, &chosen);
  release_chosen(a, &chosen);
}

bool release_oversize(plim_allocator *a, uint32_t freelist, uint64_t bytes) {
  choice chosen = {0};
  bool enough = choose_oversize(a, freelist, bytes, &chosen);
  release_chosen(a, &chosen);
  return enough;
}

// Waits for all streams first, so that pending blocks can be released, too.
void release_all(plim_allocator *a) {
  complete_all(a);
  choice chosen = {0};
  choose_all(a, &chosen);
  release_chosen(a, &chosen);
}

// ---- forecast -------------------------------------------------------------------------------------------

static bool list_from(plim_allocator *a, const choice *chosen, size_t from,
                      plim_release_preview *preview, bool into_all) {
  for (size_t i = from; i < chosen->len; i++) {
    const plim_block *b = block_at(a, chosen->at[i]);
    plim_segment_event event = {PLIM_SEGMENT_FREE, b->addr, b->bytes};
    if (block_is_expandable(b)) {
      event.action = PLIM_SEGMENT_UNMAP;
      event.addr = pages_inside(a, b, &event.bytes);
      if (!event.bytes) continue;
    }
    if (!(into_all ? vec_push(&preview->all, event) : vec_push(&preview->before_all, event)))
      return false;
  }
  return true;
}

static uint64_t bytes_of(plim_allocator *a, const choice *chosen) {
  uint64_t sum = 0;
  for (size_t i = 0; i < chosen->len; i++) sum += block_at(a, chosen->at[i])->bytes;
  return sum;
}

static bool within_limit(const plim_allocator *a, uint64_t released, uint64_t request) {
  uint64_t would_be = a->stats.now.reserved_bytes - released + request;
  return a->options.limit_bytes == PLIM_UNKNOWN || would_be <= a->options.limit_bytes;
}

bool plim_allocator_preview(plim_allocator *a, uint64_t requested, uint32_t stream, uint32_t pool,
                            plim_release_preview *preview) {
  *preview = (plim_release_preview){0};
  choice chosen = {0};
  uint64_t request = plim_allocator_segment_request(a, requested);
  uint64_t bytes = plim_round_request(&a->options.conf, requested);
  bool is_large = bytes > SMALL_LIMIT, fits, done;
  if (gc_is_on(a)) choose_old(a, &chosen);
  fits = within_limit(a, bytes_of(a, &chosen), request);
  for (uint32_t i = 0; !fits && i < a->freelists.len; i++) {
    const plim_freelist *l = freelist_at(a, i);
    if (l->stream != stream || l->pool != pool || l->is_large != is_large) continue;
    fits = choose_oversize(a, i, bytes, &chosen) && within_limit(a, bytes_of(a, &chosen), request);
  }
  done = list_from(a, &chosen, 0, preview, false);
  size_t before = chosen.len;
  preview->releases_all = !fits;
  if (!fits) choose_all(a, &chosen);
  done = done && list_from(a, &chosen, before, preview, true);
  unmark(a, &chosen);
  vec_free(&chosen);
  return done;
}

void plim_release_preview_clear(plim_release_preview *preview) {
  vec_free(&preview->before_all);
  vec_free(&preview->all);
}
