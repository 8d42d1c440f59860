#include "project_refusals.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "conditions.h"
#include "key_names.h"
#include "project_impl.h"

// A term is KEY, which holds if its value is true in Python, KEY=null, which holds if a file other than code sets it to null, or
// KEY=VALUE (with * and ?), which holds if the value is not null and fits. A section holds if anything is in it.
typedef struct {
  plim_dialect dialect; // TRAINERS: those that parse files into transformers' TrainingArguments
  const char *setting;  // a term
  const char *beside; // a term, with which the setting is refused; NULL: it is refused in any case
  const char *unless; // terms, separated by blanks, with any of which it is not refused; or NULL
  const char *fix;    // what to do; NULL: what follows from the others
  const char *
      stops; // where the run stops with an error; NULL: the framework refuses the setting as it reads its files
  const char *
      recipes; // torchtune's recipes that use it (with *, separated by blanks); NULL: all of its recipes
} refusal;

#define AXOLOTL PLIM_DIALECT_AXOLOTL
#define FACTORY PLIM_DIALECT_LLAMA_FACTORY
#define FACTORY_V1 PLIM_DIALECT_LLAMA_FACTORY_V1
#define TUNE PLIM_DIALECT_TORCHTUNE
#define TRAINERS PLIM_DIALECTS
#define AT_START "before its first step"
#define IN_STEP "in its first step"
#define AFTER_STEP "at the end of its first step"
#define DISTRIBUTED "full_finetune_distributed lora_finetune_distributed qat_distributed"
#define SUPERVISED "full_finetune_* lora_finetune_* qat_*"
#define PLAIN_START "adapters of this kind need plain weights: remove one of them"
#define OR_DEFAULT(value) "set another value, or remove the line for the default, which is " value
#define STEPS                                                                                      \
  "set save_steps and eval_steps (in place of saves_per_epoch and evals_per_epoch), or remove "    \
  "early_stopping_patience"

// clang-format off
static const refusal refusals[] = {
    // Axolotl 0.19, utils/schemas/deprecated.py.
    {AXOLOTL, "max_packed_sequence_len", .fix = "use sequence_len with sample_packing: true"},
    {AXOLOTL, "rope_scaling", .fix = "write it under model_config"},
    {AXOLOTL, "dpo_use_logits_to_keep=*"},
    {AXOLOTL, "dpo_generate_during_eval=*"},
    {AXOLOTL, "dpo_norm_loss=*"},
    {AXOLOTL, "rpo_alpha=*"},
    {AXOLOTL, "s2_attention"},
    {AXOLOTL, "flash_attn_rms_norm"},
    // utils/schemas/validation.py, in its order.
    {AXOLOTL, "datasets.*.type=sharegpt*", .fix = "use type: chat_template"},
    {AXOLOTL, "unsloth_cross_entropy_loss"},
    {AXOLOTL, "unsloth_lora_mlp", .fix = "use lora_mlp_kernel: true"},
    {AXOLOTL, "unsloth_lora_qkv", .fix = "use lora_qkv_kernel: true"},
    {AXOLOTL, "unsloth_lora_o", .fix = "use lora_o_kernel: true"},
    {AXOLOTL, "unsloth_rms_norm"},
    {AXOLOTL, "unsloth_rope"},
    {AXOLOTL, "push_dataset_to_hub", .unless = "hf_use_auth_token=true"},
    {AXOLOTL, "test_datasets", "val_set_size"},
    {AXOLOTL, "eval_table_size", "sample_packing", .unless = "eval_sample_packing=false", .fix = "set eval_sample_packing: false"},
    {AXOLOTL, "batch_size", "gradient_accumulation_steps"},
    {AXOLOTL, "micro_batch_size=null", .unless = "batch_size", .fix = "set it to at least 1"},
    {AXOLOTL, "gradient_accumulation_steps=null", .unless = "batch_size", .fix = "set it to at least 1"},
    {AXOLOTL, "sequence_len=null", .fix = OR_DEFAULT("512")},
    {AXOLOTL, "num_epochs=null", .fix = OR_DEFAULT("1")},
    {AXOLOTL, "warmup_ratio", "warmup_steps"},
    {AXOLOTL, "save_steps", "save_strategy", .unless = "save_strategy=steps"},
    {AXOLOTL, "saves_per_epoch", "save_steps"},
    {AXOLOTL, "eval_steps", "eval_strategy", .unless = "eval_strategy=steps"},
    {AXOLOTL, "eval_steps", "val_set_size=0", .unless = "test_datasets eval_strategy=no eval_strategy=false"},
    {AXOLOTL, "eval_strategy", "val_set_size=0", .unless = "test_datasets eval_strategy=no"},
    {AXOLOTL, "evals_per_epoch", "eval_steps"},
    {AXOLOTL, "evals_per_epoch", "eval_strategy", .unless = "eval_strategy=steps"},
    {AXOLOTL, "do_bench_eval", .unless = "evals_per_epoch eval_steps"},
    {AXOLOTL, "noisy_embedding_alpha", "neftune_noise_alpha"},
    {AXOLOTL, "fp8_enable_fsdp_float8_all_gather", .unless = "fsdp_version=2 fsdp_config.fsdp_version=2"},
    {AXOLOTL, "gradient_checkpointing_kwargs.use_reentrant", "unfrozen_parameters", .fix = "set use_reentrant: false"},
    {AXOLOTL, "do_causal_lm_eval", "eval_sample_packing", .fix = "set eval_sample_packing: false"},
    {AXOLOTL, "pretraining_dataset", "include_tokens_per_second"},
    {AXOLOTL, "lr_groups", "loraplus_lr_ratio"},
    {AXOLOTL, "peft_layers_pattern", .unless = "peft_layers_to_transform"},
    {AXOLOTL, "flash_attn_fuse_mlp", "adapter=*lora"},
    {AXOLOTL, "use_onebitllms", "adapter=*lora"},
    {AXOLOTL, "lora_mlp_kernel", "load_in_8bit", .unless = "adapter=qlora", .fix = "set lora_mlp_kernel: false"},
    {AXOLOTL, "lora_qkv_kernel", "load_in_8bit", .unless = "adapter=qlora", .fix = "set lora_qkv_kernel: false"},
    {AXOLOTL, "lora_o_kernel", "load_in_8bit", .unless = "adapter=qlora", .fix = "set lora_o_kernel: false"},
    {AXOLOTL, "lora_mlp_kernel", "trust_remote_code"},
    {AXOLOTL, "lora_qkv_kernel", "trust_remote_code"},
    {AXOLOTL, "lora_o_kernel", "trust_remote_code"},
    {AXOLOTL, "sample_packing", "rl", .fix = "set sample_packing: false"},
    {AXOLOTL, "rl=kto", .unless = "remove_unused_columns=false", .fix = "set remove_unused_columns: false"},
    {AXOLOTL, "optimizer=muon", "deepspeed", .fix = "use FSDP2, or another optimizer"},
    {AXOLOTL, "optimizer=q_galore_adamw8bit", "adapter"},
    {AXOLOTL, "optimizer=q_galore_adamw8bit", "deepspeed", .fix = "use DDP or FSDP2, or another optimizer"},
    {AXOLOTL, "optimizer=flash_*", "deepspeed", .fix = "use DDP or FSDP2, or another optimizer"},
    {AXOLOTL, "batch_flattening", "sample_packing", .unless = "batch_flattening=auto"},
    {AXOLOTL, "chunked_cross_entropy", "cut_cross_entropy"},
    {AXOLOTL, "chunked_cross_entropy", "liger_cross_entropy"},
    {AXOLOTL, "chunked_cross_entropy", "liger_fused_linear_cross_entropy"},
    {AXOLOTL, "cut_cross_entropy", "liger_cross_entropy"},
    {AXOLOTL, "cut_cross_entropy", "liger_fused_linear_cross_entropy"},
    {AXOLOTL, "liger_cross_entropy", "liger_fused_linear_cross_entropy"},
    {AXOLOTL, "max_memory", "gpu_memory_limit"},
    {AXOLOTL, "fsdp", "deepspeed"},
    {AXOLOTL, "model_quantization_config", "load_in_8bit"},
    {AXOLOTL, "model_quantization_config", "load_in_4bit"},
    {AXOLOTL, "chat_template=jinja", .unless = "chat_template_jinja", .fix = "write the template under chat_template_jinja"},
    {AXOLOTL, "pretraining_dataset", .unless = "max_steps", .fix = "set max_steps"},
    {AXOLOTL, "pretraining_dataset", "val_set_size", .fix = "set val_set_size: 0"},
    {AXOLOTL, "streaming", "val_set_size", .fix = "set val_set_size: 0"},
    {AXOLOTL, "streaming", .unless = "max_steps pretraining_dataset", .fix = "set max_steps"},
    {AXOLOTL, "base_model=*falcon*", "fsdp"},
    {AXOLOTL, "base_model=*mpt*", "gradient_checkpointing", .fix = "set gradient_checkpointing: false"},
    {AXOLOTL, "base_model=*nemotron-h*", "gradient_checkpointing", .unless = "sample_packing", .fix = "set sample_packing: true"},
    {AXOLOTL, "selective_checkpointing", .unless = "gradient_checkpointing"},
    {AXOLOTL, "flash_optimum", "bf16"},
    {AXOLOTL, "flash_optimum", "fp16"},
    {AXOLOTL, "rl=simpo", "warmup_ratio", .fix = "use warmup_steps"},
    {AXOLOTL, "relora", .unless = "jagged_restart_steps"},
    {AXOLOTL, "relora", .unless = "adapter"},
    {AXOLOTL, "relora", "fsdp_config"},
    {AXOLOTL, "relora", "deepspeed"},
    // utils/schemas/config.py: `tokens` is a list.
    {AXOLOTL, "tokens.*_token=*", .fix = "write them under special_tokens"},
    // evals_per_epoch and saves_per_epoch become steps only after this.
    {AXOLOTL, "early_stopping_patience", .unless = "save_steps", .fix = STEPS},
    {AXOLOTL, "early_stopping_patience", .unless = "eval_steps", .fix = STEPS},
    // Trainer gets both (core/builders/base.py) and refuses them (transformers 5.14, trainer.py); with these ways to offload,
    // Axolotl passes gradient_checkpointing: false on.
    {AXOLOTL, "gradient_checkpointing=true", "fsdp_config.*activation_checkpointing",
     .unless = "activation_offloading=true activation_offloading=legacy activation_offloading=disk", .fix = "set gradient_checkpointing: false: FSDP checkpoints the layers"},
    // utils/schemas/config.py.
    {AXOLOTL, "attn_implementation=flash", .fix = "set attn_implementation: flash_attention_2"},
    {AXOLOTL, "attn_implementation=flex", .fix = "set attn_implementation: flex_attention"},
    {AXOLOTL, "attn_implementation=sdp", .fix = "set attn_implementation: sdpa"},
    {AXOLOTL, "flash_attention", "attn_implementation"},
    {AXOLOTL, "sdp_attention", "attn_implementation"},
    {AXOLOTL, "xformers_attention", "attn_implementation"},
    {AXOLOTL, "flex_attention", "attn_implementation"},
    {AXOLOTL, "sage_attention", "attn_implementation"},
    {AXOLOTL, "eager_attention", "attn_implementation"},
    {AXOLOTL, "torch_compile_options", .unless = "torch_compile"},
    {AXOLOTL, "fp32_norms", .unless = "fsdp_config"},
    {AXOLOTL, "save_strategy=best", .unless = "metric_for_best_model"},
    {AXOLOTL, "quantize_moe_experts", "lora_target_linear", .fix = "use lora_target_parameters for the experts"},
    {AXOLOTL, "quantize_moe_experts", .unless = "load_in_4bit load_in_8bit"},
    // peft 0.21, tuners/lora/layer.py: a 4-bit weight is stored as one column, to which the adapters are then made.
    {AXOLOTL, "peft.loftq_config", "load_in_4bit", .stops = IN_STEP, .fix = PLAIN_START},
    {AXOLOTL, "peft_init_lora_weights=loftq", "load_in_4bit", .stops = IN_STEP, .fix = PLAIN_START},
    {AXOLOTL, "peft_init_lora_weights=pissa*", "load_in_4bit", .stops = IN_STEP, .fix = PLAIN_START},
    {AXOLOTL, "peft_init_lora_weights=pissa*", "load_in_8bit", .stops = AT_START, .fix = PLAIN_START},
    {AXOLOTL, "peft_init_lora_weights=mica", "load_in_4bit", .stops = IN_STEP, .fix = PLAIN_START},
    {AXOLOTL, "peft_init_lora_weights=mica", "load_in_8bit", .stops = AT_START, .fix = PLAIN_START},
    {AXOLOTL, "peft_init_lora_weights=corda*", .stops = AT_START, .fix = "remove it: Axolotl does not compute what CorDA starts from"},
    {AXOLOTL, "qat", "peft"},
    {AXOLOTL, "qat", "load_in_8bit"},
    {AXOLOTL, "qat", "load_in_4bit"},

    // LLaMA-Factory, v1/config/training_args.py, v1/core/base_trainer.py, v1/plugins/trainer_plugins/optimizers/optimizer.py.
    {FACTORY_V1, "batching_strategy=dynamic_batching", .unless = "max_steps", .fix = "set max_steps"},
    {FACTORY_V1, "batching_strategy=dynamic_batching", "save_epochs", .fix = "use save_steps"},
    {FACTORY_V1, "batching_strategy=padding_free", .unless = "flash_attn=flash_attention_2", .fix = "set flash_attn: flash_attention_2"},
    {FACTORY_V1, "optim_config.name=[!m]*", .fix = "remove optim_config: AdamW is the default, and muon the only other"},
    // v1/core/model_engine.py.
    {FACTORY_V1, "init_config.name=init_on_meta", "peft_config.name=lora", .fix = "set init_config.name: init_on_rank0"},
    {FACTORY_V1, "init_config.name=init_on_meta", "quant_config.name", .fix = "set init_config.name: init_on_rank0"},

    // LLaMA-Factory 0.9, data/processor; hparams/finetuning_args.py. A dataclass gets null as it is, not its default
    // (transformers' HfArgumentParser.parse_dict, and TRL's parser).
    {FACTORY, "cutoff_len=null", .stops = AT_START, .fix = OR_DEFAULT("2048")},
    {FACTORY, "lora_rank=null", .stops = AT_START, .fix = OR_DEFAULT("8")},
    {FACTORY, "pissa_init", "quantization_bit", .fix = "remove one of them, or prepare the model with scripts/pissa_init.py"},
    // transformers 5.17, training_args.py, trainer.py.
    {TRAINERS, "per_device_train_batch_size=null", .stops = AT_START, .fix = OR_DEFAULT("8")},
    {TRAINERS, "gradient_accumulation_steps=null", .stops = AT_START, .fix = OR_DEFAULT("1")},
    {TRAINERS, "num_train_epochs=null", .stops = AT_START, .fix = OR_DEFAULT("3")},
    {TRAINERS, "logging_steps=null", .unless = "logging_strategy=no logging_strategy=epoch", .stops = AT_START, .fix = OR_DEFAULT("500")},
    {TRAINERS, "logging_steps=0", .unless = "logging_strategy=no logging_strategy=epoch", .fix = "set logging_strategy: no"},

    // torchtune 0.7, recipes. cfg.get(KEY, DEFAULT) of OmegaConf 2.1 and newer gives None for a key that is null, and what a
    // section builds gets None as its argument.
    {TUNE, "log_every_n_steps=null", .stops = AFTER_STEP, .fix = OR_DEFAULT("1")},
    {TUNE, "log_every_n_steps=0", .stops = AFTER_STEP, .fix = OR_DEFAULT("1")},
    {TUNE, "batch_size=null", .stops = AT_START, .fix = "set it to at least 1"},
    {TUNE, "batch_size_val=null", "dataset_val", .recipes = DISTRIBUTED " qat_lora_finetune_distributed", .stops = AT_START, .fix = OR_DEFAULT("batch_size")},
    {TUNE, "batch_size_val=0", "dataset_val", .recipes = DISTRIBUTED " qat_lora_finetune_distributed", .stops = AT_START, .fix = OR_DEFAULT("batch_size")},
    {TUNE, "gradient_accumulation_steps=null", .stops = AT_START, .fix = "set it to at least 1"},
    {TUNE, "epochs=null", .stops = AT_START, .fix = "set it to at least 1"},
    {TUNE, "max_steps_per_epoch=0", .recipes = "full_finetune_*", .stops = AT_START, .fix = "set it to null, or to at least 1"},
    {TUNE, "save_every_n_steps=0", .recipes = "full_* lora_* knowledge_* qat_lora_*", .stops = AFTER_STEP, .fix = "set it to null to save after each epoch"},
    {TUNE, "run_val_every_n_steps=0", .recipes = DISTRIBUTED " qat_lora_finetune_distributed", .stops = AFTER_STEP, .fix = "set it to null for no validation"},
    {TUNE, "kd_ratio=null", .recipes = "knowledge_distillation_*", .stops = IN_STEP, .fix = OR_DEFAULT("0.5")},
    {TUNE, "collate_fn=null", .recipes = SUPERVISED, .stops = AT_START, .fix = "remove the line"},
    {TUNE, "lr_scheduler=null", .recipes = "lora_finetune_* lora_dpo_distributed knowledge_* qat_lora_*", .stops = IN_STEP, .fix = "name one, such as torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup"},
    {TUNE, "lr_scheduler.num_warmup_steps=null", .stops = AT_START, .fix = "set it to 0 for no warmup"},
    {TUNE, "tensor_parallel_dim=null", .recipes = DISTRIBUTED, .stops = AT_START, .fix = OR_DEFAULT("1")},
    {TUNE, "tensor_parallel_dim=0", .recipes = DISTRIBUTED, .stops = AT_START, .fix = OR_DEFAULT("1")},
    {TUNE, "context_parallel_dim=null", .recipes = DISTRIBUTED, .stops = AT_START, .fix = OR_DEFAULT("1")},
    {TUNE, "context_parallel_dim=0", .recipes = DISTRIBUTED, .stops = AT_START, .fix = OR_DEFAULT("1")},
    {TUNE, "data_parallel_replicate_dim=null", .recipes = DISTRIBUTED, .stops = AT_START, .fix = OR_DEFAULT("1")},
    {TUNE, "data_parallel_replicate_dim=0", .recipes = DISTRIBUTED, .stops = AT_START, .fix = OR_DEFAULT("1")},
    {TUNE, "data_parallel_shard_dim=null", .recipes = DISTRIBUTED, .stops = AT_START, .fix = OR_DEFAULT("-1: all GPUs")},
    {TUNE, "data_parallel_shard_dim=0", .recipes = DISTRIBUTED, .stops = AT_START, .fix = OR_DEFAULT("-1: all GPUs")},
    // datasets/_packed.py and the functions that call it.
    {TUNE, "dataset.packed", .unless = "tokenizer.max_seq_len dataset.max_seq_len", .stops = AT_START, .fix = "set tokenizer.max_seq_len: it is the length of a packed row"},
    // modules/peft/lora.py; models/*/_component_builders.py.
    {TUNE, "model.lora_rank=null", "model._component_=*lora_*", .stops = AT_START, .fix = "set it to at least 1"},
    {TUNE, "model.lora_rank=0", "model._component_=*lora_*", .stops = IN_STEP, .fix = "set it to at least 1"},
    {TUNE, "model.lora_alpha=null", "model._component_=*lora_*", .stops = IN_STEP, .fix = "set it to a number, usually twice lora_rank"},
    {TUNE, "model.lora_dropout=null", "model._component_=*lora_*", .stops = AT_START, .fix = OR_DEFAULT("0")},
    {TUNE, "model.lora_attn_modules=null", "model._component_=*lora_*", .stops = AT_START, .fix = "list the layers: ['q_proj', 'v_proj', 'output_proj']"},
    // modules/loss/cross_entropy_loss.py: tensor_split.
    {TUNE, "loss.num_output_chunks=null", .stops = IN_STEP, .fix = OR_DEFAULT("8")},
    {TUNE, "loss.num_output_chunks=0", .stops = IN_STEP, .fix = OR_DEFAULT("8")},
    // torch.optim and bitsandbytes compare both with 0; torchao.optim multiplies by the second.
    {TUNE, "optimizer.lr=null", .stops = AT_START, .fix = "set it to a number"},
    {TUNE, "optimizer.weight_decay=null", .stops = "in its first step or before", .fix = "set it to 0 for none"},
    // Sections without which there is nothing to call.
    {TUNE, "optimizer=null", .stops = AT_START, .fix = "name one under optimizer._component_"},
    {TUNE, "loss=null", .stops = AT_START, .fix = "name one under loss._component_"},
    {TUNE, "tokenizer=null", .stops = AT_START, .fix = "name one under tokenizer._component_"},
    {TUNE, "dataset=null", .stops = AT_START, .fix = "name one under dataset._component_"},
    {TUNE, "metric_logger=null", .stops = AT_START, .fix = "name one, such as torchtune.training.metric_logging.DiskLogger"},
};
// clang-format on

// The releases that the table is about.
static const char *release_of(plim_dialect dialect) { return dialect == AXOLOTL ? " 0.19" : ""; }

// A script may give the Trainer other values than those of the file.
static bool is_about(const refusal *r, const plim_project *p) {
  bool is_parsed = p->dialect == PLIM_DIALECT_TRL || p->dialect == FACTORY;
  if (r->dialect == TRAINERS) return is_parsed && !plim_project_has_script(p);
  return r->dialect == p->dialect;
}

// ---- terms ------------------------------------------------------------------------------------------

typedef struct {
  const plim_project_file *file;
  const plim_setting *setting;
} place;

static bool is_true(const plim_value *value) {
  switch (value->kind) {
  case PLIM_VALUE_NULL: return false;
  case PLIM_VALUE_BOOL: return value->flag;
  case PLIM_VALUE_INTEGER: return value->integer != 0;
  case PLIM_VALUE_REAL: return value->real != 0;
  case PLIM_VALUE_TEXT: return *value->text;
  default: return false; // computed: not known
  }
}

static bool is_null(const plim_value *value, plim_format format) {
  return value->kind == PLIM_VALUE_NULL && format <= PLIM_FORMAT_TOML;
}

static bool holds(const plim_setting *s, plim_format format, const char *key, const char *pattern) {
  char name[PLIM_KEY_BYTES], value[256];
  size_t size = strlen(key);
  plim_key_name(s->key, name);
  if (!pattern && strncmp(name, key, size) == 0 && name[size] == '.') return true; // a section
  if (fnmatch(key, name, 0) != 0) return false;
  if (!pattern) return is_true(&s->value);
  if (strcmp(pattern, "null") == 0) return is_null(&s->value, format);
  if (s->value.kind == PLIM_VALUE_NULL) return false;
  plim_value_print(&s->value, value, sizeof value);
  return fnmatch(pattern, value, FNM_CASEFOLD) == 0;
}

// The setting of the framework's files for which the term holds. False: there is none.
static bool find(const plim_project *p, plim_dialect dialect, const char *term, size_t size,
                 place *out) {
  char key[PLIM_KEY_BYTES];
  snprintf(key, sizeof key, "%.*s", (int)size, term);
  char *pattern = strchr(key, '=');
  if (pattern) *pattern++ = 0;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    for (size_t k = 0; f->is.dialect == dialect && k < f->settings.at.len; k++) {
      const plim_setting *s = &f->settings.at.at[k];
      if (plim_setting_counts(&f->settings, s) == PLIM_NO ||
          !holds(s, f->settings.format, key, pattern))
        continue;
      *out = (place){f, s};
      return true;
    }
  }
  return false;
}

static bool finds_any(const plim_project *p, plim_dialect dialect, const char *terms) {
  place at;
  for (size_t n; terms && *(terms += strspn(terms, " ")); terms += n) {
    n = strcspn(terms, " ");
    if (find(p, dialect, terms, n, &at)) return true;
  }
  return false;
}

// ---- notes ------------------------------------------------------------------------------------------

// "rl: simpo" if the term names a value, otherwise the key alone, as the file has it.
static void print_term(const char *term, const place *at, char *text, size_t size) {
  char value[64];
  size_t n = strcspn(term, "=");
  if (at->setting->value.kind == PLIM_VALUE_NULL) snprintf(value, sizeof value, "null");
  else plim_value_print(&at->setting->value, value, sizeof value);
  if (term[n] && strcmp(term + n, "=*") != 0)
    snprintf(text, size, "%s: %s", at->setting->key, value);
  else if (memchr(term, '*', n)) snprintf(text, size, "%s", at->setting->key);
  else snprintf(text, size, "%.*s", (int)n, term);
}

// "A or B: 1", of "A B=1".
static void print_either(const char *terms, char *text, size_t size) {
  size_t used = 0;
  *text = 0;
  for (size_t n; used < size && *(terms += strspn(terms, " ")); terms += n) {
    n = strcspn(terms, " ");
    int key = (int)strcspn(terms, "= ");
    bool has_value = terms[key] == '=';
    used +=
        (size_t)snprintf(text + used, size - used, "%s%.*s%s%.*s", used ? " or " : "", key, terms,
                         has_value ? ": " : "", (int)n - key - has_value, terms + key + has_value);
  }
}

static void note(const plim_project *p, const refusal *r, const place *at, plim_notes *notes) {
  char what[128], other[128] = "", fix[280];
  place beside;
  print_term(r->setting, at, what, sizeof what);
  if (r->beside && find(p, p->dialect, r->beside, strlen(r->beside), &beside))
    print_term(r->beside, &beside, other, sizeof other);
  else if (r->unless) print_either(r->unless, other, sizeof other);
  if (r->fix) snprintf(fix, sizeof fix, "%s", r->fix);
  else if (r->beside) snprintf(fix, sizeof fix, "remove one of them");
  else if (r->unless) snprintf(fix, sizeof fix, "set %s, or remove %s", other, what);
  else snprintf(fix, sizeof fix, "remove it");
  const char *name = plim_dialect_table[p->dialect].name;
  if (r->stops)
    plim_note_add(notes, PLIM_NOTE_REFUSED, NULL, "with %s%s%s, %s stops with an error %s; %s",
                  what, *other && r->beside ? " and " : "", r->beside ? other : "", name, r->stops,
                  fix);
  else
    plim_note_add(notes, PLIM_NOTE_REFUSED, NULL,
                  "%s%s refuses %s%s%s, so the run will not start; %s", name,
                  release_of(p->dialect), what,
                  r->beside   ? " with "
                  : r->unless ? " without "
                              : "",
                  other, fix);
  plim_note_at(notes, at->file->path, at->setting->line);
}

// Of each setting the first refusal alone.
void plim_project_note_refusals(const plim_project *p, plim_notes *notes) {
  const plim_setting *noted = NULL;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const refusal *r = &refusals[i];
    place at, beside;
    if (!is_about(r, p)) continue;
    if (!find(p, p->dialect, r->setting, strlen(r->setting), &at) || at.setting == noted) continue;
    if (r->beside && !find(p, p->dialect, r->beside, strlen(r->beside), &beside)) continue;
    if (finds_any(p, p->dialect, r->unless)) continue;
    if (r->dialect == TUNE && !plim_tune_recipe_fits(p, at.file, r->recipes)) continue;
    note(p, r, &at, notes);
    noted = at.setting;
  }
}
