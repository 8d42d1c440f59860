// plimsoll plan -- COMMAND, where plimsoll can predict the program: what the first run showed becomes the request, the
// planner searches, and a simulated run proves the plan.
#include "plan_proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "plan_observed.h"
#include "plan_save.h"
#include "plan_show.h"
#include "simulate_report.h"
#include "term.h"
#include "units.h"

typedef struct {
  plan_proof_try *t;
  plan_observed plan;
} work;

// Ends the attempt. Only running out of memory is an error of the command.
static plim_err leave(work *w, plim_err err, const plim_error *why, plim_error *error) {
  if (err == PLIM_ERR_NOMEM) return plim_no_memory(error);
  snprintf(w->t->why, sizeof w->t->why, "%s", why->message);
  return PLIM_OK;
}

// ---- whether the prediction is right ----------------------------------------------------------------

static bool is_within(const plim_estimate *e, uint64_t bytes) {
  return bytes >= e->interval_bytes[0] && bytes <= e->interval_bytes[1];
}

// The program's own settings were run on a card that is large enough, and are predicted for one here.
static plim_err compare_own(work *w, plim_error *error) {
  const plan_for_card *c = &w->plan.result.cards[0];
  const trial_run *first = &w->t->search->runs.at[0];
  plim_target large = c->request.target;
  plim_estimate own;
  large.budget_bytes = large.limit_bytes = PLIM_UNKNOWN;
  plim_err err = plim_estimate_make(&c->request.job, &large, &own, error);
  if (err || is_within(&own, first->needs_bytes)) return err;
  return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                   "for the program's own settings, the prediction (%s) differs from the simulated "
                   "run (%s) by more than its error margin",
                   units_bytes(own.device_bytes).text, units_bytes(first->needs_bytes).text);
}

// ---- the proof --------------------------------------------------------------------------------------

static plim_err judge(const plim_rung *rung, const trial_run *run, plim_error *error) {
  const plim_estimate *e = &rung->e;
  if (run->verdict == TRIAL_FITS && is_within(e, run->needs_bytes)) return PLIM_OK;
  if (run->verdict == TRIAL_NO_DATA)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "the program has too little data for the predicted plan, micro batch %lld",
                     (long long)run->micro);
  if (run->verdict != TRIAL_FITS)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "the predicted plan, micro batch %lld with %s, did not fit in a simulated run",
                     (long long)run->micro, units_bytes(e->device_bytes).text);
  return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                   "the predicted plan, micro batch %lld, needed %s in a simulated run, which "
                   "differs from the prediction (%s) by more than its error margin",
                   (long long)run->micro, units_bytes(run->needs_bytes).text,
                   units_bytes(e->device_bytes).text);
}

static plim_err prove(work *w, const plan_edits *edits, trial_run *run, plim_error *error) {
  const plim_rung *rung = &w->plan.result.cards[0].plan.rungs.at[0];
  trial_search *s = w->t->search;
  plim_err err = trial_prove(s, edits->writes, edits->write_count,
                             rung->choice.at[PLIM_KNOB_MICRO_BATCH], w->t->watch, NULL, run, error);
  if (err && *s->failed_log)
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                    "with the predicted plan the program failed, but not because of memory "
                    "(%.200s)",
                    s->failed_log);
  *s->failed_log = 0;
  return err ? err : judge(rung, run, error);
}

// ---- all of it --------------------------------------------------------------------------------------

// Without accumulation, another micro batch changes the effective batch, and with it what the model learns.
static void note_batch(work *w) {
  plan_for_card *c = &w->plan.result.cards[0];
  const int64_t *now = c->plan.before_choice.at, *then = c->plan.rungs.at[0].choice.at;
  const plim_knob micro = PLIM_KNOB_MICRO_BATCH, accumulate = PLIM_KNOB_ACCUMULATE;
  uint64_t ranks = (uint64_t)w->t->program->ranks;
  if (w->t->program->how != TRIAL_ACCUMULATION_KEPT || now[micro] == then[micro]) return;
  plim_note_add(
      &c->request.notes, "changed.effective_batch", plim_knob_table[micro].name,
      "the effective batch becomes %s (now %s), which changes what the model learns: your "
      "program has no accumulation that plimsoll can change",
      units_count((uint64_t)(then[micro] * then[accumulate]) * ranks).text,
      units_count((uint64_t)(now[micro] * now[accumulate]) * ranks).text);
}

static void show(work *w, const simulate_process *seen, const trial_run *run) {
  plan_proof proof = {.needs_bytes = run->needs_bytes, .log = cli_format("%s", run->log)};
  bool is_json = w->t->call->common.json;
  w->plan.result.proof = &proof;
  w->t->is_done = true;
  note_batch(w);
  if (!is_json) simulate_print_observed(seen);
  w->t->status = plan_show(&w->plan.result, is_json);
  plan_proof_clear(&proof);
}

static plim_err attempt(work *w, const simulate_process *seen, plim_error *error) {
  plan_edits edits;
  trial_run run;
  plim_err err = plan_observed_make(&w->plan, seen, error);
  if (!err) err = compare_own(w, error);
  if (!err) err = plan_observed_edits(&w->plan, &edits, error);
  if (!err) err = prove(w, &edits, &run, error);
  term_progress_clear();
  if (!err) show(w, seen, &run);
  return err;
}

plim_err plan_prove(plan_proof_try *t, plim_error *error) {
  work w = {.t = t};
  plim_error why = {0};
  plan_observed_begin(&w.plan, t->call, t->call->args, t->program);
  plim_err err = attempt(&w, simulate_fullest(&t->search->first), &why);
  if (err) err = leave(&w, err, &why, error);
  plan_observed_end(&w.plan);
  return err;
}
