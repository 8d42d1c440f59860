// Candidate families of one concession level.
//
// A family is one combination of all knobs except micro batch, accumulation and the allocator's settings. The search is
// limited by these rules:
// - With accumulation, a larger micro batch takes more memory, so the largest that fits is found by bisection. Without
//   accumulation no gradient lives through a forward pass; that case is tried separately.
// - A larger micro batch is faster, except for what a partly filled last wave of blocks wastes. From the largest that
//   fits downwards, all are tried that are nearly as fast as the best so far, and of the others every half.
// - If the settings that save most do not fit on a level, nothing does.
// - The allocator's settings take no time: the better ones are tried first, others only if those do not fit.
// - Families that use the host or need custom code are tried last: such a family is hardly faster than its largest batch
//   would be, and that hardly faster than the same without it. (With float32 parameters under autocast an engine was
//   seen 8 % faster than DDP: there, a skipped family could have been reported.)
#include <math.h>
#include <string.h>

#include "candidate_families.h"

// ---- batches ----------------------------------------------------------------------------------------

bool plim_set_accumulation(const plim_plan_request *r, plim_choice *choice) {
  int64_t at_once = choice->at[PLIM_KNOB_MICRO_BATCH] * r->world;
  if (at_once < 1) return false;
  int64_t passes = (int64_t)r->effective_batch / at_once;
  if (passes * at_once != (int64_t)r->effective_batch) return false;
  choice->at[PLIM_KNOB_ACCUMULATE] = passes;
  return plim_may_be(&r->domains[PLIM_KNOB_ACCUMULATE], passes);
}

// If any batch is accepted: one pass, which keeps no gradient through a forward, or so many passes that the time of the
// optimizer step hardly counts.
enum { MANY_PASSES = 64 };

static plim_domain passes_of(const plim_plan_request *r) {
  int64_t own = r->job.recipe.accumulate > 1 ? r->job.recipe.accumulate : 1;
  if (r->domains[PLIM_KNOB_ACCUMULATE].count) return r->domains[PLIM_KNOB_ACCUMULATE];
  if (r->holds_others) return (plim_domain){1, {own}};
  return (plim_domain){2, {1, own > MANY_PASSES ? own : MANY_PASSES}};
}

void plim_splits_of(const plim_concessions *l, bool alone, plim_split_list *out) {
  const plim_plan_request *r = l->r;
  plim_domain batches = plim_concession_domain(l, PLIM_KNOB_MICRO_BATCH), passes = passes_of(r);
  out->count = 0;
  for (int i = 0; i < batches.count; i++) {
    plim_choice c = {.at = {[PLIM_KNOB_MICRO_BATCH] = batches.at[i]}};
    bool is_given = r->effective_batch;
    if (is_given && !plim_set_accumulation(r, &c)) continue;
    for (int k = 0; k < (is_given ? 1 : passes.count) && out->count < PLIM_MAX_VALUES; k++) {
      int64_t n = is_given ? c.at[PLIM_KNOB_ACCUMULATE] : passes.at[k];
      if ((n == 1) == alone) out->at[out->count++] = (plim_split){batches.at[i], n};
    }
  }
}

// ---- families ---------------------------------------------------------------------------------------

static plim_choice first_choice(const plim_candidate_search *w, plim_choice choice, plim_split at) {
  choice.at[PLIM_KNOB_MICRO_BATCH] = at.batch;
  choice.at[PLIM_KNOB_ACCUMULATE] = at.passes;
  choice.at[PLIM_KNOB_ALLOC_CONF] = w->confs.at[0];
  return choice;
}

const plim_rung *plim_run_fitting(const plim_candidate_search *w, plim_choice candidate,
                                  plim_split at) {
  plim_search *s = w->s;
  plim_choice first = first_choice(w, candidate, at), choice = first;
  for (int i = 0; i < w->confs.count; i++) {
    choice.at[PLIM_KNOB_ALLOC_CONF] = w->confs.at[i];
    const plim_failure *failure = plim_search_failure(s, &choice);
    if (failure && (w->is_quick || failure->is_hopeless)) return NULL;
    const plim_rung *x = failure ? NULL : plim_search_run(s, &choice);
    if (!failure && (!x || plim_is_safe(s->r, &x->e) || plim_is_hopeless(s->r, &x->e))) return x;
  }
  return plim_search_failure(s, &first) ? NULL : plim_search_run(s, &first);
}

const plim_rung *plim_run_anyway(const plim_candidate_search *w, plim_choice candidate,
                                 plim_split at, uint64_t below) {
  const plim_rung *x = plim_run_fitting(w, candidate, at);
  plim_choice first = first_choice(w, candidate, at);
  if (x || w->s->failed) return x;
  return plim_search_below(w->s, &first, below);
}

static bool fits(const plim_candidate_search *w, const plim_choice *candidate, plim_split at) {
  const plim_rung *x = plim_run_fitting(w, *candidate, at);
  return x && plim_is_safe(w->s->r, &x->e);
}

double plim_keep(const plim_candidate_search *w, const plim_choice *candidate, plim_split at) {
  plim_search *s = w->s;
  const plim_rung *x = plim_run_fitting(w, *candidate, at);
  if (!x || !plim_is_safe(s->r, &x->e)) return 0;
  plim_rung rung = *x;
  if (!vec_push(&s->fitting, rung)) s->failed = true;
  s->fastest = fmax(s->fastest, rung.tokens_per_second);
  s->surest = fmax(s->surest, rung.tokens_per_second * plim_worth(s->r, &rung.choice));
  return isnan(rung.tokens_per_second) ? 1 : rung.tokens_per_second;
}

// How many splits fit, starting with the first.
static int count_fitting(const plim_candidate_search *w, const plim_choice *candidate,
                         const plim_split_list *list) {
  int low = 0, high = list->count;
  if (!list->count || !fits(w, candidate, list->at[0])) return 0;
  for (low = 1; low < high && !w->s->failed;) {
    int middle = (low + high) / 2;
    if (fits(w, candidate, list->at[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}

enum { NEIGHBOURS = 6, LATE_NEIGHBOURS = 2 };

static void try_splits(const plim_candidate_search *w, const plim_choice *candidate,
                       const plim_split_list *list) {
  int near = 0, most = w->only_fastest ? LATE_NEIGHBOURS : NEIGHBOURS;
  int64_t last = 0;
  for (int i = count_fitting(w, candidate, list) - 1; i >= 0 && !w->s->failed; i--) {
    bool is_next = near < most || 2 * list->at[i].batch <= last || i == 0;
    if (w->only_fastest && near >= most) return;
    if (!is_next) continue;
    double speed = plim_keep(w, candidate, list->at[i]);
    near = speed >= NEARLY * w->s->fastest ? near + 1 : most;
    last = list->at[i].batch;
  }
}

// Without accumulation no gradient lives through a forward pass; everything else takes as much or more.
static bool may_fit_alone(const plim_candidate_search *w, const plim_choice *candidate,
                          const plim_split_list *list) {
  const plim_rung *x =
      list->count && !w->is_quick ? plim_run_fitting(w, *candidate, list->at[0]) : NULL;
  uint64_t budget = w->s->r->target.budget_bytes;
  if (!x || budget == PLIM_UNKNOWN) return true;
  return x->e.p.peak_allocated_bytes <= budget + x->e.p.trainable * 4;
}

static void try_batches(const plim_candidate_search *w, const plim_choice *candidate) {
  plim_split_list list;
  plim_splits_of(w->concessions, false, &list);
  try_splits(w, candidate, &list);
  if (!may_fit_alone(w, candidate, &list)) return;
  plim_splits_of(w->concessions, true, &list);
  try_splits(w, candidate, &list);
}

// ---- all families of a level ------------------------------------------------------------------------

static bool is_of_row(plim_knob knob) {
  return knob != PLIM_KNOB_MICRO_BATCH && knob != PLIM_KNOB_ACCUMULATE &&
         knob != PLIM_KNOB_ALLOC_CONF && knob != PLIM_KNOB_STRATEGY && knob != PLIM_KNOB_OFFLOAD &&
         knob != PLIM_KNOB_CACHED_BATCH;
}

static bool has_liger(const plim_concessions *l) {
  plim_domain d = plim_concession_domain(l, PLIM_KNOB_LIGER);
  return plim_may_be(&d, true);
}

// Whether a value is one that saves most memory, as far as that is known without a run: any checkpointing, preferably on
// the host; optimizer state on the host; a chunked loss.
static bool saves_most(const plim_concessions *l, const plim_choice *mode, plim_knob knob,
                       const plim_domain *d, int64_t value) {
  int64_t offload = mode->at[PLIM_KNOB_OFFLOAD], last = d->at[d->count - 1];
  bool has_state = offload == PLIM_OFFLOAD_OPTIMIZER || offload == PLIM_OFFLOAD_PARAMETERS;
  switch (knob) {
  case PLIM_KNOB_CHECKPOINT:
    if (l->r->domains[knob].count || offload == PLIM_OFFLOAD_ACTIVATIONS) return value;
    return last == PLIM_CHECKPOINT_OFFLOADED ? value == last : value;
  case PLIM_KNOB_OPTIMIZER: return l->r->domains[knob].count || has_state || value == last;
  case PLIM_KNOB_CHUNKED_LOSS: return value || has_liger(l);
  default: return true;
  }
}

static plim_domain savers_of(const plim_concessions *l, const plim_choice *mode, plim_knob knob,
                             const plim_domain *d) {
  plim_domain rest = {0};
  for (int i = 0; i < d->count; i++)
    if (saves_most(l, mode, knob, d, d->at[i])) plim_domain_push(&rest, d->at[i]);
  return rest.count ? rest : *d;
}

// ---- mini batches of a cached loss ------------------------------------------------------------------

// More mini batches than this take longest to predict: smaller ones are tried only if no larger one fits.
enum { MANY_MINI_BATCHES = 64 };
#define SEGMENTS 1.02 // how far the allocator's segments deviate from a line

typedef struct {
  int64_t batch[2]; // the last two that ran, the later one first
  double bytes[2];
  int count;
} slope;

static void note(slope *x, int64_t batch, uint64_t bytes) {
  x->batch[1] = x->batch[0], x->bytes[1] = x->bytes[0];
  x->batch[0] = batch, x->bytes[0] = (double)bytes;
  x->count++;
}

// The memory of each phase of a step is linear in the batch and the peak is their maximum, so below the last two
// batches it falls no faster than between them.
static double least_bytes(const slope *x, int64_t batch) {
  if (x->count < 2) return 0;
  double each = (x->bytes[1] - x->bytes[0]) / (double)(x->batch[1] - x->batch[0]);
  return x->bytes[0] - each * (double)(x->batch[0] - batch);
}

static void sort_falling(plim_domain *d) {
  for (int i = 1; i < d->count; i++)
    for (int k = i; k > 0 && d->at[k] > d->at[k - 1]; k--) {
      int64_t more = d->at[k];
      d->at[k] = d->at[k - 1], d->at[k - 1] = more;
    }
}

static bool first_split(const plim_concessions *l, plim_split *out) {
  plim_split_list list;
  plim_splits_of(l, false, &list);
  if (!list.count) plim_splits_of(l, true, &list);
  if (list.count) *out = list.at[0];
  return list.count;
}

// From the largest, which is the fastest, downwards.
static void visit_mini_batches(const plim_candidate_search *w, plim_choice candidate, bool only_one,
                               plim_candidate_visitor *visit) {
  const plim_plan_request *r = w->concessions->r;
  plim_domain d = plim_concession_domain(w->concessions, PLIM_KNOB_CACHED_BATCH);
  plim_candidate_search full = *w;
  slope so_far = {0};
  plim_split at;
  bool has_fit = false, looks_for_smallest = only_one && !w->is_quick;
  full.is_quick = false;
  sort_falling(&d);
  for (int i = 0; i < d.count && d.at[i] && first_split(w->concessions, &at) && !w->s->failed;
       i++) {
    candidate.at[PLIM_KNOB_CACHED_BATCH] = d.at[i];
    if (d.count == 1) visit(w, &candidate);
    if (d.count == 1 || (has_fit && (only_one || at.batch > MANY_MINI_BATCHES * d.at[i]))) return;
    bool is_last = i + 1 == d.count || !d.at[i + 1];
    bool is_wanted = looks_for_smallest && is_last;
    double most = SEGMENTS * (double)r->target.budget_bytes;
    if (!is_wanted && least_bytes(&so_far, d.at[i]) > most) continue;
    const plim_rung *x = plim_run_anyway(&full, candidate, at, 0);
    if (!x) continue;
    note(&so_far, d.at[i], x->e.device_bytes);
    has_fit |= plim_is_safe(r, &x->e);
    visit(w, &candidate);
  }
}

void plim_visit_whole(const plim_candidate_search *w, const plim_choice *candidate, bool only_one,
                      plim_candidate_visitor *visit) {
  if (candidate->at[PLIM_KNOB_CACHED_BATCH]) visit_mini_batches(w, *candidate, only_one, visit);
  else visit(w, candidate);
}

void plim_try_candidate(const plim_candidate_search *w, const plim_choice *candidate) {
  plim_visit_whole(w, candidate, w->only_fastest, try_batches);
}

// ---- knob by knob -----------------------------------------------------------------------------------

// Visits the plain loss, and the cached loss, represented by its largest mini batch.
static void visit_losses(const plim_candidate_search *w, plim_choice choice,
                         plim_candidate_visitor *visit) {
  plim_domain d = plim_concession_domain(w->concessions, PLIM_KNOB_CACHED_BATCH);
  sort_falling(&d);
  for (int i = 0; i < 2; i++) {
    choice.at[PLIM_KNOB_CACHED_BATCH] = i ? d.at[0] : 0;
    if (i ? d.at[0] : plim_may_be(&d, 0)) visit(w, &choice);
  }
}

// Returns whether any candidate was sound.
static bool visit_knobs(const plim_candidate_search *w, plim_choice choice, size_t from,
                        bool only_savers, plim_candidate_visitor *visit) {
  bool any = false;
  if (w->s->failed) return true;
  if (from == plim_plan_knob_count) {
    if (!plim_choice_is_sound(w->concessions->r, &choice)) return false;
    visit_losses(w, choice, visit);
    return true;
  }
  plim_knob knob = plim_plan_knobs[from];
  if (!is_of_row(knob)) return visit_knobs(w, choice, from + 1, only_savers, visit);
  plim_domain d = plim_concession_domain(w->concessions, knob);
  if (only_savers) d = savers_of(w->concessions, &choice, knob, &d);
  for (int i = 0; i < d.count; i++) {
    choice.at[knob] = d.at[i];
    any |= visit_knobs(w, choice, from + 1, only_savers, visit);
  }
  return any;
}

static bool visit_sharings(const plim_candidate_search *w, bool only_savers,
                           plim_candidate_visitor *visit) {
  plim_sharing_mode modes[PLIM_MAX_SHARING_MODES];
  size_t count = plim_concession_sharings(w->concessions, modes);
  plim_choice choice = w->s->plan->before_choice;
  bool any = false;
  for (size_t i = count; i-- > 0;) { // those that keep least on the card first
    choice.at[PLIM_KNOB_STRATEGY] = modes[i].strategy;
    choice.at[PLIM_KNOB_OFFLOAD] = modes[i].offload;
    any |= visit_knobs(w, choice, 0, only_savers, visit);
  }
  return any;
}

// If the framework refuses all combinations of the values that save most, the others count.
void plim_visit_candidates(const plim_candidate_search *w, bool only_savers,
                           plim_candidate_visitor *visit) {
  if (!visit_sharings(w, only_savers, visit) && only_savers) visit_sharings(w, false, visit);
}

plim_candidate_search plim_candidates_of(plim_search *s, const plim_concessions *concessions) {
  return (plim_candidate_search){.s = s,
                                 .concessions = concessions,
                                 .confs =
                                     plim_concession_domain(concessions, PLIM_KNOB_ALLOC_CONF)};
}

const plim_rung *plim_fastest_split(const plim_candidate_search *w, const plim_choice *candidate,
                                    double than) {
  plim_choice best = *candidate;
  bool found = false;
  for (int alone = 0; alone < 2; alone++) {
    plim_split_list list;
    plim_splits_of(w->concessions, alone, &list);
    for (int i = count_fitting(w, candidate, &list) - 1; i >= 0 && !w->s->failed; i--) {
      const plim_rung *x = plim_run_fitting(w, *candidate, list.at[i]);
      if (!x || !(x->tokens_per_second > than)) break; // smaller ones are slower
      than = x->tokens_per_second;
      best = x->choice;
      found = true;
    }
  }
  return found ? plim_search_run(w->s, &best) : NULL;
}

bool plim_is_last(const plim_candidate_search *w, const plim_choice *candidate) {
  return plim_goes_to_host(w->s->r, candidate) || plim_hand_work_of(w->s->r, candidate).code;
}
