// Small candidates: whether anything fits on a level, and the lower rungs of the ladder.
#include "candidate_families.h"

// ---- the smallest candidate -------------------------------------------------------------------------

typedef struct {
  plim_candidate_search rows; // must be first: visitors cast back
  plim_rung *smallest;
  uint64_t below; // what needs as much is of no interest; 0: everything is
  bool fits;
} smallest_search;

static void look_at(smallest_search *w, const plim_choice *candidate, plim_split at) {
  const plim_rung *x = w->rows.is_quick ? plim_run_fitting(&w->rows, *candidate, at)
                                        : plim_run_anyway(&w->rows, *candidate, at, w->below);
  if (!x) return;
  bool is_safe = plim_is_safe(w->rows.s->r, &x->e);
  bool is_smaller = plim_needed_bytes(&x->e) < plim_needed_bytes(&w->smallest->e);
  if (!w->smallest->e.device_bytes || (is_safe == w->fits ? is_smaller : is_safe))
    *w->smallest = *x;
  w->below = plim_needed_bytes(&w->smallest->e);
  w->fits = w->fits || is_safe;
}

// Tries the smallest batch with accumulation, and the smallest without.
static void look_at_batches(const plim_candidate_search *rows, const plim_choice *candidate) {
  smallest_search *w = (smallest_search *)(void *)rows;
  plim_split_list list;
  plim_splits_of(rows->concessions, false, &list);
  if (list.count) look_at(w, candidate, list.at[0]);
  if (w->fits) return;
  plim_splits_of(rows->concessions, true, &list);
  if (list.count) look_at(w, candidate, list.at[0]);
}

static void look_at_row(const plim_candidate_search *rows, const plim_choice *candidate) {
  const smallest_search *w = (const smallest_search *)(const void *)rows;
  if (w->fits) return; // one that fits is enough
  if (rows->concessions->is_easy && plim_is_last(rows, candidate)) return;
  plim_visit_whole(rows, candidate, true, look_at_batches);
}

bool plim_concession_fits(plim_search *s, const plim_concessions *concessions) {
  plim_rung found = {0};
  smallest_search w = {.rows = plim_candidates_of(s, concessions), .smallest = &found};
  w.rows.is_quick = true;
  plim_visit_candidates(&w.rows, true, look_at_row);
  return w.fits;
}

bool plim_concession_smallest(plim_search *s, const plim_concessions *concessions, uint64_t below,
                              plim_rung *smallest) {
  smallest_search w = {
      .rows = plim_candidates_of(s, concessions), .smallest = smallest, .below = below};
  *smallest = (plim_rung){0};
  plim_visit_candidates(&w.rows, true, look_at_row);
  return w.fits;
}

// ---- small candidates for the ladder ----------------------------------------------------------------

// How many splits need at most w->most bytes, starting with the first.
static int count_below(const plim_candidate_search *w, const plim_choice *candidate,
                       const plim_split_list *list) {
  int low = 0, high = list->count;
  while (low < high && !w->s->failed) {
    int middle = (low + high) / 2;
    const plim_rung *x = plim_run_fitting(w, *candidate, list->at[middle]);
    bool is_below = x && plim_is_safe(w->s->r, &x->e) && plim_needed_bytes(&x->e) <= w->most &&
                    plim_evaluates_below(w->s->plan, x);
    if (is_below) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Keeps the smallest batch, and the largest that stays within the limit.
static void keep_batches(const plim_candidate_search *w, const plim_choice *candidate) {
  plim_split_list list;
  for (int alone = 0; alone < 2; alone++) {
    plim_splits_of(w->concessions, alone, &list);
    int count = count_below(w, candidate, &list);
    if (count) plim_keep(w, candidate, list.at[count - 1]);
    if (count > 1) plim_keep(w, candidate, list.at[0]);
  }
}

static void keep_small(const plim_candidate_search *w, const plim_choice *candidate) {
  if (w->concessions->is_easy && plim_is_last(w, candidate)) return;
  plim_visit_whole(w, candidate, true, keep_batches);
}

void plim_search_small(plim_search *s, const plim_concessions *concessions, uint64_t most) {
  plim_candidate_search w = plim_candidates_of(s, concessions);
  w.is_quick = true;
  w.most = most;
  plim_visit_candidates(&w, true, keep_small);
}

static void keep_choice(const plim_candidate_search *w, const plim_choice *choice) {
  plim_split at = {choice->at[PLIM_KNOB_MICRO_BATCH], choice->at[PLIM_KNOB_ACCUMULATE]};
  bool is_out = w->concessions->is_easy && plim_is_last(w, choice);
  if (!is_out && plim_choice_is_sound(w->s->r, choice)) plim_keep(w, choice, at);
}

// Candidates that differ from the choice in one knob, or in the sharding.
void plim_search_near(plim_search *s, const plim_concessions *concessions,
                      const plim_choice *choice) {
  static const plim_knob knobs[] = {PLIM_KNOB_CHECKPOINT, PLIM_KNOB_CHUNKED_LOSS, PLIM_KNOB_LIGER,
                                    PLIM_KNOB_OPTIMIZER};
  plim_candidate_search w = plim_candidates_of(s, concessions);
  plim_sharing_mode modes[PLIM_MAX_SHARING_MODES];
  size_t count = plim_concession_sharings(concessions, modes);
  w.is_quick = true;
  for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
    plim_domain d = plim_concession_domain(concessions, knobs[i]);
    for (int k = 0; k < d.count; k++) {
      plim_choice near = *choice;
      near.at[knobs[i]] = d.at[k];
      if (d.at[k] != choice->at[knobs[i]]) keep_choice(&w, &near);
    }
  }
  for (size_t i = 0; i < count; i++) {
    plim_choice near = *choice;
    near.at[PLIM_KNOB_STRATEGY] = modes[i].strategy;
    near.at[PLIM_KNOB_OFFLOAD] = modes[i].offload;
    keep_choice(&w, &near);
  }
}
