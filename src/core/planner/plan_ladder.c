// The ladder: the best candidate that fits, and below it candidates that need less memory.
#include <math.h>
#include <string.h>

#include "candidate_families.h"

// ---- reverting unnecessary changes ------------------------------------------------------------------

static bool may_be(const plim_plan_request *r, const plim_choice *c) {
  for (size_t i = 0; i < plim_plan_knob_count; i++)
    if (!plim_may_be(&r->domains[plim_plan_knobs[i]], c->at[plim_plan_knobs[i]])) return false;
  return plim_has_its_batch(r, c);
}

// Expandable segments cost one line and no time. If less than this fraction of the card is free, they are kept if they
// save anything, because fragmentation grows in long runs.
#define ROOMY 0.05
#define WORTH_A_LINE 0.01

static bool wants_pages(const plim_search *s, const plim_rung *without, const plim_rung *with) {
  uint64_t budget = s->r->target.budget_bytes;
  if (s->plan->rungs.len) return true; // lower rungs exist to save memory
  if (budget == PLIM_UNKNOWN || s->r->conf_by_hand) return false;
  bool is_roomy = (double)without->e.interval_bytes[1] <= (1 - ROOMY) * (double)budget;
  double saved = (double)without->e.device_bytes - (double)with->e.device_bytes;
  return !is_roomy && saved >= WORTH_A_LINE * (double)with->e.device_bytes;
}

// A simplified rung must be as good as the original: fit, within that memory, and as fast.
typedef struct {
  uint64_t most;
  double least, no_faster; // tokens per second; `least` is weighted for the first rung only
} standard;

static double counted_speed(const plim_search *s, const plim_rung *x) {
  return x->tokens_per_second * (s->plan->rungs.len ? 1 : plim_worth(s->r, &x->choice));
}

static bool is_met(const plim_search *s, const plim_rung *x, standard by) {
  double speed = counted_speed(s, x);
  bool is_as_fast = !(speed < by.least) && !(x->tokens_per_second > by.no_faster);
  return plim_is_safe(s->r, &x->e) && is_as_fast && plim_needed_bytes(&x->e) <= by.most &&
         plim_evaluates_below(s->plan, x);
}

static void revert(plim_search *s, plim_rung *rung, plim_knob knob, standard by) {
  const plim_choice *own = &s->plan->before_choice;
  // Any batch is accepted: keep the fastest.
  bool is_free = knob == PLIM_KNOB_MICRO_BATCH && !s->r->effective_batch;
  if (is_free || rung->choice.at[knob] == own->at[knob]) return;
  if (plim_follows(own, &rung->choice, knob)) return;
  plim_choice back = plim_reverted(s, &rung->choice, knob);
  bool is_possible = may_be(s->r, &back) && plim_choice_is_sound(s->r, &back);
  const plim_rung *x = is_possible ? plim_search_run(s, &back) : NULL;
  if (x && knob == PLIM_KNOB_ALLOC_CONF && wants_pages(s, x, rung)) return;
  if (x && is_met(s, x, by)) *rung = *x;
}

// Reverts every knob that neither makes it fit nor saves time, the most work for the user first.
static void simplify(plim_search *s, plim_rung *rung, standard by) {
  static const plim_knob order[] = {
      PLIM_KNOB_CHUNKED_LOSS, PLIM_KNOB_LIGER,      PLIM_KNOB_STRATEGY,     PLIM_KNOB_OFFLOAD,
      PLIM_KNOB_OPTIMIZER,    PLIM_KNOB_ATTENTION,  PLIM_KNOB_PRECISION,    PLIM_KNOB_DTYPE,
      PLIM_KNOB_CHECKPOINT,   PLIM_KNOB_ALLOC_CONF, PLIM_KNOB_CACHED_BATCH, PLIM_KNOB_MICRO_BATCH};
  if (s->r->conf_by_hand) revert(s, rung, PLIM_KNOB_ALLOC_CONF, by);
  for (size_t i = 0; i < sizeof order / sizeof *order && !s->failed; i++)
    revert(s, rung, order[i], by);
}

// ---- rungs ------------------------------------------------------------------------------------------

enum { MAX_RUNGS = 6 };
#define RUNG_STEP 0.97 // the next rung must take at least 3 % less memory

// Rungs are listed from the fastest on: none may be clearly faster than one above it, unless there would be no rung.
static double slowest_so_far(const plim_plan *plan) {
  double speed = INFINITY;
  for (size_t i = 0; i < plan->rungs.len; i++)
    speed = fmin(speed, (1 + PLIM_SAME_TIME) * plan->rungs.at[i].tokens_per_second);
  return speed;
}

static standard standard_of(const plim_search *s, uint64_t most) {
  double no_faster = slowest_so_far(s->plan);
  double best = plim_surest(s, most, no_faster);
  return (standard){most, (1 - plim_same_time(s->r)) * best, no_faster};
}

static uint64_t lowest_so_far(const plim_plan *plan) {
  size_t n = plan->rungs.len;
  return n ? plim_needed_bytes(&plan->rungs.at[n - 1].e) : UINT64_MAX;
}

// Run in full it must still fit and be below the previous rungs in memory and speed.
static bool show(plim_search *s, const plim_choice *choice, standard by, plim_rung *out) {
  if (!plim_search_show(s, choice, out)) return false;
  bool is_faster = out->tokens_per_second > by.no_faster;
  return plim_is_safe(s->r, &out->e) && plim_needed_bytes(&out->e) < lowest_so_far(s->plan) &&
         !is_faster && plim_evaluates_below(s->plan, out);
}

// The user's own settings come first if nothing is clearly faster.
static bool keeps_own(const plim_search *s, standard by) {
  return may_be(s->r, &s->before.choice) && is_met(s, &s->before, by);
}

// If any batch is accepted: more passes divide the time of the optimizer step, until that hardly counts.
#define AS_GOOD 0.999

static void settle_passes(plim_search *s, plim_rung *rung) {
  double n = (double)rung->choice.at[PLIM_KNOB_ACCUMULATE], pass = rung->e.pass_seconds;
  double rest = rung->step_seconds - n * pass, best = n / rung->step_seconds;
  bool is_free = !s->r->effective_batch && !s->r->domains[PLIM_KNOB_ACCUMULATE].count;
  for (int64_t k = 2; is_free && !s->r->holds_others && k < (int64_t)n; k *= 2) {
    if (!((double)k / (rest + (double)k * pass) >= AS_GOOD * best)) continue;
    plim_choice fewer = rung->choice;
    fewer.at[PLIM_KNOB_ACCUMULATE] = k;
    const plim_rung *x = plim_search_run(s, &fewer);
    if (x && plim_is_safe(s->r, &x->e)) *rung = *x;
    return;
  }
}

static void add_rung(plim_search *s, const plim_rung *found, standard by) {
  plim_plan *plan = s->plan;
  plim_rung rung, simple = *found;
  simplify(s, &simple, by);
  settle_passes(s, &simple);
  bool is_simpler = memcmp(&simple.choice, &found->choice, sizeof simple.choice) != 0;
  bool is_shown =
      show(s, &simple.choice, by, &rung) || (is_simpler && show(s, &found->choice, by, &rung));
  if (is_shown && !plan->rungs.len && keeps_own(s, by)) rung = s->before;
  if (is_shown && !s->failed && !vec_push(&plan->rungs, rung)) s->failed = true;
}

bool plim_own_is_possible(const plim_search *s) {
  return may_be(s->r, &s->before.choice) && !plim_plan_refused(s->r, &s->before.choice);
}

bool plim_own_is_candidate(const plim_search *s) {
  return plim_own_is_possible(s) && plim_is_safe(s->r, &s->before.e);
}

// The user's own settings are a candidate if they start.
static void add_own(plim_search *s) {
  plim_rung own = s->before;
  if (plim_own_is_candidate(s) && !vec_push(&s->fitting, own)) s->failed = true;
}

// The first rung with expandable segments, if that saves enough for a rung of its own.
static void add_expandable(plim_search *s, const plim_concessions *concessions) {
  plim_domain confs = plim_concession_domain(concessions, PLIM_KNOB_ALLOC_CONF);
  plim_choice choice = s->plan->rungs.at[0].choice;
  if (choice.at[PLIM_KNOB_ALLOC_CONF] == confs.at[0]) return;
  choice.at[PLIM_KNOB_ALLOC_CONF] = confs.at[0];
  const plim_rung *x = plim_search_run(s, &choice);
  uint64_t most = (uint64_t)(RUNG_STEP * (double)plim_needed_bytes(&s->plan->rungs.at[0].e));
  if (!x || plim_needed_bytes(&x->e) > most) return;
  plim_rung found = *x;
  add_rung(s, &found, standard_of(s, most));
}

// ---- the first rung, and faster candidates ----------------------------------------------------------

// Two passes determine times within a few percent, so the nearest to the fastest are run with more passes.
enum { NEAREST = 4 };
#define NEAR 0.97

static double sure_speed(const plim_search *s, const plim_rung *x) {
  return x->tokens_per_second * plim_worth(s->r, &x->choice);
}

static plim_rung *fastest_of(const plim_search *s, int passes) {
  plim_rung *best = NULL;
  for (size_t i = 0; i < s->fitting.len; i++) {
    plim_rung *x = &s->fitting.at[i];
    if (x->passes <= passes && (!best || sure_speed(s, x) > sure_speed(s, best))) best = x;
  }
  return best;
}

static void leave_out(plim_search *s, plim_rung *x) { *x = s->fitting.at[--s->fitting.len]; }

// Returns false if a candidate that turned out not to fit was clearly faster than all that are left. The search may have
// passed over slower ones because of it.
static bool refine(plim_search *s) {
  double left_out = 0; // the speed of the fastest that does not fit
  for (int i = 0; i < NEAREST && !s->failed; i++) {
    plim_rung *x = fastest_of(s, PLIM_SEARCH_PASSES), *best = fastest_of(s, INT32_MAX), more;
    if (!x || sure_speed(s, x) < NEAR * sure_speed(s, best)) break;
    if (!plim_search_show(s, &x->choice, &more)) break;
    if (plim_is_safe(s->r, &more.e)) {
      *x = more;
      continue;
    }
    left_out = fmax(left_out, sure_speed(s, x));
    leave_out(s, x);
  }
  const plim_rung *left = fastest_of(s, INT32_MAX);
  return (left ? sure_speed(s, left) : 0) >= NEAR * left_out;
}

static bool is_clearly_faster(const plim_rung *x, const plim_rung *than) {
  return x->tokens_per_second > (1 + PLIM_SAME_TIME) * than->tokens_per_second;
}

static void note_faster(plim_search *s) {
  plim_plan *plan = s->plan;
  const plim_rung *first = &plan->rungs.at[0], *best = first;
  for (size_t i = 0; i < s->fitting.len; i++)
    if (s->fitting.at[i].tokens_per_second > best->tokens_per_second) best = &s->fitting.at[i];
  plan->passed = PLIM_PASSED_NONE;
  if (!is_clearly_faster(best, first)) return;
  if (!plim_search_show(s, &best->choice, &plan->faster)) return;
  bool is_so = plim_is_safe(s->r, &plan->faster.e) && is_clearly_faster(&plan->faster, first);
  if (is_so) plan->passed = plim_why_passed(s->r, &plan->faster.choice, &first->choice);
}

// If the user's files cannot turn Liger on, it is not searched; the plan only reports what it would gain for the first
// rung, with batches that fit.
static void note_liger(plim_search *s, const plim_concessions *concessions) {
  plim_plan *plan = s->plan;
  plim_candidate_search w = plim_candidates_of(s, concessions);
  plim_choice candidate = plan->rungs.at[0].choice;
  plim_rung shown, best = plan->passed ? plan->faster : plan->rungs.at[0];
  bool is_news = plim_could_use_liger(s->r) && !plim_can_use_liger(s->r);
  if (!is_news || candidate.at[PLIM_KNOB_LIGER]) return;
  candidate.at[PLIM_KNOB_LIGER] = 1;
  candidate.at[PLIM_KNOB_CHUNKED_LOSS] = 0;
  w.is_quick = true;
  const plim_rung *x = plim_choice_is_sound(s->r, &candidate)
                           ? plim_fastest_split(&w, &candidate, best.tokens_per_second)
                           : NULL;
  if (!x || !plim_search_show(s, &x->choice, &shown) || !plim_is_safe(s->r, &shown.e)) return;
  if (!is_clearly_faster(&shown, &best)) return;
  plan->faster = shown;
  plan->passed = PLIM_PASSED_LIGER;
}

static bool is_own_sharding(const plim_search *s, const plim_choice *choice) {
  const plim_choice *own = &s->plan->before_choice;
  return choice->at[PLIM_KNOB_STRATEGY] == own->at[PLIM_KNOB_STRATEGY] &&
         choice->at[PLIM_KNOB_OFFLOAD] == own->at[PLIM_KNOB_OFFLOAD];
}

static void note_own_sharding(plim_search *s) {
  plim_plan *plan = s->plan;
  plan->own_sharding = (plim_rung){0};
  if (is_own_sharding(s, &plan->rungs.at[0].choice)) return;
  for (size_t i = 0; i < s->fitting.len; i++) {
    const plim_rung *x = &s->fitting.at[i];
    bool is_better = !(x->tokens_per_second <= plan->own_sharding.tokens_per_second);
    if (is_own_sharding(s, &x->choice) && is_better) plan->own_sharding = *x;
  }
}

// ---- building the ladder ----------------------------------------------------------------------------

static bool add_next(plim_search *s, standard by) {
  size_t had = s->plan->rungs.len;
  const plim_rung *x = plim_pick(s, by.most, by.no_faster);
  if (!x || s->failed) return false;
  plim_rung found = *x;
  size_t place = (size_t)(x - s->fitting.at);
  add_rung(s, &found, by);
  if (s->plan->rungs.len == had) leave_out(s, &s->fitting.at[place]);
  return !s->failed;
}

static standard next_standard(const plim_search *s) {
  const plim_plan *plan = s->plan;
  if (!plan->rungs.len) return standard_of(s, UINT64_MAX);
  double last = (double)plim_needed_bytes(&plan->rungs.at[plan->rungs.len - 1].e);
  return standard_of(s, (uint64_t)(RUNG_STEP * last));
}

// Small candidates are searched once below each rung; one that turns out to be no rung is dropped for good.
static void add_below(plim_search *s, const plim_concessions *concessions, bool looks) {
  size_t looked = 0;
  bool goes_on = true;
  while (goes_on && s->plan->rungs.len < MAX_RUNGS) {
    if (looks && looked != s->plan->rungs.len)
      plim_search_small(s, concessions, next_standard(s).most);
    looked = s->plan->rungs.len;
    goes_on = add_next(s, next_standard(s));
  }
}

static standard any_smaller(const plim_search *s) {
  standard by = next_standard(s);
  by.no_faster = INFINITY;
  by.least = 0;
  return by;
}

bool plim_build_ladder(plim_search *s, const plim_concessions *concessions) {
  plim_plan *plan = s->plan;
  add_own(s);
  bool any_seemed_to_fit = s->fitting.len;
  if (any_seemed_to_fit && !isnan(s->fitting.at[0].step_seconds) && !refine(s)) return s->failed;
  while (!plan->rungs.len && add_next(s, next_standard(s))) {}
  if (!plan->rungs.len && any_seemed_to_fit) return s->failed;
  if (!plan->rungs.len || s->failed || s->r->only_first) return true;
  const plim_choice first = plan->rungs.at[0].choice;
  note_faster(s);
  note_liger(s, concessions);
  note_own_sharding(s);
  add_expandable(s, concessions);
  bool is_slow = first.at[PLIM_KNOB_CACHED_BATCH]; // slow to predict
  if (!is_slow) plim_search_near(s, concessions, &first);
  add_below(s, concessions, !is_slow);
  if (plan->rungs.len < 2) plim_search_small(s, concessions, next_standard(s).most);
  while (plan->rungs.len < 2 && add_next(s, any_smaller(s))) {}
  return true;
}
