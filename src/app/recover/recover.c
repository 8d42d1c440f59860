#include "recover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SAVERS_CHUNK_TOKENS == 512, "the texts below say 512");

void recovery_begin(recovery *v, const char *const *typed, const cli_strings *sets) {
  *v = (recovery){.typed = typed, .sets = sets, .lent = -1};
}

const char *const *recovery_command(const recovery *v) {
  return v->has_with ? (const char *const *)v->with.version.words.at : v->typed;
}

const char *const *recovery_variables(const recovery *v) {
  static const char *const none[] = {NULL};
  return v->has_with ? (const char *const *)v->with.variables : none;
}

// ---- settings in force ------------------------------------------------------------------------------

static const char *value_of(const recovery *v, const char *knob) {
  size_t n = strlen(knob);
  for (size_t i = 0; i < v->settings.len; i++)
    if (strncmp(v->settings.at[i], knob, n) == 0 && v->settings.at[i][n] == '=')
      return v->settings.at[i] + n + 1;
  return NULL;
}

static plim_err set(recovery *v, const char *knob, const char *value, plim_error *error) {
  char *text = NULL;
  if (asprintf(&text, "%s=%s", knob, value) < 0)
    return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  size_t n = strlen(knob) + 1;
  for (size_t i = 0; i < v->settings.len; i++)
    if (strncmp(v->settings.at[i], text, n) == 0) {
      free((char *)v->settings.at[i]);
      v->settings.at[i] = text;
      return PLIM_OK;
    }
  if (vec_push(&v->settings, text)) return PLIM_OK;
  free(text);
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

static plim_err set_number(recovery *v, const char *knob, int64_t value, plim_error *error) {
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)value);
  return set(v, knob, text, error);
}

static void clear_settings(cli_strings *settings) {
  for (size_t i = 0; i < settings->len; i++) free((char *)settings->at[i]);
  vec_free(settings);
}

static plim_err copy_settings(const cli_strings *from, cli_strings *to, plim_error *error) {
  *to = (cli_strings){0};
  for (size_t i = 0; i < from->len; i++) {
    char *copy = strdup(from->at[i]);
    if (copy && vec_push(to, copy)) continue;
    free(copy);
    clear_settings(to);
    return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  }
  return PLIM_OK;
}

// Makes the program with the settings in force.
static plim_err make(recovery *v, plim_error *error) {
  trial_options options = {
      .words = v->typed, .sets = v->sets, .world = v->world, .parent = v->scratch};
  if (v->has_with) trial_with_clear(&v->with);
  plim_err err = trial_with_make(&v->with, &options, &v->settings, error);
  v->has_with = !err;
  if (err) trial_with_clear(&v->with);
  return err;
}

// ---- cures ------------------------------------------------------------------------------------------

// The largest micro batch that is at most half of the present one, with the accumulation that keeps the effective batch.
static plim_err smaller_batch(recovery *v, recovery_step *step, plim_error *error) {
  trial_options options = {.words = v->typed, .sets = v->sets, .world = v->world};
  trial_program p = {0};
  plim_error why = {0};
  plim_err err = trial_program_open(&p, &options, &why);
  const char *set_before = value_of(v, "micro_batch");
  int64_t now = set_before ? atoll(set_before) : p.micro;
  int64_t then = !err ? trial_micro_at_most(&p, now / 2) : 0;
  int64_t steps = then ? trial_accumulation_of(&p, then) : 0;
  int64_t steps_before = then ? trial_accumulation_of(&p, now) : 0;
  bool is_kept = p.how == TRIAL_ACCUMULATION_WRITTEN || p.how == TRIAL_ACCUMULATION_DIVIDED;
  if (err) snprintf(step->text, sizeof step->text, "%s", why.message);
  else if (!is_kept)
    snprintf(step->text, sizeof step->text,
             "it has no accumulation setting that plimsoll can change, and a smaller micro batch "
             "alone would change what the model learns");
  else if (!then || !steps)
    snprintf(step->text, sizeof step->text, "the micro batch is %lld and cannot be halved",
             (long long)now);
  else {
    step->is_found = true;
    snprintf(step->text, sizeof step->text,
             "micro batch %lld and %lld accumulation steps instead of %lld and %lld",
             (long long)then, (long long)steps, (long long)now, (long long)steps_before);
  }
  bool is_written = p.how == TRIAL_ACCUMULATION_WRITTEN;
  trial_program_clear(&p);
  if (err == PLIM_ERR_NOMEM) return *error = why, err;
  if (!step->is_found) return PLIM_OK;
  err = set_number(v, "micro_batch", then, error);
  return err || !is_written ? err : set_number(v, "accumulate", steps, error);
}

// Whether a start with the setting KNOB=V would differ from the last one.
static bool is_change(const recovery *v, const char *knob, const char *value) {
  const char *now = value_of(v, knob);
  bool is_in_environment = v->has_expandable && strcmp(knob, "alloc_conf") == 0 &&
                           strcmp(value, "expandable_segments:True") == 0;
  return !is_in_environment && (!now || strcmp(now, value) != 0);
}

// Puts the settings of a plan in force, and lists those that change something.
static plim_err take_plan(recovery *v, const cli_strings *settings, recovery_step *step,
                          plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < settings->len; i++) {
    char knob[48];
    size_t n = strcspn(settings->at[i], "="), used = strlen(step->text);
    const char *value = settings->at[i] + n + 1;
    snprintf(knob, sizeof knob, "%.*s", (int)n, settings->at[i]);
    if (is_change(v, knob, value)) {
      snprintf(step->text + used, sizeof step->text - used, "%s %s",
               step->is_found ? "," : "the planned settings", settings->at[i]);
      step->is_found = true;
    }
    err = set(v, knob, value, error);
  }
  return err;
}

// The next rung of a plan that changes something.
static plim_err planned(recovery *v, const simulate_process *seen, recovery_step *step,
                        plim_error *error) {
  plim_err err = PLIM_OK;
  bool has_plan = v->plan && seen;
  while (!err && has_plan && !step->is_found) {
    cli_strings settings = {0};
    has_plan = v->plan(v->plan_context, seen, v->plans, &settings);
    if (has_plan) err = take_plan(v, &settings, step, error);
    v->plans += has_plan;
    clear_settings(&settings);
  }
  return err;
}

// A setting that is on or off. It counts only if it can be written into this program.
static plim_err turn(recovery *v, const char *knob, const char *value, const char *text,
                     recovery_step *step, plim_error *error) {
  if (value_of(v, knob)) return PLIM_OK;
  snprintf(step->text, sizeof step->text, "%s", text);
  step->is_found = true;
  return set(v, knob, value, error);
}

static plim_err try_cure(recovery *v, explain_cure_kind kind, const simulate_process *seen,
                         recovery_step *step, plim_error *error) {
  switch (kind) {
  case EXPLAIN_CURE_EXPANDABLE_SEGMENTS:
    if (v->has_expandable) return PLIM_OK;
    v->has_expandable = step->is_found = true;
    step->variables[0] = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
    step->variables[1] =
        "PYTORCH_ALLOC_CONF=expandable_segments:True"; // versions differ in the name
    snprintf(step->text, sizeof step->text,
             "expandable segments in place of your allocator settings");
    return PLIM_OK;
  case EXPLAIN_CURE_RETRY:
    if (v->has_retried) {
      snprintf(step->text, sizeof step->text, "it failed twice with the same settings");
      return PLIM_OK;
    }
    v->has_retried = step->is_found = true;
    snprintf(step->text, sizeof step->text, "the same settings");
    return PLIM_OK;
  case EXPLAIN_CURE_CHUNKED_LOSS:
    if (v->has_chunked_loss || !seen || !seen->observed.type) return PLIM_OK;
    v->has_chunked_loss = step->is_found = true;
    step->variables[0] = "PLIMSOLL_CHUNKED_LOSS=512";
    snprintf(step->text, sizeof step->text, "the loss computed in chunks of 512 tokens");
    return PLIM_OK;
  case EXPLAIN_CURE_FUSED_ATTENTION:
    return turn(v, "attention", "sdpa", "PyTorch's fused attention (sdpa)", step, error);
  case EXPLAIN_CURE_SMALLER_BATCH: {
    plim_err err = planned(v, seen, step, error);
    return err || step->is_found ? err : smaller_batch(v, step, error);
  }
  case EXPLAIN_CURE_PLAN:
    if (seen && seen->observed.checkpoints) return PLIM_OK;
    return turn(v, "checkpoint", "on", "gradient checkpointing", step, error);
  default: return PLIM_OK;
  }
}

plim_err recovery_next(recovery *v, const explanation *e, const simulate_process *seen,
                       recovery_step *step, plim_error *error) {
  char reason[sizeof step->text] = "";
  if (seen && seen->world > 1) v->world = (uint64_t)seen->world;
  for (size_t i = 0; i < e->cures.len; i++) {
    cli_strings before;
    *step = (recovery_step){0};
    plim_err err = copy_settings(&v->settings, &before, error);
    if (!err) err = try_cure(v, e->cures.at[i].kind, seen, step, error);
    if (!err && step->is_found && v->settings.len) err = make(v, error);
    bool is_over = err == PLIM_ERR_NOMEM || err == PLIM_ERR_IO || (step->is_found && !err);
    clear_settings(is_over ? &before : &v->settings);
    if (is_over) return err;
    v->settings = before;
    if (err) snprintf(step->text, sizeof step->text, "%s", error->message);
    if (!*reason) snprintf(reason, sizeof reason, "%s", step->text);
  }
  *step = (recovery_step){0};
  snprintf(step->text, sizeof step->text, "%s", reason);
  return PLIM_OK;
}

// ---- the end ----------------------------------------------------------------------------------------

void recovery_end(recovery *v) {
  if (v->has_with) trial_with_clear(&v->with);
  clear_settings(&v->settings);
  v->has_with = false;
}
