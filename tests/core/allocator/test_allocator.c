// The allocator's rules one by one. tests/core/trace/test_truth.c proves that they are PyTorch's; these tests tell
// which rule is broken.
#include "allocator.h"

#include "driver.h"
#include "test.h"

#define M PLIM_MIB

static plim_address_model model;

typedef struct {
  plim_allocator *a;
} rig;

static rig start(const char *conf, uint64_t limit_bytes) {
  static const uint64_t streams[] = {0, 77};
  rig r;
  plim_address_model_init(&model);
  plim_allocator_options options = {.driver = plim_address_model_driver(&model),
                                    .limit_bytes = limit_bytes,
                                    .capacity_bytes = PLIM_UNKNOWN,
                                    .range_bytes = PLIM_UNKNOWN,
                                    .streams = streams,
                                    .stream_count = 2};
  if (plim_alloc_conf_parse(conf, &options.conf, NULL)) printf("bad conf %s\n", conf);
  r.a = plim_allocator_new(&options);
  return r;
}

static void stop(rig *r) {
  plim_allocator_delete(r->a);
  plim_address_model_clear(&model);
  r->a = NULL;
}

static plim_malloc_result ask(rig *r, uint32_t slot, uint64_t bytes) {
  return plim_allocator_malloc(r->a, slot, bytes, PLIM_DEFAULT_STREAM, PLIM_DEFAULT_POOL);
}

static uint64_t reserved(const rig *r) { return plim_allocator_stats(r->a)->now.reserved_bytes; }

static uint64_t allocated(const rig *r) { return plim_allocator_stats(r->a)->now.allocated_bytes; }

TEST(requests_are_rounded_and_served_from_segments_of_the_right_size) {
  static const struct {
    uint64_t bytes, block, segment;
  } rows[] = {
      {1, 512, 2 * M},          {512, 512, 2 * M},
      {513, 1024, 2 * M},       {M, M, 2 * M},
      {M + 1, M + 512, 20 * M}, {10 * M - 512, 10 * M - 512, 20 * M},
      {10 * M, 10 * M, 10 * M}, {10 * M + 1, 10 * M + 512, 12 * M},
      {33 * M, 34 * M, 34 * M}, // the rest of 1 MiB is too small to split off
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rig r = start("", PLIM_UNKNOWN);
    CHECK(ask(&r, 0, rows[i].bytes) == PLIM_MALLOC_OK, "row %zu", i);
    CHECK_U64(reserved(&r), rows[i].segment);
    CHECK_U64(allocated(&r), rows[i].block);
    stop(&r);
  }
}

TEST(a_large_block_keeps_a_rest_of_up_to_one_mebibyte) {
  rig r = start("", PLIM_UNKNOWN);
  ask(&r, 0, 19 * M); // segment of 20 MiB, rest exactly 1 MiB
  CHECK_U64(allocated(&r), 20 * M);
  stop(&r);
  r = start("", PLIM_UNKNOWN);
  ask(&r, 0, 19 * M - 512);
  CHECK_U64(allocated(&r), 19 * M - 512);
  stop(&r);
}

TEST(freed_neighbours_merge_and_serve_again) {
  rig r = start("", PLIM_UNKNOWN);
  ask(&r, 0, 8 * M);
  ask(&r, 1, 8 * M);
  plim_allocator_free(r.a, 0);
  plim_allocator_free(r.a, 1);
  ask(&r, 2, 20 * M);
  CHECK_U64(reserved(&r), 20 * M);
  CHECK_U64(plim_allocator_stats(r.a)->segment_allocs, 1);
  stop(&r);
}

TEST(streams_do_not_share_blocks) {
  rig r = start("", PLIM_UNKNOWN);
  ask(&r, 0, 5 * M);
  plim_allocator_free(r.a, 0);
  plim_allocator_malloc(r.a, 1, 5 * M, 1, PLIM_DEFAULT_POOL);
  CHECK_U64(reserved(&r), 40 * M);
  stop(&r);
}

TEST(the_limit_is_strict_and_a_retry_releases_everything_cached) {
  rig r = start("", 40 * M);
  ask(&r, 0, 20 * M);
  CHECK(ask(&r, 1, 20 * M) == PLIM_MALLOC_OK, "exactly the limit fits");
  plim_allocator_free(r.a, 1);
  CHECK(ask(&r, 1, 12 * M) == PLIM_MALLOC_OK, "reuse");
  plim_allocator_free(r.a, 1);
  CHECK(ask(&r, 1, 22 * M) == PLIM_MALLOC_OOM, "more than is left");
  CHECK_U64(plim_allocator_stats(r.a)->retries, 1);
  CHECK_U64(plim_allocator_stats(r.a)->ooms, 1);
  CHECK_U64(reserved(&r), 20 * M); // the released memory stays released
  CHECK(ask(&r, 1, 2 * M) == PLIM_MALLOC_OK, "20 MiB fit again");
  stop(&r);
}

TEST(throw_on_cudamalloc_oom_fails_without_a_retry) {
  rig r = start("throw_on_cudamalloc_oom:True", 40 * M);
  ask(&r, 0, 40 * M);
  plim_allocator_free(r.a, 0);
  CHECK(ask(&r, 0, 42 * M) == PLIM_MALLOC_OOM, "over the limit");
  CHECK_U64(plim_allocator_stats(r.a)->retries, 0);
  CHECK_U64(reserved(&r), 40 * M);
  stop(&r);
}

TEST(oversize_blocks_are_neither_split_nor_given_to_small_requests) {
  rig r = start("max_split_size_mb:64", PLIM_UNKNOWN);
  ask(&r, 0, 100 * M);
  plim_allocator_free(r.a, 0);
  ask(&r, 1, 30 * M);
  CHECK_U64(reserved(&r), 130 * M);
  ask(&r, 2, 90 * M); // within 20 MiB of the cached block: takes it whole
  CHECK_U64(reserved(&r), 130 * M);
  CHECK_U64(plim_allocator_block_bytes(r.a, 2), 100 * M);
  plim_allocator_free(r.a, 2);
  ask(&r, 3, 80 * M); // 20 MiB of slack are too much
  CHECK_U64(reserved(&r), 210 * M);
  stop(&r);
}

TEST(a_waiting_free_keeps_its_block_until_it_completes) {
  rig r = start("", PLIM_UNKNOWN);
  ask(&r, 0, 20 * M);
  plim_allocator_free_later(r.a, 0);
  CHECK_U64(allocated(&r), 0);
  CHECK_U64(plim_allocator_stats(r.a)->now.active_bytes, 20 * M);
  ask(&r, 1, 20 * M);
  CHECK_U64(reserved(&r), 40 * M);
  plim_allocator_complete(r.a, 0);
  plim_allocator_complete(r.a, 0); // a second time does nothing
  CHECK_U64(plim_allocator_stats(r.a)->now.active_bytes, 20 * M);
  plim_allocator_empty_cache(r.a);
  CHECK_U64(reserved(&r), 20 * M);
  stop(&r);
}

TEST(expandable_segments_grow_by_pages_and_give_back_whole_pages) {
  rig r = start("expandable_segments:True", PLIM_UNKNOWN);
  ask(&r, 0, 30 * M);
  CHECK_U64(reserved(&r), 40 * M);
  ask(&r, 1, 30 * M); // the free 10 MiB and one more page
  CHECK_U64(reserved(&r), 60 * M);
  CHECK_U64(plim_allocator_addr(r.a, 1), plim_allocator_addr(r.a, 0) + 30 * M);
  plim_allocator_free(r.a, 0);
  plim_allocator_empty_cache(r.a); // 30 MiB hold one whole page
  CHECK_U64(reserved(&r), 40 * M);
  plim_allocator_free(r.a, 1);
  plim_allocator_empty_cache(r.a);
  CHECK_U64(reserved(&r), 0);
  stop(&r);
}

TEST(garbage_goes_when_the_threshold_is_passed) {
  rig r = start("garbage_collection_threshold:0.5", 100 * M);
  ask(&r, 0, 30 * M);
  ask(&r, 1, 30 * M);
  plim_allocator_free(r.a, 0);
  plim_allocator_free(r.a, 1);
  ask(&r, 2, 36 * M);              // 60 of 100 MiB reserved: the threshold of 50 is passed by 10
  CHECK_U64(reserved(&r), 36 * M); // both are as old as the mean: a pass is not cut short
  CHECK_U64(plim_allocator_stats(r.a)->retries, 0);
  stop(&r);
}

// Releasing everything must not release segments of private pools.
TEST(private_pools_keep_their_memory) {
  plim_address_model_init(&model);
  plim_allocator_options options = {.conf = plim_alloc_conf_default(),
                                    .driver = plim_address_model_driver(&model),
                                    .limit_bytes = PLIM_UNKNOWN,
                                    .capacity_bytes = PLIM_UNKNOWN,
                                    .range_bytes = PLIM_UNKNOWN,
                                    .pool_count = 2};
  rig r = {.a = plim_allocator_new(&options)};
  plim_allocator_malloc(r.a, 0, 20 * M, PLIM_DEFAULT_STREAM, 1);
  ask(&r, 1, 20 * M);
  plim_allocator_free(r.a, 0);
  plim_allocator_free(r.a, 1);
  plim_allocator_empty_cache(r.a);
  CHECK_U64(reserved(&r), 20 * M); // the segment of the private pool
  ask(&r, 1, 20 * M);
  CHECK_U64(reserved(&r), 40 * M); // the default pool must not use it
  stop(&r);
}

TEST(garbage_collection_leaves_private_pools_alone) {
  plim_address_model_init(&model);
  plim_allocator_options options = {.driver = plim_address_model_driver(&model),
                                    .limit_bytes = 100 * M,
                                    .capacity_bytes = PLIM_UNKNOWN,
                                    .range_bytes = PLIM_UNKNOWN,
                                    .pool_count = 2};
  CHECK(!plim_alloc_conf_parse("garbage_collection_threshold:0.5", &options.conf, NULL), "conf");
  rig r = {.a = plim_allocator_new(&options)};
  plim_allocator_malloc(r.a, 0, 60 * M, PLIM_DEFAULT_STREAM, 1);
  plim_allocator_free(r.a, 0);
  ask(&r, 1, 20 * M); // 60 of 100 MiB are reserved, but none by the default pool
  CHECK_U64(reserved(&r), 80 * M);
  stop(&r);
}

// A slot is allocated again while the free of its old tensor still waits for a stream. That free must not be lost.
TEST(a_slot_in_use_is_vacated_first) {
  rig r = start("", PLIM_UNKNOWN);
  ask(&r, 0, 30 * M);
  plim_allocator_free_later(r.a, 0);
  ask(&r, 0, 30 * M);
  plim_allocator_empty_cache(r.a);
  CHECK_U64(allocated(&r), 30 * M);
  plim_allocator_free(r.a, 0);
  CHECK_U64(allocated(&r), 0);
  CHECK_U64(plim_allocator_stats(r.a)->now.active_bytes, 0);
  stop(&r);
}

TEST(waiting_frees_may_complete_in_any_order) {
  rig r = start("", PLIM_UNKNOWN);
  for (uint32_t i = 0; i < 5; i++) ask(&r, i, 20 * M), plim_allocator_free_later(r.a, i);
  static const uint32_t order[] = {2, 0, 1, 4, 3};
  for (uint32_t i = 0; i < 5; i++) {
    plim_allocator_complete(r.a, order[i]);
    CHECK_U64(plim_allocator_stats(r.a)->now.active_bytes, (4 - i) * 20 * M);
  }
  stop(&r);
}

TEST(absurd_requests_fail_cleanly) {
  rig r = start("", PLIM_UNKNOWN);
  CHECK(ask(&r, 0, UINT64_MAX) == PLIM_MALLOC_OOM, "2^64 - 1");
  CHECK(ask(&r, 0, 1ull << 63) == PLIM_MALLOC_OOM, "2^63");
  plim_allocator_free(r.a, 0);
  plim_allocator_free(r.a, 12345); // never allocated
  CHECK_U64(allocated(&r), 0);
  stop(&r);
}

TEST(versions_choose_the_order) {
  plim_block_order order;
  CHECK(plim_block_order_of("2.11.0+cu130", &order) && order == PLIM_ORDER_ADDRESS, "2.11");
  CHECK(plim_block_order_of("2.13", &order) && order == PLIM_ORDER_REGISTRATION, "2.13");
  CHECK(plim_block_order_of("3.0", &order) && order == PLIM_ORDER_REGISTRATION, "3.0");
  CHECK(!plim_block_order_of("new", &order), "no version");
}

// The pieces of a segment are as old as the segment. Of two free blocks of 10 MiB, the front of an older segment is
// taken before a younger segment.
TEST(pieces_inherit_the_registration_of_their_segment) {
  plim_address_model_init(&model);
  plim_allocator_options options = {.conf = plim_alloc_conf_default(),
                                    .order = PLIM_ORDER_REGISTRATION,
                                    .driver = plim_address_model_driver(&model),
                                    .limit_bytes = PLIM_UNKNOWN,
                                    .capacity_bytes = PLIM_UNKNOWN,
                                    .range_bytes = PLIM_UNKNOWN};
  rig r = {.a = plim_allocator_new(&options)};
  ask(&r, 0, 32 * M);
  ask(&r, 1, 10 * M);
  plim_allocator_free(r.a, 0);
  ask(&r, 2, 10 * M); // the front of the older segment
  ask(&r, 3, 22 * M); // and its back
  uint64_t front = plim_allocator_addr(r.a, 2);
  plim_allocator_free(r.a, 1);
  plim_allocator_free(r.a, 2);
  ask(&r, 4, 10 * M);
  CHECK_U64(plim_allocator_addr(r.a, 4), front);
  stop(&r);
}

// Two segments have equal free blocks: the newer one has the lower address, the older one was registered first.
TEST(the_two_orders_break_ties_differently) {
  for (int order = PLIM_ORDER_ADDRESS; order <= PLIM_ORDER_REGISTRATION; order++) {
    plim_address_model_init(&model);
    plim_allocator_options options = {.conf = plim_alloc_conf_default(),
                                      .order = (plim_block_order)order,
                                      .driver = plim_address_model_driver(&model),
                                      .limit_bytes = PLIM_UNKNOWN,
                                      .capacity_bytes = PLIM_UNKNOWN,
                                      .range_bytes = PLIM_UNKNOWN};
    rig r = {.a = plim_allocator_new(&options)};
    ask(&r, 0, 32 * M);
    ask(&r, 1, 32 * M);
    uint64_t older = plim_allocator_addr(r.a, 0), newer = plim_allocator_addr(r.a, 1);
    CHECK(newer < older, "the model goes downwards");
    plim_allocator_free(r.a, 0);
    plim_allocator_free(r.a, 1);
    ask(&r, 2, 32 * M);
    CHECK_U64(plim_allocator_addr(r.a, 2), order == PLIM_ORDER_ADDRESS ? newer : older);
    stop(&r);
  }
}

TEST_MAIN
