#include "job_method.h"
#include "job_fetch.h"

#include <stdio.h>

// "auto", then the names of plim_reference.
const char *const job_references[] = {"auto", "own", "adapter", "precomputed", NULL};

static plim_reference reference_of(const job_args *args) {
  if (args->reference) return (plim_reference)(args->reference - 1);
  return args->lora_rank && !args->passes_reference ? PLIM_REFERENCE_ADAPTER : PLIM_REFERENCE_OWN;
}

// DPO and KTO hold all logits before TRL 1.15 (add_fused_lm_head). ORPO and CPO always do, and take log-probabilities
// from them in one kernel from 1.14 on, which the recipe calls chunked as well.
static plim_loss_kind loss_of(const job_args *args, plim_method method) {
  uint16_t release = job_release(args, PLIM_LIBRARY_TRL);
  bool is_full = method == PLIM_METHOD_REWARD || method == PLIM_METHOD_PRM ||
                 plim_method_is_of_factory(method);
  if (is_full) return PLIM_LOSS_FULL;
  if (job_is_typed(args, &args->loss)) return (plim_loss_kind)args->loss;
  uint16_t first = plim_method_has_reference(method) ? PLIM_RELEASE(1, 15) : PLIM_RELEASE(1, 14);
  bool is_old = release ? release < first : args->holds_logits;
  return is_old ? PLIM_LOSS_FULL : PLIM_LOSS_CHUNKED;
}

// Every token of a text but its first can be part of the answer.
static plim_err understand_answers(const job_args *args, plim_recipe *c, plim_error *error) {
  int64_t most = c->length - 1, answer = args->answer_seq ? (int64_t)args->answer_seq : most;
  if (answer < 1 || answer > most) {
    plim_err err =
        plim_fail(error, PLIM_ERR_ARGUMENT,
                  "--answer-seq %llu: it must be between 1 and %lld, as the text has "
                  "%lld tokens with its prompt",
                  (unsigned long long)args->answer_seq, (long long)most, (long long)c->length);
    plim_error_hint(error, "--seq counts the prompt and one answer: --seq %lld",
                    (long long)args->answer_seq + 1);
    return err;
  }
  c->answers[0] = c->answers[1] = answer;
  return PLIM_OK;
}

// The recipes pass no mask and do not clip.
static plim_err understand_tune(const job_args *args, plim_recipe *c, plim_error *error) {
  if (c->reference == PLIM_REFERENCE_PRECOMPUTED) {
    plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                             "torchtune's recipes do not precompute the reference");
    plim_error_hint(error, "--reference own, or --method dpo");
    return err;
  }
  c->is_trainer = c->is_bare = c->uses_accelerator = c->keeps_only_loss = false;
  c->loss = PLIM_LOSS_FULL;
  c->mask = PLIM_MASK_NONE;
  c->skips_clipping = true;
  c->wraps_layers = true; // torch.distributed's checkpoint_wrapper
  return understand_answers(args, c, error);
}

static plim_err check_reference(const plim_recipe *c, plim_error *error) {
  if (c->method != PLIM_METHOD_DPO_FACTORY || c->reference != PLIM_REFERENCE_PRECOMPUTED)
    return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "LLaMA-Factory's trainer does not precompute the reference");
  plim_error_hint(error, "--reference own, or --method dpo");
  return err;
}

// torchtune's recipe: its loop keeps neither outputs nor a mask.
static plim_err understand_teacher(const job_args *args, job_request *r, plim_error *error) {
  plim_model_source source;
  plim_err err = job_find_model(args->teacher, args->may_fetch, &source, error);
  if (err) return err;
  r->job.teacher = source.config;
  r->job.recipe.distils = true;
  r->job.recipe.wraps_layers = true;
  return PLIM_OK;
}

// TRL's trainers turn dropout off, and the answers of a pair have different lengths.
plim_err job_understand_method(const job_args *args, job_request *r, plim_error *error) {
  plim_recipe *c = &r->job.recipe;
  c->method = (plim_method)args->method;
  if (args->teacher) return understand_teacher(args, r, error);
  if (c->method == PLIM_METHOD_TEXTS) return PLIM_OK;
  c->reference = reference_of(args);
  if (c->method == PLIM_METHOD_DPO_TUNE) return understand_tune(args, c, error);
  plim_err err = check_reference(c, error);
  if (err) return err;
  c->is_trainer = true;
  c->is_bare = c->uses_accelerator = false;
  c->loss = loss_of(args, c->method);
  if (c->method == PLIM_METHOD_REWARD) r->job.model.head = PLIM_HEAD_TEXTS, r->job.model.labels = 1;
  if (c->method == PLIM_METHOD_PRM) {
    r->job.model.head = PLIM_HEAD_TOKENS;
    r->job.model.labels = args->labels ? (int64_t)args->labels : 2;
    r->job.model.drops_no_scores = true;
  }
  c->empties_cache = args->is_axolotl && c->method == PLIM_METHOD_DPO;
  c->centres_rewards = args->centres_rewards;
  c->passes_reference = args->passes_reference;
  c->skips_divergence = args->skips_divergence;
  r->job.lora.dropout = 0;
  if (c->mask == PLIM_MASK_NONE && !job_is_typed(args, &args->mask)) c->mask = PLIM_MASK_LONGEST;
  return plim_method_compares(c->method) ? understand_answers(args, c, error) : PLIM_OK;
}

const char *job_method_name(plim_method method) {
  static const char *const names[PLIM_METHODS] = {
      [PLIM_METHOD_TEXTS] = "fine-tuning",   [PLIM_METHOD_DPO] = "DPO",
      [PLIM_METHOD_DPO_TUNE] = "DPO",        [PLIM_METHOD_DPO_FACTORY] = "DPO",
      [PLIM_METHOD_ORPO_FACTORY] = "ORPO",   [PLIM_METHOD_SIMPO_FACTORY] = "SimPO",
      [PLIM_METHOD_ORPO] = "ORPO",           [PLIM_METHOD_CPO] = "CPO",
      [PLIM_METHOD_SIMPO] = "SimPO",         [PLIM_METHOD_KTO] = "KTO",
      [PLIM_METHOD_REWARD] = "reward model", [PLIM_METHOD_PRM] = "process reward model"};
  return names[method];
}

void job_describe_method(const job_request *r, char *text, size_t size) {
  static const char *const references[] = {
      [PLIM_REFERENCE_OWN] = "a reference model",
      [PLIM_REFERENCE_ADAPTER] = "the model without its adapters as reference",
      [PLIM_REFERENCE_PRECOMPUTED] = "precomputed reference log-probabilities"};
  const plim_recipe *c = &r->job.recipe;
  *text = 0;
  const char *name = job_method_name(c->method), *logits = ", all logits at once";
  if (c->distils) snprintf(text, size, "distillation, %s loss", plim_loss_names[c->loss]);
  else if (plim_method_has_reference(c->method))
    snprintf(text, size, "%s with %s%s", name, references[c->reference],
             c->loss == PLIM_LOSS_FULL ? logits : "");
  else if (c->method == PLIM_METHOD_REWARD || c->method == PLIM_METHOD_PRM)
    snprintf(text, size, "%s", name);
  else if (c->method != PLIM_METHOD_TEXTS) snprintf(text, size, "%s%s", name, logits);
}

const char *job_samples_of(plim_method method) {
  return !plim_method_compares(method) ? "" : method == PLIM_METHOD_KTO ? " answers" : " pairs";
}
