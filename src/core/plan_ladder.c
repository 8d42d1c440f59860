// The ladder: of what fits the fastest, and below it what is smaller; and what its changes do.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_impl.h"

// ---- the order --------------------------------------------------------------------------------------

// Classes instead of distances, so that the order is one.
static int speed_class(const plim_rung *x) {
  return (int)floor(log(x->tokens_per_second) / log(1 + PLIM_SAME_TIME));
}

// Of those that are as fast, the one that sends least.
static int by_speed(const void *x, const void *y) {
  const plim_rung *a = x, *b = y;
  int fast = speed_class(b), slow = speed_class(a);
  int way = plim_way_place(&a->choice) - plim_way_place(&b->choice);
  if (fast != slow) return fast > slow ? 1 : -1;
  if (way) return way;
  if (a->e.device_bytes != b->e.device_bytes) return a->e.device_bytes > b->e.device_bytes ? 1 : -1;
  return a->changes - b->changes;
}

// Without rates there is no order by time: what changes least comes first, then what saves most.
static int by_changes(const void *x, const void *y) {
  const plim_rung *a = x, *b = y;
  if (a->changes != b->changes) return a->changes - b->changes;
  return (a->e.device_bytes > b->e.device_bytes) - (a->e.device_bytes < b->e.device_bytes);
}

// ---- nothing that is not needed ---------------------------------------------------------------------

// The knob that goes with this one.
static plim_knob companion(const plim_choice *from, const plim_choice *to, plim_knob knob) {
  bool has_types = from->at[PLIM_KNOB_DTYPE] != to->at[PLIM_KNOB_DTYPE];
  bool is_shared = from->at[PLIM_KNOB_OFFLOAD] != to->at[PLIM_KNOB_OFFLOAD];
  bool is_split = from->at[PLIM_KNOB_ACCUMULATE] != to->at[PLIM_KNOB_ACCUMULATE];
  if (knob == PLIM_KNOB_MICRO_BATCH && is_split) return PLIM_KNOB_ACCUMULATE;
  if (knob == PLIM_KNOB_STRATEGY && is_shared) return PLIM_KNOB_OFFLOAD;
  bool is_quantised = from->at[PLIM_KNOB_QUANTISATION] != to->at[PLIM_KNOB_QUANTISATION];
  bool needs_adapters = !from->at[PLIM_KNOB_LORA_RANK] && is_quantised;
  if (knob == PLIM_KNOB_LORA_RANK && needs_adapters) return PLIM_KNOB_QUANTISATION;
  return knob == PLIM_KNOB_PRECISION && has_types ? PLIM_KNOB_DTYPE : PLIM_KNOBS;
}

// A choice with one knob, and what goes with it, as the user has it.
static plim_choice turned_back(const plim_search *s, const plim_choice *choice, plim_knob knob) {
  const plim_choice *own = &s->plan->before_choice;
  plim_choice back = *choice;
  plim_knob with = companion(own, choice, knob);
  back.at[knob] = own->at[knob];
  bool keeps_batch =
      knob == PLIM_KNOB_MICRO_BATCH && s->r->effective_batch && plim_set_accumulation(s->r, &back);
  if (with != PLIM_KNOBS && !keeps_batch) back.at[with] = own->at[with];
  return back;
}

static bool has_its_batch(const plim_plan_request *r, const plim_choice *c) {
  int64_t batch = c->at[PLIM_KNOB_MICRO_BATCH] * c->at[PLIM_KNOB_ACCUMULATE] * r->world;
  return !r->effective_batch || batch == (int64_t)r->effective_batch;
}

static bool may_be(const plim_plan_request *r, const plim_choice *c) {
  for (size_t i = 0; i < plim_plan_knob_count; i++)
    if (!plim_may_be(&r->domains[plim_plan_knobs[i]], c->at[plim_plan_knobs[i]])) return false;
  return has_its_batch(r, c);
}

// Whole pages cost a line and no time: where less than this is left of the card they stay if they save
// something, as fragmentation grows in long runs.
#define ROOMY 0.05
#define WORTH_A_LINE 0.01

static bool wants_pages(const plim_search *s, const plim_rung *without, const plim_rung *with) {
  uint64_t budget = s->r->target.budget_bytes;
  if (s->plan->rungs.len) return true; // rungs below the first are there to save memory
  if (budget == PLIM_UNKNOWN) return false;
  bool is_roomy = (double)without->e.interval_bytes[1] <= (1 - ROOMY) * (double)budget;
  double saved = (double)without->e.device_bytes - (double)with->e.device_bytes;
  return !is_roomy && saved >= WORTH_A_LINE * (double)with->e.device_bytes;
}

// It does as well: it fits, in no more memory than there may be, and is not clearly slower.
static bool is_as_good(const plim_search *s, plim_rung x, const plim_rung *best, uint64_t most) {
  bool is_slow = x.tokens_per_second < (1 - PLIM_SAME_TIME) * best->tokens_per_second;
  return plim_is_safe(s->r, &x.e) && !is_slow && x.e.device_bytes <= most;
}

static bool follows(const plim_choice *own, const plim_choice *choice, plim_knob knob) {
  static const plim_knob leads[] = {PLIM_KNOB_MICRO_BATCH, PLIM_KNOB_PRECISION, PLIM_KNOB_STRATEGY,
                                    PLIM_KNOB_LORA_RANK};
  for (size_t i = 0; i < sizeof leads / sizeof *leads; i++)
    if (own->at[leads[i]] != choice->at[leads[i]] && companion(own, choice, leads[i]) == knob)
      return true;
  return false;
}

// Turns back every knob that neither makes it fit nor saves time: what asks most of the user first.
static void simplify(plim_search *s, plim_rung *rung, uint64_t most) {
  static const plim_knob order[] = {
      PLIM_KNOB_CHUNKED_LOSS, PLIM_KNOB_LIGER,      PLIM_KNOB_STRATEGY,     PLIM_KNOB_OFFLOAD,
      PLIM_KNOB_OPTIMIZER,    PLIM_KNOB_ATTENTION,  PLIM_KNOB_PRECISION,    PLIM_KNOB_DTYPE,
      PLIM_KNOB_CHECKPOINT,   PLIM_KNOB_ALLOC_CONF, PLIM_KNOB_CACHED_BATCH, PLIM_KNOB_MICRO_BATCH};
  const plim_choice *own = &s->plan->before_choice;
  const plim_rung *same = plim_search_run(s, &rung->choice); // as many passes as the others have
  plim_rung best = same ? *same : *rung;
  for (size_t i = 0; i < sizeof order / sizeof *order && !s->failed; i++) {
    plim_knob knob = order[i];
    if (rung->choice.at[knob] == own->at[knob] || follows(own, &rung->choice, knob)) continue;
    plim_choice back = turned_back(s, &rung->choice, knob);
    const plim_rung *x = may_be(s->r, &back) ? plim_search_run(s, &back) : NULL;
    if (x && knob == PLIM_KNOB_ALLOC_CONF && wants_pages(s, x, rung)) continue;
    if (x && is_as_good(s, *x, &best, most)) *rung = *x;
  }
}

// What the user has comes first if nothing is clearly faster.
static bool keeps_own(const plim_search *s, const plim_rung *fastest) {
  return may_be(s->r, &s->before.choice) && is_as_good(s, s->before, fastest, UINT64_MAX);
}

// ---- rungs ------------------------------------------------------------------------------------------

enum { MAX_RUNGS = 8 };
#define RUNG_STEP 0.97 // the next rung takes at least 3 % less memory, or it is none

// With more passes it must still fit, and be below the one above; the first is run in full.
static bool show(plim_search *s, const plim_choice *choice, uint64_t below, plim_rung *out) {
  bool is_first = below == UINT64_MAX;
  if (!plim_search_compare(s, choice, out) || !plim_is_safe(s->r, &out->e)) return false;
  if (is_first && !plim_search_show(s, choice, out)) return false;
  return plim_is_safe(s->r, &out->e) && out->e.device_bytes < below;
}

static void add_rung(plim_search *s, const plim_rung *found, uint64_t most) {
  plim_plan *plan = s->plan;
  plim_rung rung, simple = *found;
  uint64_t below =
      plan->rungs.len ? plan->rungs.at[plan->rungs.len - 1].e.device_bytes : UINT64_MAX;
  simplify(s, &simple, most);
  bool is_simpler = memcmp(&simple.choice, &found->choice, sizeof simple.choice) != 0;
  bool is_shown = show(s, &simple.choice, below, &rung) ||
                  (is_simpler && show(s, &found->choice, below, &rung));
  if (is_shown && !plan->rungs.len && keeps_own(s, &rung)) rung = s->before;
  if (is_shown && !s->failed && !vec_push(&plan->rungs, rung)) s->failed = true;
}

bool plim_own_is_candidate(const plim_search *s) {
  return may_be(s->r, &s->before.choice) && plim_is_safe(s->r, &s->before.e);
}

// The user's own settings are always a candidate.
static void add_own(plim_search *s) {
  plim_rung own = s->before;
  if (plim_own_is_candidate(s) && !vec_push(&s->fitting, own)) s->failed = true;
}

// The same with whole pages, where that saves enough to be a rung.
static void add_expandable(plim_search *s, const plim_level *level) {
  plim_domain confs = plim_level_domain(level, PLIM_KNOB_ALLOC_CONF);
  plim_choice choice = s->plan->rungs.at[0].choice;
  if (choice.at[PLIM_KNOB_ALLOC_CONF] == confs.at[0]) return;
  choice.at[PLIM_KNOB_ALLOC_CONF] = confs.at[0];
  const plim_rung *x = plim_search_run(s, &choice);
  uint64_t most = (uint64_t)(RUNG_STEP * (double)s->plan->rungs.at[0].e.device_bytes);
  if (!x || x->e.device_bytes > most) return;
  plim_rung found = *x;
  add_rung(s, &found, most);
}

static void sort(plim_search *s, bool has_times) {
  if (s->fitting.len)
    qsort(s->fitting.at, s->fitting.len, sizeof *s->fitting.at, has_times ? by_speed : by_changes);
}

// Two passes tell times within a few percent: those that are as near to the fastest are run with more.
enum { NEAREST = 4 };
#define NEAR 0.97

static void refine(plim_search *s) {
  for (size_t i = 0; i < s->fitting.len && i < NEAREST && !s->failed; i++) {
    plim_rung *x = &s->fitting.at[i], more;
    if (x->tokens_per_second < NEAR * s->fitting.at[0].tokens_per_second) return;
    if (!plim_search_compare(s, &x->choice, &more)) return;
    if (plim_is_safe(s->r, &more.e)) *x = more;
  }
}

// What links take is of data sheets: GPUs that share a run in one way are moved to another for no less than this,
// and one GPU that shares with nobody to a library for sharing.
#define WORTH_ANOTHER_WAY 0.1

static bool is_moved(const plim_search *s, const plim_rung *x) {
  const plim_choice *own = &s->plan->before_choice;
  return own->at[PLIM_KNOB_STRATEGY] != x->choice.at[PLIM_KNOB_STRATEGY];
}

static void prefer_own_way(plim_search *s) {
  plim_rung *all = s->fitting.at;
  if (!s->fitting.len || !is_moved(s, &all[0])) return;
  for (size_t i = 1; i < s->fitting.len; i++) {
    if (all[i].tokens_per_second < (1 - WORTH_ANOTHER_WAY) * all[0].tokens_per_second) return;
    if (is_moved(s, &all[i])) continue;
    plim_rung own = all[i];
    memmove(all + 1, all, i * sizeof *all);
    all[0] = own;
    return;
  }
}

void plim_build_ladder(plim_search *s, const plim_level *level) {
  plim_plan *plan = s->plan;
  add_own(s);
  bool has_times = s->fitting.len && !isnan(s->fitting.at[0].step_seconds);
  sort(s, has_times);
  if (has_times) refine(s);
  sort(s, has_times);
  if (has_times) prefer_own_way(s);
  for (size_t i = 0; i < s->fitting.len && plan->rungs.len < MAX_RUNGS && !s->failed; i++) {
    size_t had = plan->rungs.len;
    uint64_t most = UINT64_MAX;
    if (had) most = (uint64_t)(RUNG_STEP * (double)plan->rungs.at[had - 1].e.device_bytes);
    if (s->fitting.at[i].e.device_bytes > most) continue;
    plim_rung found = s->fitting.at[i];
    add_rung(s, &found, most);
    if (!had && plan->rungs.len && !s->failed) add_expandable(s, level);
  }
}

// ---- what the changes do ----------------------------------------------------------------------------

static void add_change(plim_search *s, plim_knob knob) {
  plim_plan *plan = s->plan;
  const plim_rung chosen = plan->rungs.at[0];
  const plim_choice *own = &plan->before_choice;
  plim_rung without;
  plim_plan_change change = {.knob = knob,
                             .with = companion(own, &chosen.choice, knob),
                             .from = own->at[knob],
                             .to = chosen.choice.at[knob]};
  plim_choice back = turned_back(s, &chosen.choice, knob);
  if (!plim_search_compare(s, &back, &without)) return;
  change.saves_bytes = (int64_t)without.e.device_bytes - (int64_t)chosen.e.device_bytes;
  change.costs_seconds = chosen.step_seconds - without.step_seconds;
  change.is_asked = !has_its_batch(s->r, &back);
  change.is_needed = !plim_is_safe(s->r, &without.e);
  if (!vec_push(&plan->changes, change)) s->failed = true;
  if (s->failed || change.with == PLIM_KNOBS) return;
  plim_plan_change other = {.knob = change.with,
                            .with = knob,
                            .follows = true,
                            .from = own->at[change.with],
                            .to = chosen.choice.at[change.with],
                            .costs_seconds = NAN,
                            .is_needed = change.is_needed};
  if (!vec_push(&plan->changes, other)) s->failed = true;
}

void plim_explain_changes(plim_search *s) {
  const plim_choice *own = &s->plan->before_choice;
  const plim_choice chosen = s->plan->rungs.at[0].choice;
  for (size_t i = 0; i < plim_plan_knob_count && !s->failed; i++) {
    plim_knob knob = plim_plan_knobs[i];
    if (own->at[knob] != chosen.at[knob] && !follows(own, &chosen, knob)) add_change(s, knob);
  }
}
