#include "value_aliases.h"

#define WORDS(name, ...) const plim_word words_##name[] = {__VA_ARGS__, {0}}
// clang-format off

WORDS(on_off, {"true", "on"}, {"false", "?off"}, {"auto", "on"}, {"1", "on"}, {"0", "?off"},
      {"yes", "on"}, {"no", "?off"}, {"null", "?off"});
WORDS(v1_kernels, {"liger_kernel", "on"}, {"auto", "off"}, {"*liger_kernel*", "on"}, {"*", "-"});
WORDS(endless, {"null", "-1"});  // sequences are not truncated
WORDS(any_batch, {"-1", "-"}); // the batch of one pass on all GPUs
WORDS(null_is_zero, {"null", "?0"}, {"false", "?0"});

// ---- checkpointing
// A word of one ecosystem is read in all of them (here with a ? in it), but written only in its own.
WORDS(checkpoint, {"true", "on"}, {"false", "?off"}, {"1", "on"}, {"0", "?off"}, {"null", "?off"}, {"full", "on"},
      {"none", "?off"}, {"offloa?", "offloaded"}, {"unslot?", "offloaded"}, {"offload_dis?", "disk"});
// Axolotl's older words turn offloading on, too (utils/schemas/validation.py, check_gradient_checkpointing_w_offload).
WORDS(checkpoint_axolotl, {"true", "on"}, {"false", "?off"}, {"offload", "on"}, {"offload_disk", "on"},
      {"unslot?", "on"}, {"null", "?off"});
WORDS(checkpoint_unsloth, {"true", "on"}, {"false", "?off"}, {"unsloth", "offloaded"}, {"null", "?off"});
WORDS(disables_checkpoint, {"true", "off"}, {"false", "on"});
WORDS(reentrant, {"true", "reentrant"}, {"false", "on"});
WORDS(reentrant_json, {"{\"use_reentrant\": true}", "reentrant"},
      {"{\"use_reentrant\": false}", "on"}, {"*use_reentrant*true*", "reentrant"},
      {"*use_reentrant*false*", "on"});
WORDS(true_is_on, {"true", "on"}, {"false", "-"}); // false leaves it to the setting of the model
WORDS(recompute, {"full", "on"}, {"none", "?off"}, {"null", "?off"}, {"selective", "selective"},
      {"memory_budget", "selective"});
// torchtune: full_finetune_distributed.py makes no checkpoints if this is set beside enable_activation_checkpointing: true
WORDS(ac_mode, {"null", "-"}, {"*", "?off"});
// Megatron has no word for off; None in a file means off
WORDS(granularity, {"full", "on"}, {"selective", "selective"}, {"null", "?off"});
WORDS(selective_recompute, {"true", "selective"}, {"false", "?off"});

// ---- attention
WORDS(attention, {"sdpa", "sdpa"}, {"eager", "eager"}, {"flash_attention_2", "flash"},
      {"flash_attention_3", "flash"}, {"flash_attention_4", "flash"}, {"flash_attention", "flash"},
      {"flash_attn", "flash"}, {"flash", "flash"}, {"triton", "flash"}, {"torch", "eager"},
      {"*flash*", "flash"}, {"null", "-"}, {"xformers", "xformers"}, {"flex_attention", "flex"});
WORDS(attention_flash, {"true", "flash"}, {"false", "-"}, {"null", "-"});
WORDS(attention_sdpa, {"true", "sdpa"}, {"false", "-"}, {"null", "-"});
WORDS(attention_eager, {"true", "eager"}, {"false", "-"}, {"null", "-"});
WORDS(attention_xformers, {"true", "xformers"}, {"false", "-"}, {"null", "-"});
// LLaMA-Factory
WORDS(flash_attn, {"auto", "sdpa"}, {"sdpa", "sdpa"}, {"disabled", "eager"}, {"eager", "eager"},
      {"fa2", "flash"}, {"fa3", "flash"}, {"flash_attention_2", "flash"});
// Megatron's --attention-backend
WORDS(attention_backend, {"flash", "flash"}, {"fused", "sdpa"}, {"unfused", "eager"}, {"local", "eager"},
      {"auto", "-"});

// ---- number types
WORDS(bf16, {"true", "bf16"}, {"false", "?none"}, {"auto", "bf16"}, {"full", "none"}, {"null", "?none"});
WORDS(fp16, {"true", "fp16"}, {"false", "?none"}, {"null", "?none"});
// DeepSpeed: "auto" leaves it to TrainingArguments
WORDS(bf16_enabled, {"true", "bf16"}, {"false", "?none"}, {"auto", "-"});
WORDS(fp16_enabled, {"true", "fp16"}, {"false", "?none"}, {"auto", "-"});
WORDS(fp8, {"true", "fp8"}, {"false", "?none"}, {"null", "?none"});
WORDS(precision, {"bf16", "bf16"}, {"fp16", "fp16"}, {"no", "?none"}, {"none", "?none"}, {"fp32", "?none"},
      {"float32", "?none"}, {"32", "?none"}, {"fp8", "fp8"}, {"bfloat16", "bf16"}, {"float16", "fp16"},
      {"16", "fp16"}, {"amp_bf16", "bf16"}, {"amp_fp16", "fp16"}, {"bf16-mixed", "bf16"},
      {"16-mixed", "fp16"}, {"false", "?none"}, {"torch.bfloat16", "bf16"}, {"torch.float16", "fp16"},
      {"torch.half", "fp16"}, {"torch.float32", "?none"});
// Lightning and litgpt: "mixed" is autocast, "true" is the type of the parameters
WORDS(mixed, {"bf16-mixed", "bf16"}, {"16-mixed", "fp16"}, {"32-true", "?none"}, {"bf16-true", "none"},
      {"16-true", "none"}, {"32", "?none"}, {"16", "fp16"}, {"bf16", "bf16"}, {"null", "?none"},
      {"64-true", "?none"}, {"64", "?none"}, {"bf16_mixed", "bf16"}, {"fp16_mixed", "fp16"},
      {"transformer-engine*", "fp8"});
WORDS(true_precision, {"32-true", "fp32"}, {"bf16-true", "bf16"}, {"16-true", "fp16"}, {"*mixed", "fp32"},
      {"32", "fp32"}, {"16", "fp32"}, {"bf16", "fp32"}, {"null", "fp32"});
WORDS(dtype, {"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}, {"auto", "auto"},
      {"bf16", "bf16"}, {"fp16", "fp16"}, {"fp32", "fp32"}, {"half", "fp16"}, {"null", "-"},
      {"torch.bfloat16", "bf16"}, {"torch.float16", "fp16"}, {"torch.half", "fp16"},
      {"torch.float32", "fp32"}, {"torch.float", "fp32"}, {"float", "fp32"});
// torchtune's training/precision.py: float32 without a name.
WORDS(dtype_tune, {"bf16", "bf16"}, {"fp16", "fp16"}, {"fp32", "fp32"}, {"null", "fp32"});
WORDS(bf16_dtype, {"true", "bf16"}, {"auto", "bf16"}, {"full", "bf16"}, {"false", "?fp32"},
      {"null", "?fp32"});
WORDS(fp16_dtype, {"true", "fp16"}, {"false", "-"}, {"null", "-"});
WORDS(full_is_fp32, {"full", "fp32"}, {"*", "-"});
WORDS(left_as_loaded, {"true", "auto"}, {"false", "-"}, {"null", "-"});

// ---- quantisation
WORDS(4bit, {"true", "nf4"}, {"false", "?plain"}, {"null", "?plain"});
WORDS(4bit_double, {"true", "nf4-double"}, {"false", "?plain"}, {"null", "?plain"});
WORDS(8bit, {"true", "int8"}, {"false", "?plain"}, {"null", "?plain"});
WORDS(double, {"true", "nf4-double"}, {"false", "nf4"});
WORDS(bits, {"4", "nf4"}, {"8", "int8"}, {"null", "?plain"});
WORDS(bits_double, {"4", "nf4-double"}, {"8", "int8"}, {"null", "?plain"});
WORDS(bnb, {"bnb.nf4", "nf4"}, {"bnb.nf4-dq", "nf4-double"}, {"bnb.int8-training", "int8"},
      {"bnb.int8", "int8"}, {"bnb.fp4", "nf4"}, {"bnb.fp4-dq", "nf4-double"}, {"null", "?plain"});
// torchtune's qlora_* functions are lora_* with quantize_base=True, which an argument replaces.
WORDS(qlora_builder, {"*.qlora_*", "nf4-double"}, {"*", "?plain"});
// null is none, too, for a builder whose default is to quantise.
WORDS(quantize_base, {"true", "nf4-double"}, {"false", "plain"}, {"null", "plain"});

// ---- adapters: keys without which the rank has no effect
WORDS(no_adapter, {"null", "0"}, {"", "0"}, {"*", "-"});
WORDS(no_peft, {"false", "0"}, {"true", "-"});
WORDS(not_lora, {"full", "0"}, {"freeze", "0"}, {"*", "-"});
WORDS(full_finetuning, {"true", "0"}, {"false", "-"});
// torchtune's models/gemma2/_attention.py computes scores, softmax and products one by one
WORDS(attention_builder, {"*.gemma2.*", "eager"}, {"*", "-"});
WORDS(lora_builder, {"*.lora_*", "-"}, {"*.qlora_*", "-"}, {"*.dora_*", "-"}, {"*", "0"});
WORDS(rank_zero, {"null", "?0"});
WORDS(all_linear, {"true", "all-linear"}, {"false", "-"}, {"null", "-"}, {"all", "all-linear"},
      {"all-linear", "all-linear"});
// torchtune's names
WORDS(targets_of_tune, {"output_proj", "o_proj"});
WORDS(targets_mlp, {"true", "gate_proj,up_proj,down_proj"}, {"false", "-"});
WORDS(target_q, {"true", "q_proj"}, {"false", "-"});
WORDS(target_k, {"true", "k_proj"}, {"false", "-"});
WORDS(target_v, {"true", "v_proj"}, {"false", "-"});
WORDS(target_o, {"true", "o_proj"}, {"false", "-"});
WORDS(target_head, {"true", "lm_head"}, {"false", "-"});

// ---- optimizers by class; torch.optim.AdamW without fused=True steps with foreach
WORDS(optimizer_class, {"torch.optim.AdamW", "adamw-foreach"}, {"AdamW", "adamw-foreach"},
      {"bitsandbytes.optim.AdamW8bit", "adamw-8bit"}, {"bitsandbytes.optim.PagedAdamW", "paged-adamw"},
      {"bitsandbytes.optim.PagedAdamW8bit", "paged-adamw-8bit"},
      {"bitsandbytes.optim.Lion8bit", "lion-8bit"}, {"bitsandbytes.optim.PagedLion8bit", "paged-lion-8bit"},
      {"torch.optim.SGD", "sgd"}, {"sgd", "sgd"}, {"adafactor", "adafactor"}, {"*.AdamW", "adamw-foreach"},
      {"bnb.optim.AdamW8bit", "adamw-8bit"}, {"bnb.optim.PagedAdamW8bit", "paged-adamw-8bit"});
// torchtune imports what it is given (config/_utils.py, _get_component_from_path): a name without a module is an error
WORDS(optimizer_component, {"torch.optim.AdamW", "adamw-foreach"},
      {"bitsandbytes.optim.AdamW8bit", "adamw-8bit"}, {"bitsandbytes.optim.PagedAdamW", "paged-adamw"},
      {"bitsandbytes.optim.PagedAdamW8bit", "paged-adamw-8bit"},
      {"bitsandbytes.optim.Lion8bit", "lion-8bit"}, {"bitsandbytes.optim.PagedLion8bit", "paged-lion-8bit"},
      {"torch.optim.SGD", "sgd"}, {"*.AdamW", "adamw-foreach"}, {"bnb.optim.AdamW8bit", "adamw-8bit"},
      {"bnb.optim.PagedAdamW8bit", "paged-adamw-8bit"});
// DeepSpeed builds its own FusedAdam for both (get_optimizer_configuration), unless torch_adam asks for torch's.
WORDS(deepspeed_optimizer, {"AdamW", "adamw"}, {"Adam", "adamw"}, {"sgd", "sgd"});
WORDS(torch_adam, {"true", "adamw-foreach"}, {"false", "adamw"});
WORDS(implementation, {"fused", "adamw"}, {"foreach", "adamw-foreach"}, {"for-loop", "adamw-loop"});
WORDS(any_adamw, {"*", "?adamw-foreach"});
WORDS(any_sgd, {"*", "?sgd"});
WORDS(rank_of_peft, {"true", "16"}, {"false", "-"}, {"null", "-"}); // lora_r of TRL's ModelConfig
WORDS(momentum, {"0", "-"}, {"0.0", "-"}, {"0.", "-"}, {"*", "?sgd-momentum"});
WORDS(adafactor, {"true", "adafactor"}, {"false", "-"}, {"null", "-"});
WORDS(any_adamw_8bit, {"*", "?adamw-8bit"});
WORDS(any_paged_adamw_8bit, {"*", "?paged-adamw-8bit"});
// torch/optim/adamw.py takes foreach by default only if fused is None, too
WORDS(fused, {"true", "adamw"}, {"false", "adamw-loop"}, {"null", "?adamw-foreach"});

// ---- sharding
WORDS(any_fsdp, {"full_shard", "fsdp"}, {"shard_grad_op", "fsdp"}, {"auto_wrap", "fsdp"}, {"*", "-"});
WORDS(fsdp_string, {"true", "fsdp2"}, {"*full_shard*", "fsdp"}, {"*shard_grad_op*", "fsdp"},
      {"*hybrid_shard*", "fsdp"}, {"false", "?none"}, {"", "?none"}, {"null", "?none"});
WORDS(fsdp_string_offload, {"*offload*", "parameters"}, {"*", "-"});
WORDS(fsdp_config, {"*", "fsdp"});
WORDS(fsdp_version, {"2", "fsdp2"}, {"1", "fsdp"}, {"null", "-"});
// fsdp_config as JSON; otherwise it is the name of a file, which is read on its own
WORDS(fsdp_json, {"{*\"version\": 2*", "fsdp2"}, {"{*\"version\":2*", "fsdp2"}, {"*", "-"});
WORDS(reshard_json, {"{*\"reshard_after_forward\": true*", "on"}, {"{*\"reshard_after_forward\":true*", "on"},
      {"{*\"reshard_after_forward\": false*", "off"}, {"{*\"reshard_after_forward\":false*", "off"},
      {"*", "-"});
WORDS(distributed_type, {"NO", "?none"}, {"MULTI_GPU", "ddp"}, {"FSDP", "fsdp"}, {"false", "?none"},
      {"DEEPSPEED", "-"}, {"MEGATRON_LM", "-"}, {"TP", "-"});
// DeepSpeed without ZeRO keeps a full copy on each GPU; a change to DDP removes DeepSpeed.
WORDS(zero_stage, {"0*", "ddp"}, {"1", "zero1"}, {"2", "zero2"}, {"3", "zero3"});
// LLaMA-Factory v1: one row without padding, or rows that are padded
WORDS(batching, {"*padding_free", "on"}, {"*", "off"});
// fsdpturbo (distributed/fsdpturbo.py) is FSDP2 with its own way to share experts, which dist_config.ep_size turns on
WORDS(dist_name, {"fsdp2", "fsdp2"}, {"fsdpturbo", "fsdp2"}, {"deepspeed", "-"}, {"null", "-"});
WORDS(lightning_strategy, {"auto", "-"}, {"ddp", "ddp"}, {"ddp_spawn", "ddp"}, {"fsdp", "fsdp"},
      {"deepspeed_stage_1", "zero1"}, {"deepspeed_stage_2", "zero2"}, {"deepspeed_stage_3", "zero3"},
      {"deepspeed_stage_1*", "zero1"}, {"deepspeed_stage_2*", "zero2"}, {"deepspeed_stage_3*", "zero3"},
      {"deepspeed", "zero2"}, {"fsdp*", "fsdp"}, {"ddp*", "ddp"}, {"null", "-"});
WORDS(lightning_offload, {"deepspeed_stage_2_offload", "optimizer"},
      {"deepspeed_stage_3_offload*", "parameters"}, {"fsdp_cpu_offload", "parameters"}, {"*", "-"});
WORDS(zero1_flag, {"true", "zero1"}, {"false", "-"});
WORDS(fsdp2_flag, {"true", "fsdp2"}, {"false", "-"});
WORDS(sharding_strategy, {"no_shard", "ddp"}, {"optim", "zero1"}, {"optim_grads", "zero2"},
      {"optim_grads_params", "fsdp2"});
WORDS(reshard, {"true", "on"}, {"false", "?off"}, {"FULL_SHARD", "on"}, {"SHARD_GRAD_OP", "off"},
      {"NO_RESHARD", "off"}, {"always", "on"}, {"never", "off"}, {"default", "on"});

// ---- offload
WORDS(offload_optimizer, {"none", "?none"}, {"cpu", "optimizer"}, {"nvme", "optimizer"}, {"null", "?none"});
WORDS(offload_parameters, {"none", "?none"}, {"cpu", "parameters"}, {"nvme", "parameters"},
      {"null", "?none"});
// Parameters on the host with their optimizer on the card: DeepSpeed supports it, but plans do not propose it.
WORDS(beside_parameters, {"cpu", "parameters"}, {"nvme", "parameters"}, {"none", "weights"}, {"null", "weights"});
WORDS(offload_flag_optimizer, {"true", "optimizer"}, {"false", "?none"}, {"null", "?none"});
WORDS(offload_flag_parameters, {"true", "parameters"}, {"false", "?none"}, {"null", "?none"});
WORDS(offload_flag_activations, {"true", "activations"}, {"false", "?none"}, {"null", "?none"});
WORDS(offload_activations, {"true", "activations"}, {"false", "?none"}, {"legacy", "activations"},
      {"hidden_states", "activations"}, {"disk", "disk"}, {"null", "?none"});

// Axolotl: hidden_states is the word that keeps checkpointing with adapters, too (core/builders/base.py). disk does what
// true does (core/trainers/mixins/activation_checkpointing.py).
WORDS(offload_axolotl, {"hidden_states", "activations"}, {"true", "activations"}, {"false", "?none"},
      {"legacy", "activations"}, {"disk", "activations"}, {"null", "?none"});
WORDS(offload_by_checkpoint, {"true", "-"}, {"offloa?", "activations"}, {"offload_dis?", "activations"},
      {"unslot?", "activations"}, {"*", "-"});
WORDS(offload_layers, {"true", "parameters"}, {"false", "?none"}, {"null", "?none"});

// ---- the rest
WORDS(offloaded_or_reentrant, {"true", "offloaded"}, {"false", "reentrant"});
WORDS(offloaded_or_on, {"true", "offloaded"}, {"false", "on"});
WORDS(pure_bf16, {"true", "none"}, {"false", "-"});
WORDS(galore, {"true", "galore"}, {"false", "-"});
// LLaMA-Factory's optim beside use_galore: the algorithm (train/trainer_utils.py, _create_galore_optimizer)
WORDS(galore_algorithm, {"adamw_8bit", "galore-8bit"}, {"adamw_bnb_8bit", "galore-8bit"},
      {"paged_adamw_8bit", "galore-8bit"}, {"adafactor", "galore-adafactor"}, {"adamw_torch", "galore"}, {"*", "-"});
WORDS(apollo, {"true", "apollo"}, {"false", "-"});
WORDS(badam, {"true", "badam"}, {"false", "-"});
WORDS(adam_mini, {"true", "adam-mini"}, {"false", "-"});
WORDS(muon, {"true", "muon"}, {"false", "-"});
WORDS(any_fp8, {"*", "fp8"});
WORDS(empty_level, {"0", "?0"}, {"1", "1"}, {"2", "1"});
WORDS(any_on, {"null", "?off"}, {"*", "on"});
WORDS(any_off, {"*", "off"});
WORDS(plain_flag, {"true", "plain"}, {"false", "-"});
WORDS(fsdp_flag, {"true", "fsdp"}, {"false", "ddp"});
WORDS(shard_degree, {"1", "ddp"}, {"*", "fsdp2"});
WORDS(backend, {"NO", "?off"}, {"false", "?off"}, {"*", "on"});
// TRL checkpoints chunks of 256 tokens (_CHUNKED_LM_HEAD_CHUNK_SIZE); torchtune and Axolotl use eight chunks and keep
// what backward needs
WORDS(loss_trl, {"chunked_nll", "256"}, {"nll", "0"}, {"dft", "0"});
WORDS(loss_tune, {"torchtune.modules.loss.LinearCrossEntropyLoss", "eighths"},
      {"*.LinearCrossEntropyLoss", "eighths"}, {"*.CEWithChunkedOutputLoss", "eighths-listed"},
      {"*CrossEntropyLoss", "0"});
WORDS(loss_fused, {"true", "fused"}, {"false", "?0"}, {"null", "?0"});
WORDS(loss_plugins, {"*cut_cross_entropy*", "fused"}, {"*", "-"});
WORDS(loss_chunked, {"true", "eighths"}, {"false", "?0"}, {"null", "?0"});
WORDS(contrastive, {"*", "contrastive"});
WORDS(stage_packs, {"pt", "?on"}, {"*", "-"});
WORDS(scores, {"true", "other"}, {"false", "-"}, {"null", "-"});
WORDS(preference, {"sft", "causal"}, {"pt", "causal"}, {"null", "?causal"}, {"false", "?causal"},
      {"", "?causal"}, {"dpo", "preference"}, {"kto", "preference"}, {"*", "other"});
// clang-format on
