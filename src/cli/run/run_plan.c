#include "run_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_observed.h"

static bool add(cli_strings *settings, const plim_knob_change *change) {
  const char *name = plim_knob_table[change->knob].name;
  char *text = NULL;
  int length = change->value.kind == PLIM_VALUE_TEXT
                   ? asprintf(&text, "%s=%s", name, change->value.text)
                   : asprintf(&text, "%s=%lld", name, (long long)change->value.integer);
  if (length < 0) return false;
  if (vec_push(settings, text)) return true;
  free(text);
  return false;
}

// The program failed, so a prediction that it fits is of another program: its memory grows, or a sample is longer.
static bool is_like_the_run(const plan_for_card *c, uint64_t total_bytes) {
  plim_target large = c->request.target;
  plim_estimate own;
  large.budget_bytes = large.limit_bytes = PLIM_UNKNOWN;
  return !plim_estimate_make(&c->request.job, &large, &own, NULL) &&
         own.interval_bytes[1] >= total_bytes;
}

// The rung of this number among those that the program's environment can run.
static const plim_rung *rung_of(const plan_observed *o, size_t number) {
  const plim_plan *plan = &o->result.cards[0].plan;
  for (size_t i = 0; i < plan->rungs.len; i++)
    if (plan_observed_has_packages(o, &plan->rungs.at[i].choice) && number-- == 0)
      return &plan->rungs.at[i];
  return NULL;
}

static bool take(plan_observed *o, const run_planned *p, size_t rung, cli_strings *settings) {
  const plan_for_card *c = &o->result.cards[0];
  plan_edits edits;
  plim_error why;
  if (!is_like_the_run(c, p->total_bytes) || plan_observed_edits(o, &edits, &why)) return false;
  const plim_rung *next = rung_of(o, rung);
  if (!next) return false;
  plim_err err = rung ? plan_edits_of(&o->program->files.project, c, next, &edits, &why) : PLIM_OK;
  bool ok = !err && !edits.by_hand_count && edits.write_count;
  for (size_t i = 0; ok && i < edits.write_count; i++) ok = add(settings, &edits.writes[i]);
  return ok;
}

bool run_plan(void *context, const simulate_process *seen, size_t rung, cli_strings *settings) {
  const run_planned *p = context;
  const cli_call call = {0};
  char gpu[32];
  plan_args given = {.job = JOB_DEFAULTS_WITH(JOB_UNSET), .price = NAN, .epochs = NAN};
  plim_error why;
  trial_program program = {0};
  trial_options options = {.words = p->words, .sets = p->sets};
  if (seen->world > 1) options.world = (uint64_t)seen->world;
  if (p->total_bytes == PLIM_UNKNOWN || trial_program_open(&program, &options, &why)) return false;
  snprintf(gpu, sizeof gpu, "%llu", (unsigned long long)p->total_bytes);
  given.job.gpu = gpu;
  given.samples = PLIM_UNKNOWN;
  plan_observed o;
  plan_observed_begin(&o, &call, &given, &program);
  bool ok = !plan_observed_make(&o, seen, &why) && take(&o, p, rung, settings);
  plan_observed_end(&o);
  trial_program_clear(&program);
  return ok;
}
