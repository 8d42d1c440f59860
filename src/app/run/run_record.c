#include "run_record.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

enum { WRITE_SECONDS = 5 }; // between two transactions; so much is lost if plimsoll is killed

struct run_record {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  history *history; // of the thread while it runs
  int64_t id;
  history_found news; // not written yet; guarded by the lock, as is the next
  bool is_over;
  plim_err err; // of the last write
  plim_error error;
};

// ---- on the thread ----------------------------------------------------------------------------------

// False: the run is over.
static bool wait_for_turn(run_record *r) {
  struct timespec until;
  int status = 0;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += WRITE_SECONDS;
  while (!r->is_over && status == 0) status = pthread_cond_timedwait(&r->changed, &r->lock, &until);
  return !r->is_over;
}

static void append(history_found *to, history_found *from) {
  for (size_t i = 0; i < from->samples.len; i++)
    if (!vec_push(&to->samples, from->samples.at[i])) break;
  size_t moved = 0;
  while (moved < from->events.len && vec_push(&to->events, from->events.at[moved])) moved++;
  for (size_t i = moved; i < from->events.len; i++)
    free(from->events.at[i].kind), free(from->events.at[i].text);
  from->events.len = 0; // the others are in `to`
  history_found_clear(from);
}

// The lock is held at the beginning and at the end, but not while the file is written.
static void write_news(run_record *r) {
  history_found news = r->news;
  r->news = (history_found){0};
  if (!news.samples.len && !news.events.len) return;
  pthread_mutex_unlock(&r->lock);
  plim_err err = history_add(r->history, r->id, &news, &r->error);
  pthread_mutex_lock(&r->lock);
  r->err = err;
  if (err) append(&news, &r->news), r->news = news; // the next turn tries again
  else history_found_clear(&news);
}

static void *keep(void *context) {
  run_record *r = context;
  bool goes_on = true;
  pthread_mutex_lock(&r->lock);
  while (goes_on) {
    goes_on = wait_for_turn(r);
    write_news(r);
  }
  pthread_mutex_unlock(&r->lock);
  return NULL;
}

// ---- its owner --------------------------------------------------------------------------------------

// Signals are for the thread that copies the program's output.
static bool start_thread(run_record *r) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool ok = pthread_create(&r->thread, NULL, keep, r) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return ok;
}

static void release(run_record *r) {
  history_close(r->history);
  history_found_clear(&r->news);
  pthread_cond_destroy(&r->changed);
  pthread_mutex_destroy(&r->lock);
  free(r);
}

run_record *run_record_new(history *h, int64_t id, plim_error *error) {
  run_record *r = calloc(1, sizeof *r);
  pthread_condattr_t steady;
  if (!r) {
    history_close(h);
    return plim_fail(error, PLIM_ERR_NOMEM, "out of memory"), NULL;
  }
  r->history = h, r->id = id;
  pthread_mutex_init(&r->lock, NULL);
  pthread_condattr_init(&steady);
  pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
  pthread_cond_init(&r->changed, &steady);
  pthread_condattr_destroy(&steady);
  if (start_thread(r)) return r;
  release(r);
  return plim_fail(error, PLIM_ERR_IO, "cannot start a thread"), NULL;
}

void run_record_add_sample(run_record *r, const history_sample *sample) {
  if (!r) return;
  pthread_mutex_lock(&r->lock);
  (void)!vec_push(&r->news.samples, *sample);
  pthread_mutex_unlock(&r->lock);
}

void run_record_add_event(run_record *r, double time, const char *kind, const char *text) {
  if (!r) return;
  history_event event = {.time = time, .kind = strdup(kind), .text = strdup(text)};
  pthread_mutex_lock(&r->lock);
  bool ok = event.kind && event.text && vec_push(&r->news.events, event);
  pthread_mutex_unlock(&r->lock);
  if (!ok) free(event.kind), free(event.text);
}

plim_err run_record_end(run_record *r, const history_run *end, plim_error *error) {
  if (!r) return PLIM_OK;
  pthread_mutex_lock(&r->lock);
  r->is_over = true;
  pthread_cond_signal(&r->changed);
  pthread_mutex_unlock(&r->lock);
  pthread_join(r->thread, NULL);
  plim_err err = r->err;
  if (err) *error = r->error;
  plim_error ignored;
  plim_err last = history_end(r->history, r->id, end, err ? &ignored : error);
  release(r);
  return err ? err : last;
}
