#include "job_effects.h"

#include <string.h>

#include "family.h"
#include "knobs.h"
#include "liger.h"

#define AT(field) offsetof(job_args, field)
const cli_option job_own_options[] = {JOB_OPTIONS(AT), {0}};

// ---- conditions ---------------------------------------------------------------------------------------------

typedef bool condition(const job_args *a, const job_request *r);

static bool has_no_adapters(const job_args *a, const job_request *r) {
  (void)a;
  return !r->job.lora.rank;
}

static bool trains_part(const job_args *a, const job_request *r) {
  return a->trained && !r->job.lora.rank;
}

static bool projects(const job_args *a, const job_request *r) {
  (void)a;
  return plim_optimizer_projects(r->job.recipe.optimizer);
}

static bool has_adapters(const job_args *a, const job_request *r) {
  (void)a;
  return r->job.lora.rank;
}

// With peft's autocast_adapter_dtype=False, adapters have the dtype in which the base model computes.
static bool computes_in_bf16(const job_args *a, const job_request *r) {
  bool is_cast = a->lora_dtype == ADAPTERS_CAST;
  return is_cast || (r->job.dtype == PLIM_BF16 && r->job.weights != PLIM_WEIGHTS_INT8);
}

static bool has_targets(const job_args *a, const job_request *r) {
  (void)a;
  return r->job.model.family->is_encoder_decoder;
}

static bool is_not_bare(const job_args *a, const job_request *r) {
  (void)a;
  return !r->job.recipe.is_bare;
}

static bool is_chunked(const job_args *a, const job_request *r) {
  (void)a;
  return r->job.recipe.loss == PLIM_LOSS_CHUNKED || r->job.recipe.loss == PLIM_LOSS_LOOP;
}

static bool is_contrastive(const job_args *a, const job_request *r) {
  (void)a;
  return r->job.recipe.loss == PLIM_LOSS_CONTRASTIVE;
}

static bool is_of_texts(const job_args *a, const job_request *r) {
  (void)a;
  return plim_texts_per_sample(&r->job.recipe) == 1 && r->job.recipe.method != PLIM_METHOD_KTO;
}

static bool has_pairs(const job_args *a, const job_request *r) {
  (void)a;
  return plim_method_compares(r->job.recipe.method);
}

static bool has_reference(const job_args *a, const job_request *r) {
  (void)a;
  return plim_method_has_reference(r->job.recipe.method);
}

static bool has_answers(const job_args *a, const job_request *r) {
  return has_pairs(a, r) && r->job.recipe.method != PLIM_METHOD_REWARD;
}

static bool has_adapters_to_disable(const job_args *a, const job_request *r) {
  return a->reference - 1 != (int)PLIM_REFERENCE_ADAPTER || r->job.lora.rank;
}

static bool computes_own_loss(const job_args *a, const job_request *r) {
  return !has_pairs(a, r) || a->loss == PLIM_LOSS_FULL || a->loss == PLIM_LOSS_CHUNKED;
}

static bool keeps_outputs(const job_args *a, const job_request *r) {
  const plim_recipe *c = &r->job.recipe;
  return is_not_bare(a, r) && !c->is_trainer && !c->keeps_only_loss && c->loss == PLIM_LOSS_FULL;
}

static bool can_checkpoint(const job_args *a, const job_request *r) {
  (void)a;
  return !r->job.model.family->cannot_checkpoint;
}

static bool offloads_activations(const job_args *a, const job_request *r) {
  (void)r;
  return a->offload == JOB_OFFLOAD_ACTIVATIONS;
}

static bool offloads_what_it_can(const job_args *a, const job_request *r) {
  return r->job.recipe.checkpoint != PLIM_CHECKPOINT_OFFLOADED || can_checkpoint(a, r);
}

static bool can_move_parameters(const job_args *a, const job_request *r) {
  plim_strategy s = r->job.sharding.strategy;
  (void)a;
  return !r->job.sharding.offloads_parameters || s == PLIM_SHARD_FSDP2 || s == PLIM_SHARD_ZERO3;
}

static bool has_liger(const job_args *a, const job_request *r) {
  (void)a;
  return plim_config_has_liger(&r->job.model);
}

static bool knows_liger(const job_args *a, const job_request *r) {
  return job_knows_liger(a, &r->job.model);
}

static bool lacks_other_liger(const job_args *a, const job_request *r) {
  return has_liger(a, r) || !knows_liger(a, r);
}

static bool runs_packages(const job_args *a, const job_request *r) {
  (void)a;
  return r->job.model.family->packages != 0;
}

static bool loads_what_it_quantises(const job_args *a, const job_request *r) {
  (void)a;
  return r->job.load != PLIM_LOAD_INIT || r->job.weights == PLIM_WEIGHTS_PLAIN;
}

static bool is_quantised(const job_args *a, const job_request *r) {
  (void)a;
  return r->job.weights != PLIM_WEIGHTS_PLAIN;
}

static bool has_neighbours(const job_args *a, const job_request *r) {
  (void)r;
  return a->world > a->nodes;
}

static bool has_machines(const job_args *a, const job_request *r) {
  (void)r;
  return a->nodes > 1;
}

static bool is_fsdp(const job_args *a, const job_request *r) {
  (void)a;
  return r->job.sharding.strategy == PLIM_SHARD_FSDP2;
}

static bool has_policy(const job_args *a, const job_request *r) {
  return !is_fsdp(a, r) || r->job.sharding.compute_dtype != PLIM_BOOL;
}

static bool has_own_policy(const job_args *a, const job_request *r) {
  return !has_policy(a, r) || !is_fsdp(a, r) || !r->job.sharding.is_by_accelerate;
}

static bool has_labels(const job_args *a, const job_request *r) {
  (void)a;
  return r->job.model.head == PLIM_HEAD_TEXTS || r->job.model.head == PLIM_HEAD_TOKENS;
}

static bool has_own_head(const job_args *a, const job_request *r) {
  plim_method method = r->job.recipe.method;
  (void)a;
  return method != PLIM_METHOD_REWARD && method != PLIM_METHOD_PRM;
}

static bool is_no_recipe(const job_args *a, const job_request *r) {
  (void)a;
  return r->job.recipe.method != PLIM_METHOD_DPO_TUNE;
}

static bool is_ddp(const job_args *a, const job_request *r) {
  (void)a;
  return r->job.sharding.strategy == PLIM_SHARD_DDP;
}

// ---- the table ----------------------------------------------------------------------------------------------

// Every option of JOB_OPTIONS has a row. Without a condition it always has an effect, or states what the run
// does anyway.
static const struct {
  const char *option;
  condition *has_effect;
  const char *why_not, *hint;
  const char *missing; // what the note says if the run does it and the prediction does not
  bool errs_high;      // and the run then needs less memory
} effects[] = {
    {"model", NULL, NULL, NULL},
    {"fetch", NULL, NULL, NULL}, // it permits: a model that is known needs no download
    {"batch", NULL, NULL, NULL},
    {"seq", NULL, NULL, NULL},
    {"lengths", is_of_texts,
     "preference training, reward models and contrastive losses do not use it yet",
     "leave it out, and give the length of the longest sample with --seq"},
    {"head", has_own_head, "a reward model has a head of its own", "leave it out"},
    {"labels", has_own_head, "a reward model has a head of its own", "leave it out"},
    {"labels", has_labels, "only heads for texts and tokens have labels", "--head sequence"},
    {"target-seq", has_targets, "only encoder-decoder models have a separate target length",
     "use --seq for the length of the sequences"},
    {"dtype", NULL, NULL, NULL},
    {"amp", NULL, NULL, NULL},
    {"lora-rank", NULL, NULL, NULL},
    {"lora-alpha", has_adapters, "the run has no adapters", "--lora-rank 16"},
    {"lora-dropout", has_adapters, "the run has no adapters", "--lora-rank 16"},
    {"lora-targets", has_adapters, "the run has no adapters", "--lora-rank 16"},
    {"lora-save", has_adapters, "the run has no adapters", "--lora-rank 16"},
    {"lora-layers", has_adapters, "the run has no adapters", "--lora-rank 16"},
    {"lora-exclude", has_adapters, "the run has no adapters", "--lora-rank 16"},
    {"lora-bias", has_adapters, "the run has no adapters", "--lora-rank 16"},
    {"dora", has_adapters, "the run has no adapters", "--lora-rank 16"},
    {"train", has_no_adapters, "adapters are trained, and nothing else", "leave --lora-rank out"},
    {"train-by", trains_part, "all parameters are trained", "--train \"layers\\.31\\.\""},
    {"lora-dtype", has_adapters, "the run has no adapters", "--lora-rank 16"},
    {"lora-dtype", computes_in_bf16,
     "adapters are either float32 or in the dtype the model computes in, which is not bf16",
     "--dtype bf16"},
    {"checkpoint", can_checkpoint,
     "transformers has no gradient checkpointing for this architecture", "leave it out"},
    {"reentrant", can_checkpoint,
     "transformers has no gradient checkpointing for this architecture", "leave it out"},
    {"attention", NULL, NULL, NULL},
    {"mask", is_no_recipe, "torchtune's DPO has no attention mask", "leave it out"},
    {"optimizer", NULL, NULL, NULL},
    {"projection-rank", projects, "the optimizer does not project gradients",
     "--optimizer galore, or --optimizer apollo"},
    {"projected", projects, "the optimizer does not project gradients",
     "--optimizer galore, or --optimizer apollo"},
    {"accumulate", NULL, NULL, NULL},
    {"no-clip", NULL, NULL, NULL},
    {"in-backward", NULL, NULL, NULL},
    {"neftune", NULL, NULL, NULL},
    {"loss", computes_own_loss, "training from preferences has losses of its own",
     "--loss chunked (TRL from 1.15 on), or --loss full (older TRL)"},
    {"method", NULL, NULL, NULL},
    {"teacher", NULL, NULL, NULL},
    {"reference", has_reference, "only DPO and KTO have a reference",
     "--method dpo, or --method kto"},
    {"reference", has_adapters_to_disable, "the run has no adapters to disable",
     "--lora-rank 16, or --reference own"},
    {"answer-seq", has_answers, "this training does not tell prompts from answers", "--method dpo"},
    {"loss-chunk", is_chunked, "the loss is not chunked", "--loss chunked"},
    {"columns", is_contrastive, "only a contrastive loss has columns", "--loss contrastive"},
    {"cached-batch", is_contrastive, "only contrastive losses have a cached version",
     "--loss contrastive"},
    {"pooling", is_contrastive, "only contrastive losses use pooled embeddings",
     "--loss contrastive"},
    {"torchtune", NULL, NULL, NULL},
    {"rope-tables", NULL, NULL, NULL},
    {"liger", lacks_other_liger, "Liger-Kernel is not supported yet for this architecture",
     "leave it out",
     "Liger-Kernel's modules are not modelled for this architecture; the run needs less memory "
     "and more or less time than predicted",
     true},
    {"liger", knows_liger, "Liger-Kernel is not supported yet for this architecture",
     "leave it out",
     "Liger-Kernel 0.8 does not support this architecture, or the trainer does not use it there: "
     "the key changes nothing"},
    {"weights", NULL, NULL, NULL},
    {"qat", NULL, NULL, NULL},
    {"prepare", is_quantised, "the weights are not quantised",
     "--weights nf4-double --lora-rank 16"},
    {"offload", offloads_what_it_can,
     "transformers has no gradient checkpointing for this architecture", "--offload activations"},
    {"offload", can_move_parameters, "only ZeRO stage 3 and FSDP2 offload parameters",
     "--offload optimizer, or --strategy zero3"},
    {"offload-with", offloads_activations, "the run offloads no activations",
     "--offload activations"},
    {"strategy", NULL, NULL, NULL},
    {"world", NULL, NULL, NULL},
    {"nodes", NULL, NULL, NULL},
    {"link", has_neighbours, "the run has only one GPU per machine", "--strategy ddp --world 8"},
    {"network", has_machines, "the run uses only one machine", "--nodes 2"},
    {"no-reshard", is_fsdp, "it applies only to FSDP2", "--strategy fsdp2"},
    {"reduce-dtype", is_fsdp, "it applies only to FSDP2", "--strategy fsdp2"},
    {"reduce-dtype", has_policy,
     "without mixed precision, gradients are reduced in their own dtype", "--amp bf16"},
    {"reduce-dtype", has_own_policy, "accelerate reduces gradients in the dtype it computes in",
     "--loop manual"},
    {"bucket-views", is_ddp, "it applies only to DistributedDataParallel", "--strategy ddp"},
    {"delete-outputs", keeps_outputs, "this training loop does not keep the outputs after backward",
     "it matters only with --loop manual --loss full on one GPU"},
    {"loop", is_no_recipe, "torchtune's DPO has a loop of its own", "leave it out"},
    {"load", loads_what_it_quantises, "quantised weights are always loaded from a checkpoint",
     "--load device-map"},
    {"steps", NULL, NULL, NULL},
    {"alloc-conf", NULL, NULL, NULL},
    {"gpu", NULL, NULL, NULL},
    {"limit", NULL, NULL, NULL},
    {"versions", NULL, NULL, NULL},
    {"packages", runs_packages, "no package has kernels for this architecture that are modelled",
     "leave it out"},
};

enum { EFFECTS = sizeof effects / sizeof *effects };

bool job_effect_is_known(const char *option) {
  for (int i = 0; i < EFFECTS; i++)
    if (strcmp(effects[i].option, option) == 0) return true;
  return false;
}

// ---- requested options --------------------------------------------------------------------------------------

static const size_t sizes[CLI_KIND_COUNT] = {
    [CLI_FLAG] = sizeof(bool),     [CLI_STRING] = sizeof(char *), [CLI_BYTES] = sizeof(uint64_t),
    [CLI_UINT] = sizeof(uint64_t), [CLI_NUMBER] = sizeof(double), [CLI_CHOICE] = sizeof(int),
    [CLI_FILE] = sizeof(char *),
};

static bool is_asked(const job_args *a, const char *name) {
  static const job_args defaults = JOB_DEFAULTS;
  const cli_option *o = job_own_options;
  while (strcmp(o->name, name) != 0) o++;
  const char *is = (const char *)a + o->offset, *was = (const char *)&defaults + o->offset;
  return memcmp(is, was, sizes[o->kind]) != 0;
}

static plim_err refuse(int i, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "--%s has no effect: %s", effects[i].option,
                           effects[i].why_not);
  plim_error_hint(error, "%s", effects[i].hint);
  return err;
}

plim_err job_check_effects(const job_args *args, const job_args *typed, job_request *r,
                           plim_error *error) {
  for (int i = 0; i < EFFECTS; i++) {
    const char *option = effects[i].option;
    if (!effects[i].has_effect || !is_asked(args, option) || effects[i].has_effect(args, r))
      continue;
    if (is_asked(typed, option)) return refuse(i, error);
    plim_knob knob = plim_knob_named(option);
    const char *name = knob < PLIM_KNOBS ? plim_knob_table[knob].name : NULL;
    if (effects[i].missing) {
      plim_note_add(&r->notes, "no_effect", name, "%s", effects[i].missing);
      if (effects[i].errs_high) plim_note_errs_high(&r->notes);
    } else
      plim_note_add(&r->notes, "no_effect", name, "%s, which your files set, has no effect: %s",
                    option, effects[i].why_not);
  }
  return PLIM_OK;
}
