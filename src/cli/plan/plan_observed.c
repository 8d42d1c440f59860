// A plan by prediction for a program that was observed: what a process was seen to do becomes the request.
#include "plan_observed.h"

#include <stdio.h>
#include <string.h>

#include "manual_steps.h"

// ---- the request ------------------------------------------------------------------------------------

// Unless the user fixes the same knob.
static plim_err fix(plan_observed *o, const char *setting, plim_error *error) {
  size_t length = strcspn(setting, "=") + 1;
  for (size_t i = 0; i < o->args.fix.len; i++)
    if (strncmp(o->args.fix.at[i], setting, length) == 0) return PLIM_OK;
  return vec_push(&o->args.fix, setting) ? PLIM_OK : plim_no_memory(error);
}

// Keeps the effective batch; where the program's accumulation cannot be changed, that stays and the batch may change.
static plim_err hold_batch(plan_observed *o, plim_error *error) {
  const trial_program *p = o->program;
  o->args.effective_batch = o->effective;
  if (p->effective) snprintf(o->effective, sizeof o->effective, "%lld", (long long)p->effective);
  else snprintf(o->effective, sizeof o->effective, "any");
  if (p->effective || p->how == TRIAL_ACCUMULATION_WRITTEN) return PLIM_OK;
  snprintf(o->fixed, sizeof o->fixed, "accumulate=%llu",
           (unsigned long long)o->args.job.accumulate);
  return fix(o, o->fixed, error);
}

static plim_err request(plan_observed *o, const simulate_process *seen, plim_error *error) {
  const plan_args *given = o->given;
  o->args.job = (job_args)JOB_DEFAULTS_WITH(JOB_UNSET);
  o->args.job.gpu = given->job.gpu;
  o->args.job.limit_bytes = given->job.limit_bytes;
  o->args.job.steps = given->job.steps;
  o->args.job.is_observed = true;
  o->args.job.typed_at = offsetof(plan_args, job);
  o->before = o->args.job;
  o->args.fix = (cli_strings){0}; // with the user's own, and those that are added here
  for (size_t i = 0; i < given->fix.len; i++)
    if (!vec_push(&o->args.fix, given->fix.at[i])) return plim_no_memory(error);
  o->args.typed = &o->before;
  plim_err err = trial_observed_fill(o->program, seen, &o->args.job, &o->typed, error);
  if (!err && !seen->has_liger) err = fix(o, "liger=off", error);
  return err ? err : hold_batch(o, error);
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
static plim_err hold(plan_observed *o, plim_knob knob, const char *why, plim_error *error) {
  const plan_args *given = o->given;
  plan_for_card *c = &o->result.cards[0];
  if (is_asked(&given->fix, knob) || is_asked(&given->tries, knob))
    return plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s cannot be changed: %.300s",
                     plim_knob_table[knob].name, why);
  c->asked.domains[knob] = (plim_domain){.count = 1, .at = {c->plan.before_choice.at[knob]}};
  return PLIM_OK;
}

static plim_err hold_unwritable(plan_observed *o, const plan_edits *edits, bool *is_held,
                                plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < edits->by_hand_count; i++)
    err = hold(o, edits->by_hand[i].knob, edits->by_hand[i].reason, error);
  *is_held = edits->by_hand_count;
  return err;
}

static bool lacks(const plan_observed *o, const plim_choice *x, bool (*takes)(const plim_choice *x),
                  bool is_installed) {
  return !is_installed && takes(x) && !takes(&o->result.cards[0].plan.before_choice);
}

bool plan_observed_has_packages(const plan_observed *o, const plim_choice *x) {
  return !lacks(o, x, plan_takes_bitsandbytes, o->seen->has_bitsandbytes) &&
         !lacks(o, x, plan_takes_deepspeed, o->seen->has_deepspeed);
}

static plim_err hold_changed(plan_observed *o, const plim_knob *knobs, size_t count,
                             const char *why, plim_error *error) {
  const plim_plan *plan = &o->result.cards[0].plan;
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < count; i++)
    if (plan->rungs.at[0].choice.at[knobs[i]] != plan->before_choice.at[knobs[i]])
      err = hold(o, knobs[i], why, error);
  return err;
}

// A program that is started with a setting whose package is missing fails at once.
static plim_err hold_uninstalled(plan_observed *o, bool *is_held, plim_error *error) {
  static const plim_knob theirs[] = {PLIM_KNOB_OPTIMIZER, PLIM_KNOB_QUANTISATION};
  static const plim_knob shared[] = {PLIM_KNOB_STRATEGY, PLIM_KNOB_OFFLOAD};
  const plim_choice *x = &o->result.cards[0].plan.rungs.at[0].choice;
  bool no_bitsandbytes = lacks(o, x, plan_takes_bitsandbytes, o->seen->has_bitsandbytes);
  bool no_deepspeed = lacks(o, x, plan_takes_deepspeed, o->seen->has_deepspeed);
  plim_err err = PLIM_OK;
  if (no_bitsandbytes) err = hold_changed(o, theirs, 2, "bitsandbytes is not installed", error);
  if (!err && no_deepspeed) err = hold_changed(o, shared, 2, "deepspeed is not installed", error);
  *is_held |= no_bitsandbytes || no_deepspeed;
  return err;
}

// Plans again, with what cannot be written or needs a missing package held, until the whole plan can be shown to the
// program.
plim_err plan_observed_edits(plan_observed *o, plan_edits *edits, plim_error *error) {
  plan_for_card *c = &o->result.cards[0];
  bool is_held = false;
  plim_err err = PLIM_OK;
  do {
    if (is_held) plim_plan_clear(&c->plan);
    if (is_held) err = plim_plan_make(&c->asked, &c->plan, error);
    if (!err && !c->plan.rungs.len)
      err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "no settings are predicted to fit");
    if (!err)
      err = plan_edits_of(&o->program->files.project, c, &c->plan.rungs.at[0], edits, error);
    if (!err) err = hold_unwritable(o, edits, &is_held, error);
    if (!err) err = hold_uninstalled(o, &is_held, error);
  } while (!err && is_held);
  return err;
}

// ---- all of it --------------------------------------------------------------------------------------

void plan_observed_begin(plan_observed *o, const cli_call *call, const plan_args *given,
                         trial_program *program) {
  *o = (plan_observed){.program = program, .given = given, .args = *given};
  o->result = plan_result_new(call, &o->args);
}

plim_err plan_observed_make(plan_observed *o, const simulate_process *seen, plim_error *error) {
  const char *source;
  o->seen = seen;
  plim_err err = request(o, seen, error);
  return err ? err : plan_result_make(&o->args, &o->program->files, &o->result, &source, error);
}

void plan_observed_end(plan_observed *o) {
  plan_result_clear(&o->result);
  vec_free(&o->args.fix);
  vec_free(&o->typed.given);
}
