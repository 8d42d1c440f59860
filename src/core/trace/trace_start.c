#include "trace_start.h"

// The size of a block that was freed before the final layout: its rounded request, plus the gap up to the next block if
// that is too small to have been split off.
static uint64_t block_bytes(const plim_alloc_conf *conf, const plim_start_block *b,
                            const plim_start_segment *s, uint64_t next) {
  if (b->end_at_most < next) next = b->end_at_most;
  uint64_t room = next - b->addr, bytes = plim_round_request(conf, b->requested_bytes);
  if (bytes >= room) return room;
  uint64_t rest = room - bytes;
  if (plim_block_is_split(conf, s->is_large, bytes, rest)) return bytes;
  // An oversize block is reused whole only up to a certain slack; with more, the rest is a gap.
  bool is_oversize = bytes >= conf->max_split_bytes && rest >= conf->max_non_split_rounding_bytes;
  return is_oversize ? bytes : room;
}

static bool seed_segment(const plim_trace *trace, const plim_alloc_conf *conf, plim_allocator *a,
                         const plim_start_segment *s, size_t first, size_t end, bool *fits) {
  vec(plim_seed_block) seeds = {0};
  bool ok = true;
  for (size_t i = first; ok && i < end; i++) {
    const plim_start_block *b = &trace->start_blocks.at[i];
    uint64_t next = i + 1 < end ? trace->start_blocks.at[i + 1].addr : s->addr + s->bytes;
    uint64_t bytes =
        b->block_bytes != PLIM_UNKNOWN ? b->block_bytes : block_bytes(conf, b, s, next);
    ok = vec_push(&seeds,
                  (plim_seed_block){b->addr, bytes, b->requested_bytes, b->slot, b->is_pending});
  }
  plim_seed_segment segment = {.addr = s->addr,
                               .bytes = s->bytes,
                               .range_start = s->range_start,
                               .range_end = s->range_end,
                               .stream = s->stream,
                               .pool = s->pool,
                               .is_large = s->is_large,
                               .is_expandable = s->is_expandable};
  *fits = ok && plim_allocator_seed(a, &segment, seeds.at, seeds.len);
  vec_free(&seeds);
  return ok && !plim_allocator_out_of_host_memory(a);
}

// A block outside all known segments (the snapshot has no segment list) gets its own segment.
static bool seed_alone(const plim_trace *trace, const plim_alloc_conf *conf, plim_allocator *a,
                       size_t i, bool *fits) {
  const plim_start_block *b = &trace->start_blocks.at[i];
  uint64_t bytes = plim_round_request(conf, b->requested_bytes);
  plim_start_segment own = {.addr = b->addr,
                            .bytes = bytes,
                            .stream = b->stream,
                            .pool = b->pool,
                            .is_large = plim_request_is_large(conf, bytes)};
  return seed_segment(trace, conf, a, &own, i, i + 1, fits);
}

bool plim_start_seed(const plim_trace *trace, const plim_alloc_conf *conf, plim_allocator *a,
                     bool *consistent) {
  size_t block = 0, blocks = trace->start_blocks.len;
  bool ok = true, fits = true;
  *consistent = true;
  for (size_t i = 0; ok && i < trace->start_segments.len; i++) {
    const plim_start_segment *s = &trace->start_segments.at[i];
    for (; ok && block < blocks && trace->start_blocks.at[block].addr < s->addr; block++) {
      ok = seed_alone(trace, conf, a, block, &fits);
      *consistent = false;
    }
    size_t end = block;
    while (end < blocks && trace->start_blocks.at[end].addr - s->addr < s->bytes) end++;
    ok = ok && seed_segment(trace, conf, a, s, block, end, &fits);
    *consistent = *consistent && fits;
    block = end;
  }
  for (; ok && block < blocks; block++) {
    ok = seed_alone(trace, conf, a, block, &fits);
    *consistent = false;
  }
  return ok;
}
