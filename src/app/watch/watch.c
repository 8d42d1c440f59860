#include "watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "watch_impl.h"

#define TREND_SECONDS 10 // between the samples of a card's trend

const char *const watch_driver_names[WATCH_DRIVER_STATES] = {"asked", "answers", "absent", "failed",
                                                             "silent"};

plim_err watch_new(const watch_options *options, watch **out, plim_error *error) {
  watch *w = calloc(1, sizeof *w);
  *out = w;
  if (!w) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  w->options = *options;
  w->last_trend_seconds = -TREND_SECONDS;
  if (live_folder(w->folder, NULL)) *w->folder = 0;
  w->driver = watch_driver_new(options->root, options->silent_seconds);
  if (w->driver) return PLIM_OK;
  watch_free(w);
  *out = NULL;
  return plim_fail(error, PLIM_ERR_NOMEM, "cannot start a thread to ask the driver");
}

void watch_free(watch *w) {
  if (!w) return;
  watch_driver_free(w->driver);
  watch_runs_free(w);
  vec_free(&w->signs);
  free(w);
}

static void add_share(watch_ring *ring, double share) {
  if (ring->count == WATCH_KEPT) {
    memmove(ring->at, ring->at + 1, (WATCH_KEPT - 1) * sizeof *ring->at);
    ring->count--;
  }
  ring->at[ring->count++] = share;
}

static double share_used(const plim_card *card) {
  if (card->used_bytes == PLIM_UNKNOWN || card->total_bytes == PLIM_UNKNOWN || !card->total_bytes)
    return -1;
  return fmin(1, (double)card->used_bytes / (double)card->total_bytes);
}

static void remember_cards(watch *w) {
  double now = watch_now();
  bool is_due = now - w->last_trend_seconds >= TREND_SECONDS;
  if (is_due) w->last_trend_seconds = now;
  for (size_t i = 0; i < w->cards.count; i++) {
    const watch_card *c = &w->cards.at[i];
    watch_card_history *h = &w->histories[i];
    uint64_t busy = c->activity.busy_percent;
    add_share(&h->memory, share_used(&c->card));
    add_share(&h->busy, busy == PLIM_UNKNOWN ? -1 : (double)busy / 100);
    if (is_due && c->card.used_bytes != PLIM_UNKNOWN)
      plim_history_add(&h->history, &(plim_step_memory){.step = PLIM_UNKNOWN,
                                                        .seconds = now,
                                                        .live_bytes = c->card.used_bytes,
                                                        .peak_bytes = PLIM_UNKNOWN,
                                                        .reserved_bytes = PLIM_UNKNOWN});
  }
}

// The histories belong to the cards at the same index: if there are others, they begin again.
static void match_histories(watch *w, size_t count_before) {
  if (w->cards.count == count_before) return;
  for (size_t i = 0; i < PLIM_MAX_CARDS; i++) w->histories[i] = (watch_card_history){0};
}

void watch_take(watch *w, double wait_seconds) {
  struct timespec t;
  size_t count_before = w->cards.count;
  w->has_no_memory = false;
  watch_driver_ask(w->driver);
  watch_driver_wait(w->driver, wait_seconds);
  watch_driver_look(w->driver, &w->cards);
  match_histories(w, count_before);
  remember_cards(w);
  plim_machine_read(w->options.root, &w->host);
  watch_runs_read(w);
  watch_find_signs(w);
  clock_gettime(CLOCK_REALTIME, &t);
  w->unix_seconds = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
  w->samples++;
}
