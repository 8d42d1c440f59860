// The search on one concession level: everything that could be the fastest that fits, or a lower rung.
#include <math.h>

#include "candidate_families.h"

// ---- families that are tried last -------------------------------------------------------------------

// More tokens per pass than this are not faster, and take long to predict.
enum { MANY_TOKENS = 1 << 17 };

static bool largest_split(const plim_concessions *l, plim_split *out) {
  plim_split_list list;
  int64_t most = MANY_TOKENS / l->at.at[PLIM_KNOB_SEQUENCE];
  *out = (plim_split){0};
  for (int alone = 0; alone < 2; alone++) {
    plim_splits_of(l, alone, &list);
    for (int i = 0; i < list.count; i++) {
      plim_split x = list.at[i];
      bool is_larger = x.batch > out->batch || (x.batch == out->batch && x.passes > out->passes);
      if (!out->batch || (is_larger && x.batch <= most)) *out = x;
    }
  }
  return out->batch;
}

// Tokens per second with the largest batch, whether it fits or not.
static double speed_at_most(const plim_candidate_search *w, plim_choice choice) {
  plim_split most;
  if (!largest_split(w->concessions, &most)) return 0;
  choice.at[PLIM_KNOB_MICRO_BATCH] = most.batch;
  choice.at[PLIM_KNOB_ACCUMULATE] = most.passes;
  choice.at[PLIM_KNOB_ALLOC_CONF] = w->confs.at[0];
  const plim_rung *x = plim_search_time(w->s, &choice);
  return x ? x->tokens_per_second / NEARLY : INFINITY;
}

// The same on the card, with the library's loss and the sharding that communicates least.
static plim_choice without_work(const plim_candidate_search *w, plim_choice candidate) {
  const plim_choice *own = &w->s->plan->before_choice;
  candidate.at[PLIM_KNOB_STRATEGY] = w->s->r->world > 1 ? PLIM_SHARD_DDP : PLIM_SHARD_NONE;
  candidate.at[PLIM_KNOB_OFFLOAD] = PLIM_OFFLOAD_NONE;
  candidate.at[PLIM_KNOB_OPTIMIZER] = plim_optimizer_on_card(candidate.at[PLIM_KNOB_OPTIMIZER]);
  candidate.at[PLIM_KNOB_CHUNKED_LOSS] = own->at[PLIM_KNOB_CHUNKED_LOSS];
  candidate.at[PLIM_KNOB_CACHED_BATCH] = own->at[PLIM_KNOB_CACHED_BATCH];
  if (candidate.at[PLIM_KNOB_CHECKPOINT] == PLIM_CHECKPOINT_OFFLOADED)
    candidate.at[PLIM_KNOB_CHECKPOINT] = PLIM_CHECKPOINT_ON;
  return candidate;
}

// A family, and how fast it can be at most. Its own speed is found out only when no other could be faster.
typedef struct {
  plim_choice candidate;
  double
      at_most; // tokens per second: its own with the largest batch, or first of the same without such work
  bool is_own, is_done;
} late_row;

typedef struct {
  plim_candidate_search rows; // must be first: visitors cast back
  vec(late_row) late;
} late_search;

static void try_first(const plim_candidate_search *w, const plim_choice *candidate) {
  if (!plim_is_last(w, candidate)) plim_try_candidate(w, candidate);
}

static double what_counts(const plim_search *s, const late_row *x) {
  return x->at_most * plim_worth(s->r, &x->candidate);
}

static double speed_of(const plim_search *s, const late_row *x) {
  (void)s;
  return x->at_most;
}

static bool may_be_first(const plim_search *s, const late_row *x) {
  return isnan(x->at_most) ? !s->fitting.len : what_counts(s, x) > s->surest;
}

// A candidate can be reported without being first. Of those faster than all allowed ones, the first one found is enough
// unless another is certainly faster.
static bool may_be_told(const plim_search *s, const late_row *x) {
  double slack = s->fastest > s->untold ? NEARLY : 1;
  return slack * x->at_most > (1 + PLIM_SAME_TIME) * s->fastest;
}

// Whether its smallest batch fits, which is faster to find out than its speed.
static bool fits_at_all(const plim_candidate_search *w, const plim_choice *candidate) {
  plim_split_list list;
  bool fits = candidate->at[PLIM_KNOB_CACHED_BATCH] > 0; // a smaller mini batch might fit
  for (int alone = 0; alone < 2 && !fits; alone++) {
    plim_splits_of(w->concessions, alone, &list);
    const plim_rung *x = list.count ? plim_run_fitting(w, *candidate, list.at[0]) : NULL;
    fits = x && plim_is_safe(w->s->r, &x->e);
  }
  return fits;
}

static void collect(const plim_candidate_search *w, const plim_choice *candidate) {
  late_search *l = (late_search *)(void *)w;
  if (!plim_is_last(w, candidate)) return;
  late_row x = {.candidate = *candidate, .at_most = speed_at_most(w, without_work(w, *candidate))};
  if (!vec_push(&l->late, x)) w->s->failed = true;
}

typedef double late_key(const plim_search *s, const late_row *x);
typedef bool late_test(const plim_search *s, const late_row *x);

static late_row *most_promising(const late_search *w, late_key *key) {
  const plim_search *s = w->rows.s;
  late_row *best = NULL;
  for (size_t i = 0; i < w->late.len; i++) {
    late_row *x = &w->late.at[i];
    if (!x->is_done && (!best || key(s, x) > key(s, best))) best = x;
  }
  return best;
}

// Tries the most promising families first, as long as they may be what is searched for; each only once.
static void try_in_order(const late_search *w, late_key *key, late_test *may_be) {
  plim_search *s = w->rows.s;
  for (late_row *x; !s->failed && (x = most_promising(w, key)) && may_be(s, x);) {
    bool was_own = x->is_own;
    x->is_own = true;
    x->is_done = was_own || !fits_at_all(&w->rows, &x->candidate);
    if (was_own) plim_try_candidate(&w->rows, &x->candidate);
    else if (!x->is_done) x->at_most = speed_at_most(&w->rows, x->candidate);
  }
}

// Until none can be better than what was found. Without times, the first that fits is taken.
static void try_last(plim_search *s, const plim_concessions *concessions) {
  late_search w = {.rows = plim_candidates_of(s, concessions)};
  w.rows.is_quick = w.rows.only_fastest = true;
  plim_visit_candidates(&w.rows, false, collect);
  try_in_order(&w, what_counts, may_be_first);
  s->untold = s->fastest;
  if (!s->r->only_first && !concessions->is_brief) try_in_order(&w, speed_of, may_be_told);
  vec_free(&w.late);
}

// First without offloading and without custom code, then with them.
void plim_search_concessions(plim_search *s, const plim_concessions *concessions) {
  plim_concessions card = *concessions;
  bool has_own = !concessions->cost && plim_own_is_candidate(s);
  card.scope = (plim_offload_scope){0};
  s->fitting.len = 0;
  s->fastest = s->surest = s->untold = 0;
  plim_candidate_search w = plim_candidates_of(s, &card);
  w.is_quick = concessions->cost > 0 || concessions->is_brief; // little of it fits
  w.only_fastest = concessions->is_brief;
  bool fits_card = has_own || plim_concession_fits(s, &card);
  if (fits_card) plim_visit_candidates(&w, false, try_first);
  if (concessions->is_easy) return;
  if (fits_card || plim_concession_fits(s, concessions)) try_last(s, concessions);
}
