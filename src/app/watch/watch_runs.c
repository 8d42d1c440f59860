#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watch_impl.h"

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

static double share_of(uint64_t part, uint64_t whole) {
  bool is_known = part != PLIM_UNKNOWN && whole != PLIM_UNKNOWN && whole > 0;
  return is_known ? fmin(1, (double)part / (double)whole) : -1;
}

static void take_sample(watch_rank *r, const live_run *run, const live_sample *s) {
  r->last = *s;
  r->has_sample = true;
  r->limit_bytes = limit_of(run, s);
  r->peak_bytes = higher_known(r->peak_bytes, peak_in(s));
  if (!is_step(s)) return;
  watch_ring_add(&r->memory, share_of(peak_in(s), r->limit_bytes));
  plim_history_add(&r->history, &(plim_step_memory){.step = s->step,
                                                    .seconds = s->seconds < 0 ? NAN : s->seconds,
                                                    .live_bytes = s->allocated_bytes,
                                                    .peak_bytes = s->peak_allocated_bytes,
                                                    .reserved_bytes = s->reserved_bytes});
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

static void judge(watch_rank *r, const live_run *run) {
  r->trend = plim_history_trend(&r->history, r->limit_bytes, run->steps);
  r->steps_per_second = pace_of(&r->history);
  bool is_known = r->limit_bytes != PLIM_UNKNOWN && r->peak_bytes != PLIM_UNKNOWN;
  r->headroom_bytes = PLIM_UNKNOWN;
  if (is_known)
    r->headroom_bytes = r->limit_bytes > r->peak_bytes ? r->limit_bytes - r->peak_bytes : 0;
}

static void read_rank(watch_rank *r, const live_run *run) {
  live_sample samples[READ_AT_ONCE];
  size_t count;
  while ((count = live_read(&r->reader, samples, READ_AT_ONCE)))
    for (size_t i = 0; i < count; i++) take_sample(r, run, &samples[i]);
  judge(r, run);
}

static watch_rank *find_rank(watch_run *run, const char *folder, unsigned pid) {
  for (size_t i = 0; i < run->ranks.len; i++)
    if (run->ranks.at[i]->pid == pid) return run->ranks.at[i];
  watch_rank *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->pid = pid;
  r->limit_bytes = r->peak_bytes = r->headroom_bytes = PLIM_UNKNOWN;
  if (live_path(r->reader.path, folder, &run->run, pid) && vec_push(&run->ranks, r)) return r;
  free(r);
  return NULL;
}

// ---- a run ------------------------------------------------------------------------------------------

// When a process runs out of memory; the highest number if it does not.
static uint64_t end_of(const watch_rank *r) {
  return r->trend.is_full_before_end ? r->trend.full_step : PLIM_UNKNOWN;
}

static bool is_worse(const watch_rank *a, const watch_rank *b) {
  if (end_of(a) != end_of(b)) return end_of(a) < end_of(b);
  return a->headroom_bytes < b->headroom_bytes;
}

static void read_ranks(watch *w, watch_run *run) {
  unsigned pids[WATCH_RANKS];
  size_t count = live_processes(w->folder, &run->run, pids, WATCH_RANKS);
  for (size_t i = 0; i < run->ranks.len; i++) run->ranks.at[i]->is_there = false;
  for (size_t i = 0; i < count; i++) {
    if (!plim_process_runs(w->options.root, pids[i], -1)) continue;
    watch_rank *r = find_rank(run, w->folder, pids[i]);
    if (!r) continue;
    r->is_there = true;
    read_rank(r, &run->run);
  }
  size_t kept = 0;
  run->worst = NULL;
  for (size_t i = 0; i < run->ranks.len; i++) {
    watch_rank *r = run->ranks.at[i];
    if (!r->is_there) {
      free(r);
      continue;
    }
    run->ranks.at[kept++] = r;
    if (r->has_sample && (!run->worst || is_worse(r, run->worst))) run->worst = r;
  }
  run->ranks.len = kept;
}

static void free_run(watch_run *run) {
  for (size_t i = 0; i < run->ranks.len; i++) free(run->ranks.at[i]);
  vec_free(&run->ranks);
  free(run);
}

// The run with this name and process number; another number is another run.
static watch_run *find_run(watch *w, const live_run *is) {
  for (size_t i = 0; i < w->runs.len; i++) {
    const live_run *known = &w->runs.at[i]->run;
    if (known->pid == is->pid && strcmp(known->name, is->name) == 0) return w->runs.at[i];
  }
  watch_run *run = calloc(1, sizeof *run);
  if (run && vec_push(&w->runs, run)) return run;
  free(run);
  return NULL;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(watch_run *const *)a)->run.name, (*(watch_run *const *)b)->run.name);
}

void watch_runs_read(watch *w) {
  live_run found[WATCH_RUNS];
  size_t count = *w->folder ? live_runs(w->folder, w->options.root, found, WATCH_RUNS) : 0,
         kept = 0;
  for (size_t i = 0; i < w->runs.len; i++) w->runs.at[i]->is_there = false;
  for (size_t i = 0; i < count; i++) {
    watch_run *run = find_run(w, &found[i]);
    if (!run) continue;
    run->run = found[i];
    run->is_there = true;
    read_ranks(w, run);
  }
  for (size_t i = 0; i < w->runs.len; i++)
    if (w->runs.at[i]->is_there) w->runs.at[kept++] = w->runs.at[i];
    else free_run(w->runs.at[i]);
  w->runs.len = kept;
  if (kept) qsort(w->runs.at, kept, sizeof *w->runs.at, by_name);
}

void watch_runs_free(watch *w) {
  for (size_t i = 0; i < w->runs.len; i++) free_run(w->runs.at[i]);
  vec_free(&w->runs);
}

const watch_run *watch_run_of(const watch *w, unsigned pid) {
  for (size_t i = 0; i < w->runs.len; i++)
    for (size_t k = 0; k < w->runs.at[i]->ranks.len; k++)
      if (w->runs.at[i]->ranks.at[k]->pid == pid) return w->runs.at[i];
  return NULL;
}
