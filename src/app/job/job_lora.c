// Adapters: their rank, and the layers that get them.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "experts.h"
#include "family.h"
#include "job_options.h"
#include "modules.h"

// The layers that peft chooses without target_modules; it refuses other architectures.
const char *job_lora_targets(const job_args *args, const job_request *r) {
  const char *own = plim_config_whole(&r->job.model)->lora_targets;
  if (!args->lora_targets) return "all-linear";
  if (strcmp(args->lora_targets, JOB_PEFT_TARGETS) != 0) return args->lora_targets;
  return own ? own : "all-linear";
}

__attribute__((format(printf, 3, 4))) static plim_err
refuse_number(plim_error *error, const char *example, const char *format, ...) {
  char message[96];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%s", message);
  plim_error_hint(error, "%s", example);
  return err;
}

// Layers of experts in transformers 4 are stacked parameters in 5, and so peft's _convert_peft_config_moe moves adapters on
// layers of these names, also of a shared expert, to those of all experts.
static void note_experts(job_request *r) {
  int64_t gate_up, down;
  if (plim_lora_is_everywhere(&r->job.lora)) return;
  plim_experts_ranks(&r->job.model, &r->job.lora, &gate_up, &down);
  if (gate_up && down)
    plim_note_add(&r->notes, "reads.expert_targets", "lora-targets",
                  "peft takes targets with the names of an expert's layers for the parameters of "
                  "all %lld experts: they get adapters of rank %lld on gate_up_proj and %lld on "
                  "down_proj%s",
                  (long long)r->job.model.experts, (long long)gate_up, (long long)down,
                  r->job.model.shared_width ? ", and the shared expert gets none" : "");
}

// find_all_linear_modules and patch_target_modules of LLaMA-Factory's model/model_utils.
static bool leaves_towers(const job_args *args, const job_request *r) {
  const plim_family *f = plim_config_whole(&r->job.model);
  return args->leaves_towers || (args->freezes_towers && !f->factory_adapts_towers);
}

plim_err job_understand_lora(const job_args *args, job_request *r, plim_error *error) {
  r->job.lora.dropout = args->usual_dropout;
  if (!args->lora_rank) return PLIM_OK;
  if (args->lora_rank > 65536)
    return refuse_number(error, "--lora-rank 16", "--lora-rank %g is larger than any layer",
                         (double)args->lora_rank);
  if (!(args->lora_dropout >= 0 && args->lora_dropout < 1))
    return refuse_number(error, "--lora-dropout 0.05", "--lora-dropout %g is not between 0 and 1",
                         args->lora_dropout);
  r->job.lora = (plim_lora){.rank = (int64_t)args->lora_rank,
                            .dropout = args->lora_dropout,
                            .targets = job_lora_targets(args, r),
                            .excluded = args->lora_excluded,
                            .layers = args->lora_layers,
                            .saved = args->lora_saved,
                            .bias = (plim_lora_bias)args->lora_bias,
                            .uses_dora = args->dora,
                            .keeps_dtype = args->lora_dtype == ADAPTERS_KEPT,
                            .casts_bf16 = args->lora_dtype == ADAPTERS_CAST,
                            .is_axolotls = args->is_axolotl,
                            .leaves_towers = leaves_towers(args, r)};
  plim_lora_unmatched other;
  plim_err err = plim_lora_check(&r->job.model, &r->job.lora, &other, error);
  r->unmatched_targets = other.count;
  if (!err) note_experts(r);
  if (err || !other.count) return err;
  const char *meant = other.count == 1 ? other.closest : NULL;
  plim_note_add(&r->notes, "reads.lora_targets", "lora-targets",
                "no layer of this model is called %s%s%s%s: peft ignores %s", other.names,
                meant ? " (did you mean " : "", meant ? meant : "", meant ? "?)" : "",
                other.count == 1 ? "it" : "them");
  return PLIM_OK;
}

// Names differ between versions of transformers: experts of version 4 are stacked in version 5.
static void note_unmatched(const plim_trained_count *count, job_request *r) {
  char more[32] = "";
  int others = count->unmatched_count - 1;
  if (others) snprintf(more, sizeof more, " and %d other pattern%s", others, others > 1 ? "s" : "");
  plim_note_add(&r->notes, "reads.trained", NULL,
                "%s%s match%s no parameter name of transformers 5 and train%s nothing; in versions "
                "that have such names, the run needs more memory than predicted",
                count->unmatched, more, others ? "" : "es", others ? "" : "s");
}

// Names are known for most decoders. Elsewhere all parameters are trained, which needs more memory than the run.
plim_err job_understand_trained(const job_args *args, job_request *r, plim_error *error) {
  if (!args->trained || r->job.lora.rank) return PLIM_OK;
  plim_trained which = {args->trained, false};
  plim_trained_count count;
  plim_err err = plim_trained_check(&r->job.model, &which, &count, error);
  if (err) return err;
  if (!count.has_names) {
    plim_note_add(&r->notes, "unmodelled.freeze", NULL,
                  "the names of the parameters are not known for this architecture: predicted as "
                  "if all of them were trained, which needs more memory and time than the run");
    plim_note_errs_high(&r->notes);
    return PLIM_OK;
  }
  if (!count.trained) {
    err = plim_fail(error, PLIM_ERR_ARGUMENT, "no parameter's name fits \"%.128s\"", args->trained);
    plim_error_hint(error, "names are like those of transformers: --train \"layers\\.31\\. "
                           "lm_head\"");
    return err;
  }
  if (count.unmatched_count) note_unmatched(&count, r);
  bool is_factory = args->trained_by == JOB_TRAINED_BY_FACTORY;
  which.is_widened =
      args->widens_trained || (is_factory && args->amp && args->strategy != PLIM_SHARD_ZERO3);
  r->job.trained = which;
  r->trained_share = (double)count.trained / (double)count.elements;
  r->job.recipe.asks_for_inputs = args->trained_by == JOB_TRAINED_BY_INPUTS;
  r->job.recipe.checkpoints_trained = is_factory;
  return PLIM_OK;
}
