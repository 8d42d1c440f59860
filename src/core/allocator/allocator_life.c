// Creating, copying and deleting an allocator.
#include <stdlib.h>
#include <string.h>

#include "allocator_impl.h"

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
  size_t pools = a->options.pool_count, freelists = pools * a->options.stream_count * 2;
  if (!vec_reserve(&a->freelist_table, freelists) || !vec_reserve(&a->searches, pools * 2))
    return false;
  memset(a->freelist_table.at, 0, freelists * sizeof *a->freelist_table.at);
  memset(a->searches.at, 0, pools * 2 * sizeof *a->searches.at);
  a->freelist_table.len = freelists;
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
  vec_free(&a->freelists);
  vec_free(&a->freelist_order);
  vec_free(&a->freelist_table);
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
  return streams && vec_copy(&to->blocks, &from->blocks) &&
         vec_copy(&to->freelists, &from->freelists) &&
         vec_copy(&to->freelist_order, &from->freelist_order) &&
         vec_copy(&to->freelist_table, &from->freelist_table) &&
         vec_copy(&to->searches, &from->searches) &&
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
  if (limit_bytes > a->options.limit_bytes) copy->options.capacity_bytes = PLIM_UNKNOWN;
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
