#include "plan_question.h"

#include <stdio.h>

static const plan_question contrastive = {
    "contrastive",
    "the loss compares the samples of one micro batch with each other, "
    "so training with a smaller micro batch and accumulation changes "
    "what the model learns",
    NULL};
static const plan_question batch_norm = {
    "batch_norm",
    "batch norm averages over one micro batch, so training with a "
    "smaller micro batch and accumulation changes what the model "
    "learns",
    "SyncBatchNorm averages over all GPUs"};

static const plan_question divergence = {
    "kto",
    "KTO estimates how far the model is from its reference in each "
    "micro batch, so another micro batch changes what the model "
    "learns",
    NULL};

static const plan_question distillation = {
    "distillation",
    "torchtune's distillation adds up the means of the micro batches, "
    "so with another micro batch the tokens of short samples count "
    "for more or less, which changes what the model learns",
    "samples of equal length (dataset.packed: True) leave it free"};

const plan_question *plan_question_of(const plan_for_card *c) {
  const plim_plan_request *r = &c->asked;
  if (r->allowed[PLIM_KNOB_MICRO_BATCH] || r->domains[PLIM_KNOB_MICRO_BATCH].count) return NULL;
  if (r->is_contrastive) return &contrastive;
  if (r->has_batch_norm) return &batch_norm;
  if (!plim_plan_compares_batch(r)) return NULL;
  return r->job.recipe.distils ? &distillation : &divergence;
}

long long plan_own_micro_batch(const plan_for_card *c) {
  return (long long)c->plan.before_choice.at[PLIM_KNOB_MICRO_BATCH];
}

// ---- a cached loss ----------------------------------------------------------------------------------

plan_cached_loss plan_cached_instead(const plan_for_card *c) {
  plim_choice choice = c->plan.before_choice;
  plan_cached_loss x = {0};
  bool is_planned = c->plan.rungs.len && c->plan.rungs.at[0].choice.at[PLIM_KNOB_CACHED_BATCH];
  bool is_plain = !is_planned && c->asked.job.recipe.loss == PLIM_LOSS_CONTRASTIVE &&
                  !choice.at[PLIM_KNOB_CACHED_BATCH] && choice.at[PLIM_KNOB_MICRO_BATCH] > 1;
  for (int64_t n = PLIM_CACHED_BATCH; is_plain && n >= 1 && !x.e.fits; n /= 2) {
    if (n >= choice.at[PLIM_KNOB_MICRO_BATCH]) continue;
    choice.at[PLIM_KNOB_CACHED_BATCH] = n;
    plim_error error = {0};
    if (plim_choice_estimate(&c->asked, &choice, &x.e, &error)) return (plan_cached_loss){0};
    x.at_once = n;
  }
  return x;
}
