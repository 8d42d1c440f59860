// Combinations that a framework refuses: while one setting is on, a knob keeps its value; and values of two knobs that a plan
// must not combine.
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dialect_values.h"
#include "key_names.h"
#include "project_impl.h"

// A setting holds its knob if it is above `limit`, true, or a word other than "false" and "none"; or if its text fits one of
// the patterns in `values`.
typedef struct {
  plim_dialect dialect; // PLIM_DIALECTS: any
  const char *key;      // with * if there are `values`
  int64_t limit;
  plim_knob knob;
  const char *reason;
  const char *values;                          // separated by blanks; or NULL
  enum { EITHER_WAY, WITH, WITHOUT } adapters; // whether the files have adapters
  const char *beside;                          // another key that has to be on; or NULL
} rule;

#define ANY PLIM_DIALECTS
#define TUNE PLIM_DIALECT_TORCHTUNE
#define AXOLOTL PLIM_DIALECT_AXOLOTL
#define FACTORY PLIM_DIALECT_LLAMA_FACTORY
#define FACTORY_V1 PLIM_DIALECT_LLAMA_FACTORY_V1

#define LAYERWISE "must be 1 when the optimizer steps during backward"
#define BY_NAME "it steps during backward, and no other optimizer would"
#define LATE "LOMO updates the parameters after each micro batch"
#define ALONE "the optimizer steps during backward, before GPUs exchange gradients"
#define PROJECTED "GaLore and APOLLO do not work on sharded parameters"
#define DECOMPOSED "peft computes these adapters from plain weights"
#define ADAPTED "GaLore and APOLLO do not work with adapters"

static const rule rules[] = {
    // transformers 5.17, trainer_optimizer.py: Trainer's keys, and Axolotl's.
    {ANY, "optim", 0, PLIM_KNOB_ACCUMULATE, LAYERWISE, "*_layerwise"},
    {ANY, "optimizer", 0, PLIM_KNOB_ACCUMULATE, LAYERWISE, "*_layerwise"},
    {ANY, "optim", 0, PLIM_KNOB_STRATEGY, PROJECTED, "galore_* apollo_*"},
    {ANY, "optimizer", 0, PLIM_KNOB_STRATEGY, PROJECTED, "galore_* apollo_*"},
    {ANY, "optim", 0, PLIM_KNOB_OPTIMIZER, BY_NAME, "*_layerwise"},
    {ANY, "optimizer", 0, PLIM_KNOB_OPTIMIZER, BY_NAME, "*_layerwise"},
    {ANY, "optim", 0, PLIM_KNOB_ACCUMULATE, LATE, "lomo adalomo"},
    {ANY, "optim", 0, PLIM_KNOB_STRATEGY, ALONE, "*_layerwise lomo adalomo"},
    {ANY, "optimizer", 0, PLIM_KNOB_STRATEGY, ALONE, "*_layerwise"},
    {ANY, "optim", 0, PLIM_KNOB_LORA_RANK, ADAPTED, "galore_* apollo_*"},
    {ANY, "optimizer", 0, PLIM_KNOB_LORA_RANK, ADAPTED, "galore_* apollo_*"},

    // peft 0.21, tuners/lora/layer.py: these take the weight as it is stored. Axolotl's names, and those of LoraConfig.
    {ANY, "loftq_bits", 0, PLIM_KNOB_QUANTISATION, DECOMPOSED},
    {AXOLOTL, "peft_init_lora_weights", 0, PLIM_KNOB_QUANTISATION, DECOMPOSED, "pissa* loftq mica"},
    {ANY, "init_lora_weights", 0, PLIM_KNOB_QUANTISATION, DECOMPOSED, "pissa* loftq mica"},

    {ANY, "context_parallel_size", 1, PLIM_KNOB_MICRO_BATCH,
     "must be 1 when sequences are split across GPUs"},
    {ANY, "cp_size", 1, PLIM_KNOB_MICRO_BATCH, "must be 1 when sequences are split across GPUs"},
    {ANY, "pipeline_model_parallel_size", 1, PLIM_KNOB_MICRO_BATCH,
     "the pipeline schedule depends on it"},
    {ANY, "pipeline_model_parallel_size", 1, PLIM_KNOB_ACCUMULATE,
     "the pipeline schedule depends on it"},
    {ANY, "auto_find_batch_size", 0, PLIM_KNOB_MICRO_BATCH, "Trainer changes it automatically"},

    // torchtune 0.6, recipes/full_finetune_single_device.py and its siblings.
    {TUNE, "optimizer_in_bwd", 0, PLIM_KNOB_ACCUMULATE,
     "must be 1 when the optimizer steps during backward"},
    {TUNE, "ac_mode", 0, PLIM_KNOB_CHECKPOINT,
     "while ac_mode is set, enable_activation_checkpointing: true turns all checkpoints off"},

    // recipes/qat_distributed.py trains all parameters; QATLoRALinear (modules/peft/lora.py) takes plain weights alone.
    {TUNE, "quantizer._component_", 0, PLIM_KNOB_LORA_RANK,
     "only torchtune's recipe qat_lora_finetune_distributed trains adapters with a quantizer",
     "*QAT*", WITHOUT},
    {TUNE, "quantizer._component_", 0, PLIM_KNOB_QUANTISATION,
     "torchtune's quantisation-aware training takes plain weights alone", "*QAT*", WITH},
    // models/llama4/_component_builders.py: lora_llama4_moe takes no quantize_base.
    {TUNE, "model._component_", 0, PLIM_KNOB_QUANTISATION,
     "torchtune does not quantise the experts of Llama 4", "*.llama4.*"},

    // Axolotl 0.19, utils/schemas/validation.py.
    // Trainers of trl/experimental have no such setting.
    {AXOLOTL, "rl", 0, PLIM_KNOB_OFFLOAD, "its trainer in TRL does not offload activations",
     "orpo simpo cpo"},
    {AXOLOTL, "process_reward_model", 0, PLIM_KNOB_OFFLOAD,
     "its trainer in TRL does not offload activations"},
    {AXOLOTL, "gradient_checkpointing", 0, PLIM_KNOB_CHECKPOINT,
     "the same key turns offloading on, and Axolotl offloads only with checkpointing",
     "offload offload_disk unsloth"},
    {AXOLOTL, "selective_checkpointing", 0, PLIM_KNOB_CHECKPOINT,
     "selective_checkpointing needs checkpointing"},
    // utils/schemas/config.py, check_qat_config
    {AXOLOTL, "qat.weight_dtype", 0, PLIM_KNOB_QUANTISATION,
     "Axolotl refuses quantised weights with qat", "*", WITH},
    // utils/distributed.py, _get_parallel_config_kwargs
    {AXOLOTL, "dp_shard_size", 1, PLIM_KNOB_STRATEGY, "it needs FSDP"},
    {AXOLOTL, "fp8_enable_fsdp_float8_all_gather", 0, PLIM_KNOB_STRATEGY, "it needs FSDP2"},
    {AXOLOTL, "flash_attn_fuse_mlp", 0, PLIM_KNOB_LORA_RANK,
     "Axolotl refuses adapters with fused MLPs"},
    {AXOLOTL, "base_model", 0, PLIM_KNOB_CHECKPOINT, "Axolotl refuses checkpointing for MPT",
     "*mpt*"},
    // Their losses take the logits (core/builders/causal.py; integrations/diffusion/trainer.py).
    {AXOLOTL, "use_eaft", 0, PLIM_KNOB_LIGER, "this loss needs all logits"},
    {AXOLOTL, "use_eaft", 0, PLIM_KNOB_CHUNKED_LOSS, "this loss needs all logits"},
    {AXOLOTL, "plugins.*", 0, PLIM_KNOB_LIGER, "this loss needs all logits", "*DiffusionPlugin"},
    {AXOLOTL, "plugins.*", 0, PLIM_KNOB_CHUNKED_LOSS, "this loss needs all logits",
     "*DiffusionPlugin"},
    // The micro batch becomes the length of a packed row (utils/data/streaming.py, encode_packed_streaming), all of whose
    // tokens see each other and share one timestep (integrations/diffusion/trainer.py, _forward_process).
    {AXOLOTL, "plugins.*", 0, PLIM_KNOB_MICRO_BATCH,
     "it sets how many tokens a packed row has, which see each other and share a timestep",
     "*DiffusionPlugin", .beside = "sample_packing"},
    {AXOLOTL, "tiled_mlp", 0, PLIM_KNOB_LIGER, "Axolotl refuses Liger's MLP with tiled_mlp"},
    {AXOLOTL, "tensor_parallel_size", 1, PLIM_KNOB_LIGER,
     "Axolotl refuses Liger-Kernel with tensor parallelism"},

    // LLaMA-Factory 0.9, hparams/parser.py, hparams/finetuning_args.py, model/model_utils/liger_kernel.py.
    {FACTORY, "fp8_enable_fsdp_float8_all_gather", 0, PLIM_KNOB_STRATEGY, "it needs FSDP2"},
    {FACTORY, "gradient_checkpointing", 0, PLIM_KNOB_CHECKPOINT,
     "Trainer turns checkpointing on as well"},
    {FACTORY, "use_badam", 0, PLIM_KNOB_OPTIMIZER, "BAdam is the optimizer"},
    {FACTORY, "use_badam", 0, PLIM_KNOB_STRATEGY,
     "LLaMA-Factory shares BAdam between GPUs only with ZeRO-3 and badam_mode: layer"},
    {FACTORY, "use_badam", 0, PLIM_KNOB_LORA_RANK, "LLaMA-Factory refuses adapters with BAdam"},
    {FACTORY, "use_galore", 0, PLIM_KNOB_LORA_RANK, "LLaMA-Factory refuses adapters with GaLore"},
    {FACTORY, "use_apollo", 0, PLIM_KNOB_LORA_RANK, "LLaMA-Factory refuses adapters with APOLLO"},
    {FACTORY, "use_galore", 0, PLIM_KNOB_STRATEGY, "LLaMA-Factory refuses GaLore with DeepSpeed"},
    {FACTORY, "galore_layerwise", 0, PLIM_KNOB_ACCUMULATE,
     "must be 1 when the optimizer steps during backward"},
    {FACTORY, "use_apollo", 0, PLIM_KNOB_OPTIMIZER, "APOLLO is the optimizer"},
    {FACTORY, "use_apollo", 0, PLIM_KNOB_STRATEGY, "LLaMA-Factory refuses APOLLO with DeepSpeed"},
    {FACTORY, "apollo_layerwise", 0, PLIM_KNOB_ACCUMULATE,
     "must be 1 when the optimizer steps during backward"},
    {FACTORY, "use_adam_mini", 0, PLIM_KNOB_OPTIMIZER, "Adam-mini is the optimizer"},
    {FACTORY, "use_muon", 0, PLIM_KNOB_OPTIMIZER, "Muon is the optimizer"},
    {FACTORY, "pure_bf16", 0, PLIM_KNOB_STRATEGY, "LLaMA-Factory refuses pure_bf16 with ZeRO-3"},
    {FACTORY, "pissa_init", 0, PLIM_KNOB_STRATEGY, "LLaMA-Factory refuses pissa_init with ZeRO-3"},
    {FACTORY, "pissa_init", 0, PLIM_KNOB_QUANTISATION,
     "LLaMA-Factory refuses pissa_init with quantised weights"},
    {FACTORY, "use_unsloth", 0, PLIM_KNOB_STRATEGY, "LLaMA-Factory refuses Unsloth with ZeRO-3"},
    {FACTORY, "use_kt", 0, PLIM_KNOB_STRATEGY, "LLaMA-Factory refuses KTransformers with ZeRO-3"},
    {FACTORY, "predict_with_generate", 0, PLIM_KNOB_STRATEGY,
     "LLaMA-Factory refuses predict_with_generate with ZeRO-3"},
    // Megatron's keys (train/mca, train/megatron_bridge) replace those of Trainer.
    {FACTORY, "tensor_model_parallel_size", 0, PLIM_KNOB_STRATEGY,
     "Megatron shards only the optimizer, with use_distributed_optimizer"},
    {FACTORY, "tensor_model_parallel_size", 0, PLIM_KNOB_CHECKPOINT,
     "Megatron sets checkpointing with recompute_granularity and other keys"},
    {FACTORY, "tensor_model_parallel_size", 0, PLIM_KNOB_OPTIMIZER,
     "Megatron uses its own optimizer"},
    {FACTORY, "tensor_model_parallel_size", 0, PLIM_KNOB_QUANTISATION,
     "Megatron's weights are not quantised"},
    {FACTORY, "use_dft_loss", 0, PLIM_KNOB_LIGER, "this loss needs all logits"},
    {FACTORY, "use_asft_loss", 0, PLIM_KNOB_LIGER, "this loss needs all logits"},
    {FACTORY, "use_eaft_loss", 0, PLIM_KNOB_LIGER, "this loss needs all logits"},
    {FACTORY, "use_dft_loss", 0, PLIM_KNOB_CHUNKED_LOSS, "this loss needs all logits"},
    {FACTORY, "use_asft_loss", 0, PLIM_KNOB_CHUNKED_LOSS, "this loss needs all logits"},
    {FACTORY, "use_eaft_loss", 0, PLIM_KNOB_CHUNKED_LOSS, "this loss needs all logits"},
};

static bool is_on(const plim_value *value, int64_t limit) {
  plim_value n = *value;
  if (value->kind == PLIM_VALUE_BOOL) return value->flag;
  if (value->kind == PLIM_VALUE_TEXT && !plim_number_of(value->text, &n))
    return *value->text && strcasecmp(value->text, "false") != 0 &&
           strcasecmp(value->text, "none") != 0 && strcasecmp(value->text, "null") != 0;
  return n.kind == PLIM_VALUE_INTEGER && n.integer > limit;
}

static bool fits_one_of(const char *patterns, const plim_value *value) {
  char pattern[32];
  if (value->kind != PLIM_VALUE_TEXT) return false;
  for (const char *at = patterns; *at; at += strspn(at, " ")) {
    size_t n = strcspn(at, " ");
    snprintf(pattern, sizeof pattern, "%.*s", (int)n, at);
    if (fnmatch(pattern, value->text, FNM_CASEFOLD) == 0) return true;
    at += n;
  }
  return false;
}

static const plim_setting *find_value(const plim_project_file *f, const rule *r) {
  char name[PLIM_KEY_BYTES];
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_setting *s = &f->settings.at.at[i];
    plim_key_name(s->key, name);
    if (plim_key_fits(name, r->key, true) && fits_one_of(r->values, &s->value)) return s;
  }
  return NULL;
}

static bool has_beside(const plim_project_file *f, const rule *r) {
  const plim_setting *s = r->beside ? plim_project_setting(f, r->beside) : NULL;
  return !r->beside || (s && is_on(&s->value, 0));
}

// The setting that makes the rule apply; NULL: it does not.
static const plim_setting *reason_to_hold(const plim_project *p, const rule *r) {
  if (r->dialect != ANY && r->dialect != p->dialect) return NULL;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (!has_beside(f, r)) continue;
    const plim_setting *s = r->values ? find_value(f, r) : plim_project_setting(f, r->key);
    if (s && (r->values || is_on(&s->value, r->limit))) return s;
  }
  return NULL;
}

void plim_project_apply_rules(plim_project *p) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    plim_project_knob *k = &p->knobs[rules[i].knob];
    bool is_for_others = rules[i].adapters && (rules[i].adapters == WITH) != plim_project_adapts(p);
    bool is_free = k->is_fixed || is_for_others;
    const plim_setting *s = is_free ? NULL : reason_to_hold(p, &rules[i]);
    if (!s) continue;
    k->is_fixed = k->is_refused = true;
    snprintf(k->why, sizeof k->why, "%.120s (%.90s)", rules[i].reason,
             rules[i].values ? s->value.text : s->key);
  }
}

// ---- two knobs --------------------------------------------------------------------------------------

#define BITSANDBYTES                                                                               \
  "adamw-8bit paged-adamw paged-adamw-8bit lion-bnb lion-8bit paged-lion paged-lion-8bit "         \
  "rmsprop-bnb rmsprop-8bit ademamix ademamix-8bit paged-ademamix paged-ademamix-8bit"

#define IN_PLACE_OF_IT "--fix offload=activations"

static const struct {
  plim_dialect dialect;
  plim_refused_pair pair;
} pairs[] = {
    // torchtune 0.6, recipes/lora_finetune_single_device.py.
    {TUNE,
     {{PLIM_KNOB_OFFLOAD, PLIM_KNOB_CHECKPOINT},
      {"activations", "off"},
      "torchtune offloads activations only with checkpointing"}},
    // It has no such checkpoints: with both of its keys, plain ones are offloaded.
    {TUNE,
     {{PLIM_KNOB_CHECKPOINT, PLIM_KNOB_CHECKPOINT},
      {"offloaded", "offloaded"},
      "torchtune has no checkpoints of this kind",
      IN_PLACE_OF_IT}},
    // Axolotl 0.19, check_activation_offloading_wo_gc.
    {AXOLOTL,
     {{PLIM_KNOB_OFFLOAD, PLIM_KNOB_CHECKPOINT},
      {"activations", "off"},
      "Axolotl offloads activations only with checkpointing"}},
    // Its word for them is an older one for offloaded activations.
    {AXOLOTL,
     {{PLIM_KNOB_CHECKPOINT, PLIM_KNOB_CHECKPOINT},
      {"offloaded", "offloaded"},
      "Axolotl has no checkpoints of this kind",
      IN_PLACE_OF_IT}},
    // Its process group has no backend for tensors of the host (v1/accelerator/interface.py), whose norm fsdp2.py computes
    // over all GPUs before the first step (_warmup_grad_norm).
    {FACTORY_V1,
     {{PLIM_KNOB_STRATEGY, PLIM_KNOB_OFFLOAD},
      {"fsdp2", "parameters"},
      "with offload_params, LLaMA-Factory v1 has no process group for parameters on the host"}},
    // "got mixed torch.Tensor and DTensor" (0.50 with torch 2.11).
    {ANY,
     {{PLIM_KNOB_STRATEGY, PLIM_KNOB_OPTIMIZER},
      {"fsdp2", BITSANDBYTES},
      "the optimizers of bitsandbytes fail with the tensors of FSDP2"}},
};

size_t plim_project_refused(const plim_project *p, plim_refused_pair out[PLIM_MAX_REFUSED]) {
  size_t count = plim_tune_refused(p, out, PLIM_MAX_REFUSED);
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs && count < PLIM_MAX_REFUSED; i++)
    if (pairs[i].dialect == p->dialect || pairs[i].dialect == ANY) out[count++] = pairs[i].pair;
  return count;
}
