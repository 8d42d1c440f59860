#include "replay.h"

#include <string.h>

#include "replay_impl.h"
#include "trace_start.h"

bool plim_replay_recorded_conf(const plim_trace *trace, plim_alloc_conf *conf) {
  const plim_recorded_settings *s = &trace->settings;
  bool all = plim_alloc_conf_parse_recorded(plim_trace_text(trace, s->conf), conf);
  bool gc_is_sane = s->gc_threshold >= 0 && s->gc_threshold < 1;
  // Recorded effective values override the string: some settings stay in effect after a later change of the string.
  if (s->has_expandable) conf->expandable_segments = s->expandable;
  if (s->has_max_split)
    conf->max_split_bytes = s->max_split_bytes < 0 ? UINT64_MAX : (uint64_t)s->max_split_bytes;
  if (s->has_gc_threshold) conf->gc_threshold = gc_is_sane ? s->gc_threshold : 0;
  if (s->has_divisions) memcpy(conf->divisions, s->divisions, sizeof conf->divisions);
  return all && (gc_is_sane || !s->has_gc_threshold);
}

plim_allocator_options replay_allocator_options(const plim_trace *trace,
                                                const plim_replay_options *options,
                                                plim_driver driver) {
  uint64_t limit = options->limit_bytes;
  return (plim_allocator_options){.conf = options->conf,
                                  .order = options->order,
                                  .driver = driver,
                                  .limit_bytes = options->limit_is_card ? PLIM_UNKNOWN : limit,
                                  .capacity_bytes = options->limit_is_card ? limit : PLIM_UNKNOWN,
                                  .range_bytes = PLIM_UNKNOWN,
                                  .streams = trace->streams.at,
                                  .stream_count = (uint32_t)trace->streams.len,
                                  .pool_count = (uint32_t)trace->pools.len};
}

// Blocks that existed at the start have the sizes that the recorded settings gave them.
plim_allocator *replay_start(const plim_trace *trace, const plim_allocator_options *options,
                             bool *consistent) {
  plim_alloc_conf recorded;
  plim_replay_recorded_conf(trace, &recorded);
  plim_allocator *a = plim_allocator_new(options);
  if (a && plim_start_seed(trace, &recorded, a, consistent)) return a;
  plim_allocator_delete(a);
  return NULL;
}

void replay_note_peaks(const plim_allocator *a, plim_usage *known, size_t event,
                       size_t *allocated_event, size_t *reserved_event) {
  const plim_usage *peak = &plim_allocator_stats(a)->peak;
  if (peak->allocated_bytes > known->allocated_bytes) *allocated_event = event;
  if (peak->reserved_bytes > known->reserved_bytes) *reserved_event = event;
  *known = *peak;
}

void plim_guided_clear(plim_guided *result) { vec_free(&result->marks); }

void plim_guided_set_limit(const plim_guided *guided, plim_replay_options *options) {
  if (options->limit_bytes != PLIM_UNKNOWN) return;
  uint64_t high = guided->limit_high, card = guided->card_bytes;
  options->limit_bytes = high < card ? high : card;
  options->limit_is_card = card != PLIM_UNKNOWN;
}
