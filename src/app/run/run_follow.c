// Follows the processes of a program while it runs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_impl.h"

enum { MOST_PROCESSES = 512 };

static const char *name_of(const run *r) { return strrchr(r->folder.path, '/') + 1; }

// The folder with all runs, as live.h wants it.
static void folder_of_runs(const run *r, char path[PLIM_PATH_BYTES]) {
  snprintf(path, PLIM_PATH_BYTES, "%.*s", (int)(name_of(r) - 1 - r->folder.path), r->folder.path);
}

static bool is_known(const run_end *end, unsigned pid) {
  for (size_t i = 0; i < end->processes.len; i++)
    if (end->processes.at[i].rank->pid == pid) return true;
  return false;
}

static void find_processes(const run *r, const live_run *self, run_end *end) {
  unsigned pids[MOST_PROCESSES];
  char folder[PLIM_PATH_BYTES];
  folder_of_runs(r, folder);
  size_t count = live_processes(folder, self, pids, MOST_PROCESSES);
  for (size_t i = 0; i < count; i++) {
    live_rank *rank = is_known(end, pids[i]) ? NULL : live_rank_new(folder, self, pids[i]);
    if (rank && !vec_push(&end->processes, (run_process){.rank = rank})) free(rank);
  }
}

// ---- the record -------------------------------------------------------------------------------------

// A run of days has thousands of samples, not millions: the time between two grows with the run's. The last one before a
// pause is stored too, a moment later.
static bool is_due(const run *r, const run_process *p) {
  double now = run_clock(), age = now - r->began;
  bool is_new = p->rank->last.seconds > p->stored;
  return is_new && now - p->stored >= (age / 2000 > 1 ? age / 2000 : 1);
}

static uint64_t used_of(const live_sample *s) {
  bool is_known_here = s->total_bytes != PLIM_UNKNOWN && s->free_bytes <= s->total_bytes;
  return is_known_here ? s->total_bytes - s->free_bytes : PLIM_UNKNOWN;
}

static void store(run *r, run_process *p) {
  const live_sample *s = &p->rank->last;
  history_sample sample = {.time = s->seconds,
                           .rank = s->rank == PLIM_UNKNOWN ? 0 : (int64_t)s->rank,
                           .step = s->step,
                           .allocated_bytes = s->allocated_bytes,
                           .reserved_bytes = s->reserved_bytes,
                           .used_bytes = used_of(s),
                           .peak_bytes = p->rank->recent_peak_bytes};
  p->stored = s->seconds;
  p->rank->recent_peak_bytes = PLIM_UNKNOWN;
  run_record_add_sample(r->record, &sample);
}

// ---- warnings ---------------------------------------------------------------------------------------

// A launcher may start a rank again: its earlier process has ended.
static bool is_replaced(const run_end *end, const live_rank *rank) {
  for (size_t i = 0; i < end->processes.len; i++) {
    const live_rank *other = end->processes.at[i].rank;
    bool is_same = other->has_sample && other->last.device != PLIM_UNKNOWN &&
                   other->last.rank == rank->last.rank && other->pid != rank->pid;
    if (is_same && other->last.seconds > rank->last.seconds) return true;
  }
  return false;
}

// A forecast that reaches the limit is announced once for each process, and so are swings that fit. The worst rank rules.
static void warn(run *r, run_end *end) {
  run_process *worst = NULL;
  for (size_t i = 0; i < end->processes.len; i++) {
    const live_rank *rank = end->processes.at[i].rank;
    bool may_be = !worst || live_rank_is_worse(rank, worst->rank);
    if (may_be && rank->has_sample && !is_replaced(end, rank)) worst = &end->processes.at[i];
  }
  if (!worst || worst->has_warned) return;
  const live_rank *rank = worst->rank;
  bool is_warning = plim_trend_is_warning(&rank->trend);
  bool has_swings = rank->trend.kind == PLIM_TREND_SWINGING && !worst->has_told_swings;
  if (!is_warning && !has_swings) return;
  char text[PLIM_TREND_TEXT], who[40] = "";
  worst->has_warned = is_warning;
  worst->has_told_swings |= has_swings;
  plim_trend_say(&rank->trend, text, sizeof text);
  if (live_rank_has_others(rank) && rank->last.rank != PLIM_UNKNOWN)
    snprintf(who, sizeof who, "rank %llu: ", (unsigned long long)rank->last.rank);
  run_tell(r, is_warning ? RUN_WARNING : RUN_DETAIL, "%s%s", who, text);
  if (rank->trend.kind == PLIM_TREND_CREEPING) run_suspect_leak(r, end, rank->pid);
}

// ---- all of it --------------------------------------------------------------------------------------

static void raise(uint64_t *most, uint64_t value) {
  if (value != PLIM_UNKNOWN && (*most == PLIM_UNKNOWN || value > *most)) *most = value;
}

// True: no GPU was as full before.
static bool take_peak(run *r, const live_rank *p) {
  if (r->total_bytes == PLIM_UNKNOWN) r->total_bytes = p->last.total_bytes;
  uint64_t room = live_room(p->total_bytes, p->used_bytes);
  if (room >= live_room(r->total_bytes, r->peak_bytes)) return false;
  r->peak_bytes = p->used_bytes;
  r->total_bytes = p->total_bytes;
  r->peak_rank = live_rank_has_others(p) ? p->last.rank : PLIM_UNKNOWN;
  if (*p->last.card) snprintf(r->card, sizeof r->card, "%s", p->last.card);
  return true;
}

static void take_nodes(run *r, const live_sample *s) {
  bool is_known_here = s->world != PLIM_UNKNOWN && s->local_world != PLIM_UNKNOWN;
  if (r->has_nodes || !is_known_here || s->world <= s->local_world) return;
  r->has_nodes = true;
  run_tell(r, RUN_DETAIL, "%llu of the %llu ranks run on this machine; plimsoll sees only these",
           (unsigned long long)s->local_world, (unsigned long long)s->world);
}

static void take(run *r, run_process *p) {
  const live_sample *s = &p->rank->last;
  raise(&r->steps, s->step);
  take_nodes(r, s);
  if (take_peak(r, p->rank) || is_due(r, p)) store(r, p);
}

void run_follow(run *r, run_end *end) {
  live_run self = {.limit_bytes = PLIM_UNKNOWN, .steps = PLIM_UNKNOWN};
  snprintf(self.name, sizeof self.name, "%s", name_of(r));
  find_processes(r, &self, end);
  for (size_t i = 0; i < end->processes.len; i++) {
    run_process *p = &end->processes.at[i];
    live_rank_read(p->rank, &self);
    if (p->rank->has_sample) take(r, p);
  }
  warn(r, end);
  run_inquire(r, end);
  run_hook_look(r);
}

void run_follow_last(run *r, run_end *end) {
  run_follow(r, end);
  for (size_t i = 0; i < end->processes.len; i++) {
    run_process *p = &end->processes.at[i];
    if (p->rank->has_sample && p->rank->last.seconds > p->stored) store(r, p);
  }
}
