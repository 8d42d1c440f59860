// Replays of small hand-made traces, for rules that no recording alone decides.
#include "replay.h"

#include "test.h"
#include "trace_start.h"

#define M PLIM_MIB
#define BASE (1ull << 40)

static plim_trace trace;

static void begin(void) {
  if (!plim_trace_init(&trace) || plim_trace_stream(&trace, 0) != 0) test_failed = true;
  trace.has_layout = true;
}

static void push(plim_action action, uint64_t addr, uint64_t bytes, uint32_t stack) {
  plim_event e = {.addr = addr, .bytes = bytes, .stack = stack, .action = (uint8_t)action};
  if (!plim_trace_push(&trace, &e)) test_failed = true;
}

static void allocate(uint64_t addr, uint64_t bytes) { push(PLIM_EV_ALLOC, addr, bytes, 0); }

static void release(uint64_t addr, uint64_t bytes) {
  push(PLIM_EV_FREE_REQUESTED, addr, bytes, 0);
  push(PLIM_EV_FREE_COMPLETED, addr, bytes, 0);
}

static plim_guided follow(uint64_t limit_bytes) {
  plim_replay_options options = {.conf = plim_alloc_conf_default(), .limit_bytes = limit_bytes};
  plim_guided guided = {0};
  if (!plim_trace_link(&trace) || !plim_replay_guided(&trace, &options, NULL, &guided))
    test_failed = true;
  return guided;
}

static void end(plim_guided *guided) {
  plim_guided_clear(guided);
  plim_trace_clear(&trace);
}

static uint32_t add_stack(const char *function) {
  uint32_t name = (uint32_t)trace.text.len;
  for (size_t i = 0; i <= strlen(function); i++)
    if (!vec_push(&trace.text, function[i])) test_failed = true;
  if (!vec_push(&trace.frames, (plim_frame){0, name, 1}) ||
      !vec_push(&trace.stack_frames, (uint32_t)trace.frames.len - 1) ||
      !vec_push(&trace.stacks, (plim_stack){(uint32_t)trace.stack_frames.len - 1, 1}))
    test_failed = true;
  return (uint32_t)trace.stacks.len - 1;
}

// A cached segment is released and a larger one is allocated under a limit of 50 MiB: by the numbers alone, a retry.
static void release_then_grow(uint32_t stack) {
  push(PLIM_EV_SEGMENT_ALLOC, BASE, 32 * M, 0);
  allocate(BASE, 32 * M);
  release(BASE, 32 * M);
  push(PLIM_EV_SEGMENT_FREE, BASE, 32 * M, stack);
  push(PLIM_EV_SEGMENT_ALLOC, BASE + 64 * M, 34 * M, 0);
  allocate(BASE + 64 * M, 34 * M);
}

TEST(without_stacks_a_release_that_a_malloc_needed_is_its_own) {
  begin();
  release_then_grow(0);
  plim_guided g = follow(50 * M);
  CHECK(g.exact && g.recorded.retries == 1 && g.marks.len == 0, "retries %" PRIu64,
        g.recorded.retries);
  end(&g);
}

TEST(the_stack_of_a_release_tells_who_called_it) {
  begin();
  release_then_grow(add_stack("empty_cache"));
  plim_guided g = follow(50 * M);
  CHECK(g.exact && g.recorded.retries == 0 && g.marks.len == 1, "retries %" PRIu64,
        g.recorded.retries);
  CHECK(g.marks.at[0].kind == PLIM_MARK_EMPTY_CACHE, "mark");
  end(&g);
}

// A recording with context="alloc" gives a release the stack of the segment's allocation, which tells nothing.
TEST(the_stack_of_an_allocation_does_not_tell_who_released) {
  begin();
  uint32_t stack = add_stack("forward");
  push(PLIM_EV_SEGMENT_ALLOC, BASE, 32 * M, stack);
  allocate(BASE, 32 * M);
  release(BASE, 32 * M);
  push(PLIM_EV_SEGMENT_FREE, BASE, 32 * M, stack);
  push(PLIM_EV_SEGMENT_ALLOC, BASE + 64 * M, 2 * M, 0);
  allocate(BASE + 64 * M, 1024);
  plim_guided g = follow(PLIM_UNKNOWN);
  CHECK(g.exact && g.recorded.retries == 0 && g.marks.len == 1, "retries %" PRIu64,
        g.recorded.retries);
  end(&g);
}

// A release without a request is empty_cache, which the what-if replay repeats.
TEST(an_empty_cache_call_is_repeated_in_a_what_if) {
  begin();
  push(PLIM_EV_SEGMENT_ALLOC, BASE, 32 * M, 0);
  allocate(BASE, 32 * M);
  release(BASE, 32 * M);
  push(PLIM_EV_SEGMENT_FREE, BASE, 32 * M, 0);
  plim_guided g = follow(PLIM_UNKNOWN);
  plim_replay_options options = {.conf = plim_alloc_conf_default(), .limit_bytes = PLIM_UNKNOWN};
  plim_what_if got;
  bool ok = plim_replay_what_if(&trace, &g, &options, PLIM_ADDRESSES_MODEL, NULL, NULL, NULL, &got);
  end(&g);
  CHECK(ok && g.exact, "replay");
  CHECK_U64(got.end.reserved_bytes, 0);
}

// The free waits for another stream, and completes when a malloc that releases everything waits for it. The freed block
// would have served that malloc, so the free did not complete before the search.
static void wait_inside_malloc(void) {
  push(PLIM_EV_SEGMENT_ALLOC, BASE, 64 * M, 0);
  allocate(BASE, 64 * M);
  release(BASE, 64 * M);
  allocate(BASE, 40 * M);
  allocate(BASE + 40 * M, 24 * M);
  push(PLIM_EV_FREE_REQUESTED, BASE, 40 * M, 0);
  push(PLIM_EV_SEGMENT_ALLOC, BASE + 64 * M, 32 * M, 0);
  allocate(BASE + 64 * M, 32 * M);
  release(BASE + 64 * M, 32 * M);
  push(PLIM_EV_FREE_COMPLETED, BASE, 40 * M, 0);
  push(PLIM_EV_SEGMENT_FREE, BASE + 64 * M, 32 * M, 0);
  push(PLIM_EV_SEGMENT_ALLOC, BASE + 128 * M, 36 * M, 0);
  allocate(BASE + 128 * M, 36 * M);
}

TEST(a_free_that_completes_inside_a_malloc_is_found) {
  begin();
  wait_inside_malloc();
  plim_guided g = follow(100 * M);
  CHECK(g.exact, "%s", g.first.what);
  CHECK(g.marks.len == 1 && g.marks.at[0].kind == PLIM_MARK_COMPLETES_INSIDE, "%zu marks",
        g.marks.len);
  end(&g);
}

// With enough memory, that malloc does not wait. The free must still complete after it, otherwise its block would be
// lost.
TEST(a_free_inside_a_malloc_completes_after_it_in_a_what_if) {
  begin();
  wait_inside_malloc();
  plim_guided g = follow(100 * M);
  plim_replay_options options = {.conf = plim_alloc_conf_default(), .limit_bytes = PLIM_UNKNOWN};
  plim_what_if got;
  bool ok = plim_replay_what_if(&trace, &g, &options, PLIM_ADDRESSES_MODEL, NULL, NULL, NULL, &got);
  end(&g);
  CHECK(ok, "memory");
  CHECK_U64(got.totals.segment_allocs, 3);
  CHECK_U64(got.end.active_bytes, got.end.allocated_bytes);
}

// A request that failed in the recording succeeds now. What the program would have done with it is not recorded.
TEST(a_request_that_failed_in_the_recording_is_freed_at_once) {
  begin();
  push(PLIM_EV_SEGMENT_ALLOC, BASE, 32 * M, 0);
  allocate(BASE, 32 * M);
  push(PLIM_EV_OOM, PLIM_UNKNOWN, 32 * M, 0);
  plim_guided g = follow(PLIM_UNKNOWN);
  plim_replay_options options = {.conf = plim_alloc_conf_default(), .limit_bytes = PLIM_UNKNOWN};
  plim_what_if got;
  bool ok = plim_replay_what_if(&trace, &g, &options, PLIM_ADDRESSES_MODEL, NULL, NULL, NULL, &got);
  bool exact = g.exact;
  uint64_t limit = g.limit_high;
  end(&g);
  CHECK(ok && exact, "replay");
  CHECK_U64(limit, 64 * M - 1); // any limit below 64 MiB explains it
  CHECK_U64(got.totals.peak_allocated_bytes, 64 * M);
  CHECK_U64(got.end.allocated_bytes, 32 * M);
}

// ---- blocks from before the recording ---------------------------------------------------------------

// One block is in use at the start and freed during the recording; the next one begins `rest` bytes after it.
static uint64_t start_block_bytes(bool is_large, uint64_t bytes, uint64_t rest, const char *conf) {
  plim_alloc_conf recorded;
  uint64_t segment = is_large ? 100 * M : 2 * M, got = 0;
  begin();
  if (plim_alloc_conf_parse(conf, &recorded, NULL)) test_failed = true;
  if (!vec_push(&trace.layout,
                (plim_layout_segment){.addr = BASE, .bytes = segment, .is_large = is_large}))
    test_failed = true;
  release(BASE, bytes);
  release(BASE + bytes + rest, segment - bytes - rest);
  if (!plim_trace_link(&trace)) test_failed = true;
  plim_allocator_options options = {.conf = recorded,
                                    .limit_bytes = PLIM_UNKNOWN,
                                    .capacity_bytes = PLIM_UNKNOWN,
                                    .range_bytes = PLIM_UNKNOWN};
  plim_allocator *a = plim_allocator_new(&options);
  bool consistent = false;
  if (a && plim_start_seed(&trace, &recorded, a, &consistent) && consistent)
    got = plim_allocator_block_bytes(a, trace.start_blocks.at[0].slot);
  plim_allocator_delete(a);
  plim_trace_clear(&trace);
  return got;
}

TEST(a_start_block_keeps_a_rest_that_would_not_have_been_split_off) {
  static const struct {
    bool is_large;
    uint64_t bytes, rest;
    const char *conf;
    bool keeps;
  } rows[] = {
      {true, 20 * M, M, "", true},
      {true, 20 * M, M + 512, "", false},
      {false, 512 * 1024, 512, "", false},
      {true, 20 * M, 512, "expandable_segments:True", false},
      {true, 30 * M, 19 * M, "max_split_size_mb:30", true},
      {true, 30 * M, 20 * M, "max_split_size_mb:30", false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    uint64_t got = start_block_bytes(rows[i].is_large, rows[i].bytes, rows[i].rest, rows[i].conf);
    CHECK(got == rows[i].bytes + (rows[i].keeps ? rows[i].rest : 0), "row %zu: %" PRIu64, i, got);
  }
}

// A block of 4 MiB in a segment of 20 MiB, which the layout shows with these states.
static bool is_exact(uint64_t freed_bytes, plim_block_state first, uint64_t first_bytes) {
  begin();
  push(PLIM_EV_SEGMENT_ALLOC, BASE, 20 * M, 0);
  allocate(BASE, 4 * M);
  if (freed_bytes) release(BASE, freed_bytes);
  if (freed_bytes) allocate(BASE, 4 * M);
  bool ok =
      vec_push(&trace.layout,
               (plim_layout_segment){
                   .addr = BASE, .bytes = 20 * M, .block_count = 2, .is_large = true}) &&
      vec_push(&trace.layout_blocks,
               (plim_layout_block){BASE, first_bytes, 4 * M, 0, (uint8_t)first}) &&
      vec_push(&trace.layout_blocks, (plim_layout_block){BASE + first_bytes, 20 * M - first_bytes,
                                                         0, 0, PLIM_BLOCK_INACTIVE});
  if (!ok) test_failed = true;
  plim_guided guided = follow(PLIM_UNKNOWN);
  bool exact = guided.exact;
  end(&guided);
  return exact;
}

TEST(a_layout_that_contradicts_the_events_is_not_exact) {
  CHECK(is_exact(0, PLIM_BLOCK_ALLOCATED, 4 * M), "a recording as it should be");
  CHECK(is_exact(4 * M, PLIM_BLOCK_ALLOCATED, 4 * M), "with a free");
  CHECK(!is_exact(3 * M, PLIM_BLOCK_ALLOCATED, 4 * M), "a free of another size");
  CHECK(!is_exact(0, PLIM_BLOCK_INACTIVE, 4 * M), "a block that lives is free in the layout");
  CHECK(!is_exact(0, PLIM_BLOCK_PENDING_FREE, 4 * M), "or waits for its free");
  CHECK(!is_exact(0, PLIM_BLOCK_ALLOCATED, 6 * M), "or is larger");
}

TEST_MAIN
