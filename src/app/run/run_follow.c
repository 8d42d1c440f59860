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

// A run of days has thousands of samples, not millions: the time between two grows with the run's.
static bool is_due(const run *r, const run_process *p) {
  double now = p->rank->last.seconds, age = now - r->began;
  return now - p->stored >= (age / 2000 > 1 ? age / 2000 : 1);
}

static uint64_t used_of(const live_sample *s) {
  bool is_known_here = s->total_bytes != PLIM_UNKNOWN && s->free_bytes <= s->total_bytes;
  return is_known_here ? s->total_bytes - s->free_bytes : PLIM_UNKNOWN;
}

static void store(run *r, run_process *p) {
  plim_error error;
  const live_sample *s = &p->rank->last;
  history_sample sample = {.time = s->seconds,
                           .rank = s->rank == PLIM_UNKNOWN ? 0 : (int64_t)s->rank,
                           .step = s->step,
                           .allocated_bytes = s->allocated_bytes,
                           .reserved_bytes = s->reserved_bytes,
                           .used_bytes = used_of(s)};
  p->stored = s->seconds;
  if (r->history && history_add_samples(r->history, r->id, &sample, 1, &error)) {
    history_close(r->history);
    r->history = NULL;
    run_tell(r, RUN_WARNING, "the record of this run ends here: %s", error.message);
  }
}

// ---- warnings ---------------------------------------------------------------------------------------

// A forecast that reaches the limit is announced once for each process. The worst rank rules.
static void warn(run *r, run_end *end) {
  run_process *worst = NULL;
  for (size_t i = 0; i < end->processes.len; i++)
    if (!worst || live_rank_is_worse(end->processes.at[i].rank, worst->rank))
      worst = &end->processes.at[i];
  if (!worst || worst->has_warned || !plim_trend_is_warning(&worst->rank->trend)) return;
  const live_rank *rank = worst->rank;
  char text[PLIM_TREND_TEXT], who[40] = "";
  worst->has_warned = true;
  plim_trend_say(&rank->trend, text, sizeof text);
  if (end->processes.len > 1 && rank->last.rank != PLIM_UNKNOWN)
    snprintf(who, sizeof who, "rank %llu: ", (unsigned long long)rank->last.rank);
  run_tell(r, RUN_WARNING, "%s%s", who, text);
  if (rank->trend.kind == PLIM_TREND_CREEPING) run_suspect_leak(r, end, rank->pid);
}

// ---- all of it --------------------------------------------------------------------------------------

static void raise(uint64_t *most, uint64_t value) {
  if (value != PLIM_UNKNOWN && (*most == PLIM_UNKNOWN || value > *most)) *most = value;
}

static void take(run *r, run_process *p) {
  const live_sample *s = &p->rank->last;
  uint64_t used = used_of(s);
  if (s->total_bytes != PLIM_UNKNOWN) r->total_bytes = s->total_bytes;
  if (*s->card) snprintf(r->card, sizeof r->card, "%s", s->card);
  raise(&r->peak_bytes, used == PLIM_UNKNOWN ? s->peak_reserved_bytes : used);
  raise(&r->steps, s->step);
  if (is_due(r, p)) store(r, p);
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
