// Runs one candidate of the planner: how much memory it takes, how long, and whether it fits.
#include <math.h>
#include <string.h>

#include "plan_impl.h"

// In a search, two steps of two forward passes represent all of them: by then gradients live through a forward pass and
// the optimizer's state exists.
enum { SEARCH_STEPS = 2 };
// What is shown runs three steps of at most PLIM_SHOWN_PASSES passes; further passes repeat. Fragmentation can grow in
// every one of them, so figures that are compared with each other all come from such runs.

// ---- does it fit ------------------------------------------------------------------------------------

// The card's memory without the fraction that must stay free.
static uint64_t usable_bytes(const plim_plan_request *r) {
  uint64_t budget = r->target.budget_bytes;
  if (budget == PLIM_UNKNOWN || r->margin < 0) return budget;
  return (uint64_t)((double)budget * (1 - r->margin));
}

static bool is_over_own(const plim_plan_request *r, const plim_estimate *e) {
  return r->most_bytes && plim_needed_bytes(e) > r->most_bytes;
}

bool plim_is_safe(const plim_plan_request *r, const plim_estimate *e) {
  if (!e->has_verdict) return true;
  uint64_t bytes = r->margin < 0 ? e->interval_bytes[1] : e->device_bytes;
  if (!e->fits || is_over_own(r, e)) return false;
  return r->target.budget_bytes == PLIM_UNKNOWN || bytes <= usable_bytes(r);
}

bool plim_is_hopeless(const plim_plan_request *r, const plim_estimate *e) {
  uint64_t live = e->p.peak_allocated_bytes + e->context_bytes;
  double margin = r->margin < 0 ? (double)e->interval_bytes[1] / (double)e->device_bytes : 1;
  return r->target.budget_bytes != PLIM_UNKNOWN && (double)live * margin > (double)usable_bytes(r);
}

// ---- running it -------------------------------------------------------------------------------------

static plim_job job_of(const plim_plan_request *r, const plim_choice *choice, int passes) {
  plim_job job = plim_choice_job(r, choice);
  if (passes == PLIM_SEARCH_PASSES) job.recipe.steps = SEARCH_STEPS;
  if (job.recipe.accumulate > passes) job.recipe.accumulate = passes;
  return job;
}

static bool is_same(const plim_choice *a, const plim_choice *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

static const plim_estimate *find_known(const plim_plan_request *r, const plim_choice *choice,
                                       int passes) {
  for (size_t i = 0; r->known && i < r->known->len; i++) {
    const plim_known_estimate *x = &r->known->at[i];
    if (x->passes == passes && is_same(&x->choice, choice)) return &x->e;
  }
  return NULL;
}

static plim_err estimate(const plim_plan_request *r, const plim_choice *choice, int passes,
                         uint64_t most_bytes, plim_estimate *out, plim_error *error) {
  plim_alloc_conf conf;
  const plim_estimate *had = find_known(r, choice, passes);
  if (had) {
    *out = *had;
    return PLIM_OK;
  }
  plim_job job = job_of(r, choice, passes);
  plim_target target = r->target;
  target.most_bytes = most_bytes;
  plim_alloc_conf_parse(plim_choice_conf(r, choice), &conf, NULL);
  target.conf = &conf;
  plim_err err = plim_estimate_make(&job, &target, out, error);
  bool is_whole = !err && !out->p.runs_out;
  plim_known_estimate fresh = {*choice, passes, *out};
  if (is_whole && r->known && !vec_push(r->known, fresh))
    err = plim_fail(error, PLIM_ERR_NOMEM, "not enough memory on this machine");
  return err;
}

plim_err plim_choice_estimate(const plim_plan_request *r, const plim_choice *choice,
                              plim_estimate *out, plim_error *error) {
  plim_err err = estimate(r, choice, PLIM_SHOWN_PASSES, 0, out, error);
  if (!err) out->fits = plim_is_safe(r, out);
  return err;
}

// Passes that were not run take as long as the last but one; the last may do more work, for the optimizer.
static void fill_time(const plim_plan_request *r, plim_rung *rung, int64_t passes) {
  const plim_estimate *e = &rung->e;
  int64_t all = rung->choice.at[PLIM_KNOB_ACCUMULATE];
  if (passes > all) passes = all;
  rung->step_seconds = e->step_seconds;
  if (all > passes) rung->step_seconds += (double)(all - passes) * e->pass_seconds;
  bool is_contrastive = r->job.recipe.loss == PLIM_LOSS_CONTRASTIVE;
  int64_t texts =
      is_contrastive ? plim_choice_sequences(&rung->choice) : plim_texts_per_sample(&r->job.recipe);
  double tokens = (double)(rung->choice.at[PLIM_KNOB_MICRO_BATCH] * all * texts * r->world) *
                  e->tokens_per_text;
  rung->tokens_per_second = tokens / rung->step_seconds;
}

static void fill_evaluation(const plim_plan_request *r, plim_rung *rung) {
  if (!r->evaluation_bytes || rung->e.p.runs_out) return;
  plim_job job = plim_choice_job(r, &rung->choice);
  rung->evaluation_bytes = r->evaluation_bytes(r->evaluation_of, &job, &rung->e);
}

// How much a knob asks of the user: a chunked loss takes more than one line, Liger takes a package.
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

// Returns false if it could not be run; s->err says why.
static bool run(plim_search *s, const plim_choice *choice, int passes, uint64_t most_bytes,
                plim_rung *out) {
  *out = (plim_rung){
      .choice = *choice, .passes = passes, .changes = distance(choice, &s->plan->before_choice)};
  s->err = estimate(s->r, choice, passes, most_bytes, &out->e, s->error);
  if (s->err) return false;
  fill_time(s->r, out, passes);
  fill_evaluation(s->r, out);
  return true;
}

// ---- each candidate once ----------------------------------------------------------------------------

// What turned out not to fit when it was run in full does not fit.
static const plim_rung *find_tried(const plim_search *s, const plim_choice *choice) {
  for (size_t i = 0; i < s->shown.len; i++)
    if (is_same(&s->shown.at[i].choice, choice) && !plim_is_safe(s->r, &s->shown.at[i].e))
      return &s->shown.at[i];
  for (size_t i = 0; i < s->tried.len; i++)
    if (is_same(&s->tried.at[i].choice, choice)) return &s->tried.at[i];
  return NULL;
}

bool plim_search_show(plim_search *s, const plim_choice *choice, plim_rung *out) {
  for (size_t i = 0; i < s->shown.len && !s->failed; i++)
    if (is_same(&s->shown.at[i].choice, choice)) {
      *out = s->shown.at[i];
      return true;
    }
  if (!s->failed && !run(s, choice, PLIM_SHOWN_PASSES, 0, out)) s->failed = true;
  if (!find_tried(s, choice)) s->plan->tried++;
  if (!s->failed && !vec_push(&s->shown, *out)) s->failed = true;
  return !s->failed;
}

static bool is_in_list(const plim_choice *at, size_t count, const plim_choice *choice) {
  for (size_t i = 0; i < count; i++)
    if (is_same(&at[i], choice)) return true;
  return false;
}

static void keep_smallest(plim_plan *plan, const plim_rung *rung) {
  bool is_first = !plan->smallest.e.device_bytes;
  if (is_first || plim_needed_bytes(&rung->e) < plim_needed_bytes(&plan->smallest.e))
    plan->smallest = *rung;
}

static bool rounds(int64_t optimizer) {
  return plim_optimizer_rounds(plim_optimizer_named(plim_optimizer_name((size_t)optimizer)));
}

bool plim_choice_concedes(const plim_search *s, const plim_choice *choice, bool unasked) {
  const plim_plan_request *r = s->r;
  for (size_t i = 0; i < plim_conceded_knob_count; i++) {
    plim_knob knob = plim_conceded_knobs[i];
    int64_t own = s->plan->before_choice.at[knob], value = choice->at[knob];
    bool is_other = knob == PLIM_KNOB_OPTIMIZER ? rounds(value) && !rounds(own) : value != own;
    bool is_open = r->allowed[knob] || r->domains[knob].count;
    if (is_other && !(unasked && is_open) && plim_knob_changes_learning(r, knob)) return true;
  }
  return false;
}

// A plan that finds nothing must not count a candidate that it cannot predict among those that do not fit.
static void keep_untried(plim_search *s, const plim_choice *choice) {
  plim_plan *plan = s->plan;
  plim_job job = plim_choice_job(s->r, choice);
  plim_untried x = {.concedes = plim_choice_concedes(s, choice, true)};
  if (!plim_job_is_unmodelled(&job, &x.setting, &x.why)) return;
  for (size_t i = 0; i < plan->untried_count; i++) {
    plim_untried *had = &plan->untried[i];
    if (had->setting != x.setting || had->why != x.why) continue;
    had->concedes = had->concedes && x.concedes;
    return;
  }
  if (plan->untried_count < PLIM_MAX_UNTRIED) plan->untried[plan->untried_count++] = x;
}

// Returns false if it is not supported or the search failed.
static bool run_once(plim_search *s, const plim_choice *choice, uint64_t most_bytes,
                     plim_rung *out) {
  if (s->failed || is_in_list(s->refused.at, s->refused.len, choice)) return false;
  s->plan->tried++;
  if (run(s, choice, PLIM_SEARCH_PASSES, most_bytes, out)) return true;
  bool is_passed_over = s->err != PLIM_ERR_NOMEM; // an unsupported combination
  if (is_passed_over) {
    s->err = PLIM_OK;
    keep_untried(s, choice);
  }
  s->failed = !is_passed_over || !vec_push(&s->refused, *choice);
  return false;
}

// ---- candidates that load the model alike -----------------------------------------------------------

// Knobs that have no effect before the first batch.
static const plim_knob of_batches[] = {
    PLIM_KNOB_MICRO_BATCH,  PLIM_KNOB_ACCUMULATE, PLIM_KNOB_CHECKPOINT,
    PLIM_KNOB_CHUNKED_LOSS, PLIM_KNOB_ATTENTION,  PLIM_KNOB_SEQUENCE,
    PLIM_KNOB_POSITIVES,    PLIM_KNOB_NEGATIVES,  PLIM_KNOB_CACHED_BATCH};

static bool loads_alike(const plim_choice *a, const plim_choice *b) {
  plim_choice x = *a;
  for (size_t i = 0; i < sizeof of_batches / sizeof *of_batches; i++)
    x.at[of_batches[i]] = b->at[of_batches[i]];
  return is_same(&x, b);
}

static uint64_t loading_bytes(const plim_rung *x) {
  bool is_needed = x->e.capped.runs_out && x->e.capped.runs_out_at.phase == PLIM_PHASE_LOAD;
  return is_needed ? x->e.p.loading_bytes : 0;
}

// Whether it is known without a run that PyTorch would reserve more than this.
static bool needs_more(const plim_search *s, const plim_choice *choice, uint64_t bytes) {
  for (size_t i = 0; i < s->large.len; i++) {
    const plim_excess *x = &s->large.at[i];
    bool is_it = is_same(&x->choice, choice) || (x->is_loading && loads_alike(&x->choice, choice));
    if (x->bytes >= bytes && is_it) return true;
  }
  for (size_t i = 0; i < s->tried.len; i++) {
    const plim_rung *x = &s->tried.at[i];
    if (loading_bytes(x) > bytes && loads_alike(&x->choice, choice)) return true;
  }
  return false;
}

// ---- the search -------------------------------------------------------------------------------------

static const plim_rung *search_run(plim_search *s, const plim_choice *choice, uint64_t most_bytes) {
  plim_rung rung;
  const plim_rung *had = find_tried(s, choice);
  if (had || (most_bytes && needs_more(s, choice, most_bytes))) return had;
  if (!run_once(s, choice, most_bytes, &rung)) return NULL;
  const plim_prediction *p = &rung.e.p;
  plim_excess large = {*choice, most_bytes, p->runs_out_at.phase == PLIM_PHASE_LOAD};
  s->failed = p->runs_out ? !vec_push(&s->large, large) : !vec_push(&s->tried, rung);
  return s->failed || p->runs_out ? NULL : &s->tried.at[s->tried.len - 1];
}

const plim_rung *plim_search_time(plim_search *s, const plim_choice *choice) {
  return search_run(s, choice, 0);
}

const plim_rung *plim_search_run(plim_search *s, const plim_choice *choice) {
  return plim_search_below(s, choice, 0);
}

// What PyTorch may reserve for a candidate that needs less than this.
static uint64_t most_of(const plim_search *s, uint64_t below) {
  uint64_t context = s->before.e.context_bytes;
  return below > context + 1 ? below - context - 1 : below > 0;
}

const plim_rung *plim_search_below(plim_search *s, const plim_choice *choice, uint64_t below) {
  const plim_rung *x = search_run(s, choice, most_of(s, below));
  if (!x) return NULL;
  keep_smallest(s->plan, x);
  bool is_tight = x->e.has_verdict && x->e.fits && !plim_is_safe(s->r, &x->e) && !s->r->errs_low;
  bool is_plain = plim_worth(s->r, choice) >= 1;
  if (is_tight && is_plain && x->tokens_per_second > s->plan->tight.tokens_per_second)
    s->plan->tight = *x;
  return x;
}

// ---- what runs out ----------------------------------------------------------------------------------

static const plim_failure *find_failure(const plim_search *s, const plim_choice *choice) {
  for (size_t i = 0; i < s->out.len; i++) {
    const plim_failure *x = &s->out.at[i];
    if (is_same(&x->choice, choice) || (x->is_loading && loads_alike(&x->choice, choice))) return x;
  }
  return NULL;
}

const plim_failure *plim_search_failure(plim_search *s, const plim_choice *choice) {
  plim_rung rung;
  uint64_t limit = s->r->target.limit_bytes;
  const plim_failure *known = find_failure(s, choice);
  if (known || limit == PLIM_UNKNOWN) return known;
  const plim_rung *had = find_tried(s, choice);
  if (!had && !run_once(s, choice, limit, &rung)) return NULL;
  const plim_prediction *p = had ? &had->e.capped : &rung.e.capped;
  if (!p->runs_out) {
    if (!had) s->failed = !vec_push(&s->tried, rung);
    return NULL;
  }
  plim_failure fresh = {.choice = *choice,
                        .is_hopeless = p->runs_out_allocated_bytes + p->runs_out_bytes > limit,
                        .is_loading = p->runs_out_at.phase == PLIM_PHASE_LOAD};
  s->failed = !vec_push(&s->out, fresh);
  return s->failed ? NULL : &s->out.at[s->out.len - 1];
}
