// The keys that indicate each dialect, with their points.
#include "dialect.h"

#define PYTHON (1u << PLIM_FORMAT_PYTHON)
#define COMMANDS (1u << PLIM_FORMAT_SHELL | 1u << PLIM_FORMAT_DOCKERFILE)
#define TREES (1u << PLIM_FORMAT_YAML | 1u << PLIM_FORMAT_JSON | 1u << PLIM_FORMAT_TOML)
#define SIGN(NAME, key, ...)                                                                       \
  { PLIM_DIALECT_##NAME, key, __VA_ARGS__ }

// clang-format off
const plim_sign plim_signs[] = {
  SIGN(HF, "per_device_train_batch_size", 3),
  SIGN(HF, "*.per_device_train_batch_size", 3),
  SIGN(HF, "trainingarguments.*", 3, PYTHON),
  SIGN(HF, "seq2seqtrainingarguments.*", 3, PYTHON),
  SIGN(HF, "num_train_epochs", 1),
  SIGN(HF, "gradient_accumulation_steps", 1),

  SIGN(TRL, "sftconfig.*", 4, PYTHON),
  SIGN(TRL, "dpoconfig.*", 4, PYTHON),
  SIGN(TRL, "grpoconfig.*", 4, PYTHON),
  SIGN(TRL, "kto*config.*", 4, PYTHON),
  SIGN(TRL, "rewardconfig.*", 4, PYTHON),
  SIGN(TRL, "use_peft", 3),
  SIGN(TRL, "loss_type", 1),
  SIGN(TRL, "packing_strategy", 2),
  SIGN(TRL, "padding_free", 2),
  SIGN(TRL, "lora_r", 1, TREES | COMMANDS),
  SIGN(TRL, "dataset_name", 1),
  SIGN(TRL, "max_length", 1),
  SIGN(TRL, "packing", 1),
  SIGN(TRL, "dataset_num_proc", 1),
  SIGN(TRL, "dataset_train_split", 1),    // of ScriptArguments
  SIGN(TRL, "dataset_mixture.*", 2, TREES), // of alignment-handbook, whose scripts use TRL
  SIGN(TRL, "dataset_mixer.*", 2, TREES),   // before its version 2

  SIGN(SENTENCE, "sentencetransformertrainingarguments.*", 4, PYTHON),
  SIGN(SENTENCE, "sentencetransformer.*", 3, PYTHON),
  SIGN(SENTENCE, "sparseencodertrainingarguments.*", 4, PYTHON),
  SIGN(SENTENCE, "crossencodertrainingarguments.*", 4, PYTHON),
  SIGN(SENTENCE, "*multiplenegativesrankingloss.*", 4, PYTHON),

  SIGN(UNSLOTH, "fastlanguagemodel.*", 5, PYTHON),
  SIGN(UNSLOTH, "fastmodel.*", 5, PYTHON),
  SIGN(UNSLOTH, "fastvisionmodel.*", 5, PYTHON),

  SIGN(ACCELERATE, "compute_environment", 3, TREES),
  SIGN(ACCELERATE, "distributed_type", 3, TREES),
  SIGN(ACCELERATE, "main_training_function", 2, TREES),
  SIGN(ACCELERATE, "num_processes", 1, TREES),
  SIGN(ACCELERATE, "mixed_precision", 1, TREES),
  SIGN(ACCELERATE, "deepspeed_config.*", 1, TREES),
  SIGN(ACCELERATE, "fsdp_config.fsdp_*", 1, TREES),

  SIGN(DEEPSPEED, "zero_optimization.*", 3, TREES),
  SIGN(DEEPSPEED, "train_micro_batch_size_per_gpu", 3, TREES),
  SIGN(DEEPSPEED, "bf16.enabled", 1, TREES),
  SIGN(DEEPSPEED, "fp16.enabled", 1, TREES),
  SIGN(DEEPSPEED, "train_batch_size", 1, TREES),

  SIGN(AXOLOTL, "base_model", 3, TREES | COMMANDS),
  SIGN(AXOLOTL, "sequence_len", 2, TREES | COMMANDS),
  SIGN(AXOLOTL, "sample_packing", 2, TREES | COMMANDS),
  SIGN(AXOLOTL, "micro_batch_size", 1, TREES | COMMANDS),
  SIGN(AXOLOTL, "adapter", 1, TREES),
  SIGN(AXOLOTL, "val_set_size", 1, TREES),
  SIGN(AXOLOTL, "datasets.0.path", 1, TREES),

  SIGN(LLAMA_FACTORY, "finetuning_type", 3),
  SIGN(LLAMA_FACTORY, "cutoff_len", 2),
  SIGN(LLAMA_FACTORY, "stage", 2),
  SIGN(LLAMA_FACTORY, "model_name_or_path", 1),
  SIGN(LLAMA_FACTORY, "template", 1),
  SIGN(LLAMA_FACTORY, "quantization_bit", 2),
  SIGN(LLAMA_FACTORY, "disable_gradient_checkpointing", 3),
  SIGN(LLAMA_FACTORY, "infer_backend", 2),
  SIGN(LLAMA_FACTORY, "export_dir", 2),

  SIGN(LLAMA_FACTORY_V1, "model_class", 2, TREES),
  SIGN(LLAMA_FACTORY_V1, "dist_config.name", 2, TREES),
  SIGN(LLAMA_FACTORY_V1, "kernel_config.name", 2, TREES),
  SIGN(LLAMA_FACTORY_V1, "peft_config.name", 2, TREES),
  SIGN(LLAMA_FACTORY_V1, "peft_config.export_dir", 2, TREES),
  SIGN(LLAMA_FACTORY_V1, "train_dataset", 1, TREES),
  SIGN(LLAMA_FACTORY_V1, "cutoff_len", 1, TREES),
  SIGN(LLAMA_FACTORY_V1, "micro_batch_size", 1, TREES),
  SIGN(LLAMA_FACTORY_V1, "sample_backend", 1, TREES),
  SIGN(LLAMA_FACTORY_V1, "cp_mode", 2, TREES),

  SIGN(TORCHTUNE, "*._component_", 3, TREES),
  SIGN(TORCHTUNE, "enable_activation_checkpointing", 2, TREES),
  SIGN(TORCHTUNE, "checkpointer.checkpoint_dir", 2, TREES),

  SIGN(LIGHTNING, "accumulate_grad_batches", 3),
  SIGN(LIGHTNING, "*.accumulate_grad_batches", 3),
  SIGN(LIGHTNING, "*trainer.max_epochs", 2),
  SIGN(LIGHTNING, "*trainer.precision", 1),
  SIGN(LIGHTNING, "*trainer.devices", 1),
  SIGN(LIGHTNING, "*trainer.strategy*", 1),
  SIGN(LIGHTNING, "*trainer.accelerator", 2),
  SIGN(LIGHTNING, "model.class_path", 2, TREES),
  SIGN(LIGHTNING, "data.class_path", 1, TREES),

  SIGN(MEGATRON, "micro_batch_size", 2, COMMANDS),
  SIGN(MEGATRON, "global_batch_size", 2, COMMANDS),
  SIGN(MEGATRON, "tensor_model_parallel_size", 2, COMMANDS),
  SIGN(MEGATRON, "pipeline_model_parallel_size", 2, COMMANDS),
  SIGN(MEGATRON, "num_attention_heads", 1, COMMANDS),
  SIGN(MEGATRON, "seq_length", 1, COMMANDS),
  SIGN(MEGATRON, "recompute_granularity", 2, COMMANDS),
  SIGN(MEGATRON, "use_distributed_optimizer", 2, COMMANDS),

  SIGN(MEGATRON_BRIDGE, "train.micro_batch_size", 2, TREES),
  SIGN(MEGATRON_BRIDGE, "train.global_batch_size", 2, TREES),
  SIGN(MEGATRON_BRIDGE, "train.train_iters", 2, TREES),
  SIGN(MEGATRON_BRIDGE, "dataset.sequence_length", 2, TREES),
  SIGN(MEGATRON_BRIDGE, "model.recompute_granularity", 2, TREES),
  SIGN(MEGATRON_BRIDGE, "model.tensor_model_parallel_size", 2, TREES),

  SIGN(NEMO, "model.micro_batch_size", 3, TREES),
  SIGN(NEMO, "model.global_batch_size", 2, TREES),
  SIGN(NEMO, "model.tensor_model_parallel_size", 1, TREES),
  SIGN(NEMO, "model.data.train_ds.*", 1, TREES),
  SIGN(NEMO, "trainer.devices", 1, TREES),

  SIGN(TORCHTITAN, "training.local_batch_size", 3, TREES),
  SIGN(TORCHTITAN, "training.seq_len", 2, TREES),
  SIGN(TORCHTITAN, "activation_checkpoint.mode", 2, TREES),
  SIGN(TORCHTITAN, "parallelism.*_degree", 2, TREES),

  // Many scripts have a block size and a batch size.
  SIGN(NANOGPT, "block_size", 1, PYTHON | COMMANDS),
  SIGN(NANOGPT, "batch_size", 1, PYTHON | COMMANDS),
  SIGN(NANOGPT, "max_iters", 2, PYTHON | COMMANDS),
  SIGN(NANOGPT, "init_from", 2, PYTHON | COMMANDS),
  SIGN(NANOGPT, "n_layer", 1, PYTHON | COMMANDS),
  SIGN(NANOGPT, "n_embd", 1, PYTHON | COMMANDS),

  SIGN(LITGPT, "train.micro_batch_size", 2, TREES),
  SIGN(LITGPT, "train.global_batch_size", 2, TREES),
  SIGN(LITGPT, "train.lr_warmup_steps", 2, TREES),
  SIGN(LITGPT, "train.max_seq_length", 2, TREES),
  SIGN(LITGPT, "lora_query", 3, TREES),
  SIGN(LITGPT, "checkpoint_dir", 1, TREES),
  SIGN(LITGPT, "quantize", 1, TREES),

  SIGN(LLM_FOUNDRY, "device_train_microbatch_size", 3, TREES),
  SIGN(LLM_FOUNDRY, "global_train_batch_size", 3, TREES),
  SIGN(LLM_FOUNDRY, "max_seq_len", 1, TREES),
  SIGN(LLM_FOUNDRY, "train_loader.*", 1, TREES),
};
// clang-format on
const size_t plim_sign_count = sizeof plim_signs / sizeof *plim_signs;
