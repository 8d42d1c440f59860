// Levels of the search: what has to be conceded for something to fit, the least first.
//
// Most costs what changes what is learned, each step of it the same; then come those knobs first that
// the order of concessions has first. Going further without changing what is learned costs less than any
// such step, and the rounding of an optimizer's state, nearly exact, less than keeping it on the host. What
// the user would have to set up by hand comes behind one step of what is allowed.
#include <stdlib.h>
#include <string.h>

#include "plan_impl.h"

const plim_reach plim_reaches[] = {
    {0},
    {.own_loss = true},
    {.own_loss = true, .activations = true, .optimizer = true, .parameters = true},
    {.own_loss = true, .by_hand = true},
    {.own_loss = true, .by_hand = true, .activations = true, .optimizer = true, .parameters = true},
};
const size_t plim_reach_count = sizeof plim_reaches / sizeof *plim_reaches;

enum { ROUNDING = 1, FARTHER = 2, STEP = 16, MAX_CONCEDED = PLIM_MAX_CONCEDED };

typedef struct {
  const plim_search *s;
  plim_domain values[MAX_CONCEDED]; // of plim_conceded_knobs
} space;

static space space_of(const plim_search *s, bool is_offered) {
  space x = {.s = s};
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    x.values[i] = plim_knob_concessions(s->r, plim_conceded_knobs[i], is_offered);
  return x;
}

// What is on the host saves no more than it takes on the card: not worth it below this share of the card.
#define WORTH_SENDING 0.05

static bool is_much(const plim_search *s, plim_purpose first, plim_purpose last) {
  const plim_estimate *e = &s->before.e;
  uint64_t bytes = 0;
  for (int i = (int)first; i <= (int)last; i++) bytes += e->component_bytes[i];
  return e->budget_bytes == PLIM_UNKNOWN ||
         (double)bytes >= WORTH_SENDING * (double)e->budget_bytes;
}

plim_reach plim_reach_at(const plim_search *s, size_t index) {
  plim_reach reach = plim_reaches[index];
  reach.activations &= is_much(s, PLIM_FOR_ACTIVATIONS, PLIM_FOR_ACTIVATIONS);
  reach.optimizer &= is_much(s, PLIM_FOR_GRADIENTS, PLIM_FOR_OPTIMIZER);
  reach.parameters &= is_much(s, PLIM_FOR_WEIGHTS, PLIM_FOR_OPTIMIZER);
  return reach;
}

// ---- points of it -----------------------------------------------------------------------------------

typedef struct {
  int step[MAX_CONCEDED]; // in the values
  int reach;
  int cost, knobs;
} point;

typedef vec(point) point_list;

static int cost_of(const point *p) {
  int cost = FARTHER * p->reach + (plim_reaches[p->reach].by_hand ? STEP : 0);
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    cost += p->step[i] * (plim_conceded_knobs[i] == PLIM_KNOB_OPTIMIZER ? ROUNDING : STEP);
  return cost;
}

// The cheapest first; then fewer knobs; then those that come first in the order.
static int by_cost(const void *x, const void *y) {
  const point *a = x, *b = y;
  if (a->cost != b->cost) return a->cost - b->cost;
  if (a->knobs != b->knobs) return a->knobs - b->knobs;
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    if (a->step[i] != b->step[i]) return b->step[i] - a->step[i];
  return 0;
}

static bool add_points(const space *x, point p, size_t knob, point_list *out) {
  if (knob == plim_conceded_knob_count) {
    for (p.reach = 0; p.reach < (int)plim_reach_count; p.reach++) {
      p.cost = cost_of(&p);
      if (!vec_push(out, p)) return false;
    }
    return true;
  }
  for (int i = 0; i < (x->values[knob].count ? x->values[knob].count : 1); i++) {
    point next = p;
    next.step[knob] = i;
    next.knobs += i > 0;
    if (!add_points(x, next, knob + 1, out)) return false;
  }
  return true;
}

static plim_level level_at(const space *x, const point *p) {
  plim_level l = {.r = x->s->r, .reach = plim_reach_at(x->s, (size_t)p->reach), .cost = p->cost};
  l.at = plim_plan_own_choice(x->s->r);
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    if (x->values[i].count) l.at.at[plim_conceded_knobs[i]] = x->values[i].at[p->step[i]];
  return l;
}

plim_level plim_level_of(const plim_search *s) {
  space x = space_of(s, false);
  return level_at(&x, &(point){0});
}

// ---- finding one ------------------------------------------------------------------------------------

static bool reaches_no_further(const plim_reach *a, const plim_reach *b) {
  return a->own_loss <= b->own_loss && a->activations <= b->activations &&
         a->optimizer <= b->optimizer && a->parameters <= b->parameters && a->by_hand <= b->by_hand;
}

// What concedes no more, in no knob, fits no better.
static bool is_within(const point *p, const point *most) {
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    if (p->step[i] > most->step[i]) return false;
  return reaches_no_further(&plim_reaches[p->reach], &plim_reaches[most->reach]);
}

static bool is_known_to_fail(const point_list *failed, const point *p) {
  for (size_t i = 0; i < failed->len; i++)
    if (is_within(p, &failed->at[i])) return true;
  return false;
}

static bool fits(plim_search *s, const space *x, const point *p, point_list *failed) {
  plim_level level = level_at(x, p);
  if (is_known_to_fail(failed, p)) return false;
  if (plim_level_fits(s, &level, NULL)) return true;
  if (!vec_push(failed, *p)) s->failed = true;
  return false;
}

// The same knobs as far as they go: if that does not fit, none of them together will.
static point farthest(const space *x, const point *p) {
  point most = *p;
  most.reach = (int)plim_reach_count - 1;
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    if (p->step[i]) most.step[i] = x->values[i].count - 1;
  return most;
}

bool plim_find_level(plim_search *s, bool is_offered, size_t *from, plim_level *out) {
  space x = space_of(s, is_offered);
  point_list points = {0}, failed = {0};
  bool found = false;
  if (!add_points(&x, (point){0}, 0, &points)) s->failed = true;
  if (points.len) qsort(points.at, points.len, sizeof *points.at, by_cost);
  for (size_t i = *from; i < points.len && !found && !s->failed; i++) {
    *from = i + 1;
    point most = farthest(&x, &points.at[i]);
    if (points.at[i].cost && !fits(s, &x, &most, &failed)) continue;
    found = fits(s, &x, &points.at[i], &failed);
    if (found) *out = level_at(&x, &points.at[i]);
  }
  vec_free(&points);
  vec_free(&failed);
  return found && !s->failed;
}

// ---- what was not allowed ---------------------------------------------------------------------------

static bool is_open(const plim_plan_request *r, plim_knob knob) {
  return plim_knob_changes_learning(r, knob) && !r->allowed[knob] && !r->domains[knob].count;
}

static void add(plim_search *s, const plim_level *l, const plim_rung *got, bool is_safe) {
  plim_plan *plan = s->plan;
  plim_concession c = {.fits = is_safe, .device_bytes = plim_needed_bytes(&got->e)};
  const plim_rung *than = plan->rungs.len ? &plan->rungs.at[0] : &plan->smallest;
  plim_choice had = plan->rungs.len ? than->choice : plim_level_of(s).at;
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

// What one knob buys on top of the plan: its first step that is worth naming.
#define WORTH_NAMING 0.01 // of the plan's memory, at least

static void offer_saving(plim_search *s, plim_knob knob) {
  const plim_rung *plan = &s->plan->rungs.at[0];
  plim_domain d = plim_knob_concessions(s->r, knob, true);
  for (int i = 1; i < d.count && !s->failed; i++) {
    plim_level level = {.r = s->r, .at = plan->choice};
    plim_choice choice = plan->choice;
    choice.at[knob] = level.at.at[knob] = d.at[i];
    if (knob == PLIM_KNOB_MICRO_BATCH && !plim_set_accumulation(s->r, &choice)) continue;
    const plim_rung *x = plim_search_run(s, &choice);
    double saved = x ? (double)plan->e.device_bytes - (double)x->e.device_bytes : 0;
    if (saved < WORTH_NAMING * (double)plan->e.device_bytes) continue;
    add(s, &level, x, plim_is_safe(s->r, &x->e));
    return;
  }
}

// Whether the plan moves to the host what the user has on the card, beside activations.
static bool moves_to_host(const plim_plan *plan) {
  int64_t was = plan->before_choice.at[PLIM_KNOB_OFFLOAD];
  int64_t is = plan->rungs.at[0].choice.at[PLIM_KNOB_OFFLOAD];
  return is != was && is != PLIM_OFFLOAD_NONE && is != PLIM_OFFLOAD_ACTIVATIONS;
}

static const plim_rung *fastest_on(plim_search *s, const plim_level *level) {
  const plim_rung *best = NULL;
  s->fastest = 0;
  plim_search_level(s, level);
  for (size_t i = 0; i < s->fitting.len && !s->failed; i++)
    if (!best || s->fitting.at[i].tokens_per_second > best->tokens_per_second)
      best = &s->fitting.at[i];
  return best;
}

// As far as can be without moving to the host what the plan moves there.
static plim_reach reach_without(const plim_search *s, int64_t offload) {
  plim_reach reach = plim_reach_at(s, plim_reach_count - 1);
  reach.parameters = false;
  if (offload == PLIM_OFFLOAD_OPTIMIZER) reach.optimizer = false;
  return reach;
}

// The least of a knob that fits on the level; false: none of it does.
static bool least_that_fits(plim_search *s, plim_knob knob, plim_level *level) {
  plim_domain d = plim_knob_concessions(s->r, knob, true);
  if (d.count < 2) return false;
  level->at.at[knob] = d.at[d.count - 1];
  if (!plim_level_fits(s, level, NULL)) return false;
  for (int i = 1; i < d.count - 1 && !s->failed; i++) {
    level->at.at[knob] = d.at[i];
    if (plim_level_fits(s, level, NULL)) return true;
  }
  level->at.at[knob] = d.at[d.count - 1];
  return true;
}

// Where the plan moves to the host, which is slow: what one knob takes that makes this needless. False: none does.
static bool offer_instead(plim_search *s, plim_knob knob) {
  const plim_choice *plan = &s->plan->rungs.at[0].choice;
  plim_level level = plim_level_of(s);
  level.reach = reach_without(s, plan->at[PLIM_KNOB_OFFLOAD]);
  if (!least_that_fits(s, knob, &level)) return false;
  const plim_rung *best = fastest_on(s, &level);
  if (!best) return false;
  plim_rung shown = *best;
  plim_level told = {.r = s->r, .at = *plan};
  told.at.at[knob] = level.at.at[knob];
  size_t before = s->plan->concessions.len;
  add(s, &told, &shown, true);
  if (s->plan->concessions.len > before) s->plan->concessions.at[before].is_instead = true;
  return true;
}

// What one knob would take where nothing fits: the least of it that does, or the most it can do.
static bool offer_fitting(plim_search *s, plim_knob knob, const plim_level *base,
                          const plim_rung *without) {
  plim_domain d = plim_knob_concessions(s->r, knob, true);
  plim_rung smallest = {0};
  plim_level level = *base;
  bool fits = false;
  for (int i = 1; i < d.count && !fits && !s->failed; i++) {
    level.at.at[knob] = d.at[i];
    fits = plim_level_fits(s, &level, NULL);
  }
  if (d.count > 1) plim_level_fits(s, &level, &smallest);
  double needed = (double)plim_needed_bytes(&smallest.e);
  bool helps = needed < (1 - WORTH_NAMING) * (double)plim_needed_bytes(&without->e);
  s->plan->smallest = *without; // of what may be: offers are none
  if (smallest.e.device_bytes && (fits || helps) && !s->failed) add(s, &level, &smallest, fits);
  return fits;
}

// Several together, where no single one is enough.
static void offer_several(plim_search *s, const plim_rung *without) {
  plim_level level;
  plim_rung smallest;
  size_t from = 0;
  bool fits = plim_find_level(s, true, &from, &level) && plim_level_fits(s, &level, &smallest);
  s->plan->smallest = *without;
  if (fits) add(s, &level, &smallest, true);
}

void plim_list_concessions(plim_search *s) {
  plim_level base = plim_level_of(s);
  plim_rung smallest = s->plan->smallest;
  bool fits = false;
  base.reach = plim_reach_at(s, plim_reach_count - 1);
  for (size_t i = 0; i < plim_conceded_knob_count && !s->failed; i++) {
    plim_knob knob = plim_conceded_knobs[i];
    if (!is_open(s->r, knob)) continue;
    if (s->plan->rungs.len && moves_to_host(s->plan) && offer_instead(s, knob)) continue;
    if (s->plan->rungs.len) offer_saving(s, knob);
    else fits |= offer_fitting(s, knob, &base, &smallest);
  }
  if (!s->plan->rungs.len && !fits && !s->failed) offer_several(s, &smallest);
  s->plan->smallest = smallest;
}
