#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "watch_impl.h"

// Shared by the thread and its owner; the last one of them frees it.
struct watch_driver {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  char root[PATH_MAX];
  double silent_seconds;
  bool is_asked, is_over, is_answered; // answered: at least once
  double asked_at;                     // by watch_now
  watch_cards latest;                  // guarded by the lock
  watch_cards next;                    // of the thread alone
  pthread_t thread;
  int owners;
};

double watch_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// ---- on the thread ----------------------------------------------------------------------------------

static void read_processes(plim_nvml *nvml, const char *root, watch_card *c) {
  plim_card_process found[PLIM_MAX_PROCESSES];
  c->lists_processes = plim_nvml_users(nvml, &c->card, found, &c->process_count);
  for (size_t i = 0; i < c->process_count; i++) {
    c->processes[i].process = found[i];
    plim_process_read(root, found[i].pid, &c->processes[i].is);
  }
}

static void read_cards(plim_nvml **nvml, const char *root, watch_cards *out) {
  plim_card cards[PLIM_MAX_CARDS];
  plim_nvml_state state = PLIM_NVML_OPEN;
  if (!*nvml) *nvml = plim_nvml_open(&state);
  out->count = 0;
  out->silent_seconds = 0;
  out->state = state == PLIM_NVML_ABSENT ? WATCH_DRIVER_ABSENT : WATCH_DRIVER_FAILED;
  if (!*nvml) return;
  if (!plim_nvml_list(*nvml, cards, &out->count)) {
    plim_nvml_close(
        *nvml); // the driver was loaded again, or lost a card: it is opened anew next time
    *nvml = NULL;
    return;
  }
  out->state = WATCH_DRIVER_HERE;
  for (size_t i = 0; i < out->count; i++) {
    watch_card *c = &out->at[i];
    *c = (watch_card){.card = cards[i], .activity = plim_nvml_activity(*nvml, &cards[i])};
    read_processes(*nvml, root, c);
  }
}

static void release(watch_driver *d) {
  pthread_mutex_lock(&d->lock);
  bool is_last = --d->owners == 0;
  pthread_mutex_unlock(&d->lock);
  if (!is_last) return;
  pthread_cond_destroy(&d->changed);
  pthread_mutex_destroy(&d->lock);
  free(d);
}

static void *answer(void *argument) {
  watch_driver *d = argument;
  plim_nvml *nvml = NULL;
  pthread_mutex_lock(&d->lock);
  for (;;) {
    while (!d->is_asked && !d->is_over) pthread_cond_wait(&d->changed, &d->lock);
    if (d->is_over) break;
    pthread_mutex_unlock(&d->lock);
    read_cards(&nvml, d->root, &d->next);
    pthread_mutex_lock(&d->lock);
    d->latest = d->next;
    d->is_asked = false;
    d->is_answered = true;
    pthread_cond_broadcast(&d->changed);
  }
  pthread_mutex_unlock(&d->lock);
  plim_nvml_close(nvml);
  release(d);
  return NULL;
}

// ---- its owner --------------------------------------------------------------------------------------

watch_driver *watch_driver_new(const char *root, double silent_seconds) {
  watch_driver *d = calloc(1, sizeof *d);
  pthread_condattr_t steady;
  if (!d || strlen(root) >= sizeof d->root) return free(d), NULL;
  strcpy(d->root, root);
  d->silent_seconds = silent_seconds;
  d->owners = 2;
  pthread_mutex_init(&d->lock, NULL);
  pthread_condattr_init(&steady);
  pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
  pthread_cond_init(&d->changed, &steady);
  pthread_condattr_destroy(&steady);
  if (pthread_create(&d->thread, NULL, answer, d) == 0) return d;
  d->owners = 1;
  release(d);
  return NULL;
}

void watch_driver_ask(watch_driver *d) {
  pthread_mutex_lock(&d->lock);
  if (!d->is_asked) {
    d->is_asked = true;
    d->asked_at = watch_now();
    pthread_cond_broadcast(&d->changed);
  }
  pthread_mutex_unlock(&d->lock);
}

void watch_driver_wait(watch_driver *d, double seconds) {
  pthread_mutex_lock(&d->lock);
  double end = fmin(watch_now() + seconds, d->asked_at + d->silent_seconds);
  struct timespec until = {.tv_sec = (time_t)end, .tv_nsec = (long)((end - floor(end)) * 1e9)};
  int status = 0;
  while (d->is_asked && status == 0) status = pthread_cond_timedwait(&d->changed, &d->lock, &until);
  pthread_mutex_unlock(&d->lock);
}

// A card of which only the name is known.
static void forget(watch_card *c) {
  c->card.total_bytes = c->card.free_bytes = c->card.used_bytes = PLIM_UNKNOWN;
  c->activity = (plim_card_activity){PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN};
  c->lists_processes = false;
  c->process_count = 0;
}

void watch_driver_look(watch_driver *d, watch_cards *out) {
  pthread_mutex_lock(&d->lock);
  *out = d->latest;
  if (!d->is_answered) out->state = WATCH_DRIVER_ASKED;
  double waited = d->is_asked ? watch_now() - d->asked_at : 0;
  pthread_mutex_unlock(&d->lock);
  if (waited < d->silent_seconds) return;
  out->state = WATCH_DRIVER_SILENT;
  out->silent_seconds = waited;
  for (size_t i = 0; i < out->count; i++) forget(&out->at[i]);
}

void watch_driver_free(watch_driver *d) {
  if (!d) return;
  pthread_mutex_lock(&d->lock);
  d->is_over = true;
  bool is_silent = d->is_asked; // the driver may never answer, so this does not wait for it
  pthread_t thread = d->thread;
  pthread_cond_broadcast(&d->changed);
  pthread_mutex_unlock(&d->lock);
  if (is_silent) pthread_detach(thread);
  else pthread_join(thread, NULL);
  release(d);
}
