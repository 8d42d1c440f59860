#include "plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_impl.h"

// ---- one candidate ----------------------------------------------------------------------------------

typedef struct {
  const plim_plan_request *r;
  plim_plan *plan;
  vec(plim_rung) fitting;
  plim_rung before; // the user's own settings, run in full
  bool fits_whole;  // something does: DDP
  bool failed;
  plim_err err;
  plim_error *error;
} search;

// In a search, two forward passes per step and two steps stand for all of them: by then gradients stay
// through a forward pass, and the optimizer's state is there. What is shown is run in full.
enum { SEARCH_PASSES = 2, SEARCH_STEPS = 2 };
// What is shown has three steps of at most so many passes: the others do the same again.
enum { SHOWN_PASSES = 8 };

static plim_target target_of(const search *s, const plim_choice *choice, plim_alloc_conf *conf) {
  plim_target target = s->r->target;
  plim_alloc_conf_parse(plim_choice_conf(s->r, choice), conf, NULL);
  target.conf = conf;
  return target;
}

// What a share of the card's memory must stay free of.
static uint64_t usable_bytes(const plim_plan_request *r) {
  uint64_t budget = r->target.budget_bytes;
  if (budget == PLIM_UNKNOWN || r->margin < 0) return budget;
  return (uint64_t)((double)budget * (1 - r->margin));
}

static bool is_safe(const plim_plan_request *r, const plim_estimate *e) {
  if (!e->has_verdict) return true;
  uint64_t bytes = r->margin < 0 ? e->interval_bytes[1] : e->device_bytes;
  return e->fits && (r->target.budget_bytes == PLIM_UNKNOWN || bytes <= usable_bytes(r));
}

static plim_err estimate(const search *s, const plim_choice *choice, bool in_full,
                         plim_estimate *out) {
  plim_alloc_conf conf;
  plim_job job = plim_choice_job(s->r, choice);
  plim_target target = target_of(s, choice, &conf);
  int passes = in_full ? SHOWN_PASSES : SEARCH_PASSES;
  if (!in_full) job.recipe.steps = SEARCH_STEPS;
  if (job.recipe.accumulate > passes) job.recipe.accumulate = passes;
  return plim_estimate_make(&job, &target, out, s->error);
}

plim_err plim_choice_estimate(const plim_plan_request *r, const plim_choice *choice,
                              plim_estimate *out, plim_error *error) {
  search s = {.r = r, .error = error};
  plim_err err = estimate(&s, choice, true, out);
  if (!err) out->fits = is_safe(r, out);
  return err;
}

// Passes that were left out take as long as the last one that was not.
static void fill_time(const plim_plan_request *r, plim_rung *rung, int passes) {
  const plim_estimate *e = &rung->e;
  int64_t left_out = rung->choice.at[PLIM_KNOB_ACCUMULATE] - passes;
  rung->step_seconds = e->step_seconds + (left_out > 0 ? (double)left_out * e->pass_seconds : 0);
  double tokens =
      (double)(rung->choice.at[PLIM_KNOB_MICRO_BATCH] * rung->choice.at[PLIM_KNOB_ACCUMULATE] *
               rung->choice.at[PLIM_KNOB_SEQUENCE] * plim_choice_sequences(&rung->choice) *
               r->world);
  rung->tokens_per_second = tokens / rung->step_seconds;
  double hidden = fmax(0, e->p.step.sent_seconds - e->p.step.waited_seconds);
  rung->hidden_seconds = hidden * fmax(1, (double)rung->choice.at[PLIM_KNOB_ACCUMULATE] / passes);
}

// How much a knob asks of the user: a loss in chunks takes more than a line, Liger a package.
static int effort(plim_knob knob) {
  return knob == PLIM_KNOB_CHUNKED_LOSS ? 4 : knob == PLIM_KNOB_LIGER ? 2 : 1;
}

static int distance(const plim_choice *a, const plim_choice *b) {
  int n = 0;
  for (size_t i = 0; i < plim_plan_knob_count; i++) {
    plim_knob knob = plim_plan_knobs[i];
    if (a->at[knob] != b->at[knob]) n += effort(knob);
  }
  return n;
}

// False: it could not be run, and s->err says why.
static bool run(search *s, const plim_choice *choice, bool in_full, plim_rung *out) {
  *out = (plim_rung){.choice = *choice, .changes = distance(choice, &s->plan->before_choice)};
  s->plan->tried++;
  s->err = estimate(s, choice, in_full, &out->e);
  if (s->err) return false;
  int64_t passes = choice->at[PLIM_KNOB_ACCUMULATE], most = in_full ? SHOWN_PASSES : SEARCH_PASSES;
  fill_time(s->r, out, (int)(passes < most ? passes : most));
  return true;
}

// ---- the search -------------------------------------------------------------------------------------

static bool set_accumulation(const plim_plan_request *r, plim_choice *choice) {
  int64_t at_once = choice->at[PLIM_KNOB_MICRO_BATCH] * r->world;
  if (at_once < 1) return false;
  int64_t passes = r->effective_batch ? (int64_t)r->effective_batch / at_once : 1;
  const plim_domain *d = &r->domains[PLIM_KNOB_ACCUMULATE];
  if (r->effective_batch && passes * at_once != (int64_t)r->effective_batch) return false;
  if (!r->effective_batch && d->count) passes = d->at[0];
  choice->at[PLIM_KNOB_ACCUMULATE] = passes;
  bool is_allowed = !d->count;
  for (int i = 0; i < d->count; i++) is_allowed |= d->at[i] == passes;
  return is_allowed;
}

static void keep_smallest(plim_plan *plan, const plim_rung *rung) {
  if (!plan->smallest.e.device_bytes || rung->e.device_bytes < plan->smallest.e.device_bytes)
    plan->smallest = *rung;
}

// More at once takes more memory: the first that does not fit ends the row.
static void try_batches(search *s, plim_choice choice) {
  plim_domain batches = plim_knob_domain(s->r, PLIM_KNOB_MICRO_BATCH);
  for (int i = 0; i < batches.count && !s->failed; i++) {
    plim_rung rung;
    choice.at[PLIM_KNOB_MICRO_BATCH] = batches.at[i];
    if (!set_accumulation(s->r, &choice)) continue;
    if (!run(s, &choice, false, &rung)) {
      s->failed = s->err != PLIM_ERR_UNSUPPORTED; // a combination without a program is passed over
      return;
    }
    keep_smallest(s->plan, &rung);
    if (!is_safe(s->r, &rung.e)) return;
    if (!vec_push(&s->fitting, rung)) s->failed = true;
  }
}

// Every combination of the other knobs.
static void try_knobs(search *s, plim_choice choice, size_t from) {
  if (s->failed) return;
  if (from == plim_plan_knob_count) {
    if (plim_choice_is_sound(s->r, &choice)) try_batches(s, choice);
    return;
  }
  plim_knob knob = plim_plan_knobs[from];
  if (knob == PLIM_KNOB_MICRO_BATCH || knob == PLIM_KNOB_ACCUMULATE) {
    try_knobs(s, choice, from + 1);
    return;
  }
  plim_domain d = plim_knob_domain(s->r, knob);
  for (int i = 0; i < d.count; i++) {
    choice.at[knob] = d.at[i];
    try_knobs(s, choice, from + 1);
  }
}

static bool is_tried(const plim_plan_request *r, plim_knob knob, int64_t value) {
  const plim_domain *d = &r->domains[knob];
  for (int i = 0; i < d->count; i++)
    if (d->at[i] == value) return true;
  return !d->count;
}

static void try_way(search *s, plim_plan_request *asked, const plim_plan_request *all,
                    plim_knob_pair way) {
  if (!is_tried(all, PLIM_KNOB_STRATEGY, way.strategy) ||
      !is_tried(all, PLIM_KNOB_OFFLOAD, way.offload))
    return;
  asked->domains[PLIM_KNOB_STRATEGY] = (plim_domain){1, {way.strategy}};
  asked->domains[PLIM_KNOB_OFFLOAD] = (plim_domain){1, {way.offload}};
  try_knobs(s, s->plan->before_choice, 0);
}

static bool is_same_way(plim_knob_pair a, plim_knob_pair b) {
  return a.strategy == b.strategy && a.offload == b.offload;
}

static plim_knob_pair own_way(const search *s) {
  const int64_t *had = s->plan->before_choice.at;
  return (plim_knob_pair){had[PLIM_KNOB_STRATEGY], had[PLIM_KNOB_OFFLOAD]};
}

static void try_other_ways(search *s, plim_plan_request *asked, const plim_plan_request *all,
                           bool by_hand) {
  for (size_t i = 0; i < plim_sharding_order_count && !s->failed; i++) {
    plim_knob_pair way = plim_sharding_order[i];
    bool is_asked_for = all->by_hand[way.strategy][way.offload] == by_hand;
    bool is_too_much = way.offload && s->fitting.len;
    if (is_asked_for && !is_too_much && !is_same_way(way, own_way(s))) try_way(s, asked, all, way);
  }
}

// Several GPUs: the user's own way to share, and all that keep everything on the cards. What goes to the
// host is slower, and tried where nothing else fits; so is what the user would have to do by hand.
static void try_ways_to_share(search *s) {
  plim_plan_request asked = *s->r;
  const plim_plan_request *all = s->r;
  s->r = &asked;
  if (own_way(s).strategy != PLIM_SHARD_NONE) try_way(s, &asked, all, own_way(s));
  try_other_ways(s, &asked, all, false);
  if (!s->fitting.len) try_other_ways(s, &asked, all, true);
  s->r = all;
}

static void try_free_knobs(search *s) {
  bool is_held = s->r->holds_others && !s->r->domains[PLIM_KNOB_STRATEGY].count;
  if (s->r->world > 1 && !is_held) try_ways_to_share(s);
  else try_knobs(s, s->plan->before_choice, 0);
}

// No further than it takes: one value more at a time.
static void try_allowed(search *s) {
  plim_plan_request bounded = *s->r;
  const plim_plan_request *asked = s->r;
  s->r = &bounded;
  for (bounded.reach = 1; bounded.reach < PLIM_MAX_VALUES; bounded.reach++)
    if (!s->fitting.len && !s->failed && plim_reach_counts(asked, bounded.reach)) try_free_knobs(s);
  s->r = asked;
}

// What changes what is learned is turned only where nothing fits without it, even if it is allowed; a
// loss of one's own is written only where Liger's is not enough.
static void try_all(search *s) {
  plim_plan_request strict = *s->r;
  const plim_plan_request *asked = s->r;
  memset(strict.allowed, 0, sizeof strict.allowed);
  s->r = &strict;
  try_free_knobs(s);
  if (strict.offers_liger && !s->fitting.len && !s->failed) {
    strict.offers_liger = false;
    try_free_knobs(s);
  }
  s->r = asked;
  bool is_any_allowed = memcmp(strict.allowed, asked->allowed, sizeof strict.allowed) != 0;
  if (is_any_allowed) try_allowed(s);
}

// ---- the ladder -------------------------------------------------------------------------------------

// Times this close are the same: the clock is not better than that.
#define SAME_TIME 0.01

// Classes instead of distances, so that the order is one.
static int speed_class(const plim_rung *x) {
  return (int)floor(log(x->tokens_per_second) / log(1 + SAME_TIME));
}

// The place in the order of ways to share; without a way: the first.
static int way_of(const plim_rung *x) {
  plim_knob_pair own = {x->choice.at[PLIM_KNOB_STRATEGY], x->choice.at[PLIM_KNOB_OFFLOAD]};
  for (size_t i = 0; i < plim_sharding_order_count; i++)
    if (is_same_way(plim_sharding_order[i], own)) return (int)i;
  return 0;
}

// Links were not measured. Where something fits whole on every GPU, another way to share counts, and is
// shown, as if nothing of what it sends were hidden behind the computing.
static void doubt_links(const search *s, plim_rung *x) {
  if (!s->fits_whole || x->choice.at[PLIM_KNOB_STRATEGY] == PLIM_SHARD_DDP) return;
  x->tokens_per_second *= x->step_seconds / (x->step_seconds + x->hidden_seconds);
  x->step_seconds += x->hidden_seconds;
}

static void doubt_all(search *s) {
  for (size_t i = 0; i < s->fitting.len; i++)
    s->fits_whole |= s->fitting.at[i].choice.at[PLIM_KNOB_STRATEGY] == PLIM_SHARD_DDP;
  for (size_t i = 0; i < s->fitting.len; i++) doubt_links(s, &s->fitting.at[i]);
}

// Of those that are as fast, the one that sends least.
static int by_speed(const void *x, const void *y) {
  const plim_rung *a = x, *b = y;
  int fast = speed_class(b), slow = speed_class(a);
  if (fast != slow) return fast > slow ? 1 : -1;
  if (way_of(a) != way_of(b)) return way_of(a) - way_of(b);
  if (a->e.device_bytes != b->e.device_bytes) return a->e.device_bytes > b->e.device_bytes ? 1 : -1;
  return a->changes - b->changes;
}

// Without rates there is no order by time: what changes least comes first, then what saves most.
static int by_changes(const void *x, const void *y) {
  const plim_rung *a = x, *b = y;
  if (a->changes != b->changes) return a->changes - b->changes;
  return (a->e.device_bytes > b->e.device_bytes) - (a->e.device_bytes < b->e.device_bytes);
}

enum { MAX_RUNGS = 8 };
#define RUNG_STEP 0.97 // the next rung takes at least 3 % less memory, or it is none

// What the user has comes first if nothing is clearly faster.
static bool keeps_own(const search *s, const plim_rung *fastest) {
  const plim_rung *own = &s->before;
  int64_t batch = own->choice.at[PLIM_KNOB_MICRO_BATCH] * own->choice.at[PLIM_KNOB_ACCUMULATE];
  bool is_same_batch =
      !s->r->effective_batch || batch * s->r->world == (int64_t)s->r->effective_batch;
  bool is_tried = true;
  for (size_t i = 0; i < plim_plan_knob_count; i++) {
    const plim_domain *d = &s->r->domains[plim_plan_knobs[i]];
    bool found = !d->count;
    for (int k = 0; k < d->count; k++) found |= d->at[k] == own->choice.at[plim_plan_knobs[i]];
    is_tried = is_tried && found;
  }
  return is_tried && is_same_batch && is_safe(s->r, &own->e) &&
         own->tokens_per_second >= (1 - SAME_TIME) * fastest->tokens_per_second;
}

// What is to be shown is run in full, and must still fit.
static void build_ladder(search *s) {
  plim_plan *plan = s->plan;
  uint64_t last = UINT64_MAX;
  bool has_times = s->fitting.len && !isnan(s->fitting.at[0].step_seconds);
  if (has_times) doubt_all(s);
  if (s->fitting.len)
    qsort(s->fitting.at, s->fitting.len, sizeof *s->fitting.at, has_times ? by_speed : by_changes);
  for (size_t i = 0; i < s->fitting.len && plan->rungs.len < MAX_RUNGS && !s->failed; i++) {
    plim_rung rung;
    if (last != UINT64_MAX && (double)s->fitting.at[i].e.device_bytes > RUNG_STEP * (double)last)
      continue;
    if (!run(s, &s->fitting.at[i].choice, true, &rung)) s->failed = true;
    else if (is_safe(s->r, &rung.e) && rung.e.device_bytes < last) {
      doubt_links(s, &rung);
      if (!plan->rungs.len && keeps_own(s, &rung)) rung = s->before;
      last = rung.e.device_bytes;
      if (!vec_push(&plan->rungs, rung)) s->failed = true;
    }
  }
}

// ---- what the changes do ----------------------------------------------------------------------------

static bool is_changed(const plim_plan *plan, plim_knob knob) {
  return plan->before_choice.at[knob] != plan->rungs.at[0].choice.at[knob];
}

// The knob that goes with this one.
static plim_knob companion(const plim_plan *plan, plim_knob knob) {
  if (knob == PLIM_KNOB_MICRO_BATCH) return PLIM_KNOB_ACCUMULATE;
  bool has_types = knob == PLIM_KNOB_PRECISION && is_changed(plan, PLIM_KNOB_DTYPE);
  return has_types ? PLIM_KNOB_DTYPE : PLIM_KNOBS;
}

static void add_change(search *s, plim_knob knob) {
  plim_plan *plan = s->plan;
  const plim_rung *chosen = &plan->rungs.at[0];
  plim_rung without;
  plim_choice choice = chosen->choice;
  plim_plan_change change = {knob, companion(plan, knob), plan->before_choice.at[knob],
                             choice.at[knob]};
  choice.at[knob] = change.from;
  bool is_set = knob == PLIM_KNOB_MICRO_BATCH && set_accumulation(s->r, &choice);
  if (!is_set && change.with != PLIM_KNOBS)
    choice.at[change.with] = plan->before_choice.at[change.with];
  if (!run(s, &choice, true, &without)) {
    s->failed = true;
    return;
  }
  change.saves_bytes = (int64_t)without.e.device_bytes - (int64_t)chosen->e.device_bytes;
  change.costs_seconds = chosen->step_seconds - without.step_seconds;
  change.is_needed = !is_safe(s->r, &without.e);
  if (!vec_push(&plan->changes, change)) s->failed = true;
}

static bool is_companion(const plim_plan *plan, plim_knob knob) {
  return knob == PLIM_KNOB_ACCUMULATE ||
         (knob == PLIM_KNOB_DTYPE && is_changed(plan, PLIM_KNOB_PRECISION));
}

static void explain_changes(search *s) {
  for (size_t i = 0; i < plim_plan_knob_count && !s->failed; i++) {
    plim_knob knob = plim_plan_knobs[i];
    if (is_changed(s->plan, knob) && !is_companion(s->plan, knob)) add_change(s, knob);
  }
}

// ---- what was not allowed ---------------------------------------------------------------------------

// The values of a knob that a concession may take, and the user's own first.
static plim_domain offered(const plim_plan_request *r, plim_knob knob) {
  plim_plan_request asked = *r;
  asked.allowed[knob] = true;
  if (knob == PLIM_KNOB_MICRO_BATCH) return plim_smaller_batches(r);
  return plim_knob_domain(&asked, knob);
}

static bool is_open(const plim_plan_request *r, plim_knob knob) {
  return plim_knob_changes_learning(r, knob) && !r->allowed[knob] && !r->domains[knob].count;
}

static void concede(search *s, const plim_concession *asked, const plim_choice *base) {
  plim_rung rung;
  plim_choice choice = *base;
  plim_concession c = *asked;
  for (int i = 0; i < c.count; i++) choice.at[c.knob[i]] = c.to[i];
  if (!set_accumulation(s->r, &choice)) return;
  if (!run(s, &choice, false, &rung)) {
    s->failed = s->err == PLIM_ERR_NOMEM; // otherwise there is no program for it
    return;
  }
  c.fits = is_safe(s->r, &rung.e);
  c.device_bytes = rung.e.device_bytes;
  c.tokens_per_second = rung.tokens_per_second;
  if (!vec_push(&s->plan->concessions, c)) s->failed = true;
}

static bool last_fits(const plim_plan *plan) {
  return plan->concessions.len && plan->concessions.at[plan->concessions.len - 1].fits;
}

// One knob: the least that fits; if nothing does, the most it can do.
static void concede_one(search *s, plim_knob knob, const plim_choice *base) {
  plim_domain d = offered(s->r, knob);
  size_t had = s->plan->concessions.len;
  for (int i = 1; i < d.count && !s->failed; i++) {
    s->plan->concessions.len = had;
    concede(s, &(plim_concession){1, {knob}, {base->at[knob]}, {d.at[i]}}, base);
    if (last_fits(s->plan)) return;
  }
  if (s->plan->rungs.len) s->plan->concessions.len = had; // it would not help
}

// Two knobs: one as far as it goes, the other by the least that fits.
static void concede_two(search *s, plim_knob a, plim_knob b, const plim_choice *base) {
  plim_domain most = offered(s->r, a), d = offered(s->r, b);
  size_t had = s->plan->concessions.len;
  if (most.count < 2) return;
  for (int i = 1; i < d.count && !s->failed; i++) {
    s->plan->concessions.len = had;
    concede(s,
            &(plim_concession){
                2, {a, b}, {base->at[a], base->at[b]}, {most.at[most.count - 1], d.at[i]}},
            base);
    if (last_fits(s->plan)) return;
  }
  s->plan->concessions.len = had;
}

static void list_concessions(search *s) {
  static const plim_knob pairs[][2] = {{PLIM_KNOB_QUANTISATION, PLIM_KNOB_LORA_RANK},
                                       {PLIM_KNOB_QUANTISATION, PLIM_KNOB_SEQUENCE},
                                       {PLIM_KNOB_LORA_RANK, PLIM_KNOB_SEQUENCE}};
  plim_plan *plan = s->plan;
  plim_choice base = plan->rungs.len ? plan->rungs.at[0].choice : plan->smallest.choice;
  bool fits = false;
  for (size_t i = 0; i < plim_plan_knob_count && !s->failed; i++)
    if (is_open(s->r, plim_plan_knobs[i])) concede_one(s, plim_plan_knobs[i], &base);
  for (size_t i = 0; i < plan->concessions.len; i++) fits |= plan->concessions.at[i].fits;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs && !fits && !s->failed; i++)
    if (is_open(s->r, pairs[i][0]) && is_open(s->r, pairs[i][1])) {
      concede_two(s, pairs[i][0], pairs[i][1], &base);
      fits = last_fits(plan);
    }
}

// ---- the plan ---------------------------------------------------------------------------------------

static plim_err check_request(const plim_plan_request *r, plim_error *error) {
  if (r->effective_batch % (uint64_t)r->world) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                             "an effective batch of %llu does not divide among %d GPUs",
                             (unsigned long long)r->effective_batch, r->world);
    plim_error_hint(error, "--effective-batch %llu",
                    (unsigned long long)(r->effective_batch / (uint64_t)r->world + 1) *
                        (unsigned long long)r->world);
    return err;
  }
  return PLIM_OK;
}

static plim_err nothing_divides(const plim_plan_request *r, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "no micro batch and accumulation that may be tried make a batch of %llu",
                           (unsigned long long)r->effective_batch);
  plim_error_hint(error, "--effective-batch any, or other values for --try and --fix");
  return err;
}

static plim_err out_of_memory(plim_error *error) {
  return plim_fail(error, PLIM_ERR_NOMEM, "not enough memory on this machine");
}

plim_err plim_plan_make(const plim_plan_request *request, plim_plan *out, plim_error *error) {
  *out = (plim_plan){.before_choice = plim_plan_own_choice(request),
                     .effective_batch = request->effective_batch};
  search s = {.r = request, .plan = out, .error = error};
  plim_rung before;
  plim_err err = check_request(request, error);
  if (err) return err;
  if (!run(&s, &out->before_choice, true, &before)) return s.err;
  s.before = before;
  out->before = before.e;
  out->before_seconds = before.step_seconds;
  try_all(&s);
  if (!s.failed && !out->smallest.e.device_bytes) {
    vec_free(&s.fitting);
    return nothing_divides(request, error);
  }
  if (!s.failed) build_ladder(&s);
  if (!s.failed && out->rungs.len) explain_changes(&s);
  if (!s.failed) list_concessions(&s);
  vec_free(&s.fitting);
  err = !s.failed ? plim_plan_check(request, out, error) : s.err ? s.err : out_of_memory(error);
  if (err) plim_plan_clear(out);
  return err;
}

void plim_plan_clear(plim_plan *plan) {
  vec_free(&plan->rungs);
  vec_free(&plan->changes);
  vec_free(&plan->concessions);
}
