// The plan as a whole: finds the least that must be conceded, what fits with it, and the ladder.
#include "plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "family.h"
#include "plan_impl.h"

static plim_err check_request(const plim_plan_request *r, plim_error *error) {
  if (r->effective_batch % (uint64_t)r->world) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                             "an effective batch of %llu cannot be split evenly over %d GPUs",
                             (unsigned long long)r->effective_batch, r->world);
    plim_error_hint(error, "--effective-batch %llu",
                    (unsigned long long)(r->effective_batch / (uint64_t)r->world + 1) *
                        (unsigned long long)r->world);
    return err;
  }
  return PLIM_OK;
}

// As in estimate: checkpoints that transformers does not support cannot be requested.
static plim_err check_checkpoints(const plim_plan_request *r, plim_error *error) {
  const plim_domain *d = &r->domains[PLIM_KNOB_CHECKPOINT];
  bool is_asked = false;
  for (int i = 0; i < d->count; i++) is_asked |= d->at[i] != PLIM_CHECKPOINT_OFF;
  if (!is_asked || !r->job.model.family->cannot_checkpoint) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "transformers has no gradient checkpointing for this architecture");
  plim_error_hint(error, "use --fix checkpoint=off, or leave it out");
  return err;
}

// Runs the user's own settings.
static bool look_at_own(plim_search *s) {
  plim_plan *plan = s->plan;
  plim_choice runs = plan->before_choice;
  plim_error refusal = {0};
  if (plim_attention_is_refused(s->r, &refusal)) {
    runs.at[PLIM_KNOB_ATTENTION] = PLIM_ATTENTION_SDPA;
    snprintf(plan->own_refusal, sizeof plan->own_refusal, "%.159s", refusal.message);
  }
  if (!plim_search_show(s, &runs, &s->before)) return false;
  plan->before = s->before.e;
  plan->before.step_seconds = s->before.step_seconds; // of all passes, not of those that were run
  plan->before.tokens_per_second = s->before.tokens_per_second;
  return true;
}

static bool concedes(const plim_search *s, const plim_concessions *concessions) {
  plim_concessions least = plim_concession_of(s);
  return memcmp(&least.at, &concessions->at, sizeof concessions->at) != 0;
}

// Runs what could be the smallest candidate of a level; the plan keeps it.
static void look_below(plim_search *s, const plim_concessions *concessions) {
  plim_rung smallest;
  plim_concession_smallest(s, concessions, plim_needed_bytes(&s->plan->smallest.e), &smallest);
}

// If nothing fits: finds how much memory is missing with everything that is allowed and can go to the host.
static void look_for_smallest(plim_search *s) {
  plim_concessions concessions = plim_concession_of(s), all = plim_concession_of_all(s, false);
  look_below(s, &concessions);
  concessions.scope = plim_offload_scope_of(s);
  look_below(s, &concessions);
  look_below(s, &all);
}

// Runs in full what is told beside the plan, so that its figures compare with those of the plan. What turns out to be
// something else is not told.
static void show_what_is_told(plim_search *s) {
  plim_plan *plan = s->plan;
  plim_choice smallest = plan->smallest.choice, tight = plan->tight.choice,
              own = plan->own_sharding.choice;
  if (!plan->rungs.len && plan->smallest.e.device_bytes)
    plim_search_show(s, &smallest, &plan->smallest);
  if (!plan->rungs.len && plim_own_is_possible(s) &&
      plim_needed_bytes(&s->before.e) < plim_needed_bytes(&plan->smallest.e))
    plan->smallest = s->before; // which the search did not run in full
  if (plan->tight.e.device_bytes) plim_search_show(s, &tight, &plan->tight);
  if (!plan->tight.e.fits || plim_is_safe(s->r, &plan->tight.e)) plan->tight = (plim_rung){0};
  if (plan->own_sharding.e.device_bytes) plim_search_show(s, &own, &plan->own_sharding);
  if (!plim_is_safe(s->r, &plan->own_sharding.e)) plan->own_sharding = (plim_rung){0};
}

// What does not seem to fit in the short runs of a search may fit when it is run in full.
static void take_smallest(plim_search *s) {
  plim_plan *plan = s->plan;
  plim_rung first = plan->smallest;
  if (!first.e.device_bytes || !plim_is_safe(s->r, &first.e)) return;
  if (plim_choice_concedes(s, &first.choice, true)) return;
  plan->concedes = plim_choice_concedes(s, &first.choice, false);
  if (!vec_push(&plan->rungs, first)) s->failed = true;
}

static void climb(plim_search *s, const plim_concessions *concessions) {
  do plim_search_concessions(s, concessions);
  while (!s->failed && !plim_build_ladder(s, concessions));
  s->plan->concedes = concedes(s, concessions);
}

static bool is_any_allowed(const plim_plan_request *r) {
  for (size_t i = 0; i < plim_conceded_knob_count; i++)
    if (plim_knob_concessions(r, plim_conceded_knobs[i], false).count > 1) return true;
  return false;
}

static bool asks_much(const plim_search *s, const plim_choice *choice) {
  return plim_goes_to_host(s->r, choice) || plim_hand_work_of(s->r, choice).code;
}

// Offloading rests on rates of another host, or needs manual work. If an allowed concession makes it unnecessary and is
// faster, that is taken instead.
static bool concede_for_time(plim_search *s, plim_concession_kind kind) {
  plim_plan *plan = s->plan, kept = *plan;
  plim_concessions concessions;
  size_t next = 0;
  if (!plim_find_concessions(s, kind, &next, &concessions)) return false;
  double speed = kept.rungs.at[0].tokens_per_second;
  plan->rungs.at = NULL;
  plan->rungs.len = plan->rungs.cap = 0;
  climb(s, &concessions);
  const plim_rung *x = plan->rungs.len ? &plan->rungs.at[0] : NULL;
  bool is_worth_it = x && x->tokens_per_second > (1 + PLIM_SAME_TIME) * speed;
  if (!is_worth_it) {
    vec_free(&plan->rungs);
    kept.tried = plan->tried;
    *plan = kept;
  } else vec_free(&kept.rungs);
  return is_worth_it;
}

static void concede(plim_search *s) {
  const plim_choice *first = &s->plan->rungs.at[0].choice;
  if (!asks_much(s, first) || !is_any_allowed(s->r)) return;
  bool goes_to_host = plim_goes_to_host(s->r, first);
  if (concede_for_time(s, (plim_concession_kind){.is_easy = true}) || !goes_to_host) return;
  concede_for_time(s, (plim_concession_kind){.on_card = true});
}

// Everything that is told beside the rungs.
static void compare(plim_search *s) {
  plim_plan *plan = s->plan;
  if (!plan->rungs.len && !s->failed) look_for_smallest(s);
  if (!s->failed) show_what_is_told(s);
  if (!plan->rungs.len && !s->failed) take_smallest(s);
  plan->is_tight =
      !plan->rungs.len && plan->smallest.e.fits && !plim_is_safe(s->r, &plan->smallest.e);
  if (!s->failed && plan->rungs.len) plim_explain_changes(s);
  if (!s->failed && plan->smallest.e.device_bytes) plim_list_concessions(s);
}

// Concedes nothing if something fits without.
static void search(plim_search *s) {
  plim_plan *plan = s->plan;
  plim_concessions concessions = plim_concession_of(s);
  size_t next = 0;
  concessions.scope = plim_offload_scope_of(s);
  climb(s, &concessions);
  if (plan->rungs.len && !s->failed) concede(s);
  while (!plan->rungs.len && !s->failed &&
         plim_find_concessions(s, (plim_concession_kind){0}, &next, &concessions))
    climb(s, &concessions);
  plan->concedes = plan->concedes && plan->rungs.len;
  if (!s->r->only_first) compare(s);
}

// What needs more memory than predicted gets no more than the user's own settings, if they fit.
static void hold_memory(plim_search *s, plim_plan_request *r) {
  const plim_estimate *own = &s->before.e;
  bool fits = own->has_verdict && plim_own_is_candidate(s);
  s->plan->is_held = r->errs_low && fits;
  if (s->plan->is_held) r->most_bytes = plim_needed_bytes(own);
}

static plim_err no_way(const plim_plan_request *r, plim_error *error) {
  const plim_domain *strategy = &r->domains[PLIM_KNOB_STRATEGY];
  const plim_domain *offload = &r->domains[PLIM_KNOB_OFFLOAD];
  bool is_pair = strategy->count == 1 && offload->count == 1;
  plim_err err =
      is_pair ? plim_fail(error, PLIM_ERR_ARGUMENT, "strategy %s does not work with offload %s",
                          plim_knob_value_name(PLIM_KNOB_STRATEGY, strategy->at[0]),
                          plim_knob_value_name(PLIM_KNOB_OFFLOAD, offload->at[0]))
              : plim_fail(error, PLIM_ERR_ARGUMENT,
                          "none of the strategies to try works with any of the offload values to "
                          "try");
  plim_error_hint(error, "--fix strategy=zero2 --fix offload=optimizer");
  return err;
}

static plim_err check_ways(const plim_plan_request *r, plim_error *error) {
  plim_sharing_mode modes[PLIM_MAX_SHARING_MODES];
  plim_concessions concessions = {
      .r = r, .scope = {.activations = true, .optimizer = true, .parameters = true}};
  return plim_concession_sharings(&concessions, modes) ? PLIM_OK : no_way(r, error);
}

plim_err plim_plan_make(const plim_plan_request *request, plim_plan *out, plim_error *error) {
  *out = (plim_plan){.before_choice = plim_plan_own_choice(request),
                     .effective_batch = request->effective_batch};
  plim_plan_request held = *request;
  plim_search s = {.r = &held, .plan = out, .error = error};
  plim_err err = check_request(request, error);
  if (!err) err = check_checkpoints(request, error);
  if (!err) err = check_ways(request, error);
  if (!err && look_at_own(&s)) {
    hold_memory(&s, &held);
    search(&s);
  }
  vec_free(&s.tried);
  vec_free(&s.shown);
  vec_free(&s.refused);
  vec_free(&s.out);
  vec_free(&s.large);
  vec_free(&s.fitting);
  if (!err && s.failed)
    err = s.err ? s.err : plim_fail(error, PLIM_ERR_NOMEM, "not enough memory on this machine");
  bool is_empty = !out->rungs.len && !out->smallest.e.device_bytes;
  if (!err && is_empty && !request->only_first) err = plim_search_refuse(&s, error);
  if (!err) err = plim_plan_check(request, out, error);
  if (err) plim_plan_clear(out);
  return err;
}

void plim_plan_clear(plim_plan *plan) {
  vec_free(&plan->rungs);
  vec_free(&plan->changes);
  vec_free(&plan->concessions);
}
