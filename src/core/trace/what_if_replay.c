// The what-if replay: runs the requests of a recording under other settings.
#include "replay_impl.h"

typedef struct {
  const plim_trace *trace;
  size_t next; // the next recorded segment whose address has not been used
  plim_address_model model;
  plim_driver model_driver;
} recorded_addresses;

static uint64_t recorded_reserve(void *self, uint64_t bytes) {
  recorded_addresses *r = self;
  for (; r->next < r->trace->events.len; r->next++)
    if (plim_event_is_map(&r->trace->events.at[r->next]))
      return r->trace->events.at[r->next++].addr;
  return r->model_driver.reserve(r->model_driver.self, bytes);
}

static void recorded_release(void *self, uint64_t addr, uint64_t bytes) {
  recorded_addresses *r = self;
  r->model_driver.release(r->model_driver.self, addr, bytes);
}

typedef struct {
  const plim_trace *trace;
  plim_allocator *a;
  const plim_guided *guided;
  size_t next_mark;
  size_t late_from, late_to; // completions to be done after the next malloc
  plim_what_if *result;
} runner;

static void complete_late(runner *r) {
  for (; r->late_from < r->late_to; r->late_from++) {
    const plim_event *e = &r->trace->events.at[r->late_from];
    if (is_completion(e)) plim_allocator_complete(r->a, e->block);
  }
}

static plim_malloc_result run_malloc(runner *r, size_t i) {
  const plim_event *e = &r->trace->events.at[i];
  bool failed_then = e->action == PLIM_EV_OOM;
  uint32_t slot = failed_then ? r->trace->block_slots : e->block;
  plim_malloc_result got = plim_allocator_malloc(r->a, slot, e->bytes, e->stream, e->pool);
  if (got == PLIM_MALLOC_OOM && r->result->first_oom_event == PLIM_UNKNOWN)
    r->result->first_oom_event = i;
  // The recording does not show how the program would have continued after this request, which failed then.
  if (got == PLIM_MALLOC_OK && failed_then) plim_allocator_free(r->a, slot);
  complete_late(r);
  return got;
}

// Executes the marks of event i; returns true if the event itself happens inside a malloc.
static bool run_marks(runner *r, size_t i) {
  bool inside = false;
  for (; r->next_mark < r->guided->marks.len; r->next_mark++) {
    const plim_mark *mark = &r->guided->marks.at[r->next_mark];
    if (mark->event != i) break;
    if (mark->kind == PLIM_MARK_EMPTY_CACHE) plim_allocator_empty_cache(r->a);
    else inside = true;
  }
  return inside;
}

static void run_late(runner *r, size_t i) {
  if (r->trace->events.at[i].action == PLIM_EV_FREE)
    plim_allocator_free_later(r->a, r->trace->events.at[i].block);
  if (r->late_from == r->late_to) r->late_from = i;
  r->late_to = i + 1;
}

static bool run_event(runner *r, size_t i) {
  const plim_event *e = &r->trace->events.at[i];
  if (run_marks(r, i)) {
    run_late(r, i);
    return true;
  }
  switch (e->action) {
  case PLIM_EV_ALLOC:
  case PLIM_EV_OOM: return run_malloc(r, i) != PLIM_MALLOC_NO_HOST_MEMORY;
  case PLIM_EV_FREE: plim_allocator_free(r->a, e->block); break;
  case PLIM_EV_FREE_REQUESTED: plim_allocator_free_later(r->a, e->block); break;
  case PLIM_EV_FREE_COMPLETED: plim_allocator_complete(r->a, e->block); break;
  default: break;
  }
  return true;
}

static void finish_what_if(const plim_allocator *a, plim_what_if *result) {
  const plim_allocator_stats_t *stats = plim_allocator_stats(a);
  result->totals = (plim_replay_totals){.peak_allocated_bytes = stats->peak.allocated_bytes,
                                        .peak_reserved_bytes = stats->peak.reserved_bytes,
                                        .segment_allocs = stats->segment_allocs,
                                        .segment_frees = stats->segment_frees,
                                        .retries = stats->retries,
                                        .ooms = stats->ooms};
  result->end = stats->now;
}

bool plim_replay_what_if(const plim_trace *trace, const plim_guided *guided,
                         const plim_replay_options *options, plim_addresses addresses,
                         const plim_replay_watch *watch,
                         void (*on_segment)(void *context, const plim_segment_event *event),
                         void *context, plim_what_if *result) {
  recorded_addresses source = {.trace = trace};
  plim_address_model_init(&source.model);
  source.model_driver = plim_address_model_driver(&source.model);
  plim_driver driver = source.model_driver;
  if (addresses == PLIM_ADDRESSES_RECORDED)
    driver = (plim_driver){&source, recorded_reserve, recorded_release};
  plim_allocator_options setup = replay_allocator_options(trace, options, driver);
  setup.on_segment = on_segment;
  setup.context = context;
  *result = (plim_what_if){.first_oom_event = PLIM_UNKNOWN};
  runner r = {.trace = trace, .guided = guided, .result = result};
  bool consistent;
  r.a = replay_start(trace, &setup, &consistent);
  bool ok = r.a != NULL;
  plim_usage known = {0};
  for (size_t i = 0; ok && i < trace->events.len; i++) {
    ok = run_event(&r, i) && !plim_allocator_out_of_host_memory(r.a);
    if (!ok) break;
    replay_note_peaks(r.a, &known, i, &result->peak_event, &result->peak_reserved_event);
    if (watch && !watch->after_event(watch->context, i, r.a)) break;
  }
  if (ok) run_marks(&r, trace->events.len);
  if (ok) finish_what_if(r.a, result);
  plim_allocator_delete(r.a);
  plim_address_model_clear(&source.model);
  return ok;
}
