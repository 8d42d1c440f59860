// Applies what an ecosystem does by default, and notes what its files leave open.
#include <stdlib.h>
#include <string.h>

#include "alloc_conf.h"
#include "project_job.h"

#define note(p, ...) plim_note_add(&(p)->notes, __VA_ARGS__)

enum { DTYPE_FP32 = 3 }; // of job_dtypes

// Also for LLaMA-Factory's files with Megatron's keys.
static bool is_megatron(const project_job *p) {
  plim_dialect dialect = p->project.dialect;
  return dialect == PLIM_DIALECT_MEGATRON || dialect == PLIM_DIALECT_MEGATRON_BRIDGE ||
         project_job_setting(p, "tensor_model_parallel_size", "");
}

// Megatron computes in 16 bits with float32 parameters, gradients and moments, and reduces gradients in place. Float32
// under autocast with bucket views needs the same memory, including the cast weights. If its optimizer is sharded,
// DeepSpeed's is the closest, with float32 parameters only in the optimizer.
static void fill_megatron(project_job *p, job_args *a) {
  p->is_megatron = is_megatron(p);
  if (!p->is_megatron) return;
  bool is_shared = a->strategy > PLIM_SHARD_DDP;
  bool is_open = !a->dtype && !a->lora_rank && !job_is_typed(a, &a->dtype);
  if (is_open && a->amp && !is_shared) a->dtype = DTYPE_FP32;
  if (a->strategy == PLIM_SHARD_DDP) a->bucket_views = true;
  note(p, "unmodelled.megatron", NULL,
       "Megatron's own kernels and optimizer are not modelled: predicted with PyTorch's%s",
       a->amp && is_shared && !a->lora_rank
           ? ". Not included: 2 bytes per parameter for float32 gradients"
           : "");
}

// LLaMA-Factory v1 trains all parameters in float32; bf16 is used only by FSDP, without autocast (model_engine.py,
// distributed/fsdp2.py).
static void fill_factory(const project_job *p, job_args *a) {
  if (p->project.dialect != PLIM_DIALECT_LLAMA_FACTORY_V1) return;
  if (!a->lora_rank && !a->dtype && !job_is_typed(a, &a->dtype)) a->dtype = DTYPE_FP32;
  if (a->strategy <= PLIM_SHARD_DDP && !job_is_typed(a, &a->amp)) a->amp = 0;
}

// ---- quantised weights ------------------------------------------------------------------------------

// Ecosystems that quantise on their own and keep the dtype of the other parameters: TRL since 0.27 (sft_trainer.py; the
// prepare_peft_model of 0.26 called peft's function); Axolotl (loaders/model.py: peft's function, after which
// _convert_embedding_modules_dtype converts norms, embeddings and head back to 16 bits); LLaMA-Factory (model_utils/
// checkpointing.py: only norms, if upcast_layernorm is set); torchtune (NF4 tensors of torchao, no cast); Unsloth (its
// own function, unsloth_zoo's prepare_model_for_training, converts only adapters and norms to float32).
static const plim_dialect leaving[] = {
    PLIM_DIALECT_TRL,           PLIM_DIALECT_AXOLOTL,
    PLIM_DIALECT_LLAMA_FACTORY, PLIM_DIALECT_LLAMA_FACTORY_V1,
    PLIM_DIALECT_TORCHTUNE,     PLIM_DIALECT_UNSLOTH,
};

static bool leaves_by_itself(const project_job *p) {
  for (size_t i = 0; i < sizeof leaving / sizeof *leaving; i++)
    if (p->project.dialect == leaving[i]) return true;
  return false;
}

static bool has_script(const project_job *p) {
  for (size_t i = 0; i < p->project.files.len; i++)
    if (p->project.files.at[i]->settings.format == PLIM_FORMAT_PYTHON) return true;
  return false;
}

static bool upcasts_norms(const project_job *p) {
  const plim_setting *norms = project_job_setting(p, "upcast_layernorm", "");
  return norms && norms->value.kind == PLIM_VALUE_BOOL && norms->value.flag;
}

// A script that quantises without calling it keeps the dtype of the other parameters. For a script that is missing, or
// that does not quantise yet, this is not known.
static void fill_kbit(project_job *p, job_args *a) {
  bool is_called = project_job_calls(p, "prepare_model_for_kbit_training(");
  bool is_left = leaves_by_itself(p) || (has_script(p) && a->weights);
  a->leaves_kbit = !is_called && is_left && !upcasts_norms(p);
}

static void note_kbit(project_job *p, const job_args *a) {
  if (!a->weights || a->prepare) return;
  if (upcasts_norms(p))
    note(p, "unmodelled.upcast_layernorm", NULL,
         "upcast_layernorm is predicted as peft's prepare_model_for_kbit_training, which converts "
         "more parameters to float32 and so needs more memory than the run");
  else if (p->project.dialect == PLIM_DIALECT_TRL && a->leaves_kbit && a->dtype != DTYPE_FP32)
    note(p, "assumed.trl_version", NULL,
         "assuming TRL 0.27 or newer; older versions convert unquantised parameters to float32, "
         "which needs more memory: add --prepare peft");
  else if (!leaves_by_itself(p) && !has_script(p))
    note(p, "assumed.prepare_kbit", NULL,
         "the files do not show whether prepare_model_for_kbit_training is called: predicted with "
         "it (--prepare none predicts without)");
}

void project_job_fill_ecosystem(project_job *p, job_args *a) {
  fill_megatron(p, a);
  fill_factory(p, a);
  fill_kbit(p, a);
}

// The number of GPUs is set by the launch command, which is not in these files.
void project_job_note_one(project_job *p, const job_args *a) {
  plim_dialect d = p->project.dialect;
  bool is_of_launcher = d == PLIM_DIALECT_TRL || d == PLIM_DIALECT_AXOLOTL ||
                        d == PLIM_DIALECT_LLAMA_FACTORY || d == PLIM_DIALECT_LLAMA_FACTORY_V1;
  if (!is_of_launcher || p->run.world.origin != PLIM_ABSENT || job_is_typed(a, &a->world)) return;
  for (size_t i = 0; i < p->project.files.len; i++)
    if (p->project.files.at[i]->settings.format > PLIM_FORMAT_TOML) return;
  note(p, "assumed.gpus", "world",
       "the files do not set the number of GPUs: assuming one (--world N for more)");
}

// torchtune's files do not set the number of GPUs and often not the sequence length.
static void note_open(project_job *p, const job_args *a) {
  if (p->project.dialect != PLIM_DIALECT_TORCHTUNE) return;
  if (!a->seq)
    note(p, "assumed.length", "sequence",
         "tokenizer.max_seq_len is not set, so a sequence is as long as its sample: give the "
         "longest with --seq N");
  if (p->run.world.origin == PLIM_ABSENT && !job_is_typed(a, &a->world))
    note(p, "assumed.gpus", "world",
         "assuming one GPU; torchtune's distributed recipes shard with FSDP2 (--world N)");
}

// Notes about recipes of torchtune and Axolotl.
static void note_recipe(project_job *p) {
  const plim_setting *qat = project_job_setting(p, "quantizer", "._component_");
  bool is_qat = qat && qat->value.kind == PLIM_VALUE_TEXT && strstr(qat->value.text, "QAT");
  if (is_qat)
    note(p, "unmodelled.qat", "quantisation",
         "quantisation-aware training (%s) is not modelled: the run needs more memory", qat->key);
  const plim_setting *in_backward = project_job_setting(p, "optimizer_in_bwd", "");
  if (in_backward && in_backward->value.kind == PLIM_VALUE_BOOL && in_backward->value.flag)
    note(p, "unmodelled.optimizer_in_bwd", "optimizer",
         "optimizer_in_bwd is not modelled: predicted with a separate optimizer step, which needs "
         "more memory than the run");
}

// TRL's pull request 5846 made chunks the default of SFTConfig.loss_type, in 1.7.
static void note_loss(project_job *p, const job_args *a) {
  bool is_open = p->project.dialect == PLIM_DIALECT_TRL && p->run.loss.origin == PLIM_DEFAULTED;
  if (is_open && a->loss == PLIM_LOSS_CHUNKED)
    note(p, "assumed.trl_version", "chunked_loss",
         "no loss_type is set: assuming TRL 1.7 or newer, which computes the loss in chunks; older "
         "versions materialise all logits: add --loss full");
}

void project_job_note_ecosystem(project_job *p, const job_args *a) {
  note_loss(p, a);
  note_kbit(p, a);
  note_recipe(p);
  note_open(p, a);
}

// Settings that PyTorch refuses are ignored here; the check command reports them.
static const char *valid_conf(const char *name) {
  plim_alloc_conf conf;
  const char *text = getenv(name);
  return text && *text && !plim_alloc_conf_parse(text, &conf, NULL) ? text : NULL;
}

void project_job_fill_allocator(const project_job *p, job_args *a) {
  static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
  if (!a->alloc_conf && p->run.alloc_conf.origin == PLIM_EXPLICIT)
    a->alloc_conf = p->run.alloc_conf.text;
  for (size_t i = 0; !a->alloc_conf && i < sizeof names / sizeof *names; i++)
    a->alloc_conf = valid_conf(names[i]);
}
