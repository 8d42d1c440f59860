// Concession levels: what must be conceded for something to fit, the cheapest first.
//
// Steps that change what the model learns cost most, each step the same; among equal costs, the order of
// plim_conceded_knobs decides. Moving something to the host costs less than any such step. Rounding the optimizer's
// state is nearly exact and costs less than keeping it on the host.
#include <stdlib.h>
#include <string.h>

#include "plan_impl.h"

#include "sort.h"

enum { ROUNDING = 1, FARTHER = 2, STEP = 16, MAX_CONCEDED = PLIM_MAX_CONCEDED };

typedef struct {
  const plim_search *s;
  bool is_easy, on_card;
  plim_domain values[MAX_CONCEDED]; // for each of plim_conceded_knobs
} space;

static space space_of(const plim_search *s, bool is_offered) {
  space x = {.s = s};
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    x.values[i] = plim_knob_concessions(s->r, plim_conceded_knobs[i], is_offered);
  return x;
}

// Offloading saves at most what it occupies on the card: not worth trying below this fraction of the card.
#define WORTH_SENDING 0.05

static bool is_much(const plim_search *s, plim_purpose first, plim_purpose last) {
  const plim_estimate *e = &s->before.e;
  uint64_t bytes = 0;
  for (int i = (int)first; i <= (int)last; i++) bytes += e->component_bytes[i];
  return e->budget_bytes == PLIM_UNKNOWN ||
         (double)bytes >= WORTH_SENDING * (double)e->budget_bytes;
}

plim_offload_scope plim_offload_scope_of(const plim_search *s) {
  return (plim_offload_scope){.activations = is_much(s, PLIM_FOR_ACTIVATIONS, PLIM_FOR_ACTIVATIONS),
                              .optimizer = is_much(s, PLIM_FOR_GRADIENTS, PLIM_FOR_OPTIMIZER),
                              .parameters = is_much(s, PLIM_FOR_WEIGHTS, PLIM_FOR_OPTIMIZER)};
}

// ---- points in that space ---------------------------------------------------------------------------

typedef struct {
  int step[MAX_CONCEDED]; // index into the values
  bool on_host;
  int cost, knobs;
} point;

typedef vec(point) point_list;

static int cost_of(const point *p) {
  int cost = p->on_host ? FARTHER : 0;
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    cost += p->step[i] * (plim_conceded_knobs[i] == PLIM_KNOB_OPTIMIZER ? ROUNDING : STEP);
  return cost;
}

// By cost, then by the number of knobs, then by the order of the knobs.
static int by_cost(const void *x, const void *y) {
  const point *a = x, *b = y;
  if (a->cost != b->cost) return a->cost - b->cost;
  if (a->knobs != b->knobs) return a->knobs - b->knobs;
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    if (a->step[i] != b->step[i]) return b->step[i] - a->step[i];
  return 0;
}

static bool add_point(point p, bool on_host, point_list *out) {
  p.on_host = on_host;
  p.cost = cost_of(&p);
  return vec_push(out, p);
}

static bool add_points(const space *x, point p, size_t knob, point_list *out) {
  if (knob == plim_conceded_knob_count)
    return !p.knobs || (add_point(p, false, out) && (x->on_card || add_point(p, true, out)));
  for (int i = 0; i < (x->values[knob].count ? x->values[knob].count : 1); i++) {
    point next = p;
    next.step[knob] = i;
    next.knobs += i > 0;
    if (!add_points(x, next, knob + 1, out)) return false;
  }
  return true;
}

static plim_concessions concessions_at(const space *x, const point *p) {
  plim_concessions l = {.r = x->s->r, .is_easy = x->is_easy, .cost = p->cost};
  if (p->on_host) l.scope = plim_offload_scope_of(x->s);
  l.at = plim_plan_own_choice(x->s->r);
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    if (x->values[i].count) l.at.at[plim_conceded_knobs[i]] = x->values[i].at[p->step[i]];
  return l;
}

plim_concessions plim_concession_of(const plim_search *s) {
  space x = space_of(s, false);
  return concessions_at(&x, &(point){0});
}

plim_concessions plim_concession_of_all(const plim_search *s, bool is_offered) {
  space x = space_of(s, is_offered);
  point most = {.on_host = true, .cost = STEP};
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    if (x.values[i].count) most.step[i] = x.values[i].count - 1;
  return concessions_at(&x, &most);
}

// ---- finding one ------------------------------------------------------------------------------------

// Whether the own optimizer rounds its state: another one then needs more memory, unless its state is on the host.
static bool is_rounded(const space *x) {
  return plim_optimizer_rounds(x->s->r->job.recipe.optimizer);
}

// Whether p concedes no more than `most` in any knob; then it cannot fit better.
static bool is_within(const space *x, const point *p, const point *most) {
  for (size_t i = 0; i < plim_conceded_knob_count; i++) {
    bool is_other = plim_conceded_knobs[i] == PLIM_KNOB_OPTIMIZER && is_rounded(x);
    if (p->step[i] > most->step[i] || (is_other && p->step[i] != most->step[i])) return false;
  }
  return p->on_host <= most->on_host;
}

static bool is_known_to_fail(const space *x, const point_list *failed, const point *p) {
  for (size_t i = 0; i < failed->len; i++)
    if (is_within(x, p, &failed->at[i])) return true;
  return false;
}

static bool fits(plim_search *s, const space *x, const point *p, point_list *failed) {
  plim_concessions concessions = concessions_at(x, p);
  if (is_known_to_fail(x, failed, p)) return false;
  if (plim_concession_fits(s, &concessions)) return true;
  if (!vec_push(failed, *p)) s->failed = true;
  return false;
}

// The same knobs, each at its last value: if that does not fit, no combination of them does.
static point farthest(const space *x, const point *p) {
  point most = *p;
  most.on_host = !x->on_card;
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    if (p->step[i]) most.step[i] = x->values[i].count - 1;
  return most;
}

bool plim_find_concessions(plim_search *s, plim_concession_kind kind, size_t *from,
                           plim_concessions *out) {
  space x = space_of(s, kind.is_offered);
  x.is_easy = kind.is_easy;
  x.on_card = kind.is_easy || kind.on_card;
  point_list points = {0}, failed = {0};
  bool found = false;
  if (!add_points(&x, (point){0}, 0, &points)) s->failed = true;
  if (points.len) plim_sort(points.at, points.len, sizeof *points.at, by_cost);
  for (size_t i = *from; i < points.len && !found && !s->failed; i++) {
    *from = i + 1;
    point most = farthest(&x, &points.at[i]);
    if (!fits(s, &x, &most, &failed)) continue;
    found = fits(s, &x, &points.at[i], &failed);
    if (found) *out = concessions_at(&x, &points.at[i]);
  }
  vec_free(&points);
  vec_free(&failed);
  return found && !s->failed;
}
