#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sort.h"
#include "units.h"
#include "watch_impl.h"

enum {
  CARD_SAMPLES = 60
}; // ten minutes: a model that is being loaded grows too, but not that long

const char *const watch_sign_names[WATCH_SIGN_KINDS] = {
    "creeping", "lengthening", "outside", "staircase", "swings", "low_memory", "low_busy"};

static void add(watch *w, const watch_sign *sign) {
  if (!vec_push(&w->signs, *sign)) w->has_no_memory = true;
}

static void add_trend(watch *w, watch_sign sign, watch_sign_kind kind, bool is_warning) {
  sign.kind = kind;
  sign.is_warning = is_warning;
  plim_trend_say(&sign.trend, sign.text, sizeof sign.text);
  add(w, &sign);
}

// ---- runs -------------------------------------------------------------------------------------------

static void add_low_memory(watch *w, watch_sign sign) {
  const plim_trend *t = &sign.trend;
  sign.kind = WATCH_LOW_MEMORY;
  snprintf(sign.text, sizeof sign.text,
           "only %.0f %% of the memory is used (%s of %s): a larger micro batch would probably "
           "fit; to choose one: plimsoll plan -- COMMAND",
           100 * (double)t->highest_bytes / (double)t->limit_bytes,
           units_bytes(t->highest_bytes).text, units_bytes(t->limit_bytes).text);
  add(w, &sign);
}

static void look_at_run(watch *w, const watch_run *run) {
  static const watch_sign_kind kinds[PLIM_TREND_KINDS] = {
      [PLIM_TREND_UNCLEAR] = WATCH_SIGN_KINDS,      [PLIM_TREND_STEADY] = WATCH_SIGN_KINDS,
      [PLIM_TREND_SWINGING] = WATCH_SWINGS,         [PLIM_TREND_STAIRCASE] = WATCH_STAIRCASE,
      [PLIM_TREND_LENGTHENING] = WATCH_LENGTHENING, [PLIM_TREND_CREEPING] = WATCH_CREEPING,
      [PLIM_TREND_OUTSIDE] = WATCH_OUTSIDE,
  };
  if (!run->worst) return;
  watch_sign sign = {.run = run, .trend = run->worst->trend};
  watch_sign_kind kind = kinds[sign.trend.kind];
  if (kind != WATCH_SIGN_KINDS) add_trend(w, sign, kind, plim_trend_is_warning(&sign.trend));
  if (plim_trend_is_low(&sign.trend)) add_low_memory(w, sign);
}

// ---- cards ------------------------------------------------------------------------------------------

// Whether someone computes on the card: one that is idle, or only draws, is not a sign of anything.
static bool is_used(const watch *w, const watch_card *c) {
  for (size_t i = 0; i < c->process_count; i++)
    if (c->processes[i].process.computes) return true;
  for (size_t i = 0; i < w->runs.len; i++)
    for (size_t k = 0; k < w->runs.at[i]->ranks.len; k++)
      if (*c->card.uuid && strcmp(w->runs.at[i]->ranks.at[k]->last.uuid, c->card.uuid) == 0)
        return true;
  return false;
}

static void look_at_card(watch *w, size_t index) {
  const watch_card_history *h = &w->histories[index];
  watch_sign sign = {.card = index};
  double middle;
  if (!is_used(w, &w->cards.at[index])) return;
  sign.trend = plim_history_trend(&h->history, w->cards.at[index].card.total_bytes, PLIM_UNKNOWN);
  if (sign.trend.kind == PLIM_TREND_CREEPING && h->history.seen >= CARD_SAMPLES)
    add_trend(w, sign, WATCH_CREEPING, true);
  if (!plim_shares_are_low(h->busy.at, h->busy.count, &middle)) return;
  sign.kind = WATCH_LOW_BUSY;
  snprintf(sign.text, sizeof sign.text,
           "the GPU is busy only %.0f %% of the time: it waits for data, or the batches are small",
           100 * middle);
  add(w, &sign);
}

static int warnings_first(const void *a, const void *b) {
  return ((const watch_sign *)b)->is_warning - ((const watch_sign *)a)->is_warning;
}

void watch_find_signs(watch *w) {
  w->signs.len = 0;
  for (size_t i = 0; i < w->runs.len; i++) look_at_run(w, w->runs.at[i]);
  for (size_t i = 0; i < w->cards.count; i++) look_at_card(w, i);
  if (w->signs.len) plim_sort(w->signs.at, w->signs.len, sizeof *w->signs.at, warnings_first);
}

bool watch_has_warning(const watch *w) {
  for (size_t i = 0; i < w->signs.len; i++)
    if (w->signs.at[i].is_warning && w->signs.at[i].run) return true;
  return false;
}
