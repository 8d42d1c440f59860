// plimsoll plan -- COMMAND, where plimsoll can predict the program: what the first run showed becomes the request, the
// planner searches, and a simulated run proves the plan.
#include "plan_proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_edits.h"
#include "plan_make.h"
#include "plan_show.h"
#include "simulate_report.h"
#include "term.h"
#include "units.h"

typedef struct {
  plan_proof_try *t;
  plan_args args;
  job_args before; // args.job before files were read
  cli_call typed;  // what was observed counts as typed
  plan_result result;
  char effective[24], fixed[40];
} work;

// Ends the attempt. Only running out of memory is an error of the command.
static plim_err leave(work *w, plim_err err, const plim_error *why, plim_error *error) {
  if (err == PLIM_ERR_NOMEM) return plim_no_memory(error);
  snprintf(w->t->why, sizeof w->t->why, "%s", why->message);
  return PLIM_OK;
}

// ---- the request ------------------------------------------------------------------------------------

// Unless the user fixes the same knob.
static plim_err fix(work *w, const char *setting, plim_error *error) {
  size_t length = strcspn(setting, "=") + 1;
  for (size_t i = 0; i < w->args.fix.len; i++)
    if (strncmp(w->args.fix.at[i], setting, length) == 0) return PLIM_OK;
  return vec_push(&w->args.fix, setting) ? PLIM_OK : plim_no_memory(error);
}

// Keeps the effective batch; where the program's accumulation cannot be changed, that stays and the batch may change.
static plim_err hold_batch(work *w, plim_error *error) {
  const trial_program *p = w->t->program;
  w->args.effective_batch = w->effective;
  if (p->effective) snprintf(w->effective, sizeof w->effective, "%lld", (long long)p->effective);
  else snprintf(w->effective, sizeof w->effective, "any");
  if (p->effective || p->how == TRIAL_ACCUMULATION_WRITTEN) return PLIM_OK;
  snprintf(w->fixed, sizeof w->fixed, "accumulate=%llu",
           (unsigned long long)w->args.job.accumulate);
  return fix(w, w->fixed, error);
}

static plim_err request(work *w, const simulate_process *seen, plim_error *error) {
  const plan_args *given = w->t->call->args;
  w->args.job = (job_args)JOB_DEFAULTS_WITH(JOB_UNSET);
  w->args.job.gpu = given->job.gpu;
  w->args.job.limit_bytes = given->job.limit_bytes;
  w->args.job.steps = given->job.steps;
  w->args.job.is_observed = true;
  w->args.job.typed_at = offsetof(plan_args, job);
  w->before = w->args.job;
  w->args.fix = (cli_strings){0}; // with the user's own, and those that are added here
  for (size_t i = 0; i < given->fix.len; i++)
    if (!vec_push(&w->args.fix, given->fix.at[i])) return plim_no_memory(error);
  w->args.typed = &w->before;
  plim_err err = trial_observed_fill(w->t->program, seen, &w->args.job, &w->typed, error);
  if (!err && !seen->has_liger) err = fix(w, "liger=off", error);
  return err ? err : hold_batch(w, error);
}

// ---- whether the prediction is right ----------------------------------------------------------------

static bool is_within(const plim_estimate *e, uint64_t bytes) {
  return bytes >= e->interval_bytes[0] && bytes <= e->interval_bytes[1];
}

// The program's own settings were run on a card that is large enough, and are predicted for one here.
static plim_err compare_own(work *w, plim_error *error) {
  const plan_for_card *c = &w->result.cards[0];
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

// ---- a plan that can be run -------------------------------------------------------------------------

// Whether the user gave values for the knob, with --fix or --try.
static bool is_asked(const cli_strings *settings, plim_knob knob) {
  for (size_t i = 0; i < settings->len; i++) {
    char name[48];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(settings->at[i], "="), settings->at[i]);
    if (plim_knob_named(name) == knob) return true;
  }
  return false;
}

// Keeps the program's own value of a knob whose planned value cannot be shown to the program.
static plim_err hold(work *w, plim_knob knob, const char *why, plim_error *error) {
  const plan_args *given = w->t->call->args;
  plan_for_card *c = &w->result.cards[0];
  if (is_asked(&given->fix, knob) || is_asked(&given->tries, knob))
    return plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s cannot be changed: %.300s",
                     plim_knob_table[knob].name, why);
  c->asked.domains[knob] = (plim_domain){.count = 1, .at = {c->plan.before_choice.at[knob]}};
  return PLIM_OK;
}

static plim_err hold_unwritable(work *w, const plan_edits *edits, bool *is_held,
                                plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < edits->by_hand_count; i++)
    err = hold(w, edits->by_hand[i].knob, edits->by_hand[i].reason, error);
  *is_held = edits->by_hand_count;
  return err;
}

// Plans again, with what cannot be written held, until the whole plan can be shown to the program.
static plim_err plan_whole(work *w, plan_edits *edits, plim_error *error) {
  plan_for_card *c = &w->result.cards[0];
  bool is_held = false;
  plim_err err = PLIM_OK;
  do {
    if (is_held) plim_plan_clear(&c->plan);
    if (is_held) err = plim_plan_make(&c->asked, &c->plan, error);
    if (!err && !c->plan.rungs.len)
      err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "no settings are predicted to fit");
    if (!err)
      err = plan_edits_of(&w->t->program->files.project, c, &c->plan.rungs.at[0], edits, error);
    if (!err) err = hold_unwritable(w, edits, &is_held, error);
  } while (!err && is_held);
  return err;
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
  const plim_rung *rung = &w->result.cards[0].plan.rungs.at[0];
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
  plan_for_card *c = &w->result.cards[0];
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
  plan_proof proof = {run->needs_bytes, run->log};
  bool is_json = w->t->call->common.json;
  w->result.proof = &proof;
  w->t->is_done = true;
  note_batch(w);
  if (!is_json) simulate_print_observed(seen);
  w->t->status = plan_show(&w->result, is_json);
}

static plim_err attempt(work *w, const simulate_process *seen, plim_error *error) {
  const char *source;
  plan_edits edits;
  trial_run run;
  plim_err err = request(w, seen, error);
  if (!err) err = plan_result_make(&w->args, &w->t->program->files, &w->result, &source, error);
  if (!err) err = compare_own(w, error);
  if (!err) err = plan_whole(w, &edits, error);
  if (!err) err = prove(w, &edits, &run, error);
  term_progress_clear();
  if (!err) show(w, seen, &run);
  return err;
}

plim_err plan_prove(plan_proof_try *t, plim_error *error) {
  work w = {.t = t, .args = *(const plan_args *)t->call->args};
  plim_error why = {0};
  w.result = plan_result_new(t->call, &w.args);
  plim_err err = attempt(&w, simulate_fullest(&t->search->first), &why);
  if (err) err = leave(&w, err, &why, error);
  plan_result_clear(&w.result);
  vec_free(&w.args.fix);
  vec_free(&w.typed.given);
  return err;
}
