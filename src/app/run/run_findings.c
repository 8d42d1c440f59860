// What snapshots of the running program show: a model that is in memory twice, after the first step; the lines of a leak, when
// memory grows. A snapshot is read on a thread of its own, because that may take seconds.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "findings.h"
#include "run_impl.h"

struct run_inquiry {
  pthread_t thread;
  char path[PLIM_PATH_BYTES];
  bool is_leak;
  bool has_ended; // atomic
  plim_err err;
  plim_error error;
  findings found;
};

static void *read_snapshot(void *context) {
  run_inquiry *q = context;
  q->err = q->is_leak ? findings_of_leaks(q->path, &q->found, &q->error)
                      : findings_of_duplicates(q->path, &q->found, &q->error);
  __atomic_store_n(&q->has_ended, true, __ATOMIC_SEQ_CST);
  return NULL;
}

static bool path_of(const run *r, unsigned pid, const char *end, char path[PLIM_PATH_BYTES]) {
  char name[64];
  snprintf(name, sizeof name, "%u%s", pid, end);
  return plim_path_join(path, r->folder.out, name);
}

static void begin(run_end *end, const char *path, bool is_leak) {
  run_inquiry *q = calloc(1, sizeof *q);
  if (!q) return;
  q->is_leak = is_leak;
  snprintf(q->path, sizeof q->path, "%s", path);
  if (pthread_create(&q->thread, NULL, read_snapshot, q) == 0) end->inquiry = q;
  else free(q);
}

// ---- answers ----------------------------------------------------------------------------------------

static void list_lines(const finding *f, char *text, size_t size) {
  *text = 0;
  for (size_t i = 0; i < f->lines.len && i < 4; i++) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", i ? ", " : "", f->lines.at[i].name);
  }
}

static void tell(run *r, run_end *end, const run_inquiry *q) {
  char lines[512];
  if (q->is_leak && !q->err && q->found.list.len)
    list_lines(&q->found.list.at[0], end->leak_lines, sizeof end->leak_lines);
  for (size_t i = 0; !q->err && i < q->found.list.len && i < 3; i++) {
    const finding *f = &q->found.list.at[i];
    if (f->bytes < q->found.list.at[0].bytes / 100)
      continue; // beside a real leak, a number that is kept is none
    list_lines(f, lines, sizeof lines);
    if (f->lines.len && strstr(f->message, f->lines.at[0].name)) *lines = 0; // it is said already
    run_tell(r, RUN_WARNING, "%s%s%s%s", f->message, *lines ? " (made at " : "", lines,
             *lines ? ")" : "");
  }
  if (q->is_leak && !q->err && !q->found.list.len)
    run_tell(r, RUN_DETAIL,
             "memory grows, but no single line was found that leaves memory behind at every step");
  if (q->err)
    run_tell(r, RUN_DETAIL,
             "the memory snapshot that plimsoll made of the program could not be read: %s",
             q->error.message);
}

static void finish(run *r, run_end *end) {
  run_inquiry *q = end->inquiry;
  pthread_join(q->thread, NULL);
  tell(r, end, q);
  if (!q->err) findings_clear(&q->found);
  unlink(q->path);
  free(q);
  end->inquiry = NULL;
}

// ---- questions --------------------------------------------------------------------------------------

// The modules look for such a file after a step (src/card/python/plimsoll_history.py).
static bool ask(const run *r, unsigned pid, const char *what) {
  char path[PLIM_PATH_BYTES], part[PLIM_PATH_BYTES];
  if (!path_of(r, pid, ".ask", path) || !path_of(r, pid, ".ask.part", part)) return false;
  FILE *out = fopen(part, "we");
  if (!out) return false;
  bool ok = fprintf(out, "%s\n", what) > 0;
  return fclose(out) == 0 && ok && rename(part, path) == 0;
}

static bool is_asked(const run *r, unsigned pid) {
  char path[PLIM_PATH_BYTES];
  return path_of(r, pid, ".ask", path) && access(path, F_OK) == 0;
}

static const live_rank *process_of(const run_end *end, unsigned pid) {
  for (size_t i = 0; i < end->processes.len; i++)
    if (end->processes.at[i].rank->pid == pid) return end->processes.at[i].rank;
  return NULL;
}

// Of rank 0: a model that is loaded twice is loaded twice in all of them.
static void look_at_first(run *r, run_end *end) {
  char path[PLIM_PATH_BYTES];
  for (size_t i = 0; i < end->processes.len && !end->has_first; i++) {
    const live_rank *p = end->processes.at[i].rank;
    bool is_rank_0 = !p->has_sample || !p->last.rank || p->last.rank == PLIM_UNKNOWN;
    if (!is_rank_0 || !path_of(r, p->pid, ".first.pickle", path) || access(path, R_OK)) continue;
    end->has_first = true;
    begin(end, path, false);
  }
}

void run_suspect_leak(run *r, run_end *end, unsigned pid) {
  if (end->leak == RUN_LEAK_NONE && ask(r, pid, "history on")) {
    end->leak = RUN_LEAK_RECORDED;
    end->leak_pid = pid;
    end->leak_step = PLIM_UNKNOWN;
  }
}

// Two steps more than the search needs: the first is recorded in part, and what the last one leaves behind is freed later.
static void look_at_leak(run *r, run_end *end) {
  char path[PLIM_PATH_BYTES], wanted[64];
  const live_rank *p = process_of(end, end->leak_pid);
  if (end->leak == RUN_LEAK_NONE || !p || is_asked(r, end->leak_pid)) return;
  if (end->leak_step == PLIM_UNKNOWN) end->leak_step = p->last.step;
  snprintf(wanted, sizeof wanted, "snapshot %u.leak.pickle", end->leak_pid);
  bool has_steps = p->last.step >= end->leak_step + FINDINGS_LEAK_STEPS + 2;
  if (end->leak == RUN_LEAK_RECORDED && has_steps && ask(r, end->leak_pid, wanted))
    end->leak = RUN_LEAK_WRITTEN;
  else if (end->leak == RUN_LEAK_WRITTEN && path_of(r, end->leak_pid, ".leak.pickle", path) &&
           access(path, R_OK) == 0) {
    end->leak = RUN_LEAK_NAMED;
    begin(end, path, true);
  }
}

void run_inquire(run *r, run_end *end) {
  if (end->inquiry && __atomic_load_n(&end->inquiry->has_ended, __ATOMIC_SEQ_CST)) finish(r, end);
  if (!end->inquiry) look_at_first(r, end);
  if (!end->inquiry && end->leak != RUN_LEAK_NAMED) look_at_leak(r, end);
}

void run_inquire_last(run *r, run_end *end) {
  run_inquire(r, end);
  if (end->inquiry) finish(r, end);
}
