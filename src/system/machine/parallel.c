#include "parallel.h"

#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MAX_THREADS = 64 };

typedef struct {
  void (*job)(void *context, size_t i);
  void *context;
  size_t count;
  locale_t locale; // of the thread that asks
  atomic_size_t next;
} work;

static void *take_jobs(void *argument) {
  work *w = argument;
  for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->count;) w->job(w->context, i);
  return NULL;
}

static void *help(void *argument) {
  uselocale(((work *)argument)->locale);
  return take_jobs(argument);
}

void plim_parallel(size_t count, void (*job)(void *context, size_t i), void *context) {
  work w = {.job = job, .context = context, .count = count, .locale = uselocale((locale_t)0)};
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  size_t wanted = cores > MAX_THREADS ? MAX_THREADS : cores < 1 ? 1 : (size_t)cores;
  pthread_t threads[MAX_THREADS];
  size_t started = 0; // in addition to this thread
  while (started + 1 < wanted && started + 1 < count &&
         pthread_create(&threads[started], NULL, help, &w) == 0)
    started++;
  take_jobs(&w);
  for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
}
