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
  estimate_json_options(j, "request", &a);
}

// ---- whether it says the same -----------------------------------------------------------------------

// The setting of the files that has no option; NULL if there is none.
static const char *without_option(const job_args *own, const plim_job *job) {
  static const plim_zero_sizes usual = {0};
  bool has_sizes = memcmp(&own->zero_sizes, &usual, sizeof usual) != 0;
  if (job->recipe.reaches_towers && job->model.outer) return "batches with images";
  if (job->recipe.empties_cache) return "the cache that Axolotl's DPO empties after each pass";
  if (own->through_accelerate && own->strategy == PLIM_SHARD_FSDP2) return "accelerate's FSDP";
  if (job->left_plain && job->weights != PLIM_WEIGHTS_PLAIN)
    return "layers that are not quantised with the others";
  if (job->leaves_tables && job->weights != PLIM_WEIGHTS_PLAIN) return "embeddings_skip_upcast";
  if (job->returns_tables && job->weights != PLIM_WEIGHTS_PLAIN)
    return "the embeddings that TRL's DPO returns to bf16";
  if (own->quantises_experts && job->returns_ends) return "quantize_moe_experts";
  if (own->widens_ends && !own->lora_rank) return "Axolotl's float32 embeddings";
  if (has_sizes) return "DeepSpeed's bucket sizes";
  if (own->overlaps) return "DeepSpeed's overlap_comm";
  if (own->own_parts) return "custom_sharded_layers";
  if (own->through_accelerate) return "accelerate's training loop";
  if (own->is_pairwise) return "a loss that compares texts of one sample";
  if (job->lora.leaves_towers) return "adapters that leave out what sees images";
  if (own->wraps_layers) return "FSDP's activation checkpointing";
  return "something in these files";
}

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
  if (err) c->no_reproduce = without_option(r->args, &c->request.job);
  return PLIM_OK;
}
