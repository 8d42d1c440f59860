// Follows the processes of a program while it runs.
#include <stdio.h>
#include <string.h>

#include "run_impl.h"

enum { MOST_PROCESSES = 512, SAMPLES_AT_ONCE = 64 };

static const char *name_of(const run *r) { return strrchr(r->folder.path, '/') + 1; }

// The folder with all runs, as live.h wants it.
static void folder_of_runs(const run *r, char path[PLIM_PATH_BYTES]) {
  snprintf(path, PLIM_PATH_BYTES, "%.*s", (int)(name_of(r) - 1 - r->folder.path), r->folder.path);
}

static void find_processes(run *r, run_end *end) {
  unsigned pids[MOST_PROCESSES];
  char folder[PLIM_PATH_BYTES];
  live_run self = {0};
  snprintf(self.name, sizeof self.name, "%s", name_of(r));
  folder_of_runs(r, folder);
  size_t count = live_processes(folder, &self, pids, MOST_PROCESSES);
  for (size_t i = 0; i < count; i++) {
    bool is_known = false;
    for (size_t k = 0; k < end->processes.len; k++)
      is_known = is_known || end->processes.at[k].pid == pids[i];
    run_process p = {.pid = pids[i]};
    if (!is_known && live_path(p.reader.path, folder, &self, pids[i]))
      (void)!vec_push(&end->processes, p); // without memory it is tried again
  }
}

// ---- the record -------------------------------------------------------------------------------------

// A run of days has thousands of samples, not millions: the time between two grows with the run's.
static bool is_due(const run *r, const run_process *p, double now) {
  double age = now - r->began, between = age / 2000 > 1 ? age / 2000 : 1;
  return now - p->stored >= between;
}

static void store(run *r, run_process *p, const live_sample *s) {
  plim_error error;
  history_sample sample = {.time = s->seconds,
                           .rank = s->rank == PLIM_UNKNOWN ? 0 : (int64_t)s->rank,
                           .step = s->step,
                           .allocated_bytes = s->allocated_bytes,
                           .reserved_bytes = s->reserved_bytes,
                           .used_bytes = PLIM_UNKNOWN};
  if (s->total_bytes != PLIM_UNKNOWN && s->free_bytes != PLIM_UNKNOWN)
    sample.used_bytes = s->total_bytes - s->free_bytes;
  p->stored = s->seconds;
  if (r->history && history_add_samples(r->history, r->id, &sample, 1, &error)) {
    history_close(r->history);
    r->history = NULL;
    run_tell(r, RUN_WARNING, "the record of this run ends here: %s", error.message);
  }
}

// ---- warnings ---------------------------------------------------------------------------------------

// Whose memory is full first; NULL: nobody's.
static run_process *first_to_fill(run_end *end, plim_trend *worst) {
  run_process *found = NULL;
  for (size_t i = 0; i < end->processes.len; i++) {
    run_process *p = &end->processes.at[i];
    plim_trend t = plim_history_trend(&p->memory, p->last.total_bytes, PLIM_UNKNOWN);
    bool grows = t.kind == PLIM_TREND_CREEPING || t.kind == PLIM_TREND_LENGTHENING;
    if (!grows || t.full_step == PLIM_UNKNOWN || (found && t.full_step >= worst->full_step))
      continue;
    found = p;
    *worst = t;
  }
  return found;
}

// A forecast that reaches the limit is announced once for each process.
static void warn(run *r, run_end *end) {
  plim_trend trend;
  char text[PLIM_TREND_TEXT], who[40] = "";
  run_process *p = first_to_fill(end, &trend);
  if (!p || p->has_warned) return;
  p->has_warned = true;
  plim_trend_say(&trend, text, sizeof text);
  if (end->processes.len > 1 && p->last.rank != PLIM_UNKNOWN)
    snprintf(who, sizeof who, "rank %llu: ", (unsigned long long)p->last.rank);
  run_tell(r, RUN_WARNING, "%s%s", who, text);
  if (trend.kind == PLIM_TREND_CREEPING) run_suspect_leak(r, end, p->pid);
}

// ---- all of it --------------------------------------------------------------------------------------

static void take(run *r, run_process *p, const live_sample *s) {
  uint64_t used = s->total_bytes == PLIM_UNKNOWN || s->free_bytes == PLIM_UNKNOWN
                      ? s->peak_reserved_bytes
                      : s->total_bytes - s->free_bytes;
  bool has_new_step = !p->has_sample || s->step != p->last.step;
  p->last = *s;
  p->has_sample = true;
  if (s->total_bytes != PLIM_UNKNOWN) r->total_bytes = s->total_bytes;
  if (used != PLIM_UNKNOWN && (r->peak_bytes == PLIM_UNKNOWN || used > r->peak_bytes))
    r->peak_bytes = used;
  if (s->step != PLIM_UNKNOWN && (r->steps == PLIM_UNKNOWN || s->step > r->steps))
    r->steps = s->step;
  if (is_due(r, p, s->seconds)) store(r, p, s);
  if (!has_new_step || s->step == PLIM_UNKNOWN || !s->step) return;
  plim_history_add(&p->memory, &(plim_step_memory){.step = s->step,
                                                   .seconds = s->seconds,
                                                   .live_bytes = s->allocated_bytes,
                                                   .peak_bytes = s->peak_allocated_bytes,
                                                   .reserved_bytes = s->reserved_bytes});
}

void run_follow(run *r, run_end *end) {
  live_sample samples[SAMPLES_AT_ONCE];
  find_processes(r, end);
  for (size_t i = 0; i < end->processes.len; i++) {
    run_process *p = &end->processes.at[i];
    for (size_t n; (n = live_read(&p->reader, samples, SAMPLES_AT_ONCE));)
      for (size_t k = 0; k < n; k++) take(r, p, &samples[k]);
  }
  warn(r, end);
  run_inquire(r, end);
  run_hook_look(r);
}
