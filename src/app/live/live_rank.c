#include "live_rank.h"

#include <math.h>
#include <stdlib.h>

enum { READ_AT_ONCE = 256, PACE_STEPS = 20 };

static uint64_t lower(uint64_t a, uint64_t b) { return a < b ? a : b; } // unknown is the highest

static uint64_t higher_known(uint64_t a, uint64_t b) {
  if (a == PLIM_UNKNOWN) return b;
  return b == PLIM_UNKNOWN || a > b ? a : b;
}

// ---- a process of a run -----------------------------------------------------------------------------

// What the process can get: what is free on the card and what it has already, within the limit of the run.
static uint64_t limit_of(const live_run *run, const live_sample *s) {
  uint64_t reachable = s->total_bytes;
  bool is_known = s->free_bytes != PLIM_UNKNOWN && s->reserved_bytes != PLIM_UNKNOWN;
  if (is_known && s->free_bytes <= PLIM_UNKNOWN - 1 - s->reserved_bytes)
    reachable = lower(reachable, s->free_bytes + s->reserved_bytes);
  return lower(reachable, run->limit_bytes);
}

static bool is_step(const live_sample *s) {
  return s->phase == LIVE_PHASE_UNKNOWN || s->phase == LIVE_TRAINING || s->phase == LIVE_OPTIMIZER;
}

static uint64_t peak_in(const live_sample *s) {
  return s->peak_allocated_bytes == PLIM_UNKNOWN ? s->allocated_bytes : s->peak_allocated_bytes;
}

static uint64_t outside_of(const live_sample *s) {
  bool is_known = s->total_bytes != PLIM_UNKNOWN && s->free_bytes != PLIM_UNKNOWN &&
                  s->reserved_bytes != PLIM_UNKNOWN;
  if (!is_known || s->free_bytes > s->total_bytes) return PLIM_UNKNOWN;
  uint64_t used = s->total_bytes - s->free_bytes;
  return used > s->reserved_bytes ? used - s->reserved_bytes : 0;
}

uint64_t live_room(uint64_t total_bytes, uint64_t used_bytes) {
  if (used_bytes == PLIM_UNKNOWN) return PLIM_UNKNOWN;
  return total_bytes > used_bytes ? total_bytes - used_bytes : 0;
}

// In use on the card at the peak: what is in use now, and what this process has released since.
static uint64_t used_at_peak(const live_sample *s) {
  if (s->total_bytes == PLIM_UNKNOWN || s->free_bytes > s->total_bytes) // or not known
    return s->peak_reserved_bytes;
  bool is_known = s->peak_reserved_bytes != PLIM_UNKNOWN && s->reserved_bytes != PLIM_UNKNOWN;
  uint64_t used = live_room(s->total_bytes, s->free_bytes);
  uint64_t released = is_known ? live_room(s->peak_reserved_bytes, s->reserved_bytes) : 0;
  return released < s->total_bytes - used ? used + released : s->total_bytes;
}

static void take_use(live_rank *r, const live_sample *s) {
  uint64_t used = used_at_peak(s);
  if (live_room(s->total_bytes, used) >= live_room(r->total_bytes, r->used_bytes)) return;
  r->used_bytes = used;
  r->total_bytes = s->total_bytes;
}

static void take_sample(live_rank *r, const live_run *run, const live_sample *s) {
  r->last = *s;
  r->has_sample = true;
  r->limit_bytes = limit_of(run, s);
  r->peak_bytes = higher_known(r->peak_bytes, peak_in(s));
  r->recent_peak_bytes = higher_known(r->recent_peak_bytes, peak_in(s));
  take_use(r, s);
  if (s->oom_bytes != PLIM_UNKNOWN) r->has_oom = true, r->oom = *s;
  if (!is_step(s)) return;
  plim_history_add(&r->history, &(plim_step_memory){.step = s->step,
                                                    .seconds = s->seconds < 0 ? NAN : s->seconds,
                                                    .live_bytes = s->allocated_bytes,
                                                    .peak_bytes = s->peak_allocated_bytes,
                                                    .reserved_bytes = s->reserved_bytes,
                                                    .outside_bytes = outside_of(s)});
}

static double pace_of(const plim_history *h) {
  if (h->recent_count < 2) return -1;
  size_t steps = h->recent_count < PACE_STEPS ? h->recent_count : PACE_STEPS;
  const plim_step_memory *first = &h->recent[h->recent_count - steps],
                         *last = &h->recent[h->recent_count - 1];
  double seconds = last->seconds - first->seconds;
  if (last->step == PLIM_UNKNOWN || !(seconds > 0)) return -1; // also a time that is not known
  return (double)(last->step - first->step) / seconds;
}

static void judge(live_rank *r, const live_run *run) {
  r->trend = plim_history_trend(&r->history, r->limit_bytes, run->steps);
  r->steps_per_second = pace_of(&r->history);
  bool is_known = r->limit_bytes != PLIM_UNKNOWN && r->peak_bytes != PLIM_UNKNOWN;
  r->headroom_bytes = PLIM_UNKNOWN;
  if (is_known)
    r->headroom_bytes = r->limit_bytes > r->peak_bytes ? r->limit_bytes - r->peak_bytes : 0;
}

void live_rank_read(live_rank *r, const live_run *run) {
  live_sample samples[READ_AT_ONCE];
  size_t count;
  while ((count = live_read(&r->reader, samples, READ_AT_ONCE)))
    for (size_t i = 0; i < count; i++) take_sample(r, run, &samples[i]);
  judge(r, run);
}

live_rank *live_rank_new(const char *folder, const live_run *run, unsigned pid) {
  live_rank *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->pid = pid;
  r->limit_bytes = r->peak_bytes = r->recent_peak_bytes = r->headroom_bytes = PLIM_UNKNOWN;
  r->used_bytes = r->total_bytes = PLIM_UNKNOWN;
  r->steps_per_second = -1;
  if (live_path(r->reader.path, folder, run, pid)) return r;
  free(r);
  return NULL;
}

bool live_rank_has_others(const live_rank *r) {
  return r->has_sample && r->last.world != PLIM_UNKNOWN && r->last.world > 1;
}

// When a process runs out of memory; the highest number if it does not.
static uint64_t end_of(const live_rank *r) {
  return r->trend.is_full_before_end ? r->trend.full_step : PLIM_UNKNOWN;
}

bool live_rank_is_worse(const live_rank *a, const live_rank *b) {
  if (end_of(a) != end_of(b)) return end_of(a) < end_of(b);
  return a->headroom_bytes < b->headroom_bytes;
}
