#include "nccl_watchdog.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "card.h"
#include "vec.h"

#define NOT_READY 600          // cudaErrorNotReady
#define MOST_SECONDS 30        // that a collective takes in a program without backward passes
#define MOST_SECONDS_LATER 300 // and in one with them: PyTorch ends a program after 600
#define MOST_ROUNDS                                                                                \
  2 // of a watchdog that does not ask for a collective; the first may have begun before
#define MOST_WAIT_SECONDS 60 // for a watchdog, which wakes up every 100 ms
#define MOST_EXIT_SECONDS                                                                          \
  2 // the same, at the end of the program: it may wait for Python, which is gone

typedef struct {
  const void *event;
  uint64_t pass; // in which the collective was launched
  time_t start;
} watched;

// A watchdog thread; each process group has one. In each round it asks for the events of its collectives, gives away the
// tensors of those that are done, and sleeps.
typedef struct watcher {
  struct watcher *next;
  bool is_awake;
  int rounds; // that ended since the backward pass began
} watcher;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_changed = PTHREAD_COND_INITIALIZER;
static vec(watched) collectives; // that no watchdog has seen done
static watcher *watchers;
static uint64_t passes;
static __thread bool is_launched;

static time_t seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

static pthread_once_t ends_once = PTHREAD_ONCE_INIT;
static pthread_key_t ends; // its destructor runs when a watchdog's thread ends

static void end_watcher(void *ended) {
  pthread_mutex_lock(&lock);
  for (watcher **w = &watchers; *w; w = &(*w)->next)
    if (*w == ended) {
      *w = (*w)->next;
      break;
    }
  pthread_cond_signal(&has_changed);
  pthread_mutex_unlock(&lock);
}

static bool is_exiting;

static bool is_any_awake(void) {
  for (watcher *w = watchers; w; w = w->next)
    if (w->is_awake) return true;
  return false;
}

// Runs when the program ends, before the destructors of PyTorch's globals. A watchdog that asks CUDA anything after those
// aborts the program ("CUDA error: no error"), as it does now and then on a real GPU. Here it sleeps on.
static void hush_watchdogs(void) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += MOST_EXIT_SECONDS;
  pthread_mutex_lock(&lock);
  is_exiting = true;
  while (is_any_awake() && pthread_cond_timedwait(&has_changed, &lock, &end) == 0) {}
  pthread_mutex_unlock(&lock);
}

static void make_ends(void) {
  pthread_key_create(&ends, end_watcher);
  atexit(hush_watchdogs);
}

// The watcher of this thread; NULL: it is not a watchdog.
static watcher *watcher_here(void) {
  static __thread enum { UNKNOWN, NO, YES } answer;
  static __thread watcher here;
  if (answer == UNKNOWN) {
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    answer = strcmp(name, "pt_nccl_watchdg") == 0 ? YES : NO; // PyTorch's name for it since 2.5
    if (answer == YES) {
      pthread_once(&ends_once, make_ends);
      pthread_setspecific(ends, &here);
      pthread_mutex_lock(&lock);
      here.next = watchers;
      watchers = &here;
      pthread_mutex_unlock(&lock);
    }
  }
  return answer == YES ? &here : NULL;
}

static watched *find(const void *event) {
  for (size_t i = 0; i < collectives.len; i++)
    if (collectives.at[i].event == event) return &collectives.at[i];
  return NULL;
}

static void forget(watched *w) {
  if (w) *w = collectives.at[--collectives.len];
}

static bool is_done(const watched *w) {
  return w->pass < passes ||
         seconds_now() - w->start > (passes ? MOST_SECONDS_LATER : MOST_SECONDS);
}

static bool has_done(void) {
  for (size_t i = 0; i < collectives.len; i++)
    if (is_done(&collectives.at[i])) return true;
  return false;
}

void card_watch_collective(void) { is_launched = true; }

void card_end_collectives(void) {
  pthread_mutex_lock(&lock);
  passes++;
  pthread_mutex_unlock(&lock);
}

// Whether a watchdog may still ask for a collective that is done, or give its tensors away.
static bool is_watched(void) {
  bool is_left = has_done();
  for (watcher *w = watchers; w; w = w->next)
    if (w->is_awake || (is_left && w->rounds < MOST_ROUNDS)) return true;
  return false;
}

// Called when a backward pass begins. Waits until the watchdogs have seen what is done now, so that it does not depend on the
// speed of this machine which collective frees the tensors.
STAND_IN void plimsoll_card_backward(void) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += MOST_WAIT_SECONDS;
  pthread_mutex_lock(&lock);
  passes++;
  for (watcher *w = watchers; w; w = w->next) w->rounds = 0;
  for (bool must_wait = has_done(); must_wait && is_watched();)
    must_wait = pthread_cond_timedwait(&has_changed, &lock, &end) == 0;
  for (size_t i = collectives.len; i-- > 0;) // the watchdog does not ask for these
    if (is_done(&collectives.at[i])) forget(&collectives.at[i]);
  pthread_mutex_unlock(&lock);
}

// ---- the watchdog's sleep ----------------------------------------------------------------------------------

static void fall_asleep(watcher *w) {
  if (!w) return;
  pthread_mutex_lock(&lock);
  w->is_awake = false;
  w->rounds++;
  pthread_cond_signal(&has_changed);
  pthread_mutex_unlock(&lock);
}

// Whether the watchdog may go on after its sleep. If the program ends, only a call that ends the watchdog wakes it.
static bool wake_up(watcher *w, int result) {
  if (!w) return true;
  pthread_mutex_lock(&lock);
  w->is_awake = !(is_exiting && result == ETIMEDOUT);
  bool may_go_on = w->is_awake;
  pthread_mutex_unlock(&lock);
  return may_go_on;
}

// Not functions of CUDA's: PyTorch's watchdog sleeps in one of them, depending on the glibc for which PyTorch was built.
STAND_IN int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                    const struct timespec *restrict until) {
  static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  watcher *w = watcher_here();
  fall_asleep(w);
  int result = real(cond, mutex, until);
  return wake_up(w, result) ? result : pthread_cond_wait(cond, mutex);
}

STAND_IN int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                    clockid_t clock, const struct timespec *restrict until) {
  static int (*real)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  watcher *w = watcher_here();
  fall_asleep(w);
  int result = real(cond, mutex, clock, until);
  return wake_up(w, result) ? result : pthread_cond_wait(cond, mutex);
}

// ---- events ---------------------------------------------------------------------------------------------

STAND_IN int cudaEventRecord(void *event, void *stream) {
  (void)stream;
  pthread_mutex_lock(&lock);
  forget(find(event));
  // An event that cannot be kept is done at once.
  if (is_launched) vec_push(&collectives, (watched){event, passes, seconds_now()});
  pthread_mutex_unlock(&lock);
  is_launched = false;
  return CARD_OK;
}

STAND_IN int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags) {
  (void)flags;
  return cudaEventRecord(event, stream);
}

STAND_IN int cudaEventQuery(void *event) {
  if (!watcher_here()) return CARD_OK;
  pthread_mutex_lock(&lock);
  watched *w = find(event);
  bool is_ready = !w || is_done(w);
  if (is_ready) forget(w);
  if (w && is_ready) pthread_cond_signal(&has_changed);
  pthread_mutex_unlock(&lock);
  return is_ready ? CARD_OK : NOT_READY;
}

STAND_IN int cudaEventDestroy(void *event) {
  pthread_mutex_lock(&lock);
  forget(find(event));
  pthread_mutex_unlock(&lock);
  return CARD_OK;
}
