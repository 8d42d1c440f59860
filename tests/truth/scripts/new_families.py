"""Families that were added after the recordings of an H200: two layers, two steps, in the loops and with the
options of the older recordings. Nothing in it depends on the card, so it also runs where stand-ins for
CUDA's libraries take a card's place: PyTorch, transformers, the caching allocator and Python are then the
real ones, kernels do nothing, and copies to the host are zeros. The few values that programs look at are
answered by `answer_comparisons`.

usage: new_families.py OUTDIR [part of a name]
Cases with 4-bit weights need bitsandbytes, whose import starts CUDA, so they are not forked: give the whole name of one.
"""

import json
import lzma
import os
import pickle
import sys
import tempfile
import traceback

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # the parent forks: it must not start CUDA
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "docs"))
import peft
import torch
import transformers
from chunked_loss import use_chunked_loss
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForMultimodalLM, BitsAndBytesConfig, Trainer, TrainingArguments

transformers.logging.set_verbosity_error()
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LINEAR += ["w1", "w2", "w3", "in_proj", "in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"]  # layers in place of attention
LINEAR += ["in_proj_qkvz", "in_proj_ba"]
STATES = [name for name in LINEAR if name != "out_proj"]  # peft refuses out_proj of a state space
MIXERS = ["q_proj", "k_proj", "v_proj", "o_proj", "in_proj_qkvz", "in_proj_ba", "out_proj"]
# Several chunks, the last one not full; others: 512.
LENGTHS = {name: 200 for name in ["falcon_h1", "falcon_h1-normed", "bamba", "granitemoehybrid", "granitemoehybrid-dense", "nemotron_h", "nemotron_h-latent"]}
LENGTHS |= {"qwen3_5_moe_text": 200, "qwen3_5_text": 200, "qwen3_5": 200, "qwen3_next": 200}
MODELS = {
    "llama": {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": True, "max_position_embeddings": 131072},
    "olmo2": {"model_type": "olmo2", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 100352, "max_position_embeddings": 4096, "tie_word_embeddings": False},
    "olmo2-grouped": {"model_type": "olmo2", "hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 2, "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 100352, "max_position_embeddings": 4096, "tie_word_embeddings": False},
    "lfm2": {"model_type": "lfm2", "hidden_size": 1024, "intermediate_size": 6656, "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 65536, "max_position_embeddings": 128000, "conv_L_cache": 3, "block_auto_adjust_ff_dim": True, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256, "layer_types": ["conv", "conv", "full_attention", "conv"]},
    "falcon_h1": {"model_type": "falcon_h1", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 32784, "mamba_d_ssm": 768, "mamba_n_heads": 24, "mamba_d_head": 32, "mamba_n_groups": 1, "mamba_d_state": 32, "mamba_chunk_size": 64, "mamba_norm_before_gate": False, "mamba_rms_norm": False, "tie_word_embeddings": False, "max_position_embeddings": 16384},
    "falcon_h1-normed": {"model_type": "falcon_h1", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 32784, "mamba_d_ssm": 768, "mamba_n_heads": 24, "mamba_d_head": 32, "mamba_n_groups": 2, "mamba_d_state": 32, "mamba_chunk_size": 64, "mamba_norm_before_gate": False, "mamba_rms_norm": True, "tie_word_embeddings": True, "max_position_embeddings": 16384},
    "bamba": {"model_type": "bamba", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 32784, "attn_layer_indices": [1], "mamba_n_heads": 16, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 32, "mamba_chunk_size": 64, "tie_word_embeddings": False, "max_position_embeddings": 4096},
    "granitemoehybrid": {"model_type": "granitemoehybrid", "hidden_size": 512, "intermediate_size": 256, "shared_intermediate_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 32784, "num_local_experts": 16, "num_experts_per_tok": 4, "layer_types": ["mamba", "attention", "mamba"], "mamba_n_heads": 16, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 32, "mamba_chunk_size": 64, "position_embedding_type": "nope", "tie_word_embeddings": True, "max_position_embeddings": 131072},
    "granitemoehybrid-dense": {"model_type": "granitemoehybrid", "hidden_size": 512, "intermediate_size": 1024, "shared_intermediate_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 32784, "num_local_experts": 0, "num_experts_per_tok": 0, "layer_types": ["mamba", "attention", "mamba"], "mamba_n_heads": 16, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 32, "mamba_chunk_size": 64, "position_embedding_type": "rope", "tie_word_embeddings": True, "max_position_embeddings": 131072},
    "nemotron_h": {"model_type": "nemotron_h", "hidden_size": 512, "intermediate_size": 1024, "hybrid_override_pattern": "ME*M-", "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 32784, "ssm_state_size": 32, "mamba_num_heads": 16, "mamba_head_dim": 64, "n_groups": 4, "chunk_size": 64, "n_routed_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 256, "moe_shared_expert_intermediate_size": 512, "routed_scaling_factor": 2.5, "tie_word_embeddings": False},
    "nemotron_h-latent": {"model_type": "nemotron_h", "hidden_size": 512, "intermediate_size": 1024, "hybrid_override_pattern": "ME*E", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 32784, "ssm_state_size": 32, "mamba_num_heads": 16, "mamba_head_dim": 64, "n_groups": 4, "chunk_size": 64, "n_routed_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 256, "moe_shared_expert_intermediate_size": 512, "moe_latent_size": 256, "routed_scaling_factor": 5.0, "tie_word_embeddings": False},
    "lfm2_moe": {"model_type": "lfm2_moe", "hidden_size": 1024, "intermediate_size": 3584, "moe_intermediate_size": 512, "num_hidden_layers": 4, "num_dense_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 65536, "max_position_embeddings": 128000, "conv_L_cache": 3, "num_experts": 16, "num_experts_per_tok": 4, "layer_types": ["conv", "conv", "full_attention", "conv"]},
    "qwen3_5_moe_text": {"model_type": "qwen3_5_moe_text", "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 65536, "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 256, "shared_expert_intermediate_size": 256, "tie_word_embeddings": False, "max_position_embeddings": 262144},
    "qwen3_next": {"model_type": "qwen3_next", "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 65536, "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 256, "shared_expert_intermediate_size": 256, "tie_word_embeddings": False, "max_position_embeddings": 262144},
    "qwen3_5": {"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text", "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 65536, "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "tie_word_embeddings": True, "max_position_embeddings": 262144}, "vision_config": {"depth": 2, "hidden_size": 768, "intermediate_size": 3072, "num_heads": 12, "out_hidden_size": 1024}, "tie_word_embeddings": True},
    "qwen3_5_text": {"model_type": "qwen3_5_text", "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 65536, "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "tie_word_embeddings": True, "max_position_embeddings": 262144},
    "gpt2-gelu": {"model_type": "gpt2", "n_embd": 1088, "n_layer": 2, "n_head": 17, "n_positions": 2048, "vocab_size": 50257, "activation_function": "gelu", "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    "gpt_neox-sequential": {"model_type": "gpt_neox", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 2, "num_attention_heads": 32, "vocab_size": 50432, "max_position_embeddings": 2048, "rotary_pct": 1.0, "use_parallel_residual": False},
    "granite": {"model_type": "granite", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 49155, "max_position_embeddings": 131072, "tie_word_embeddings": True, "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.015625, "logits_scaling": 8.0},
    "gemma": {"model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000, "max_position_embeddings": 8192},
    "gemma3_text": {"model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144, "max_position_embeddings": 32768, "sliding_window": 256, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "gemma3": {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208, "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window_pattern": 3}, "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 2, "num_attention_heads": 16, "image_size": 896, "patch_size": 14, "vision_use_head": False}, "mm_tokens_per_image": 256},
    "mistral3": {"model_type": "mistral3", "text_config": {"model_type": "mistral", "hidden_size": 2560, "intermediate_size": 8192, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 131072, "sliding_window": None, "max_position_embeddings": 131072}, "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 16, "image_size": 1540, "patch_size": 14}, "tie_word_embeddings": False, "spatial_merge_size": 2},
    "ministral3": {"model_type": "mistral3", "text_config": {"model_type": "ministral3", "hidden_size": 3072, "intermediate_size": 9216, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 131072, "max_position_embeddings": 262144, "rope_parameters": {"type": "yarn", "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1}}, "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 16, "image_size": 1540, "patch_size": 14}, "tie_word_embeddings": True, "spatial_merge_size": 2},
    "smollm3": {"model_type": "smollm3", "hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 128256, "max_position_embeddings": 65536, "no_rope_layer_interval": 4, "use_sliding_window": False, "tie_word_embeddings": True},
    "phi": {"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 2, "num_attention_heads": 32, "vocab_size": 51200, "max_position_embeddings": 2048, "partial_rotary_factor": 0.4, "resid_pdrop": 0.1, "tie_word_embeddings": False},
    "olmo3": {"model_type": "olmo3", "hidden_size": 2560, "intermediate_size": 8192, "num_hidden_layers": 4, "num_attention_heads": 20, "num_key_value_heads": 4, "vocab_size": 100278, "max_position_embeddings": 65536, "sliding_window": 256, "tie_word_embeddings": False},
    "stablelm": {"model_type": "stablelm", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 100352, "max_position_embeddings": 4096, "partial_rotary_factor": 0.25, "use_qkv_bias": True, "tie_word_embeddings": False},
    "starcoder2": {"model_type": "starcoder2", "hidden_size": 3072, "intermediate_size": 12288, "num_hidden_layers": 2, "num_attention_heads": 24, "num_key_value_heads": 2, "vocab_size": 49152, "max_position_embeddings": 16384, "sliding_window": 4096, "use_bias": True, "residual_dropout": 0.1, "embedding_dropout": 0.1, "attention_dropout": 0.1, "tie_word_embeddings": True},
    "glm4": {"model_type": "glm4", "hidden_size": 4096, "intermediate_size": 13696, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 151552, "max_position_embeddings": 32768, "partial_rotary_factor": 0.5, "attention_bias": True, "tie_word_embeddings": False},
    "nemotron": {"model_type": "nemotron", "hidden_size": 3072, "intermediate_size": 9216, "num_hidden_layers": 2, "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 256000, "max_position_embeddings": 4096, "partial_rotary_factor": 0.5, "tie_word_embeddings": False},
    "seed_oss": {"model_type": "seed_oss", "hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 2, "num_attention_heads": 80, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 155136, "max_position_embeddings": 524288, "attention_bias": True, "attention_out_bias": False, "residual_dropout": 0.1, "attention_dropout": 0.1, "tie_word_embeddings": False},
    "cohere": {"model_type": "cohere", "hidden_size": 4096, "intermediate_size": 11264, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 256000, "max_position_embeddings": 8192, "use_qk_norm": False, "tie_word_embeddings": True},
    "cohere2": {"model_type": "cohere2", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 256000, "max_position_embeddings": 8192, "sliding_window": 256, "tie_word_embeddings": True},
    "gemma4_text": {"model_type": "gemma4_text", "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "vocab_size": 131072, "vocab_size_per_layer_input": 131072, "hidden_size_per_layer_input": 256, "sliding_window": 256, "num_kv_shared_layers": 3, "use_double_wide_mlp": True, "final_logit_softcapping": 30.0, "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"]},
    "gemma4_text-dense": {"model_type": "gemma4_text", "hidden_size": 2688, "intermediate_size": 10752, "num_hidden_layers": 3, "num_attention_heads": 16, "num_key_value_heads": 8, "num_global_key_value_heads": 2, "head_dim": 256, "global_head_dim": 512, "vocab_size": 131072, "hidden_size_per_layer_input": 0, "sliding_window": 1024, "attention_k_eq_v": True, "final_logit_softcapping": 30.0, "layer_types": ["sliding_attention", "full_attention", "full_attention"]},
    "gemma4": {"model_type": "gemma4", "text_config": {"model_type": "gemma4_text", "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "vocab_size": 131072, "vocab_size_per_layer_input": 131072, "hidden_size_per_layer_input": 256, "sliding_window": 256, "num_kv_shared_layers": 3, "use_double_wide_mlp": True, "final_logit_softcapping": 30.0, "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"]}, "vision_config": {"model_type": "gemma4_vision", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 12, "num_key_value_heads": 12, "head_dim": 64, "position_embedding_size": 10240, "use_clipped_linears": True, "standardize": False}, "audio_config": {"model_type": "gemma4_audio", "hidden_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "output_proj_dims": 1536}, "tie_word_embeddings": True},
    "gemma4-dense": {"model_type": "gemma4", "text_config": {"model_type": "gemma4_text", "hidden_size": 2688, "intermediate_size": 10752, "num_hidden_layers": 3, "num_attention_heads": 16, "num_key_value_heads": 8, "num_global_key_value_heads": 2, "head_dim": 256, "global_head_dim": 512, "vocab_size": 131072, "hidden_size_per_layer_input": 0, "sliding_window": 1024, "attention_k_eq_v": True, "final_logit_softcapping": 30.0, "layer_types": ["sliding_attention", "full_attention", "full_attention"], "use_bidirectional_attention": "vision"}, "vision_config": {"model_type": "gemma4_vision", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 72, "position_embedding_size": 10240, "use_clipped_linears": False, "standardize": True}, "audio_config": None, "tie_word_embeddings": True},
    "gemma4-experts": {"model_type": "gemma4", "text_config": {"model_type": "gemma4_text", "hidden_size": 2816, "intermediate_size": 2112, "num_hidden_layers": 3, "num_attention_heads": 16, "num_key_value_heads": 8, "num_global_key_value_heads": 2, "head_dim": 256, "global_head_dim": 512, "vocab_size": 131072, "hidden_size_per_layer_input": 0, "sliding_window": 1024, "attention_k_eq_v": True, "final_logit_softcapping": 30.0, "layer_types": ["sliding_attention", "full_attention", "full_attention"], "enable_moe_block": True, "num_experts": 16, "top_k_experts": 8, "moe_intermediate_size": 704, "use_bidirectional_attention": "vision"}, "vision_config": {"model_type": "gemma4_vision", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 72, "position_embedding_size": 10240, "use_clipped_linears": False, "standardize": True}, "audio_config": None, "tie_word_embeddings": True},
}
FP32 = {"param_dtype": "fp32", "amp": "bf16"}
LORA = {"r": 16, "targets": LINEAR, "dropout": 0.0}
LORA_AMP = {"lora": LORA | {"dropout": 0.05}, "amp": "bf16"}
LORA_ALL = {"lora": LORA | {"dropout": 0.05, "targets": "all-linear"}, "amp": "bf16"}
VARIANTS = {
    "bf16": {},
    "bf16-ckpt": {"ckpt": True},
    "bf16-ckpt-reentrant": {"ckpt": True, "reentrant": True},
    "bf16-eager": {"attn": "eager"},
    "bf16-flash": {"sdp": "flash"},
    "pad": {"mask": "pad"},
    "eager-pad-ckpt": {"attn": "eager", "mask": "pad", "ckpt": True},
    "fp32": {"param_dtype": "fp32"},
    "fp32-ampbf16": FP32,
    "fp32-ampbf16-ckpt": FP32 | {"ckpt": True},
    "fp32-ampbf16-eager": FP32 | {"attn": "eager"},
    "loss-only": {"keep": "loss"},
    "loss-only-accum": FP32 | {"keep": "loss", "accum": 2},
    "lora": {"lora": LORA},
    "lora-drop-amp": LORA_AMP,
    "lora-drop-amp-ckpt": LORA_AMP | {"ckpt": True},
    "lora-all-amp-ckpt": LORA_ALL | {"ckpt": True},
    "lora-all": {"lora": LORA | {"targets": "all-linear"}},
    "lora-mixers-drop-amp-ckpt": {"lora": LORA | {"dropout": 0.05, "targets": MIXERS}, "amp": "bf16", "ckpt": True},
    "lora-states": {"lora": LORA | {"targets": STATES}},
    "lora-states-amp-ckpt": {"lora": LORA | {"dropout": 0.05, "targets": STATES}, "amp": "bf16", "ckpt": True},
    "trainer-lora-states-ckpt": {"lora": LORA | {"dropout": 0.05, "targets": STATES}, "amp": "bf16", "ckpt": True, "loop": "trainer", "accum": 2},
    "trainer-lora-all-ckpt": LORA_ALL | {"ckpt": True, "loop": "trainer", "accum": 2},
    "chunked": {"loss": "chunked-model", "chunk": 200},
    "load-cpu": {"load": "cpu"},
    "nf4-lora": {"lora": LORA, "amp": "bf16", "load": "device_map", "weights": "nf4"},
    "load-device_map": {"load": "device_map"},
    "trainer-fp32": FP32 | {"loop": "trainer"},
    "trainer-lora-ckpt": LORA_AMP | {"ckpt": True, "loop": "trainer", "accum": 2},
}
EXTRA = {"whole-chunks": {"seq": 128}}
MOST = ["bf16", "bf16-ckpt", "bf16-ckpt-reentrant", "bf16-eager", "pad", "fp32-ampbf16", "lora-drop-amp-ckpt", "chunked", "load-device_map", "trainer-lora-ckpt"]
ALL = [name.replace("lora-drop", "lora-all").replace("trainer-lora", "trainer-lora-all") for name in MOST]
HYBRID = [name.replace("lora-drop", "lora-states").replace("trainer-lora", "trainer-lora-states") for name in MOST] + ["lora-states", "load-cpu", "trainer-fp32", "whole-chunks"]
CASES = [
    {"id": f"{model}-{name}", "model": model, "batch": 2, "seq": LENGTHS.get(model, 512), "steps": 2} | options
    for model, names in {
        "llama": ["bf16", "pad", "load-device_map", "trainer-fp32", "loss-only", "loss-only-accum"],
        "olmo2": [name for name in VARIANTS if name != "nf4-lora"],
        "olmo2-grouped": ["bf16", "lora-drop-amp-ckpt"],
        "gpt2-gelu": ["bf16", "bf16-ckpt", "fp32-ampbf16"],
        "gpt_neox-sequential": ["bf16", "bf16-ckpt", "bf16-eager", "fp32-ampbf16"],
        "granite": [name for name in VARIANTS if name != "nf4-lora"],
        "gemma": MOST,
        "gemma3_text": MOST,
        "gemma3": MOST,
        "lfm2": [*MOST, "fp32", "load-cpu"],
        "falcon_h1": [*HYBRID, "fp32"],
        "falcon_h1-normed": ["bf16", "fp32-ampbf16", "bf16-ckpt"],
        "bamba": HYBRID,
        "granitemoehybrid": HYBRID,
        "granitemoehybrid-dense": ["bf16", "pad", "fp32-ampbf16", "lora-states-amp-ckpt", "load-device_map"],
        "nemotron_h": HYBRID,
        "nemotron_h-latent": ["bf16", "fp32-ampbf16", "lora-states-amp-ckpt", "load-device_map"],
        "lfm2_moe": [*MOST, "load-cpu"],
        "qwen3_5_moe_text": ["bf16", "bf16-ckpt", "pad", "fp32-ampbf16", "load-device_map", "trainer-fp32", "lora-drop-amp-ckpt"],
        "qwen3_next": ["bf16", "bf16-ckpt", "bf16-ckpt-reentrant", "bf16-eager", "pad", "fp32-ampbf16", "lora-mixers-drop-amp-ckpt", "lora", "lora-all", "load-device_map", "load-cpu", "trainer-fp32"],
        "qwen3_5_text": [*MOST, "bf16-flash", "fp32", "load-cpu", "trainer-fp32", "whole-chunks"],
        "gemma4_text": MOST,
        "gemma4_text-dense": ["bf16", "pad"],
        "gemma4": ALL,
        "gemma4-dense": ALL,
        "gemma4-experts": ALL,
        "mistral3": ALL,
        "ministral3": ALL,
        "smollm3": ALL,
        "phi": ALL,
        "olmo3": ALL,
        "stablelm": ALL,
        "starcoder2": ALL,
        "glm4": ALL,
        "nemotron": ALL,
        "seed_oss": ALL,
        "cohere": ALL,
        "cohere2": ALL,
        "qwen3_5": ["bf16", "pad", "load-device_map", "load-cpu", "lora-drop-amp-ckpt", "trainer-fp32"],
    }.items()
    for name, options in ((n, (VARIANTS | EXTRA)[n]) for n in names)
]


def answer_comparisons(is_padded):
    """What `if tensor:` finds on a card that computes: whether a mask is all ones (masking_utils.py), whether a
    loss is NaN or infinite (trainer.py)."""
    answers = {"masking_utils.py": not is_padded, "trainer.py": False}
    on_card = torch.Tensor.__bool__

    def asked(self):
        value = on_card(self)
        return answers.get(os.path.basename(sys._getframe(1).f_code.co_filename), value)

    torch.Tensor.__bool__ = asked


def class_of(config):
    classes = AutoModelForImageTextToText, AutoModelForCausalLM, AutoModelForMultimodalLM
    return next(c for c in classes if type(config) in c._model_mapping)


def loaded(case, config, dtype):
    """A checkpoint of any weights: to the card at once, or on the host and then moved."""
    with tempfile.TemporaryDirectory() as folder:
        with torch.device("meta"):
            model = class_of(config).from_config(config, dtype=dtype)
        model.to_empty(device="cpu").tie_weights()
        model.save_pretrained(folder)
        del model
        if case["load"] == "device_map":
            in_4_bits = {"quantization_config": BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)} if case.get("weights") else {}
            return class_of(config).from_pretrained(folder, dtype=dtype, device_map={"": 0}, **in_4_bits)
        return class_of(config).from_pretrained(folder, dtype=dtype).to("cuda")


def build(case):
    config = CONFIG_MAPPING[MODELS[case["model"]]["model_type"]](**MODELS[case["model"]])
    attention = case.get("attn", "sdpa")
    config._attn_implementation, config.use_cache, config.get_text_config().use_cache = attention, False, False
    dtype = DTYPES[case.get("param_dtype", "bf16")]
    if case.get("load"):
        model = loaded(case, config, dtype)
    else:
        with torch.device("cuda"):
            model = class_of(config).from_config(config, dtype=dtype, attn_implementation=attention)
    model.train()
    if case.get("loss") == "chunked-model":
        use_chunked_loss(model, case["chunk"])
    if case.get("ckpt"):
        reentrant = {"use_reentrant": case.get("reentrant", False)}
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=reentrant)
    if case.get("lora"):
        lora = case["lora"]
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=lora["r"], lora_alpha=2 * lora["r"], lora_dropout=lora["dropout"], target_modules=lora["targets"]))
        if case.get("ckpt"):
            model.enable_input_require_grads()
    return model, config


def batch_of(case, config):
    ids = torch.randint(5, config.get_text_config().vocab_size - 1, (case["batch"], case["seq"]), device="cuda")
    batch = {"input_ids": ids}
    if case.get("mask"):
        mask = torch.ones_like(ids)
        mask[:, -(case["seq"] // 4):] = 0
        batch["attention_mask"] = mask
    batch["labels"] = ids.clone()
    return batch


def loop(case, model, config):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=True)
    accum, amp = case.get("accum", 1), case.get("amp")
    for _ in range(case["steps"]):
        for _ in range(accum):
            d = batch_of(case, config)
            if case.get("keep") == "loss":
                with torch.autocast("cuda", dtype=DTYPES[amp]) if amp else torch.enable_grad():
                    loss = model(**d).loss
                if accum > 1:
                    l = loss / accum
                (l if accum > 1 else loss).backward()
                continue
            with torch.autocast("cuda", dtype=DTYPES[amp]) if amp else torch.enable_grad():
                out = model(**d)
                loss = out.loss
            l = loss / accum
            l.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


class Texts(torch.utils.data.Dataset):
    def __init__(self, count, length, vocabulary):
        self.count, self.length, self.vocabulary = count, length, vocabulary

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        ids = torch.randint(5, self.vocabulary - 1, (self.length,))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def train(case, model, config):
    count = case["batch"] * case.get("accum", 1) * case["steps"]
    args = TrainingArguments(
        output_dir="trainer", per_device_train_batch_size=case["batch"], max_steps=case["steps"],
        gradient_accumulation_steps=case.get("accum", 1), bf16=case.get("amp") == "bf16",
        gradient_checkpointing=case.get("ckpt", False), optim="adamw_torch_fused", report_to=[], save_strategy="no",
        gradient_checkpointing_kwargs={"use_reentrant": False} if case.get("ckpt") else None,
        logging_steps=1000, learning_rate=1e-5, disable_tqdm=True)
    Trainer(model=model, args=args, train_dataset=Texts(count, case["seq"], config.get_text_config().vocab_size)).train()


def shortened(snapshot):
    """Files by what follows site-packages, without the frames of `plimsoll simulate`."""
    for trace in snapshot["device_traces"] + [snapshot["segments"]]:
        for event in trace:
            for frames in [event] + event.get("blocks", []):
                frames["frames"] = [f for f in frames.get("frames", []) if "plimsoll_" not in f["filename"]]
                for frame in frames["frames"]:
                    frame["filename"] = frame["filename"].split("site-packages/")[-1].split("/lib/python")[-1].split("scripts/")[-1]
    return snapshot


def record(case, out):
    torch.manual_seed(0)
    torch.cuda.init()
    answer_comparisons(case.get("mask") == "pad")
    # torch 2.11 fails where a checkpointed loss, adapters or dropout are computed again and stacks are recorded.
    drops = any(MODELS[case["model"]].get(key) for key in ("resid_pdrop", "residual_dropout", "dropout"))
    context = None if case.get("loss") or case.get("ckpt") and (case.get("lora") or drops) else "all"
    torch.cuda.memory._record_memory_history(enabled="all", context=context, stacks="python", max_entries=2_000_000)
    if case.get("sdp") == "flash":
        torch.backends.cuda.enable_cudnn_sdp(False)
    result = {"id": case["id"], "case": case, "config": MODELS[case["model"]]}
    model, config = build(case)
    result["loaded_alloc"] = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    (train if case.get("loop") == "trainer" else loop)(case, model, config)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    result |= {"peak_alloc": stats["allocated_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"],
               "card": torch.cuda.get_device_name(), "is_simulated": "LD_PRELOAD" in os.environ,
               "torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    snapshot = shortened(torch.cuda.memory._snapshot())
    with lzma.open(f"{out}/{case['id']}.pickle.xz", "wb", preset=9) as f:
        pickle.dump(snapshot, f)
    with open(f"{out}/{case['id']}.json", "w") as f:
        json.dump(result, f, indent=1)
    print(case["id"], result["peak_alloc"], flush=True)


def main():
    out, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    os.makedirs(out, exist_ok=True)
    for case in CASES:
        if part not in case["id"] or case.get("weights") and part != case["id"]:
            continue
        if case.get("weights"):
            record(case, out)
            return
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        try:
            record(case, out)
        except Exception:
            print("FAILED", case["id"])
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
