// The guided replay: follows a recording, infers what it does not contain, and checks every decision.
#include <string.h>

#include "replay_impl.h"

typedef struct {
  const plim_trace *trace;
  const plim_replay_options *options;
  plim_allocator *a;
  plim_guided *result;
  plim_address_model fallback; // for segments that the recording does not have
  plim_driver fallback_driver;
  vec(plim_segment_event) predicted; // segment events since the current group began
  uint64_t *requested; // by slot: the bytes requested; PLIM_UNKNOWN: from before the recording
  size_t next_address; // where to look for the address of the next new segment
  size_t group_end;
  uint64_t failing_from; // if no limit is given: the lowest need that is known to fail
  uint64_t recorded_peak;
  bool no_memory;
} guide;

// The events that belong to one malloc: completions, releases and new memory before it. A group that ends without a
// malloc is an empty_cache call, or frees that completed at the end.
typedef struct {
  size_t first, end;
  size_t early_end;          // completions before this came before any release
  const plim_event *request; // the alloc or OOM; NULL if there is none
  size_t releases, maps;
} group;

static void diverge(guide *g, size_t event, const char *what, uint64_t recorded,
                    uint64_t simulated) {
  if (!g->result->divergences++)
    g->result->first = (plim_divergence){(uint32_t)event, what, recorded, simulated};
}

static void collect_predicted(void *context, const plim_segment_event *event) {
  guide *g = context;
  if (!vec_push(&g->predicted, *event)) g->no_memory = true;
}

static uint64_t guided_reserve(void *self, uint64_t bytes) {
  guide *g = self;
  for (; g->next_address < g->group_end; g->next_address++) {
    const plim_event *e = &g->trace->events.at[g->next_address];
    if (!plim_event_is_map(e)) continue;
    g->next_address++;
    return e->addr;
  }
  return g->fallback_driver.reserve(g->fallback_driver.self, bytes);
}

static void guided_release(void *self, uint64_t addr, uint64_t bytes) {
  guide *g = self;
  g->fallback_driver.release(g->fallback_driver.self, addr, bytes);
}

static bool is_request(const plim_event *e) {
  return e->action == PLIM_EV_ALLOC || e->action == PLIM_EV_OOM;
}

static group group_at(const plim_trace *t, size_t first) {
  const plim_event *events = t->events.at;
  group found = {.first = first};
  size_t i = first;
  while (i < t->events.len && is_completion(&events[i]) &&
         (i == first || events[i].action != PLIM_EV_FREE))
    i++;
  found.early_end = i;
  for (; i < t->events.len; i++) {
    if (plim_event_is_release(&events[i])) found.releases++;
    else if (plim_event_is_map(&events[i])) found.maps++;
    else if (events[i].action != PLIM_EV_FREE_COMPLETED) break;
  }
  found.end = i;
  if (i < t->events.len && is_request(&events[i])) found.request = &events[i];
  return found;
}

// ---- empty_cache or retry? ----------------------------------------------------------------------------

static const plim_event *next_release(const guide *g, const group *gr, size_t *at) {
  while (*at < gr->end && !plim_event_is_release(&g->trace->events.at[*at])) ++*at;
  return *at < gr->end ? &g->trace->events.at[(*at)++] : NULL;
}

static uint64_t released_bytes(const guide *g, const group *gr) {
  uint64_t bytes = 0;
  size_t at = gr->first;
  for (const plim_event *e; (e = next_release(g, gr, &at));) bytes += e->bytes;
  return bytes;
}

// Whether the releases of a group begin with the given list.
static bool begins_with(const guide *g, const group *gr, const plim_segment_event *list,
                        size_t count) {
  size_t at = gr->first;
  for (size_t i = 0; i < count; i++) {
    const plim_event *e = next_release(g, gr, &at);
    if (!e || e->addr != list[i].addr || e->bytes != list[i].bytes) return false;
  }
  return true;
}

// With context="alloc", PyTorch gives a release the stack with which the segment was allocated.
static bool has_stack_of_allocation(const guide *g, const plim_event *release) {
  for (const plim_event *e = release; e-- > g->trace->events.at;)
    if (plim_event_is_map(e) && e->addr == release->addr) return e->stack == release->stack;
  return false;
}

// The stack of a release, if recorded, says who released: 1 empty_cache, 0 something else, -1 no stack.
static int stack_says_empty_cache(const guide *g, const group *gr) {
  const plim_trace *t = g->trace;
  size_t at = gr->first;
  const plim_event *release = next_release(g, gr, &at);
  plim_stack stack = t->stacks.at[release->stack];
  for (uint32_t i = 0; i < stack.count; i++) {
    const plim_frame *frame = &t->frames.at[t->stack_frames.at[stack.first + i]];
    if (strcmp(plim_trace_text(t, frame->name), "empty_cache") == 0) return 1;
  }
  return stack.count && !has_stack_of_allocation(g, release) ? 0 : -1;
}

// If no limit is given, a release of everything followed by new memory is a retry only if some request did fail (an OOM
// was recorded) and this one needed as much.
static bool may_have_failed(guide *g, uint64_t need) {
  if (need <= g->recorded_peak) return false;
  g->result->unclear_releases++;
  return need >= g->failing_from;
}

// Compares the releases with what this malloc itself would have released. If no limit is given, one is assumed that
// makes it fail. An exact match of blocks chosen one by one (oversize) is proof; a release of everything may also be an
// empty_cache call.
static bool releases_are_its_own(guide *g, const group *gr) {
  const plim_event *r = gr->request;
  bool guess_limit = g->options->limit_bytes == PLIM_UNKNOWN;
  uint64_t need = plim_allocator_stats(g->a)->now.reserved_bytes +
                  plim_allocator_segment_request(g->a, r->bytes);
  if (guess_limit) plim_allocator_set_limit(g->a, need - 1);
  plim_release_preview preview;
  if (!plim_allocator_preview(g->a, r->bytes, r->stream, r->pool, &preview)) g->no_memory = true;
  size_t before = preview.before_all.len;
  bool own = begins_with(g, gr, preview.before_all.at, before) &&
             (preview.releases_all || gr->releases == before);
  plim_release_preview_clear(&preview);
  if (!guess_limit) return own;
  plim_allocator_set_limit(g->a, PLIM_UNKNOWN);
  return own && (before || r->action == PLIM_EV_OOM || may_have_failed(g, need));
}

static bool is_empty_cache(guide *g, const group *gr) {
  if (!gr->releases) return false;
  if (!gr->request) return true;
  int says = stack_says_empty_cache(g, gr);
  if (says >= 0) return says;
  const plim_event *r = gr->request;
  bool expandable = g->options->conf.expandable_segments;
  if (r->action == PLIM_EV_ALLOC && !gr->maps && !expandable) return true;
  if (plim_allocator_would_reuse(g->a, r->bytes, r->stream, r->pool) != PLIM_UNKNOWN) return true;
  return !releases_are_its_own(g, gr);
}

// ---- following one group --------------------------------------------------------------------------------

static void add_mark(guide *g, size_t event, plim_mark_kind kind) {
  if (!vec_push(&g->result->marks, (plim_mark){(uint32_t)event, kind})) g->no_memory = true;
}

static void complete_recorded(guide *g, size_t from, size_t to) {
  for (size_t i = from; i < to; i++) {
    const plim_event *e = &g->trace->events.at[i];
    if (is_completion(e)) plim_allocator_complete(g->a, e->block);
  }
}

static void mark_completions_inside(guide *g, size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    if (is_completion(&g->trace->events.at[i])) add_mark(g, i, PLIM_MARK_COMPLETES_INSIDE);
}

// Frees complete either when the malloc polls, before its search, or when it waits for all streams before it releases
// everything. If the search would have found a block after the completions, but the recording shows a miss, they
// completed in the wait.
static bool completions_came_late(guide *g, const group *gr) {
  const plim_event *r = gr->request;
  if (gr->early_end == gr->first || !r) return false;
  bool may_have_waited = r->action == PLIM_EV_OOM || (gr->releases && gr->maps);
  if (!may_have_waited) return false;
  if (plim_allocator_would_reuse(g->a, r->bytes, r->stream, r->pool) != PLIM_UNKNOWN) return false;
  for (size_t i = gr->first; i < gr->early_end; i++) {
    const plim_event *e = &g->trace->events.at[i];
    if (e->stream == r->stream && e->pool == r->pool &&
        plim_allocator_serves_when_complete(g->a, e->block, r->bytes))
      return true;
  }
  return false;
}

// If no limit is given, sets one that makes exactly the recorded attempts fail.
static void set_recorded_limit(guide *g, const group *gr, bool own_releases) {
  if (g->options->limit_bytes != PLIM_UNKNOWN) return;
  uint64_t request = plim_allocator_segment_request(g->a, gr->request->bytes);
  uint64_t need = plim_allocator_stats(g->a)->now.reserved_bytes + request;
  if (gr->request->action == PLIM_EV_OOM) {
    if (own_releases) need -= released_bytes(g, gr);
    plim_allocator_set_limit(g->a, need - 1);
  } else {
    plim_allocator_set_limit(g->a, own_releases ? need - 1 : PLIM_UNKNOWN);
  }
}

static void serve_oom(guide *g, const group *gr) {
  uint32_t spare = g->trace->block_slots; // a slot that no event uses
  const plim_event *r = gr->request;
  plim_malloc_result got = plim_allocator_malloc(g->a, spare, r->bytes, r->stream, r->pool);
  if (got == PLIM_MALLOC_NO_HOST_MEMORY) g->no_memory = true;
  if (got != PLIM_MALLOC_OK) return;
  diverge(g, gr->end, "the recording ran out of memory here, but the simulation did not", r->bytes,
          plim_allocator_addr(g->a, spare));
  plim_allocator_free(g->a, spare);
}

// The recording got new memory where the simulation would have reused a block, or the reverse, or it took another
// block. Follows the recording.
static void follow_recording(guide *g, const group *gr) {
  const plim_event *r = gr->request;
  for (size_t i = gr->first; i < gr->end; i++) {
    const plim_event *e = &g->trace->events.at[i];
    if (e->action != PLIM_EV_SEGMENT_ALLOC) continue;
    plim_seed_segment segment = {.addr = e->addr,
                                 .bytes = e->bytes,
                                 .stream = r->stream,
                                 .pool = r->pool,
                                 .is_large = plim_request_is_large(&g->options->conf, r->bytes)};
    if (!plim_allocator_seed(g->a, &segment, NULL, 0)) g->result->lost = true;
    if (!vec_push(&g->predicted, (plim_segment_event){PLIM_SEGMENT_ALLOC, e->addr, e->bytes}))
      g->no_memory = true;
  }
  if (!plim_allocator_place(g->a, r->block, r->bytes, r->stream, r->pool, r->addr)) {
    g->result->lost = true;
    if (plim_allocator_malloc(g->a, r->block, r->bytes, r->stream, r->pool) ==
        PLIM_MALLOC_NO_HOST_MEMORY)
      g->no_memory = true;
  }
}

static void serve_alloc(guide *g, const group *gr) {
  const plim_event *r = gr->request;
  g->requested[r->block] = r->bytes;
  uint64_t reuse = plim_allocator_would_reuse(g->a, r->bytes, r->stream, r->pool);
  bool expandable = g->options->conf.expandable_segments;
  const char *wrong = NULL;
  if (!gr->maps && reuse != PLIM_UNKNOWN && reuse != r->addr)
    wrong = "the recording reused a different cached block than the simulation";
  else if (!gr->maps && reuse == PLIM_UNKNOWN && !expandable)
    wrong = "the recording reused a cached block, but the simulation found none";
  else if (gr->maps && reuse != PLIM_UNKNOWN)
    wrong = "the recording requested new memory, but the simulation reused a block";
  if (gr->maps && reuse != PLIM_UNKNOWN && !g->result->lost) g->result->suspects_pools = true;
  if (wrong && !g->result->lost) {
    diverge(g, gr->end, wrong, r->addr, reuse);
    follow_recording(g, gr);
    return;
  }
  plim_malloc_result got = plim_allocator_malloc(g->a, r->block, r->bytes, r->stream, r->pool);
  if (got == PLIM_MALLOC_NO_HOST_MEMORY) g->no_memory = true;
  uint64_t addr = plim_allocator_addr(g->a, r->block);
  if (got == PLIM_MALLOC_OK && addr == r->addr) return;
  diverge(g, gr->end,
          got == PLIM_MALLOC_OOM
              ? "the simulation ran out of memory here, but the recording did not"
              : "the simulation placed this block at a different address",
          r->addr, addr);
  g->result->lost = true;
}

static plim_segment_action segment_action(const plim_event *e) {
  switch (e->action) {
  case PLIM_EV_SEGMENT_ALLOC: return PLIM_SEGMENT_ALLOC;
  case PLIM_EV_SEGMENT_FREE: return PLIM_SEGMENT_FREE;
  case PLIM_EV_SEGMENT_MAP: return PLIM_SEGMENT_MAP;
  default: return PLIM_SEGMENT_UNMAP;
  }
}

static void compare_segments(guide *g, const group *gr) {
  size_t n = 0;
  for (size_t i = gr->first; i < gr->end; i++) {
    const plim_event *e = &g->trace->events.at[i];
    if (!plim_event_is_map(e) && !plim_event_is_release(e)) continue;
    const plim_segment_event *p = n < g->predicted.len ? &g->predicted.at[n] : NULL;
    n++;
    if (p && p->action == segment_action(e) && p->bytes == e->bytes && p->addr == e->addr) continue;
    diverge(g, i, "the recorded segment event differs from the simulated one", e->bytes,
            p ? p->bytes : PLIM_UNKNOWN);
    g->result->lost = true;
    return;
  }
  if (n == g->predicted.len) return;
  diverge(g, gr->end, "the simulation has a segment event that was not recorded", PLIM_UNKNOWN,
          g->predicted.at[n].bytes);
  g->result->lost = true;
}

static void count_segments(guide *g, const group *gr, uint64_t *reserved) {
  plim_replay_totals *totals = &g->result->recorded;
  for (size_t i = gr->first; i < gr->end; i++) {
    const plim_event *e = &g->trace->events.at[i];
    if (plim_event_is_map(e)) totals->segment_allocs++, *reserved += e->bytes;
    if (plim_event_is_release(e)) totals->segment_frees++, *reserved -= e->bytes;
    if (*reserved > totals->peak_reserved_bytes) totals->peak_reserved_bytes = *reserved;
  }
}

// Updates what is known about the limit from this malloc.
static void learn_limit(guide *g, const group *gr, const plim_allocator_stats_t *before) {
  const plim_allocator_stats_t *after = plim_allocator_stats(g->a);
  if (after->retries == before->retries) return;
  uint64_t request = plim_allocator_segment_request(g->a, gr->request->bytes);
  bool failed = gr->request->action == PLIM_EV_OOM;
  uint64_t need = (failed ? after : before)->now.reserved_bytes + request;
  if (need - 1 < g->result->limit_high) g->result->limit_high = need - 1;
}

static void serve(guide *g, const group *gr, bool own_releases) {
  plim_allocator_stats_t before = *plim_allocator_stats(g->a);
  set_recorded_limit(g, gr, own_releases);
  if (gr->request->action == PLIM_EV_OOM) serve_oom(g, gr);
  else serve_alloc(g, gr);
  learn_limit(g, gr, &before);
}

static size_t follow_group(guide *g, size_t first, uint64_t *reserved) {
  group gr = group_at(g->trace, first);
  g->predicted.len = 0;
  g->next_address = gr.first;
  g->group_end = gr.end;
  count_segments(g, &gr, reserved);
  bool late = completions_came_late(g, &gr);
  if (!late) complete_recorded(g, gr.first, gr.early_end);
  bool emptied = is_empty_cache(g, &gr);
  if (emptied) {
    add_mark(g, gr.end, PLIM_MARK_EMPTY_CACHE);
    plim_allocator_empty_cache(g->a);
  } else mark_completions_inside(g, late ? gr.first : gr.early_end, gr.end);
  if (gr.request) serve(g, &gr, gr.releases && !emptied);
  complete_recorded(g, gr.first, gr.end); // completes frees that no wait has reached
  if (!g->result->lost) compare_segments(g, &gr);
  return gr.request ? gr.end + 1 : gr.end;
}

// A free right before a failure or a release may have been pending until that malloc waited for it. Only the result of
// the search can tell.
static bool may_have_waited(const plim_trace *t, size_t i) {
  if (i + 1 >= t->events.len) return false;
  const plim_event *next = &t->events.at[i + 1];
  return next->action == PLIM_EV_OOM || plim_event_is_release(next);
}

// A free repeats what was asked for.
static void compare_freed(guide *g, size_t i) {
  const plim_event *e = &g->trace->events.at[i];
  bool is_free = e->action == PLIM_EV_FREE || e->action == PLIM_EV_FREE_REQUESTED;
  if (!is_free || g->requested[e->block] == PLIM_UNKNOWN || g->requested[e->block] == e->bytes)
    return;
  diverge(g, i, "a free gives another size than its allocation", e->bytes, g->requested[e->block]);
}

static size_t follow_event(guide *g, size_t i, uint64_t *reserved) {
  const plim_event *e = &g->trace->events.at[i];
  compare_freed(g, i);
  switch (e->action) {
  case PLIM_EV_FREE:
    if (!may_have_waited(g->trace, i)) {
      plim_allocator_free(g->a, e->block);
      return i + 1;
    }
    plim_allocator_free_later(g->a, e->block);
    return follow_group(g, i, reserved);
  case PLIM_EV_FREE_REQUESTED: plim_allocator_free_later(g->a, e->block); return i + 1;
  case PLIM_EV_SNAPSHOT: return i + 1;
  default: return follow_group(g, i, reserved);
  }
}

// The driver keeps one page for itself: requests that would have left 1.1 MiB failed, one that left 3.1 MiB did not
// (recorded: truth real-oom, real-oom-exp).
#define DRIVER_KEEPS (2 * PLIM_MIB)

// An OOM event contains the card's free bytes. If they could not hold the segment, the card was full; otherwise a limit
// was set for the process.
static void learn_card(guide *g, const plim_event *oom, uint64_t reserved, uint64_t request) {
  if (oom->addr == PLIM_UNKNOWN || oom->addr >= request + DRIVER_KEEPS) return;
  uint64_t card = reserved + (oom->addr > DRIVER_KEEPS ? oom->addr - DRIVER_KEEPS : 0);
  if (card < g->result->card_bytes) g->result->card_bytes = card;
}

// A first pass: the highest reserved bytes, and the lowest need that an OOM shows to be too much.
static void survey(guide *g) {
  uint64_t reserved = 0, peak = 0, fails = PLIM_UNKNOWN;
  for (size_t i = 0; i < g->trace->start_segments.len; i++)
    reserved += g->trace->start_segments.at[i].bytes;
  g->result->recorded.peak_reserved_bytes = peak = reserved;
  for (size_t i = 0; i < g->trace->events.len; i++) {
    const plim_event *e = &g->trace->events.at[i];
    if (plim_event_is_map(e)) reserved += e->bytes;
    if (plim_event_is_release(e)) reserved -= e->bytes;
    if (reserved > peak) peak = reserved;
    if (e->action != PLIM_EV_OOM) continue;
    g->result->recorded.ooms++;
    uint64_t need = reserved + plim_allocator_segment_request(g->a, e->bytes);
    if (need < fails) fails = need;
    learn_card(g, e, reserved, need - reserved);
  }
  g->recorded_peak = g->result->limit_low = peak;
  g->failing_from = fails;
}

static void finish_guided(guide *g) {
  const plim_allocator_stats_t *stats = plim_allocator_stats(g->a);
  plim_guided *r = g->result;
  r->recorded_allocated_known = !r->lost;
  r->recorded.peak_allocated_bytes = stats->peak.allocated_bytes;
  r->recorded.retries = stats->retries;
  r->end_allocated_bytes = stats->now.allocated_bytes;
  r->end_reserved_bytes = stats->now.reserved_bytes;
  r->exact = r->divergences == 0;
}

bool plim_replay_guided(const plim_trace *trace, const plim_replay_options *options,
                        const plim_replay_watch *watch, plim_guided *result) {
  guide g = {.trace = trace, .options = options, .result = result};
  *result = (plim_guided){.limit_high = PLIM_UNKNOWN, .card_bytes = PLIM_UNKNOWN};
  plim_address_model_init(&g.fallback);
  g.fallback_driver = plim_address_model_driver(&g.fallback);
  plim_driver driver = {&g, guided_reserve, guided_release};
  plim_allocator_options setup = replay_allocator_options(trace, options, driver);
  setup.on_segment = collect_predicted;
  setup.context = &g;
  bool consistent = false;
  g.a = replay_start(trace, &setup, &consistent);
  g.requested = malloc((trace->block_slots + 1) * sizeof *g.requested);
  bool ok = g.a && g.requested, is_whole = true;
  for (size_t i = 0; ok && i < trace->block_slots; i++) g.requested[i] = PLIM_UNKNOWN;
  if (ok && !consistent)
    diverge(&g, 0, "the memory in use before the recording is not fully known", 0, 0);
  if (ok) survey(&g);
  uint64_t reserved = result->recorded.peak_reserved_bytes;
  plim_usage known = {0};
  for (size_t i = 0; ok && i < trace->events.len;) {
    size_t next = follow_event(&g, i, &reserved);
    replay_note_peaks(g.a, &known, next - 1, &result->peak_event, &result->peak_reserved_event);
    ok = !g.no_memory && !plim_allocator_out_of_host_memory(g.a);
    if (!ok) break;
    is_whole = !watch || watch->after_event(watch->context, next - 1, g.a);
    if (!is_whole) break;
    i = next;
  }
  if (ok && watch && !trace->events.len) watch->after_event(watch->context, 0, g.a);
  if (ok && is_whole && !result->lost && !replay_ends_as_recorded(trace, g.a, &g.no_memory))
    diverge(&g, trace->events.len ? trace->events.len - 1 : 0,
            "the events lead to another state than the snapshot shows at its end", PLIM_UNKNOWN,
            PLIM_UNKNOWN);
  ok = ok && !g.no_memory;
  if (ok) finish_guided(&g);
  plim_allocator_delete(g.a);
  plim_address_model_clear(&g.fallback);
  vec_free(&g.predicted);
  free(g.requested);
  if (!ok) plim_guided_clear(result);
  return ok;
}
