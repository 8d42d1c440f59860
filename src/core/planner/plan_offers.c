// Concessions that were not allowed, and what they would gain.
#include "plan_impl.h"

static bool is_open(const plim_plan_request *r, plim_knob knob) {
  return plim_knob_changes_learning(r, knob) && !r->allowed[knob] && !r->domains[knob].count;
}

static void add(plim_search *s, const plim_concessions *l, const plim_rung *got) {
  plim_plan *plan = s->plan;
  plim_concession c = {
      .e = got->e, .fits = plim_is_safe(s->r, &got->e), .device_bytes = plim_needed_bytes(&got->e)};
  c.strategy = got->choice.at[PLIM_KNOB_STRATEGY];
  c.offload = got->choice.at[PLIM_KNOB_OFFLOAD];
  const plim_rung *than = plan->rungs.len ? &plan->rungs.at[0] : &plan->smallest;
  plim_choice had = plan->rungs.len ? than->choice : plim_concession_of(s).at;
  for (size_t i = 0; i < plim_conceded_knob_count; i++) {
    plim_knob knob = plim_conceded_knobs[i];
    if (l->at.at[knob] == had.at[knob]) continue;
    c.knob[c.count] = knob;
    c.from[c.count] = had.at[knob];
    c.to[c.count++] = l->at.at[knob];
  }
  c.saves_bytes = (int64_t)plim_needed_bytes(&than->e) - (int64_t)c.device_bytes;
  c.tokens_per_second = got->tokens_per_second;
  if (c.count && !vec_push(&plan->concessions, c)) s->failed = true;
}

// Runs an offer in full, as the plan is, and says whether it still fits. Expandable segments may grow in the third step,
// which a search does not run; then it may fit with the user's own settings of the allocator.
static bool fits_in_full(plim_search *s, plim_rung *x) {
  plim_choice choice = x->choice;
  plim_rung other;
  int64_t own = plim_plan_own_choice(s->r).at[PLIM_KNOB_ALLOC_CONF];
  if (!plim_search_show(s, &choice, x)) return false;
  bool is_open = choice.at[PLIM_KNOB_ALLOC_CONF] != own &&
                 plim_may_be(&s->r->domains[PLIM_KNOB_ALLOC_CONF], own);
  bool is_safe = plim_is_safe(s->r, &x->e);
  if (is_safe || !is_open || plim_is_hopeless(s->r, &x->e)) return is_safe;
  choice.at[PLIM_KNOB_ALLOC_CONF] = own;
  if (!plim_search_show(s, &choice, &other) || !plim_is_safe(s->r, &other.e)) return false;
  *x = other;
  return true;
}

// What one knob gains in addition to the plan: its first step that is worth mentioning.
#define WORTH_NAMING 0.01 // at least this fraction of the plan's memory

static bool saves(const plim_rung *x, const plim_rung *than, double part) {
  return (double)plim_needed_bytes(&x->e) <= (1 - part) * (double)plim_needed_bytes(&than->e);
}

// Whether it may be worth a run in full: shorter runs compare with shorter runs.
static bool may_save(plim_search *s, const plim_choice *choice, const plim_choice *than) {
  const plim_rung *had = plim_search_run(s, than);
  const plim_rung whole = had ? *had : (plim_rung){0};
  const plim_rung *x = plim_search_run(s, choice);
  return x && (!had || saves(x, &whole, WORTH_NAMING / 2));
}

static void offer_saving(plim_search *s, plim_knob knob) {
  const plim_rung *plan = &s->plan->rungs.at[0];
  plim_domain d = plim_knob_concessions(s->r, knob, true);
  for (int i = 1; i < d.count && !s->failed; i++) {
    plim_concessions concessions = {.r = s->r, .at = plan->choice};
    plim_choice choice = plan->choice;
    choice.at[knob] = concessions.at.at[knob] = d.at[i];
    if (knob == PLIM_KNOB_MICRO_BATCH && !plim_set_accumulation(s->r, &choice)) continue;
    plim_rung shown;
    if (!plim_choice_is_sound(s->r, &choice)) continue;
    if (!may_save(s, &choice, &plan->choice) || !plim_search_show(s, &choice, &shown)) continue;
    if (!saves(&shown, plan, WORTH_NAMING)) continue;
    add(s, &concessions, &shown);
    return;
  }
}

// Whether the plan moves to the host what the user has on the card, other than activations.
static bool moves_to_host(const plim_plan *plan) {
  int64_t was = plan->before_choice.at[PLIM_KNOB_OFFLOAD];
  int64_t is = plan->rungs.at[0].choice.at[PLIM_KNOB_OFFLOAD];
  return is != was && is != PLIM_OFFLOAD_NONE && is != PLIM_OFFLOAD_ACTIVATIONS;
}

static const plim_rung *fastest_on(plim_search *s, const plim_concessions *concessions) {
  const plim_rung *best = NULL;
  plim_search_concessions(s, concessions);
  for (size_t i = 0; i < s->fitting.len && !s->failed; i++)
    if (!best || s->fitting.at[i].tokens_per_second > best->tokens_per_second)
      best = &s->fitting.at[i];
  return best;
}

// The smallest concession of a knob that fits on the level; false: none fits.
static bool least_that_fits(plim_search *s, plim_knob knob, plim_concessions *concessions) {
  plim_domain d = plim_knob_concessions(s->r, knob, true);
  if (d.count < 2) return false;
  concessions->at.at[knob] = d.at[d.count - 1];
  if (!plim_concession_fits(s, concessions)) return false;
  for (int i = 1; i < d.count - 1 && !s->failed; i++) {
    concessions->at.at[knob] = d.at[i];
    if (plim_concession_fits(s, concessions)) return true;
  }
  concessions->at.at[knob] = d.at[d.count - 1];
  return true;
}

// If the plan offloads, which is slow: the concession of one knob that makes this unnecessary. False: there is none.
static bool offer_instead(plim_search *s, plim_knob knob) {
  const plim_choice *plan = &s->plan->rungs.at[0].choice;
  plim_concessions concessions = plim_concession_of(s);
  concessions.is_brief = true;
  if (plan->at[PLIM_KNOB_OFFLOAD] == PLIM_OFFLOAD_PARAMETERS)
    concessions.scope.optimizer = plim_offload_scope_of(s).optimizer;
  if (!least_that_fits(s, knob, &concessions)) return false;
  const plim_rung *best = fastest_on(s, &concessions);
  if (!best) return false;
  plim_rung shown = *best;
  if (!fits_in_full(s, &shown)) return false;
  plim_concessions told = {.r = s->r, .at = *plan};
  told.at.at[knob] = concessions.at.at[knob];
  size_t before = s->plan->concessions.len;
  add(s, &told, &shown);
  if (s->plan->concessions.len > before) s->plan->concessions.at[before].is_instead = true;
  return true;
}

// The smallest of what could be allowed, if it needs less than what is allowed.
static void keep_least(plim_plan *plan, const plim_rung *without, const plim_rung *x) {
  const plim_rung *than = plan->least.e.device_bytes ? &plan->least : without;
  bool is_less = plim_needed_bytes(&x->e) < plim_needed_bytes(&than->e);
  if (x->e.device_bytes && is_less) plan->least = *x;
}

// If nothing fits: the smallest concession of one knob that does, or the largest it can make.
static bool offer_fitting(plim_search *s, plim_knob knob, const plim_concessions *base,
                          const plim_rung *without) {
  plim_domain d = plim_knob_concessions(s->r, knob, true);
  plim_rung smallest = {0};
  plim_concessions concessions = *base;
  double helpful = (1 - WORTH_NAMING) * (double)plim_needed_bytes(&without->e);
  bool fits = false;
  for (int i = 1; i < d.count && !fits && !s->failed; i++) {
    concessions.at.at[knob] = d.at[i];
    bool may_fit = plim_concession_fits(s, &concessions), is_last = i + 1 == d.count;
    if (may_fit || is_last) plim_concession_smallest(s, &concessions, (uint64_t)helpful, &smallest);
    if ((may_fit || is_last) && smallest.e.device_bytes) fits = fits_in_full(s, &smallest);
  }
  bool helps = (double)plim_needed_bytes(&smallest.e) < helpful;
  keep_least(s->plan, without, &smallest);
  s->plan->smallest = *without; // the smallest allowed candidate; offers do not count
  if (smallest.e.device_bytes && (fits || helps) && !s->failed) add(s, &concessions, &smallest);
  return fits;
}

// Several concessions together, if no single one is enough.
static bool offer_several(plim_search *s, const plim_rung *without) {
  plim_concessions concessions;
  plim_rung smallest;
  size_t from = 0;
  bool fits =
      plim_find_concessions(s, (plim_concession_kind){.is_offered = true}, &from, &concessions) &&
      plim_concession_smallest(s, &concessions, 0, &smallest) && fits_in_full(s, &smallest);
  s->plan->smallest = *without;
  if (fits) add(s, &concessions, &smallest);
  return fits;
}

// How much is missing with everything that could be allowed.
static void look_beyond(plim_search *s, const plim_rung *without) {
  plim_concessions all = plim_concession_of_all(s, true);
  plim_rung least;
  plim_plan *plan = s->plan;
  plim_concession_smallest(s, &all, plim_needed_bytes(&without->e), &least);
  plim_choice choice = least.choice;
  if (least.e.device_bytes && plim_search_show(s, &choice, &least))
    keep_least(plan, without, &least);
}

void plim_list_concessions(plim_search *s) {
  plim_concessions base = plim_concession_of(s);
  plim_rung smallest = s->plan->smallest, tight = s->plan->tight;
  bool fits = false;
  base.scope = plim_offload_scope_of(s);
  for (size_t i = 0; i < plim_conceded_knob_count && !s->failed; i++) {
    plim_knob knob = plim_conceded_knobs[i];
    if (!is_open(s->r, knob)) continue;
    if (s->plan->rungs.len && moves_to_host(s->plan) && offer_instead(s, knob)) continue;
    if (s->plan->rungs.len) offer_saving(s, knob);
    else fits |= offer_fitting(s, knob, &base, &smallest);
  }
  if (!s->plan->rungs.len && !fits && !s->failed) fits = offer_several(s, &smallest);
  s->plan->is_beyond = !s->plan->rungs.len && !fits;
  if (s->plan->is_beyond && !s->failed) look_beyond(s, &smallest);
  if (!s->plan->is_beyond) s->plan->least = (plim_rung){0};
  s->plan->smallest = smallest;
  s->plan->tight = tight;
}
