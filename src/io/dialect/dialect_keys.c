// The keys of each dialect, one row per key. The defaults come from the source code of the frameworks: transformers 5, and
// the versions of 2026 of the others.
#include "dialect.h"
#include "value_aliases.h"

// clang-format off
#define NUMBER(key_, KNOB, ...) \
  {.key = key_, .knob = PLIM_KNOB_##KNOB, .how = PLIM_AS_NUMBER, .otherwise = __VA_ARGS__}
#define TEXT(key_, KNOB, ...) \
  {.key = key_, .knob = PLIM_KNOB_##KNOB, .how = PLIM_AS_TEXT, .otherwise = __VA_ARGS__}
#define LIST(key_, KNOB, ...) \
  {.key = key_, .knob = PLIM_KNOB_##KNOB, .how = PLIM_AS_LIST, .otherwise = __VA_ARGS__}
#define COUNT(key_, KNOB, ...) \
  {.key = key_, .knob = PLIM_KNOB_##KNOB, .how = PLIM_AS_COUNT, .otherwise = __VA_ARGS__}
#define NAMES(key_, ...) \
  {.key = key_, .knob = PLIM_KNOB_OPTIMIZER, .how = PLIM_AS_OPTIMIZER, .otherwise = __VA_ARGS__}
#define WORDS(key_, KNOB, set, ...) \
  {.key = key_, .knob = PLIM_KNOB_##KNOB, .words = words_##set, .otherwise = __VA_ARGS__}
#define REFINES(key_, KNOB, value, set, ...) \
  {.key = key_, .knob = PLIM_KNOB_##KNOB, .words = words_##set, .applies_to = value, \
   .otherwise = __VA_ARGS__}
#define VAGUE .flags = PLIM_KEY_VAGUE
#define LAST .flags = PLIM_KEY_LAST
#define AGREES .flags = PLIM_KEY_AGREES
#define ADDS .flags = PLIM_KEY_ADDS
#define OLD .flags = PLIM_KEY_OLD
#define ADDABLE .flags = PLIM_KEY_ADDABLE
#define PER_NODE .flags = PLIM_KEY_PER_NODE
#define FOLLOWS .flags = PLIM_KEY_FOLLOWS
#define OF_MODEL .flags = PLIM_KEY_OF_MODEL
#define APART .flags = PLIM_KEY_APART
#define READ_ONLY .flags = PLIM_KEY_READ_ONLY
#define GATE .flags = PLIM_KEY_LAST | PLIM_KEY_READ_ONLY
#define ZERO .words = words_null_is_zero
#define NONE {.key = NULL}
#define COMMANDS (1u << PLIM_FORMAT_SHELL | 1u << PLIM_FORMAT_DOCKERFILE)

// ---- custom files: common names, whatever the file is -----------------------------------------------

static const plim_key home[] = {
  NUMBER("batch_size", MICRO_BATCH, NULL, VAGUE),
  NUMBER("train_batch_size", MICRO_BATCH, NULL, VAGUE),
  NUMBER("batch", MICRO_BATCH, NULL, VAGUE),
  NUMBER("bs", MICRO_BATCH, NULL, VAGUE),
  NUMBER("micro_bs", MICRO_BATCH, NULL, VAGUE),
  NUMBER("micro_batch_size", MICRO_BATCH, NULL),
  NUMBER("micro_batch", MICRO_BATCH, NULL),
  NUMBER("per_device_batch_size", MICRO_BATCH, NULL),
  NUMBER("per_gpu_batch_size", MICRO_BATCH, NULL),
  NUMBER("batch_size_per_gpu", MICRO_BATCH, NULL),
  NUMBER("batch_size_per_device", MICRO_BATCH, NULL),
  NUMBER("device_batch_size", MICRO_BATCH, NULL),
  // For a dict in a script that is passed to deepspeed.initialize.
  NUMBER("train_micro_batch_size_per_gpu", MICRO_BATCH, NULL, .formats = 1u << PLIM_FORMAT_PYTHON),
  WORDS("zero_optimization.stage", STRATEGY, zero_stage, NULL, .formats = 1u << PLIM_FORMAT_PYTHON),
  WORDS("zero_optimization.offload_optimizer.device", OFFLOAD, offload_optimizer, NULL,
        .formats = 1u << PLIM_FORMAT_PYTHON),
  WORDS("zero_optimization.offload_param.device", OFFLOAD, offload_parameters, NULL,
        .formats = 1u << PLIM_FORMAT_PYTHON),
  WORDS("bf16.enabled", PRECISION, bf16_enabled, NULL, .formats = 1u << PLIM_FORMAT_PYTHON),
  WORDS("fp16.enabled", PRECISION, fp16_enabled, NULL, .formats = 1u << PLIM_FORMAT_PYTHON),
  NUMBER("gradient_accumulation_steps", ACCUMULATE, NULL),
  NUMBER("gradient_accumulation", ACCUMULATE, NULL),
  NUMBER("gradient_acc_steps", ACCUMULATE, NULL),
  NUMBER("grad_accumulation_steps", ACCUMULATE, NULL),
  NUMBER("grad_accumulation", ACCUMULATE, NULL),
  NUMBER("grad_accum_steps", ACCUMULATE, NULL),
  NUMBER("grad_accum", ACCUMULATE, NULL),
  NUMBER("grad_acc", ACCUMULATE, NULL),
  NUMBER("grad_acc_steps", ACCUMULATE, NULL),
  NUMBER("accum", ACCUMULATE, NULL, VAGUE),
  NUMBER("accumulate", ACCUMULATE, NULL, VAGUE),
  NUMBER("accumulation", ACCUMULATE, NULL, VAGUE),
  NUMBER("accumulation_steps", ACCUMULATE, NULL),
  NUMBER("accum_steps", ACCUMULATE, NULL),
  NUMBER("accumulate_grad_batches", ACCUMULATE, NULL),
  NUMBER("global_batch_size", GLOBAL_BATCH, NULL),
  NUMBER("effective_batch_size", GLOBAL_BATCH, NULL),
  NUMBER("total_batch_size", GLOBAL_BATCH, NULL),
  NUMBER("max_length", SEQUENCE, NULL, VAGUE),
  NUMBER("max_len", SEQUENCE, NULL, VAGUE),
  NUMBER("block_size", SEQUENCE, NULL, VAGUE),
  NUMBER("ctx", SEQUENCE, NULL, VAGUE),
  NUMBER("seq", SEQUENCE, NULL, VAGUE),
  NUMBER("ctx_len", SEQUENCE, NULL),
  NUMBER("context_len", SEQUENCE, NULL),
  NUMBER("seq_length", SEQUENCE, NULL),
  NUMBER("seq_len", SEQUENCE, NULL),
  NUMBER("sequence_length", SEQUENCE, NULL),
  NUMBER("sequence_len", SEQUENCE, NULL),
  NUMBER("context_length", SEQUENCE, NULL),
  NUMBER("max_seq_len", SEQUENCE, NULL),
  NUMBER("max_seq_length", SEQUENCE, NULL),
  NUMBER("max_sequence_length", SEQUENCE, NULL),
  NUMBER("model_max_length", SEQUENCE, NULL),
  NUMBER("max_source_length", SEQUENCE, NULL),
  WORDS("gradient_checkpointing", CHECKPOINT, checkpoint, NULL),
  WORDS("use_gradient_checkpointing", CHECKPOINT, checkpoint, NULL),
  WORDS("enable_gradient_checkpointing", CHECKPOINT, checkpoint, NULL),
  WORDS("grad_checkpointing", CHECKPOINT, checkpoint, NULL),
  WORDS("activation_checkpointing", CHECKPOINT, checkpoint, NULL),
  WORDS("enable_activation_checkpointing", CHECKPOINT, checkpoint, NULL),
  WORDS("gradient_checkpointing_enable", CHECKPOINT, checkpoint, NULL),
  WORDS("prepare_model_for_kbit_training.use_gradient_checkpointing", CHECKPOINT, checkpoint, NULL),
  WORDS("attn_implementation", ATTENTION, attention, NULL),
  WORDS("attention_implementation", ATTENTION, attention, NULL),
  WORDS("use_flash_attention", ATTENTION, attention_flash, NULL),
  WORDS("use_flash_attn", ATTENTION, attention_flash, NULL),
  WORDS("precision", PRECISION, precision, NULL),
  WORDS("mixed_precision", PRECISION, precision, NULL),
  WORDS("amp_dtype", PRECISION, precision, NULL),
  WORDS("autocast.dtype", PRECISION, precision, NULL, READ_ONLY),
  WORDS("bf16", PRECISION, bf16, NULL),
  WORDS("fp16", PRECISION, fp16, NULL),
  WORDS("torch_dtype", DTYPE, dtype, NULL),
  WORDS("from_pretrained.dtype", DTYPE, dtype, NULL, .formats = 1u << PLIM_FORMAT_PYTHON),
  WORDS("model_dtype", DTYPE, dtype, NULL),
  NAMES("optim", NULL),
  WORDS("optimizer", OPTIMIZER, optimizer_class, NULL),
  WORDS("optimizer.name", OPTIMIZER, optimizer_class, NULL),
  WORDS("optimizer.type", OPTIMIZER, optimizer_class, NULL),
  WORDS("optimizer._target_", OPTIMIZER, optimizer_class, NULL),
  WORDS("*optim.adamw.*", OPTIMIZER, any_adamw, NULL),
  WORDS("*optim.adam.*", OPTIMIZER, any_adamw, NULL), // has the same states
  WORDS("*optim.sgd.*", OPTIMIZER, any_sgd, NULL),
  REFINES("*optim.sgd.momentum", OPTIMIZER, "sgd", momentum, NULL),
  WORDS("*optim.adamw8bit.*", OPTIMIZER, any_adamw_8bit, NULL),
  WORDS("*optim.pagedadamw8bit.*", OPTIMIZER, any_paged_adamw_8bit, NULL),
  REFINES("optimizer.fused", OPTIMIZER, "adamw-foreach", fused, NULL),
  REFINES("*optim.adamw.fused", OPTIMIZER, "adamw-foreach", fused, NULL),
  WORDS("load_in_4bit", QUANTISATION, 4bit, NULL),
  WORDS("load_in_8bit", QUANTISATION, 8bit, NULL),
  REFINES("bnb_4bit_use_double_quant", QUANTISATION, "nf4", double, NULL),
  NUMBER("lora_r", LORA_RANK, NULL),
  NUMBER("lora_rank", LORA_RANK, NULL),
  NUMBER("lora.r", LORA_RANK, NULL),
  NUMBER("lora.rank", LORA_RANK, NULL),
  NUMBER("lora_config.r", LORA_RANK, NULL),
  NUMBER("loraconfig.r", LORA_RANK, NULL),
  NUMBER("lora_args.r", LORA_RANK, NULL),
  NUMBER("lora_params.r", LORA_RANK, NULL),
  NUMBER("peft_config.r", LORA_RANK, NULL),
  NUMBER("peft.r", LORA_RANK, NULL),
  NUMBER("lora_alpha", LORA_ALPHA, NULL),
  NUMBER("lora.alpha", LORA_ALPHA, NULL),
  NUMBER("lora_dropout", LORA_DROPOUT, NULL),
  NUMBER("lora.dropout", LORA_DROPOUT, NULL),
  LIST("lora_target_modules", LORA_TARGETS, NULL),
  LIST("lora_targets", LORA_TARGETS, NULL),
  LIST("target_modules", LORA_TARGETS, NULL),
  LIST("modules_to_save", LORA_SAVED, NULL),
  LIST("lora_modules_to_save", LORA_SAVED, NULL),
  LIST("layers_to_transform", LORA_LAYERS, NULL),
  LIST("exclude_modules", LORA_EXCLUDED, NULL),
  TEXT("loraconfig.bias", LORA_BIAS, NULL),
  TEXT("lora_config.bias", LORA_BIAS, NULL),
  WORDS("use_dora", DORA, on_off, NULL),
  NUMBER("dataloader_num_workers", WORKERS, NULL),
  NUMBER("num_workers", WORKERS, NULL),
  NUMBER("torch_empty_cache_steps", EMPTY_CACHE, NULL, ZERO),
  NUMBER("empty_cache_steps", EMPTY_CACHE, NULL, ZERO),
  NUMBER("cache_clear_frequency", EMPTY_CACHE, NULL, ZERO),
  {.key = "model", .knob = PLIM_KNOB_MODEL, .how = PLIM_AS_MODEL, VAGUE},
  {.key = "pretrained", .knob = PLIM_KNOB_MODEL, .how = PLIM_AS_MODEL, VAGUE},
  {.key = "checkpoint", .knob = PLIM_KNOB_MODEL, .how = PLIM_AS_MODEL, VAGUE},
  {.key = "model_checkpoint", .knob = PLIM_KNOB_MODEL, .how = PLIM_AS_MODEL, VAGUE},
  TEXT("model_path", MODEL, NULL, VAGUE),
  TEXT("model.name", MODEL, NULL, VAGUE),
  TEXT("base_model", MODEL, NULL),
  TEXT("base_model_name", MODEL, NULL),
  TEXT("pretrained_model", MODEL, NULL),
  TEXT("pretrained_model_name_or_path", MODEL, NULL),
  TEXT("model_id", MODEL, NULL),
  TEXT("model_name", MODEL, NULL),
  TEXT("model_name_or_path", MODEL, NULL),
  NUMBER("devices", WORLD, NULL, .flags = PLIM_KEY_VAGUE | PLIM_KEY_PER_NODE),
  NUMBER("num_gpus", WORLD, NULL, .formats = ~COMMANDS),
  NUMBER("n_gpus", WORLD, NULL),
  NUMBER("gpus_per_node", WORLD, NULL, PER_NODE),
  NUMBER("num_gpus_per_node", WORLD, NULL, PER_NODE),
  NUMBER("world_size", WORLD, NULL),
  NUMBER("num_nodes", NODES, NULL),
  NUMBER("nnodes", NODES, NULL),
  NUMBER("n_positives", POSITIVES, NULL),
  NUMBER("num_positives", POSITIVES, NULL),
  NUMBER("n_negatives", NEGATIVES, NULL),
  NUMBER("num_negatives", NEGATIVES, NULL),
  NUMBER("num_hard_negatives", NEGATIVES, NULL),
  NUMBER("epochs", EPOCHS, NULL),
  NUMBER("num_epochs", EPOCHS, NULL),
  NUMBER("max_epochs", EPOCHS, NULL),
  NUMBER("num_train_epochs", EPOCHS, NULL),
  NUMBER("max_grad_norm", CLIP, NULL, ZERO),
  NUMBER("grad_clip", CLIP, NULL, ZERO),
  NUMBER("clip_grad_norm", CLIP, NULL, ZERO),
  NUMBER("gradient_clip_val", CLIP, NULL, ZERO),
  NUMBER("gradient_clipping", CLIP, NULL, ZERO),
  WORDS("use_liger", LIGER, on_off, NULL),
  WORDS("use_liger_kernel", LIGER, on_off, NULL),
  WORDS("packing", PACKING, on_off, NULL),
  WORDS("torch_compile", COMPILE, on_off, NULL),
  WORDS("use_compile", COMPILE, on_off, NULL),
  WORDS("compile", COMPILE, on_off, NULL),
  NUMBER("tensor_parallel_size", TENSOR_PARALLEL, NULL),
  NUMBER("context_parallel_size", CONTEXT_PARALLEL, NULL),
  NONE,
};

// ---- transformers' TrainingArguments, from_pretrained, peft -----------------------------------------

static const plim_key hf[] = {
  NUMBER("per_device_train_batch_size", MICRO_BATCH, "8", ADDABLE),
  NUMBER("per_gpu_train_batch_size", MICRO_BATCH, NULL, OLD),
  NUMBER("gradient_accumulation_steps", ACCUMULATE, "1", ADDABLE),
  WORDS("gradient_checkpointing", CHECKPOINT, checkpoint, "off", ADDABLE),
  WORDS("fsdp_config.activation_checkpointing", CHECKPOINT, checkpoint, NULL),
  WORDS("gradient_checkpointing_enable", CHECKPOINT, checkpoint, NULL), // a method that scripts call
  WORDS("prepare_model_for_kbit_training.use_gradient_checkpointing", CHECKPOINT, checkpoint, NULL),
  REFINES("gradient_checkpointing_kwargs", CHECKPOINT, "on", reentrant_json, NULL),
  REFINES("gradient_checkpointing_kwargs.use_reentrant", CHECKPOINT, "on", reentrant, NULL),
  WORDS("attn_implementation", ATTENTION, attention, "sdpa", OF_MODEL),
  WORDS("use_flash_attn", ATTENTION, attention_flash, NULL, .formats = ~(1u << PLIM_FORMAT_PYTHON)),
  NAMES("optim", "adamw", ADDABLE),
  WORDS("adafactor", OPTIMIZER, adafactor, NULL, OLD),
  WORDS("bf16", PRECISION, bf16, "none", ADDABLE),
  WORDS("fp16", PRECISION, fp16, NULL, ADDABLE),
  // For manual loops with accelerate, whose arguments have the same names as the Trainer's.
  WORDS("accelerator.mixed_precision", PRECISION, precision, NULL, .formats = 1u << PLIM_FORMAT_PYTHON),
  WORDS("torch_dtype", DTYPE, dtype, "auto"),
  WORDS("dtype", DTYPE, dtype, NULL),
  WORDS("load_in_8bit", QUANTISATION, 8bit, "plain"),
  WORDS("load_in_4bit", QUANTISATION, 4bit, NULL),
  REFINES("bnb_4bit_use_double_quant", QUANTISATION, "nf4", double, NULL),
  REFINES("use_bnb_nested_quant", QUANTISATION, "nf4", double, NULL),
  // peft's examples (examples/sft)
  WORDS("use_8bit_quantization", QUANTISATION, 8bit, NULL, .formats = ~(1u << PLIM_FORMAT_PYTHON)),
  WORDS("use_4bit_quantization", QUANTISATION, 4bit, NULL, .formats = ~(1u << PLIM_FORMAT_PYTHON)),
  REFINES("use_nested_quant", QUANTISATION, "nf4", double, NULL),
  NUMBER("lora_r", LORA_RANK, "0"),
  NUMBER("lora_rank", LORA_RANK, NULL),
  NUMBER("lora.r", LORA_RANK, NULL),
  NUMBER("lora_config.r", LORA_RANK, NULL),
  NUMBER("loraconfig.r", LORA_RANK, NULL),
  NUMBER("lora_args.r", LORA_RANK, NULL),
  NUMBER("lora_params.r", LORA_RANK, NULL),
  NUMBER("peft_config.r", LORA_RANK, NULL),
  WORDS("use_peft", LORA_RANK, no_peft, NULL, GATE),
  REFINES("use_peft", LORA_RANK, "0", rank_of_peft, NULL, .formats = ~(1u << PLIM_FORMAT_PYTHON)),
  NUMBER("lora_alpha", LORA_ALPHA, NULL),
  NUMBER("lora_dropout", LORA_DROPOUT, NULL),
  LIST("lora_target_modules", LORA_TARGETS, NULL),
  LIST("target_modules", LORA_TARGETS, NULL),
  LIST("modules_to_save", LORA_SAVED, NULL),
  LIST("lora_modules_to_save", LORA_SAVED, NULL),
  LIST("layers_to_transform", LORA_LAYERS, NULL),
  LIST("exclude_modules", LORA_EXCLUDED, NULL),
  TEXT("loraconfig.bias", LORA_BIAS, NULL),
  TEXT("lora_config.bias", LORA_BIAS, NULL),
  WORDS("use_dora", DORA, on_off, NULL),
  WORDS("use_liger_kernel", LIGER, on_off, "off", ADDABLE),
  NUMBER("torch_empty_cache_steps", EMPTY_CACHE, "0", ZERO, ADDABLE),
  NUMBER("dataloader_num_workers", WORKERS, "0", ADDABLE),
  NUMBER("num_train_epochs", EPOCHS, "3", ADDABLE),
  NUMBER("max_grad_norm", CLIP, "1", ZERO, ADDABLE),
  WORDS("torch_compile", COMPILE, on_off, "off", ADDABLE),
  WORDS("torch_compile_backend", COMPILE, backend, NULL),
  WORDS("torch_compile_mode", COMPILE, backend, NULL),
  WORDS("fsdp", STRATEGY, fsdp_string, NULL, READ_ONLY),
  LIST("fsdp", STRATEGY, NULL, .words = words_any_fsdp),
  REFINES("fsdp_config.version", STRATEGY, "fsdp", fsdp_version, NULL, READ_ONLY),
  REFINES("fsdp_config.fsdp_version", STRATEGY, "fsdp", fsdp_version, NULL, READ_ONLY),
  REFINES("fsdp_config", STRATEGY, "fsdp", fsdp_json, NULL, READ_ONLY), // from a command line
  WORDS("fsdp", OFFLOAD, fsdp_string_offload, NULL),
  WORDS("fsdp_config.cpu_offload", OFFLOAD, offload_flag_parameters, NULL),
  WORDS("fsdp_config.offload_params", OFFLOAD, offload_flag_parameters, NULL),
  WORDS("activation_offloading", OFFLOAD, offload_activations, NULL, ADDS),
  WORDS("fsdp_config.reshard_after_forward", RESHARD, reshard, NULL),
  WORDS("fsdp_config", RESHARD, reshard_json, NULL),
  NONE,
};

// TRL's configs turn checkpointing and bf16 on, and compute the loss in chunks.
static const plim_key trl[] = {
  NUMBER("max_length", SEQUENCE, "1024", ADDABLE, .words = words_endless),
  NUMBER("max_seq_length", SEQUENCE, NULL, OLD, .words = words_endless),
  NUMBER("max_seq_len", SEQUENCE, NULL, OLD, .words = words_endless),
  WORDS("gradient_checkpointing", CHECKPOINT, checkpoint, "on", ADDABLE),
  WORDS("fsdp_config.activation_checkpointing", CHECKPOINT, true_is_on, NULL),
  REFINES("gradient_checkpointing_kwargs", CHECKPOINT, "on", reentrant_json, NULL),
  REFINES("gradient_checkpointing_kwargs.use_reentrant", CHECKPOINT, "on", reentrant, NULL),
  WORDS("bf16", PRECISION, bf16, "bf16", ADDABLE),
  WORDS("fp16", PRECISION, fp16, NULL, ADDABLE),
  WORDS("packing", PACKING, on_off, "off", ADDABLE),
  WORDS("loss_type", CHUNKED_LOSS, loss_trl, "256", ADDABLE),
  // On a command line it belongs to ModelConfig; in Python it belongs to from_pretrained.
    WORDS("dtype", DTYPE, dtype, "fp32", .formats = ~(1u << PLIM_FORMAT_PYTHON)),
    WORDS("torch_dtype", DTYPE, dtype, NULL, .formats = ~(1u << PLIM_FORMAT_PYTHON)),
    WORDS("load_in_4bit", QUANTISATION, 4bit, NULL, ADDABLE, .formats = ~(1u << PLIM_FORMAT_PYTHON)),
    WORDS("load_in_8bit", QUANTISATION, 8bit, NULL, ADDABLE, .formats = ~(1u << PLIM_FORMAT_PYTHON)),
    REFINES("use_bnb_nested_quant", QUANTISATION, "nf4", double, NULL),
  NONE,
};

static const plim_key sentence[] = {
  NUMBER("*cached*loss.mini_batch_size", CACHED_BATCH, NULL),
  WORDS("*multiplenegativesrankingloss.*", LOSS_KIND, contrastive, "contrastive"),
  NUMBER("model.max_seq_length", SEQUENCE, NULL),
  NUMBER("per_device_train_batch_size", MICRO_BATCH, "8", ADDABLE),
  NUMBER("per_gpu_train_batch_size", MICRO_BATCH, NULL, OLD),
  NUMBER("dataloader.batch_size", MICRO_BATCH, NULL, VAGUE), // only with model.fit, see plim_key_read
  WORDS("fit.use_amp", PRECISION, fp16, NULL),
  NUMBER("fit.epochs", EPOCHS, NULL),
  NONE,
};

// 4-bit weights and offloaded checkpoints are the defaults.
static const plim_key unsloth[] = {
  NUMBER("from_pretrained.max_seq_length", SEQUENCE, "2048"),
  NUMBER("max_seq_length", SEQUENCE, NULL),
  WORDS("load_in_8bit", QUANTISATION, 8bit, "nf4-double"),
  WORDS("load_in_4bit", QUANTISATION, 4bit_double, NULL),
  WORDS("load_in_16bit", QUANTISATION, plain_flag, NULL),
  WORDS("use_gradient_checkpointing", CHECKPOINT, checkpoint_unsloth, "offloaded"),
  NUMBER("get_peft_model.r", LORA_RANK, "16"),
  WORDS("from_pretrained.full_finetuning", LORA_RANK, full_finetuning, NULL, GATE),
  NUMBER("get_peft_model.lora_alpha", LORA_ALPHA, "16"),
  NUMBER("get_peft_model.lora_dropout", LORA_DROPOUT, "0"),
  TEXT("from_pretrained.model_name", MODEL, NULL),
  NONE,
};

// ---- how a run is started: accelerate, DeepSpeed, the command line ----------------------------------

static const plim_key accelerate[] = {
  NUMBER("num_processes", WORLD, NULL),
  NUMBER("num_machines", NODES, NULL),
  WORDS("mixed_precision", PRECISION, precision, NULL, FOLLOWS),
  WORDS("distributed_type", STRATEGY, distributed_type, NULL, READ_ONLY),
  WORDS("deepspeed_config.zero_stage", STRATEGY, zero_stage, NULL),
  REFINES("fsdp_config.fsdp_version", STRATEGY, "fsdp", fsdp_version, NULL, READ_ONLY),
  WORDS("deepspeed_config.offload_optimizer_device", OFFLOAD, offload_optimizer, NULL),
  WORDS("deepspeed_config.offload_param_device", OFFLOAD, offload_parameters, NULL),
  REFINES("deepspeed_config.offload_optimizer_device", OFFLOAD, "parameters", beside_parameters, NULL, READ_ONLY),
  WORDS("fsdp_config.fsdp_offload_params", OFFLOAD, offload_flag_parameters, NULL),
  WORDS("fsdp_config.fsdp_reshard_after_forward", RESHARD, reshard, NULL),
  WORDS("fsdp_config.fsdp_sharding_strategy", RESHARD, reshard, NULL),
  WORDS("fsdp_config.fsdp_activation_checkpointing", CHECKPOINT, checkpoint, NULL, APART),
  NUMBER("deepspeed_config.gradient_accumulation_steps", ACCUMULATE, NULL, AGREES),
  NUMBER("deepspeed_config.gradient_clipping", CLIP, NULL, AGREES),
  WORDS("dynamo_config.dynamo_backend", COMPILE, backend, NULL),
  NUMBER("parallelism_config.parallelism_config_tp_size", TENSOR_PARALLEL, NULL),
  NUMBER("parallelism_config.parallelism_config_cp_size", CONTEXT_PARALLEL, NULL),
  NONE,
};

// "auto" sets nothing: the value of TrainingArguments is used.
static const plim_key deepspeed[] = {
  NUMBER("train_micro_batch_size_per_gpu", MICRO_BATCH, NULL, AGREES),
  NUMBER("gradient_accumulation_steps", ACCUMULATE, NULL, AGREES),
  NUMBER("train_batch_size", GLOBAL_BATCH, NULL, AGREES),
  WORDS("bf16.enabled", PRECISION, bf16_enabled, NULL, .flags = PLIM_KEY_AGREES | PLIM_KEY_ADDABLE),
  WORDS("fp16.enabled", PRECISION, fp16_enabled, NULL, .flags = PLIM_KEY_AGREES | PLIM_KEY_ADDABLE),
  WORDS("torch_autocast.dtype", PRECISION, precision, NULL),
  WORDS("zero_optimization.stage", STRATEGY, zero_stage, NULL),
  WORDS("zero_optimization.offload_optimizer.device", OFFLOAD, offload_optimizer, "none", ADDABLE),
  WORDS("zero_optimization.offload_param.device", OFFLOAD, offload_parameters, NULL),
  WORDS("zero_optimization.cpu_offload", OFFLOAD, offload_flag_optimizer, NULL, OLD),
  WORDS("zero_optimization.cpu_offload_params", OFFLOAD, offload_flag_parameters, NULL, OLD),
  WORDS("zero_optimization.cpu_offload_param", OFFLOAD, offload_flag_parameters, NULL, OLD),
  REFINES("zero_optimization.offload_optimizer.device", OFFLOAD, "parameters", beside_parameters, "weights", READ_ONLY),
  NUMBER("gradient_clipping", CLIP, NULL, AGREES),
  WORDS("optimizer.type", OPTIMIZER, deepspeed_optimizer, NULL),
  REFINES("optimizer.params.torch_adam", OPTIMIZER, "adamw", torch_adam, NULL),
  NONE,
};

// The file that fsdp_config of a trainer refers to; transformers also accepts the keys with the prefix "fsdp_".
static const plim_key fsdp[] = {
  WORDS("version", STRATEGY, fsdp_version, NULL, READ_ONLY),
  WORDS("fsdp_version", STRATEGY, fsdp_version, NULL, READ_ONLY),
  WORDS("cpu_offload", OFFLOAD, offload_flag_parameters, NULL),
  WORDS("fsdp_cpu_offload", OFFLOAD, offload_flag_parameters, NULL),
  WORDS("offload_params", OFFLOAD, offload_flag_parameters, NULL),
  WORDS("fsdp_offload_params", OFFLOAD, offload_flag_parameters, NULL),
  WORDS("reshard_after_forward", RESHARD, reshard, NULL),
  WORDS("fsdp_reshard_after_forward", RESHARD, reshard, NULL),
  WORDS("activation_checkpointing", CHECKPOINT, checkpoint, NULL, APART),
  WORDS("fsdp_activation_checkpointing", CHECKPOINT, checkpoint, NULL, APART),
  NONE,
};

const plim_key plim_launch_keys[] = {
  TEXT("$pytorch_cuda_alloc_conf", ALLOC_CONF, NULL),
  TEXT("$pytorch_alloc_conf", ALLOC_CONF, NULL),
  TEXT("os.environ.pytorch_cuda_alloc_conf", ALLOC_CONF, NULL),
  TEXT("os.environ.pytorch_alloc_conf", ALLOC_CONF, NULL),
  COUNT("$cuda_visible_devices", WORLD, NULL, PER_NODE),
  NUMBER("num_processes", WORLD, NULL),
  NUMBER("num_gpus", WORLD, NULL, PER_NODE), // of the deepspeed launcher
  NUMBER("nproc_per_node", WORLD, NULL, PER_NODE),
  NUMBER("nnodes", NODES, NULL),
  NUMBER("num_nodes", NODES, NULL),
  NUMBER("num_machines", NODES, NULL),
  WORDS("mixed_precision", PRECISION, precision, NULL),
  NONE,
};

// ---- whole ecosystems in YAML -----------------------------------------------------------------------

static const plim_key axolotl[] = {
  TEXT("base_model", MODEL, NULL),
  NUMBER("micro_batch_size", MICRO_BATCH, "1", ADDABLE),
  NUMBER("gradient_accumulation_steps", ACCUMULATE, "1", ADDABLE),
  NUMBER("sequence_len", SEQUENCE, "512", ADDABLE), // batch_size: see project_counts.c
  WORDS("sample_packing", PACKING, on_off, "off"),
  WORDS("gradient_checkpointing", CHECKPOINT, checkpoint_axolotl, "off", ADDABLE),
  WORDS("fsdp_config.activation_checkpointing", CHECKPOINT, checkpoint, NULL),
  WORDS("fsdp_config.fsdp_activation_checkpointing", CHECKPOINT, checkpoint, NULL),
  WORDS("selective_checkpointing", CHECKPOINT, selective_recompute, NULL),
  REFINES("gradient_checkpointing_kwargs.use_reentrant", CHECKPOINT, "on", reentrant, NULL, ADDABLE),
  WORDS("attn_implementation", ATTENTION, attention, "sdpa", ADDABLE),
  WORDS("flash_attention", ATTENTION, attention_flash, NULL, OLD),
  WORDS("sdp_attention", ATTENTION, attention_sdpa, NULL, OLD),
  WORDS("eager_attention", ATTENTION, attention_eager, NULL, OLD),
  WORDS("xformers_attention", ATTENTION, attention_xformers, NULL, OLD),
  NAMES("optimizer", "adamw", ADDABLE),
  WORDS("bf16", PRECISION, bf16, "bf16", ADDABLE),
  WORDS("fp16", PRECISION, fp16, NULL, ADDABLE),
  WORDS("fp8", PRECISION, fp8, NULL),
  // axolotl loads the checkpoint in the compute type (its torch_dtype).
  WORDS("bf16", DTYPE, bf16_dtype, "bf16"),
  WORDS("bfloat16", DTYPE, bf16_dtype, NULL),
  WORDS("float16", DTYPE, fp16_dtype, NULL),
  WORDS("fp16", DTYPE, fp16_dtype, NULL),
  WORDS("float16", DTYPE, fp16_dtype, NULL),
  WORDS("torch_dtype", DTYPE, dtype, NULL),
  // axolotl sets bnb_4bit_use_double_quant. These keys are read-only, because `adapter` would have to change with them.
  WORDS("load_in_8bit", QUANTISATION, 8bit, "plain", READ_ONLY),
  WORDS("load_in_4bit", QUANTISATION, 4bit_double, NULL, READ_ONLY),
  REFINES("bnb_config_kwargs.bnb_4bit_use_double_quant", QUANTISATION, "nf4-double", double, NULL, READ_ONLY),
  NUMBER("lora_r", LORA_RANK, "0", .words = words_rank_zero),
  WORDS("adapter", LORA_RANK, no_adapter, "0", GATE),
  NUMBER("lora_alpha", LORA_ALPHA, NULL),
  NUMBER("lora_dropout", LORA_DROPOUT, "0"),
  LIST("lora_target_modules", LORA_TARGETS, NULL),
  WORDS("lora_target_linear", LORA_TARGETS, all_linear, NULL),
  LIST("lora_modules_to_save", LORA_SAVED, NULL),
  LIST("peft_layers_to_transform", LORA_LAYERS, NULL),
  LIST("lora_exclude_modules", LORA_EXCLUDED, NULL),
  WORDS("peft_use_dora", DORA, on_off, NULL),
  WORDS("liger_rms_norm", LIGER, on_off, "off"),
  WORDS("liger_glu_activation", LIGER, on_off, NULL),
  WORDS("liger_swiglu", LIGER, on_off, NULL, OLD),
  WORDS("liger_rope", LIGER, on_off, NULL),
  WORDS("liger_layer_norm", LIGER, on_off, NULL),
  WORDS("plugins.*", CHUNKED_LOSS, loss_plugins, "0"),
  WORDS("chunked_cross_entropy", CHUNKED_LOSS, loss_chunked, NULL, ADDABLE),
  WORDS("liger_fused_linear_cross_entropy", CHUNKED_LOSS, loss_fused, NULL),
  // fsdp_config alone turns FSDP on; version 1 if none is set (utils/schemas/validation.py, check_fsdp_version_in_fsdp_config).
  WORDS("fsdp_config.*", STRATEGY, fsdp_config, NULL,
        .flags = PLIM_KEY_READ_ONLY | PLIM_KEY_ANY_OF),
  LIST("fsdp", STRATEGY, NULL, .words = words_any_fsdp),
  WORDS("fsdp_config.version", STRATEGY, fsdp_version, NULL, READ_ONLY),
  WORDS("fsdp_config.fsdp_version", STRATEGY, fsdp_version, NULL, READ_ONLY),
  WORDS("fsdp_version", STRATEGY, fsdp_version, NULL, READ_ONLY),
  WORDS("fsdp_config.offload_params", OFFLOAD, offload_flag_parameters, NULL),
  WORDS("fsdp_config.fsdp_offload_params", OFFLOAD, offload_flag_parameters, NULL),
  WORDS("layer_offloading", OFFLOAD, offload_layers, NULL, ADDS),
  WORDS("activation_offloading", OFFLOAD, offload_axolotl, NULL,
        .flags = PLIM_KEY_ADDS | PLIM_KEY_ADDABLE),
  WORDS("gradient_checkpointing", OFFLOAD, offload_by_checkpoint, NULL, .flags = PLIM_KEY_ADDS | PLIM_KEY_OLD),
  WORDS("fsdp_config.reshard_after_forward", RESHARD, reshard, NULL),
  WORDS("fsdp_config.fsdp_reshard_after_forward", RESHARD, reshard, NULL),
  NUMBER("dp_shard_size", WORLD, NULL),
  NUMBER("ray_num_workers", WORLD, NULL), // one GPU each
  NUMBER("tensor_parallel_size", TENSOR_PARALLEL, "1"),
  NUMBER("context_parallel_size", CONTEXT_PARALLEL, "1"),
  NUMBER("dataloader_num_workers", WORKERS, NULL, ADDABLE),
  WORDS("torch_compile", COMPILE, on_off, "off", ADDABLE),
  NUMBER("torch_empty_cache_steps", EMPTY_CACHE, "0", ZERO, ADDABLE),
  NUMBER("num_epochs", EPOCHS, "1", ADDABLE),
  NUMBER("max_grad_norm", CLIP, "1", ZERO, ADDABLE),
  WORDS("rl", LOSS_KIND, preference, "causal"),
  WORDS("reward_model", LOSS_KIND, scores, NULL),
  WORDS("process_reward_model", LOSS_KIND, scores, NULL),
  NONE,
};

static const plim_key llama_factory[] = {
  TEXT("model_name_or_path", MODEL, NULL),
  NUMBER("cutoff_len", SEQUENCE, "2048", ADDABLE),
  WORDS("stage", PACKING, stage_packs, "off", READ_ONLY), // of data_args.packing: on in pre-training
  WORDS("packing", PACKING, on_off, NULL),
  WORDS("neat_packing", PACKING, on_off, NULL),
  // The key is inverted, and checkpointing is reentrant by default; LLaMA-Factory does not read gradient_checkpointing.
  WORDS("disable_gradient_checkpointing", CHECKPOINT, disables_checkpoint, "on", ADDABLE),
  REFINES("use_reentrant_gc", CHECKPOINT, "on", reentrant, "reentrant",
          .flags = PLIM_KEY_LAST | PLIM_KEY_ADDABLE),
  // model_utils/checkpointing.py: without checkpoints it does nothing.
  REFINES("use_unsloth_gc", CHECKPOINT, "reentrant", offloaded_or_reentrant, NULL, ADDABLE),
  REFINES("use_unsloth_gc", CHECKPOINT, "on", offloaded_or_on, NULL, ADDABLE),
  WORDS("flash_attn", ATTENTION, flash_attn, "sdpa", ADDABLE),
  // The checkpoint's type (model/loader.py); trainable parameters are then float32 unless pure_bf16 is set (adapter.py).
  WORDS("finetuning_type", DTYPE, full_is_fp32, "auto", READ_ONLY),
  WORDS("pure_bf16", DTYPE, left_as_loaded, NULL),
  WORDS("enable_liger_kernel", LIGER, on_off, "off", ADDABLE),
  WORDS("bf16", PRECISION, bf16, "none", ADDABLE),
  WORDS("fp16", PRECISION, fp16, NULL, ADDABLE),
  WORDS("fp8", PRECISION, fp8, NULL),
  WORDS("pure_bf16", PRECISION, pure_bf16, NULL), // no autocast
  WORDS("use_galore", OPTIMIZER, galore, NULL, LAST),
  WORDS("use_apollo", OPTIMIZER, apollo, NULL, LAST),
  REFINES("optim", OPTIMIZER, "galore", galore_algorithm, NULL, ADDABLE),
  NAMES("optim", "adamw", ADDABLE),
  WORDS("use_badam", OPTIMIZER, badam, NULL),
  WORDS("use_adam_mini", OPTIMIZER, adam_mini, NULL),
  WORDS("use_muon", OPTIMIZER, muon, NULL),
  WORDS("quantization_bit", QUANTISATION, bits_double, "plain", ADDABLE),
  REFINES("double_quantization", QUANTISATION, "nf4-double", double, NULL, LAST),
  NUMBER("lora_rank", LORA_RANK, "8"),
  WORDS("finetuning_type", LORA_RANK, not_lora, NULL, GATE),
  NUMBER("lora_alpha", LORA_ALPHA, NULL),
  NUMBER("lora_dropout", LORA_DROPOUT, "0"),
  LIST("lora_target", LORA_TARGETS, "all-linear", .words = words_all_linear),
  LIST("additional_target", LORA_SAVED, NULL),
  WORDS("use_dora", DORA, on_off, NULL),
  WORDS("use_distributed_optimizer", STRATEGY, zero1_flag, NULL, READ_ONLY),
  // With Megatron, only recompute_granularity turns checkpointing on.
  WORDS("tensor_model_parallel_size", CHECKPOINT, any_off, NULL, READ_ONLY),
  WORDS("recompute_granularity", CHECKPOINT, granularity, NULL, LAST),
  NUMBER("tensor_model_parallel_size", TENSOR_PARALLEL, "1"),
  NUMBER("context_parallel_size", CONTEXT_PARALLEL, "1"),
  NUMBER("ray_num_workers", WORLD, NULL), // one GPU each
  WORDS("stage", LOSS_KIND, preference, "causal"),
  NONE,
};

// Defaults: v1/config/training_args.py. The optimizer is that of base_trainer.py: torch.optim.AdamW with its defaults.
static const plim_key llama_factory_v1[] = {
  TEXT("model", MODEL, NULL),
  NUMBER("micro_batch_size", MICRO_BATCH, "1"),
  NUMBER("global_batch_size", GLOBAL_BATCH, NULL),
  NUMBER("cutoff_len", SEQUENCE, "2048"),
  WORDS("batching_strategy", PACKING, batching, "off", READ_ONLY),
  WORDS("enable_activation_checkpointing", CHECKPOINT, checkpoint, "on", ADDABLE),
  WORDS("flash_attn", ATTENTION, flash_attn, "sdpa"),
  WORDS("bf16", PRECISION, bf16, "bf16"),
  TEXT("optim_config.name", OPTIMIZER, "adamw-foreach", READ_ONLY),
  WORDS("kernel_config.name", LIGER, v1_kernels, "off"),
  NUMBER("peft_config.r", LORA_RANK, "0"),
  NUMBER("peft_config.lora_alpha", LORA_ALPHA, NULL),
  NUMBER("peft_config.lora_dropout", LORA_DROPOUT, "0.05"), // plugins/model_plugins/peft.py
  LIST("peft_config.target_modules", LORA_TARGETS, NULL, .words = words_all_linear),
  LIST("peft_config.modules_to_save", LORA_SAVED, NULL),
  WORDS("quant_config.quantization_bit", QUANTISATION, bits_double, "plain"),
  REFINES("quant_config.double_quantization", QUANTISATION, "nf4-double", double, NULL, LAST),
  WORDS("dist_config.name", STRATEGY, dist_name, NULL, READ_ONLY),
  WORDS("dist_config.offload_params", OFFLOAD, offload_flag_parameters, NULL, ADDABLE),
  WORDS("dist_config.reshard_after_forward", RESHARD, reshard, NULL),
  NUMBER("cp_size", CONTEXT_PARALLEL, "1"),
  NUMBER("num_train_epochs", EPOCHS, "3"),
  NUMBER("max_grad_norm", CLIP, "1"),
  NONE,
};

static const plim_key torchtune[] = {
  TEXT("checkpointer.checkpoint_dir", MODEL, NULL),
  {.key = "model._component_", .knob = PLIM_KNOB_MODEL, .how = PLIM_AS_BUILDER, LAST},
  NUMBER("batch_size", MICRO_BATCH, NULL),
  NUMBER("gradient_accumulation_steps", ACCUMULATE, "1", ADDABLE),
  NUMBER("dataset.max_seq_len", SEQUENCE, NULL, OLD),
  NUMBER("tokenizer.max_seq_len", SEQUENCE, NULL, ADDABLE),
  WORDS("dataset.packed", PACKING, on_off, "off"),
  WORDS("dataset.*.packed", PACKING, on_off, NULL, READ_ONLY), // of a list of data sets
  WORDS("dtype", DTYPE, dtype_tune, NULL), // no autocast
  WORDS("enable_fp8_training", PRECISION, fp8, "none"),
  WORDS("enable_activation_checkpointing", CHECKPOINT, checkpoint, "off", ADDABLE),
  REFINES("ac_mode", CHECKPOINT, "on", ac_mode, NULL),
  WORDS("enable_activation_offloading", OFFLOAD, offload_flag_activations, "none", ADDABLE),
  WORDS("fsdp_cpu_offload", OFFLOAD, offload_flag_parameters, NULL,
        .flags = PLIM_KEY_ADDS | PLIM_KEY_ADDABLE),
  WORDS("optimizer._component_", OPTIMIZER, optimizer_component, NULL),
  REFINES("optimizer.fused", OPTIMIZER, "adamw-foreach", fused, NULL),
  REFINES("optimizer.momentum", OPTIMIZER, "sgd", momentum, NULL),
  WORDS("model._component_", QUANTISATION, qlora_builder, NULL),
  WORDS("model.quantize_base", QUANTISATION, quantize_base, NULL, ADDABLE),
  WORDS("model._component_", ATTENTION, attention_builder, NULL, READ_ONLY),
  NUMBER("model.lora_rank", LORA_RANK, "0"),
  WORDS("model._component_", LORA_RANK, lora_builder, NULL, GATE),
  NUMBER("model.lora_alpha", LORA_ALPHA, NULL),
  NUMBER("model.lora_dropout", LORA_DROPOUT, "0"),
  WORDS("model.use_dora", DORA, on_off, NULL),
  LIST("model.lora_attn_modules", LORA_TARGETS, NULL, .words = words_targets_of_tune),
  WORDS("model.apply_lora_to_mlp", LORA_TARGETS, targets_mlp, NULL, ADDS),
  WORDS("model.apply_lora_to_output", LORA_TARGETS, target_head, NULL, ADDS),
  WORDS("fsdp_reshard_after_forward", RESHARD, reshard, NULL),
  NUMBER("tensor_parallel_dim", TENSOR_PARALLEL, "1"),
  NUMBER("context_parallel_dim", CONTEXT_PARALLEL, "1"),
  WORDS("compile", COMPILE, on_off, "off"),
  WORDS("loss._component_", CHUNKED_LOSS, loss_tune, NULL),
  NUMBER("epochs", EPOCHS, NULL),
  NUMBER("clip_grad_norm", CLIP, "0", ZERO),
  NONE,
};

// Keys of the Trainer. The batch is set in the user's own code, under any name.
static const plim_key lightning[] = {
  NUMBER("accumulate_grad_batches", ACCUMULATE, "1"),
  WORDS("trainer.precision", PRECISION, mixed, "none"),
  WORDS("trainer.precision", DTYPE, true_precision, "fp32"),
  // The model keeps the type in which it is loaded, unless the Trainer has a true precision. If both are set and
  // differ, the knob is unclear.
  WORDS("from_pretrained.torch_dtype", DTYPE, dtype, NULL, .formats = 1u << PLIM_FORMAT_PYTHON),
  WORDS("from_pretrained.dtype", DTYPE, dtype, NULL, .formats = 1u << PLIM_FORMAT_PYTHON),
  // In a file that contains only the trainer, such as one of a Hydra group, the keys have no prefix.
  WORDS("precision", PRECISION, mixed, NULL, VAGUE),
  WORDS("precision", DTYPE, true_precision, NULL, VAGUE),
  WORDS("strategy", STRATEGY, lightning_strategy, NULL, VAGUE),
  WORDS("strategy", OFFLOAD, lightning_offload, NULL, VAGUE),
  NUMBER("gradient_clip_val", CLIP, NULL, VAGUE, ZERO),
  NUMBER("trainer.devices", WORLD, NULL, PER_NODE),
  NUMBER("trainer.num_nodes", NODES, NULL),
  WORDS("trainer.strategy", STRATEGY, lightning_strategy, NULL),
  WORDS("trainer.strategy.init_args.stage", STRATEGY, zero_stage, NULL),
  WORDS("trainer.strategy", OFFLOAD, lightning_offload, NULL),
  WORDS("trainer.strategy.init_args.offload_optimizer", OFFLOAD, offload_flag_optimizer, NULL),
  WORDS("trainer.strategy.init_args.offload_parameters", OFFLOAD, offload_flag_parameters, NULL),
  WORDS("trainer.strategy.init_args.cpu_offload", OFFLOAD, offload_flag_parameters, NULL),
  WORDS("trainer.strategy.init_args.sharding_strategy", RESHARD, reshard, NULL),
  WORDS("trainer.strategy.init_args.activation_checkpointing_policy*", CHECKPOINT, any_on, NULL),
  NUMBER("trainer.max_epochs", EPOCHS, NULL),
  NUMBER("trainer.gradient_clip_val", CLIP, "0", ZERO),
  NONE,
};

// ---- those with a global batch ----------------------------------------------------------------------

static const plim_key megatron[] = {
  NUMBER("micro_batch_size", MICRO_BATCH, NULL),
  NUMBER("global_batch_size", GLOBAL_BATCH, NULL),
  NUMBER("seq_length", SEQUENCE, NULL),
  WORDS("bf16", PRECISION, bf16, "none"),
  WORDS("fp16", PRECISION, fp16, NULL),
  WORDS("fp8_format", PRECISION, any_fp8, NULL),
  WORDS("recompute_granularity", CHECKPOINT, granularity, "off"),
  WORDS("recompute_activations", CHECKPOINT, selective_recompute, NULL),
  WORDS("attention_backend", ATTENTION, attention_backend, NULL),
  WORDS("use_flash_attn", ATTENTION, attention_flash, NULL, OLD),
  TEXT("optimizer", OPTIMIZER, NULL),
  WORDS("use_distributed_optimizer", STRATEGY, zero1_flag, "ddp", READ_ONLY),
  WORDS("use_megatron_fsdp", STRATEGY, fsdp2_flag, NULL, READ_ONLY),
  WORDS("use_torch_fsdp2", STRATEGY, fsdp2_flag, NULL, READ_ONLY),
  REFINES("data_parallel_sharding_strategy", STRATEGY, "fsdp2", sharding_strategy, NULL),
  WORDS("optimizer_cpu_offload", OFFLOAD, offload_flag_optimizer, "none"),
  WORDS("fine_grained_activation_offloading", OFFLOAD, offload_flag_activations, NULL, ADDS),
  NUMBER("tensor_model_parallel_size", TENSOR_PARALLEL, "1"),
  NUMBER("context_parallel_size", CONTEXT_PARALLEL, "1"),
  NUMBER("num_workers", WORKERS, "2"),
  WORDS("empty_unused_memory_level", EMPTY_CACHE, empty_level, "0"),
  NUMBER("clip_grad", CLIP, "1"),
  NONE,
};

static const plim_key megatron_bridge[] = {
  NUMBER("train.micro_batch_size", MICRO_BATCH, NULL),
  NUMBER("train.global_batch_size", GLOBAL_BATCH, NULL),
  NUMBER("dataset.sequence_length", SEQUENCE, NULL),
  WORDS("mixed_precision", PRECISION, mixed, NULL),
  WORDS("model.recompute_granularity", CHECKPOINT, granularity, NULL),
  NUMBER("peft.dim", LORA_RANK, NULL),
  NUMBER("peft.alpha", LORA_ALPHA, NULL),
  NUMBER("model.tensor_model_parallel_size", TENSOR_PARALLEL, NULL),
  NUMBER("model.context_parallel_size", CONTEXT_PARALLEL, NULL),
  WORDS("optimizer.use_distributed_optimizer", STRATEGY, zero1_flag, NULL, READ_ONLY),
  NONE,
};

static const plim_key nemo[] = {
  NUMBER("model.micro_batch_size", MICRO_BATCH, "4"),
  NUMBER("model.global_batch_size", GLOBAL_BATCH, NULL),
  NUMBER("model.data.train_ds.max_seq_length", SEQUENCE, NULL),
  WORDS("model.activations_checkpoint_granularity", CHECKPOINT, granularity, "off"),
  WORDS("trainer.precision", PRECISION, mixed, NULL),
  NUMBER("trainer.devices", WORLD, NULL, PER_NODE),
  NUMBER("trainer.num_nodes", NODES, NULL),
  NUMBER("model.tensor_model_parallel_size", TENSOR_PARALLEL, "1"),
  NUMBER("model.context_parallel_size", CONTEXT_PARALLEL, "1"),
  NUMBER("model.peft.lora_tuning.adapter_dim", LORA_RANK, NULL),
  NUMBER("model.peft.lora_tuning.alpha", LORA_ALPHA, NULL),
  NUMBER("model.data.train_ds.num_workers", WORKERS, NULL),
  TEXT("model.optim.name", OPTIMIZER, NULL),
  WORDS("model.fsdp", STRATEGY, fsdp_flag, "ddp", READ_ONLY),
  NONE,
};

// The keys of TOML configurations, used until 2026.
static const plim_key torchtitan[] = {
  TEXT("model.flavor", MODEL, NULL),
  NUMBER("training.local_batch_size", MICRO_BATCH, "8"),
  NUMBER("training.batch_size", MICRO_BATCH, NULL, OLD),
  NUMBER("training.global_batch_size", GLOBAL_BATCH, NULL, .words = words_any_batch),
  NUMBER("training.seq_len", SEQUENCE, "2048"),
  WORDS("training.dtype", DTYPE, dtype, "fp32"),
  WORDS("training.mixed_precision_param", PRECISION, precision, "bf16"),
  WORDS("training.enable_cpu_offload", OFFLOAD, offload_flag_parameters, "none"),
  WORDS("activation_checkpoint.mode", CHECKPOINT, recompute, "selective"),
  WORDS("optimizer.name", OPTIMIZER, optimizer_class, "adamw-foreach"),
  REFINES("optimizer.implementation", OPTIMIZER, "adamw-foreach", implementation, "adamw", LAST),
  NUMBER("parallelism.tensor_parallel_degree", TENSOR_PARALLEL, "1"),
  NUMBER("parallelism.context_parallel_degree", CONTEXT_PARALLEL, "1"),
  WORDS("parallelism.fsdp_reshard_after_forward", RESHARD, reshard, NULL),
  WORDS("parallelism.data_parallel_shard_degree", STRATEGY, shard_degree, "fsdp2", READ_ONLY),
  WORDS("compile.enable", COMPILE, on_off, "off"),
  NUMBER("training.max_norm", CLIP, "1"),
  NONE,
};

static const plim_key litgpt[] = {
  TEXT("checkpoint_dir", MODEL, NULL),
  TEXT("model_name", MODEL, NULL),
  NUMBER("train.micro_batch_size", MICRO_BATCH, NULL),
  NUMBER("train.global_batch_size", GLOBAL_BATCH, NULL),
  NUMBER("train.max_seq_length", SEQUENCE, NULL),
  NUMBER("train.epochs", EPOCHS, NULL),
  NUMBER("train.max_norm", CLIP, "0", ZERO),
  WORDS("precision", PRECISION, mixed, NULL),
  WORDS("precision", DTYPE, true_precision, NULL),
  WORDS("quantize", QUANTISATION, bnb, "plain"),
  NUMBER("lora_r", LORA_RANK, "0"),
  NUMBER("lora_alpha", LORA_ALPHA, NULL),
  NUMBER("lora_dropout", LORA_DROPOUT, NULL),
  WORDS("lora_query", LORA_TARGETS, target_q, NULL, ADDS),
  WORDS("lora_key", LORA_TARGETS, target_k, NULL, ADDS),
  WORDS("lora_value", LORA_TARGETS, target_v, NULL, ADDS),
  WORDS("lora_projection", LORA_TARGETS, target_o, NULL, ADDS),
  WORDS("lora_mlp", LORA_TARGETS, targets_mlp, NULL, ADDS),
  WORDS("lora_head", LORA_TARGETS, target_head, NULL, ADDS),
  NUMBER("devices", WORLD, "1", PER_NODE),
  NUMBER("num_nodes", NODES, NULL),
  WORDS("optimizer.class_path", OPTIMIZER, optimizer_class, NULL),
  WORDS("optimizer", OPTIMIZER, optimizer_class, NULL),
  REFINES("optimizer.init_args.fused", OPTIMIZER, "adamw-foreach", fused, NULL),
  NUMBER("data.init_args.num_workers", WORKERS, NULL),
  NONE,
};

static const plim_key llm_foundry[] = {
  TEXT("model.pretrained_model_name_or_path", MODEL, NULL),
  NUMBER("device_train_microbatch_size", MICRO_BATCH, NULL),
  NUMBER("global_train_batch_size", GLOBAL_BATCH, NULL),
  NUMBER("max_seq_len", SEQUENCE, NULL),
  WORDS("precision", PRECISION, precision, "bf16"),
  WORDS("fsdp_config.activation_checkpointing", CHECKPOINT, checkpoint, "off"),
  REFINES("fsdp_config.activation_checkpointing_reentrant", CHECKPOINT, "on", reentrant, NULL),
  WORDS("fsdp_config.activation_cpu_offload", OFFLOAD, offload_flag_activations, "none"),
  WORDS("model.attn_config.attn_impl", ATTENTION, attention, NULL),
  NUMBER("train_loader.num_workers", WORKERS, NULL),
  WORDS("optimizer.name", OPTIMIZER, optimizer_class, NULL),
  NONE,
};

// `dtype` is the type for autocast; the parameters stay float32.
static const plim_key nanogpt[] = {
  NUMBER("batch_size", MICRO_BATCH, "12"),
  NUMBER("gradient_accumulation_steps", ACCUMULATE, "40"),
  NUMBER("block_size", SEQUENCE, "1024"),
  WORDS("dtype", PRECISION, precision, "bf16"),
  {.key = "(none)", .knob = PLIM_KNOB_DTYPE, .how = PLIM_AS_TEXT, .otherwise = "fp32"},
  WORDS("compile", COMPILE, on_off, "on"),
  NUMBER("grad_clip", CLIP, "1"),
  TEXT("init_from", MODEL, NULL),
  NONE,
};

// ---- keys that go together; FSDP has checkpointing of its own ---------------------------------------

#define TOGETHER(KNOB, keys_) {.knob = PLIM_KNOB_##KNOB, .keys = keys_}
#define HALVES TOGETHER(PRECISION, "bf16,fp16") // no trainer starts with both

static const plim_key_set hf_sets[] = {
  TOGETHER(STRATEGY, "deepspeed,fsdp,fsdp.*,fsdp_config,fsdp_config.*,gradient_checkpointing,device_map,device_map.*"),
  HALVES,
  {0},
};

static const plim_key_set accelerate_sets[] = {
  TOGETHER(STRATEGY, "distributed_type,deepspeed_config,deepspeed_config.*,fsdp_config,fsdp_config.*"),
  TOGETHER(OFFLOAD, "deepspeed_config.offload_optimizer_device,deepspeed_config.offload_param_device"),
  {0},
};

static const plim_key_set deepspeed_sets[] = {
  TOGETHER(OFFLOAD, "zero_optimization.offload_optimizer.*,zero_optimization.offload_param.*"),
  TOGETHER(PRECISION, "bf16.enabled,fp16.enabled"),
  {0},
};

static const plim_key_set axolotl_sets[] = {
  TOGETHER(STRATEGY, "deepspeed,fsdp,fsdp.*,fsdp_version,fsdp_config,fsdp_config.*,gradient_checkpointing,"
                     "gradient_checkpointing_kwargs,gradient_checkpointing_kwargs.*"),
  TOGETHER(OFFLOAD, "activation_offloading,gradient_checkpointing,layer_offloading,fsdp_config.*offload_params"),
  TOGETHER(LIGER, "plugins,plugins.*,liger_*"),
  TOGETHER(CHECKPOINT, "gradient_checkpointing,fsdp_config.*activation_checkpointing"),
  TOGETHER(CHUNKED_LOSS, "chunked_cross_entropy,liger_fused_linear_cross_entropy"),
  TOGETHER(ATTENTION, "attn_implementation,flash_attention,sdp_attention,eager_attention,xformers_attention"),
  HALVES,
  {0},
};

static const plim_key_set llama_factory_sets[] = {
  TOGETHER(CHECKPOINT, "disable_gradient_checkpointing,use_reentrant_gc,use_unsloth_gc"),
  TOGETHER(OPTIMIZER, "optim,use_galore,use_apollo,use_badam,use_adam_mini,use_muon"),
  {0},
};

// One optimizer may not accept the arguments of another.
static const plim_key_set torchtune_sets[] = {
  TOGETHER(OPTIMIZER, "optimizer._component_,optimizer.fused,optimizer.foreach"),
  TOGETHER(OFFLOAD, "enable_activation_offloading,fsdp_cpu_offload"),
  {0},
};

static const plim_key_set litgpt_sets[] = {
  TOGETHER(OPTIMIZER, "optimizer.class_path,optimizer.init_args.fused"),
  {0},
};

static const plim_key_set megatron_sets[] = {
  TOGETHER(CHECKPOINT, "recompute_*,distribute_saved_activations"),
  HALVES,
  {0},
};

// ---- the dialects -----------------------------------------------------------------------------------

// Masks: the collators of transformers, TRL and LLaMA-Factory v1 pad to the longest sequence; LLaMA-Factory's to a multiple of 8 and
// Axolotl's to a multiple of 64, so that even a batch of one has padding. Unsloth's layers ignore the mask in training.
const plim_dialect_info plim_dialect_table[PLIM_DIALECTS] = {
  [PLIM_DIALECT_HOME] = {"custom", home, PLIM_DIALECTS, .is_nested = true},
  [PLIM_DIALECT_HF] = {"transformers", hf, PLIM_DIALECT_HOME, .is_nested = true, .has_trainer = true,
                       .mask = "longest", .sets = hf_sets},
  [PLIM_DIALECT_TRL] = {"TRL", trl, PLIM_DIALECT_HF, .is_nested = true, .has_trainer = true,
                        .mask = "longest"},
  [PLIM_DIALECT_SENTENCE] = {"sentence-transformers", sentence, PLIM_DIALECT_HF, .is_nested = true,
                             .has_trainer = true, .mask = "longest"},
  [PLIM_DIALECT_UNSLOTH] = {"Unsloth", unsloth, PLIM_DIALECT_TRL, .is_nested = true, .has_trainer = true,
                            .mask = "ones"},
  [PLIM_DIALECT_ACCELERATE] = {"accelerate", accelerate, PLIM_DIALECTS, .is_part = true,
                               .sets = accelerate_sets},
  [PLIM_DIALECT_DEEPSPEED] = {"DeepSpeed", deepspeed, PLIM_DIALECTS, .is_part = true,
                              .sets = deepspeed_sets},
  [PLIM_DIALECT_FSDP] = {"FSDP", fsdp, PLIM_DIALECTS, .is_part = true},
  [PLIM_DIALECT_AXOLOTL] = {"Axolotl", axolotl, PLIM_DIALECTS, .has_trainer = true, .mask = "pad",
                            .sets = axolotl_sets},
  [PLIM_DIALECT_LLAMA_FACTORY] = {"LLaMA-Factory", llama_factory, PLIM_DIALECT_HF, .has_trainer = true,
                                  .mask = "longest", .sets = llama_factory_sets},
  [PLIM_DIALECT_LLAMA_FACTORY_V1] = {"LLaMA-Factory v1", llama_factory_v1, PLIM_DIALECTS,
                                     .mask = "longest", .divides_batch = true},
  [PLIM_DIALECT_TORCHTUNE] = {"torchtune", torchtune, PLIM_DIALECTS, .has_one_type = true,
                              .sets = torchtune_sets,
                              .shares = "fsdp2",
                             .has_own_models = true},
  [PLIM_DIALECT_LIGHTNING] = {"Lightning", lightning, PLIM_DIALECT_HOME, .is_nested = true},
  [PLIM_DIALECT_MEGATRON] = {"Megatron-LM", megatron, PLIM_DIALECTS, .divides_batch = true,
                             .sets = megatron_sets,
                             .shares = "ddp,zero1,fsdp2",
                             .has_own_models = true},
  [PLIM_DIALECT_MEGATRON_BRIDGE] = {"Megatron-Bridge", megatron_bridge, PLIM_DIALECTS,
                                    .divides_batch = true, .shares = "ddp,zero1,fsdp2",
                             .has_own_models = true},
  [PLIM_DIALECT_NEMO] = {"NeMo 1", nemo, PLIM_DIALECTS, .divides_batch = true, .shares = "ddp,zero1,fsdp2",
                             .has_own_models = true},
  [PLIM_DIALECT_TORCHTITAN] = {"torchtitan", torchtitan, PLIM_DIALECTS, .divides_batch = true,
                               .shares = "ddp,fsdp2",
                             .has_own_models = true},
  [PLIM_DIALECT_NANOGPT] = {"nanoGPT", nanogpt, PLIM_DIALECTS, .shares = "ddp",
                             .has_own_models = true},
  [PLIM_DIALECT_LITGPT] = {"litgpt", litgpt, PLIM_DIALECTS, .sets = litgpt_sets, .divides_batch = true, .shares = "fsdp2",
                             .has_own_models = true},
  [PLIM_DIALECT_LLM_FOUNDRY] = {"llm-foundry", llm_foundry, PLIM_DIALECTS, .divides_batch = true,
                                .shares = "ddp,fsdp2"},
};

// ---- knobs under custom names -----------------------------------------------------------------------

#define OWN_NUMBER(KNOB) [PLIM_KNOB_##KNOB] = NUMBER("", KNOB, NULL, ZERO)
#define OWN_TEXT(KNOB) [PLIM_KNOB_##KNOB] = TEXT("", KNOB, NULL)
#define OWN_LIST(KNOB) [PLIM_KNOB_##KNOB] = LIST("", KNOB, NULL)
#define OWN(KNOB, set) [PLIM_KNOB_##KNOB] = WORDS("", KNOB, set, NULL)

const plim_key plim_natural_keys[PLIM_KNOBS] = {
  OWN_NUMBER(MICRO_BATCH), OWN_NUMBER(ACCUMULATE), OWN_NUMBER(GLOBAL_BATCH), OWN_NUMBER(CHUNKED_LOSS),
  OWN_NUMBER(EMPTY_CACHE), OWN_NUMBER(WORKERS), OWN_NUMBER(SEQUENCE), OWN_NUMBER(LORA_RANK),
  OWN_NUMBER(POSITIVES), OWN_NUMBER(NEGATIVES), OWN_NUMBER(CACHED_BATCH), OWN_NUMBER(LORA_ALPHA), OWN_NUMBER(LORA_DROPOUT),
  OWN_NUMBER(WORLD), OWN_NUMBER(NODES), OWN_NUMBER(EPOCHS), OWN_NUMBER(CLIP), OWN_NUMBER(TENSOR_PARALLEL),
  OWN_NUMBER(CONTEXT_PARALLEL), OWN_TEXT(ALLOC_CONF), OWN_TEXT(MODEL), OWN_TEXT(LOSS_KIND),
  OWN(CHECKPOINT, checkpoint), OWN(ATTENTION, attention), OWN(LIGER, on_off), OWN(RESHARD, reshard),
  OWN(PACKING, on_off), OWN(COMPILE, on_off), OWN(PRECISION, precision), OWN(DTYPE, dtype),
  OWN(QUANTISATION, 4bit), OWN(OPTIMIZER, optimizer_class), OWN(OFFLOAD, offload_optimizer),
  OWN_TEXT(STRATEGY), OWN_LIST(LORA_TARGETS), OWN_LIST(LORA_SAVED), OWN_LIST(LORA_LAYERS),
  OWN_LIST(LORA_EXCLUDED), OWN_TEXT(LORA_BIAS), OWN(DORA, on_off),
};
// clang-format on
