#include <stdlib.h>
#include <string.h>

#include "watch_impl.h"

#include "sort.h"

// ---- the processes of a run -------------------------------------------------------------------------

static live_rank *find_rank(watch_run *run, const char *folder, unsigned pid) {
  for (size_t i = 0; i < run->ranks.len; i++)
    if (run->ranks.at[i]->pid == pid) return run->ranks.at[i];
  live_rank *r = live_rank_new(folder, &run->run, pid);
  if (r && vec_push(&run->ranks, r)) return r;
  free(r);
  return NULL;
}

// The process that starts the ranks, such as torchrun's: it is no rank itself.
static bool is_launcher(const watch_run *run, const live_rank *r) {
  bool has_ranks = false;
  for (size_t i = 0; i < run->ranks.len; i++) has_ranks |= live_rank_has_others(run->ranks.at[i]);
  return has_ranks && !live_rank_has_others(r) && r->last.device == PLIM_UNKNOWN;
}

static void read_ranks(watch *w, watch_run *run) {
  unsigned pids[WATCH_RANKS];
  size_t count = live_processes(w->folder, &run->run, pids, WATCH_RANKS);
  for (size_t i = 0; i < run->ranks.len; i++) run->ranks.at[i]->is_there = false;
  for (size_t i = 0; i < count; i++) {
    if (!plim_process_runs(w->options.root, pids[i], -1)) continue;
    live_rank *r = find_rank(run, w->folder, pids[i]);
    w->has_no_memory |= !r;
    if (!r) continue;
    r->is_there = true;
    live_rank_read(r, &run->run);
  }
  for (size_t i = 0; i < run->ranks.len; i++)
    if (is_launcher(run, run->ranks.at[i])) run->ranks.at[i]->is_there = false;
  size_t kept = 0;
  run->worst = NULL;
  for (size_t i = 0; i < run->ranks.len; i++) {
    live_rank *r = run->ranks.at[i];
    if (!r->is_there) {
      free(r);
      continue;
    }
    run->ranks.at[kept++] = r;
    if (r->has_sample && (!run->worst || live_rank_is_worse(r, run->worst))) run->worst = r;
  }
  run->ranks.len = kept;
}

// ---- runs -------------------------------------------------------------------------------------------

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
    w->has_no_memory |= !run;
    if (!run) continue;
    run->run = found[i];
    run->is_there = true;
    read_ranks(w, run);
  }
  for (size_t i = 0; i < w->runs.len; i++)
    if (w->runs.at[i]->is_there) w->runs.at[kept++] = w->runs.at[i];
    else free_run(w->runs.at[i]);
  w->runs.len = kept;
  if (kept) plim_sort(w->runs.at, kept, sizeof *w->runs.at, by_name);
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
