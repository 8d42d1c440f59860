#include "nccl_watchdog.h"

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "card.h"
#include "vec.h"

#define NOT_READY 600         // cudaErrorNotReady
#define MOST_SECONDS 30       // that a collective takes in a program without backward passes
#define WAIT_MILLISECONDS 300 // for the watchdog, which wakes up every 100

typedef struct {
  const void *event;
  uint64_t pass; // in which the collective was launched
  time_t start;
} watched;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t was_seen = PTHREAD_COND_INITIALIZER;
static vec(watched) collectives; // that the watchdog has not seen done
static uint64_t passes;
static bool has_watchdog; // it has asked
static __thread bool is_launched;

static time_t seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

static bool is_watchdog(void) {
  static __thread enum { UNKNOWN, NO, YES } answer;
  if (answer == UNKNOWN) {
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    answer = strcmp(name, "pt_nccl_watchdg") == 0 ? YES : NO; // PyTorch's name for it since 2.5
  }
  return answer == YES;
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
  return w->pass < passes || seconds_now() - w->start > MOST_SECONDS;
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

// Called when a backward pass begins. Waits until the watchdog has seen what is done now, so that it does not depend on the
// speed of this machine which collective frees the tensors.
STAND_IN void plimsoll_card_backward(void) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += WAIT_MILLISECONDS * 1000000L;
  end.tv_sec += end.tv_nsec / 1000000000;
  end.tv_nsec %= 1000000000;
  pthread_mutex_lock(&lock);
  passes++;
  while (has_watchdog && has_done())
    if (pthread_cond_timedwait(&was_seen, &lock, &end) != 0) break;
  for (size_t i = collectives.len; i-- > 0;) // the watchdog does not ask for these
    if (is_done(&collectives.at[i])) forget(&collectives.at[i]);
  pthread_mutex_unlock(&lock);
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
  if (!is_watchdog()) return CARD_OK;
  pthread_mutex_lock(&lock);
  has_watchdog = true;
  watched *w = find(event);
  bool is_ready = !w || is_done(w);
  if (is_ready) forget(w);
  if (w && is_ready) pthread_cond_signal(&was_seen);
  pthread_mutex_unlock(&lock);
  return is_ready ? CARD_OK : NOT_READY;
}

STAND_IN int cudaEventDestroy(void *event) {
  pthread_mutex_lock(&lock);
  forget(find(event));
  pthread_mutex_unlock(&lock);
  return CARD_OK;
}
