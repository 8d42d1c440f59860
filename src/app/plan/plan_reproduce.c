// Builds the estimate command that reproduces the plan's numbers, so that anyone can check them. It is run before it is
// shown; if a setting that matters has no option, there is no command, and the reason is given.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimate_result.h"
#include "job_as_options.h"
#include "plan_json.h"

static job_args args_of(const plan_result *r, const plan_for_card *c, const plim_choice *x,
                        job_option_texts *texts) {
  plim_job job = plim_choice_job(&c->asked, x);
  return job_as_options(
      &(job_described){&job, r->args, &c->request, plim_choice_conf(&c->asked, x), c->gpu}, texts);
}

void plan_write_request(json_writer *j, const plan_result *r, const plan_for_card *c,
                        const plim_choice *choice) {
  job_option_texts texts;
  job_args a = args_of(r, c, choice, &texts);
  // It changes no memory, but what the model learns: whoever writes these settings needs it.
  if (a.lora_rank == r->args->lora_rank) a.lora_alpha = r->args->lora_alpha;
  estimate_json_options(j, "request", &a);
}

// ---- whether it says the same -----------------------------------------------------------------------

static bool is_same(const plim_estimate *a, const plim_estimate *b) {
  return a->p.peak_allocated_bytes == b->p.peak_allocated_bytes &&
         a->p.peak_reserved_bytes == b->p.peak_reserved_bytes && a->fits == b->fits;
}

static plim_err predict(const job_request *request, int passes, plim_estimate *out) {
  plim_job job = request->job;
  if (job.recipe.accumulate > passes) job.recipe.accumulate = passes;
  return plim_estimate_make(&job, &request->target, out, NULL);
}

// The plan has not run all passes, but the command does. Runs them all and puts the result into the plan too.
static plim_err settle(const plim_plan_request *asked, const job_request *request, plim_rung *x) {
  plim_estimate all;
  int passes = request->job.recipe.accumulate;
  if (passes <= PLIM_SHOWN_PASSES) return PLIM_OK;
  plim_err err = predict(request, passes, &all);
  if (err) return err;
  bool is_sure = asked->margin >= 0 || all.interval_bytes[1] <= all.budget_bytes;
  if (all.has_verdict && !(all.fits && is_sure)) return PLIM_ERR_UNSUPPORTED;
  x->e = all;
  return PLIM_OK;
}

// Whether the command predicts the same as the plan: PLIM_ERR_NOMEM, or any other error if it does not.
static plim_err check_reproduces(const plim_plan_request *asked, const job_args *a, plim_rung *x) {
  job_request *request = calloc(1, sizeof *request);
  const char *source;
  plim_estimate e;
  if (!request) return PLIM_ERR_NOMEM;
  plim_err err = job_understand(a, a, request, &source, NULL);
  if (!err) err = predict(request, PLIM_SHOWN_PASSES, &e);
  if (!err && !is_same(&e, &x->e)) err = PLIM_ERR_UNSUPPORTED;
  if (!err) err = settle(asked, request, x);
  job_request_clear(request);
  free(request);
  return err;
}

plim_err plan_reproduce(const plan_result *r, plan_for_card *c, plim_error *error) {
  if (!c->plan.rungs.len) return PLIM_OK;
  plim_rung *x = &c->plan.rungs.at[0];
  job_option_texts texts;
  job_args a = args_of(r, c, &x->choice, &texts);
  plim_err err = check_reproduces(&c->asked, &a, x);
  if (!err && !(c->reproduce = job_command_line(&a))) err = PLIM_ERR_NOMEM;
  if (err == PLIM_ERR_NOMEM) return plim_no_memory(error);
  if (!err) return PLIM_OK;
  c->no_reproduce = job_setting_without_option(r->args, &c->request.job);
  if (!c->no_reproduce) c->no_reproduce = "something in these files";
  return PLIM_OK;
}
