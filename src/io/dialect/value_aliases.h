// The words that files use for the values of knobs, shared by several dialects.
#ifndef PLIM_IO_VALUE_ALIASES_H
#define PLIM_IO_VALUE_ALIASES_H

#include "dialect.h"

extern const plim_word words_on_off[], words_null_is_zero[], words_endless[], words_any_sgd[],
    words_momentum[], words_adafactor[], words_rank_of_peft[], words_any_batch[],
    words_checkpoint[], words_true_is_on[], words_disables_checkpoint[], words_reentrant[],
    words_reentrant_json[], words_recompute[], words_ac_mode[], words_granularity[],
    words_any_off[], words_selective_recompute[], words_attention[], words_attention_flash[],
    words_attention_sdpa[], words_attention_eager[], words_attention_xformers[], words_flash_attn[],
    words_attention_backend[], words_bf16[], words_fp16[], words_fp8[], words_bf16_enabled[],
    words_fp16_enabled[], words_implementation[], words_precision[], words_mixed[],
    words_true_precision[], words_dtype[], words_dtype_tune[], words_bf16_dtype[],
    words_fp16_dtype[], words_full_is_fp32[], words_left_as_loaded[], words_4bit[],
    words_4bit_double[], words_8bit[], words_double[], words_bits[], words_bnb[],
    words_qlora_builder[], words_quantize_base[], words_lora_builder[], words_attention_builder[],
    words_no_adapter[], words_no_peft[], words_not_lora[], words_full_finetuning[],
    words_rank_zero[], words_optimizer_class[], words_optimizer_component[],
    words_deepspeed_optimizer[], words_torch_adam[], words_fused[], words_any_adamw[],
    words_any_adamw_8bit[], words_any_paged_adamw_8bit[], words_any_fsdp[], words_fsdp_string[],
    words_fsdp_string_offload[], words_fsdp_json[], words_reshard_json[], words_fsdp_config[],
    words_fsdp_version[], words_distributed_type[], words_zero_stage[], words_dist_name[],
    words_batching[], words_v1_kernels[], words_lightning_strategy[], words_lightning_offload[],
    words_zero1_flag[], words_fsdp2_flag[], words_sharding_strategy[], words_offload_optimizer[],
    words_offload_parameters[], words_beside_parameters[], words_offload_flag_optimizer[],
    words_offload_flag_parameters[], words_offload_flag_activations[], words_offload_activations[],
    words_reshard[], words_all_linear[], words_targets_of_tune[], words_targets_mlp[],
    words_target_q[], words_target_k[], words_target_v[], words_target_o[], words_target_head[],
    words_backend[], words_loss_trl[], words_loss_tune[], words_loss_fused[], words_loss_plugins[],
    words_checkpoint_axolotl[], words_checkpoint_unsloth[], words_bits_double[],
    words_loss_chunked[], words_contrastive[], words_scores[], words_stage_packs[],
    words_preference[], words_offload_layers[], words_offload_axolotl[],
    words_offload_by_checkpoint[], words_offloaded_or_reentrant[], words_offloaded_or_on[],
    words_pure_bf16[], words_galore[], words_galore_algorithm[], words_apollo[], words_badam[],
    words_adam_mini[], words_muon[], words_any_fp8[], words_empty_level[], words_any_on[],
    words_plain_flag[], words_fsdp_flag[], words_shard_degree[];

#endif
