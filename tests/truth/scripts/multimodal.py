"""Multimodal models: two to four layers of the language model and of the tower, two steps, with texts alone or with
images. What is recorded and how is new_families.py's.

usage: multimodal.py OUTDIR [part of a name]
"""

import mixtures
import new_families as base

QWEN_TEXT = {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 65536, "max_position_embeddings": 32768}
MROPE = {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}
TOWER3 = {"depth": 3, "hidden_size": 768, "intermediate_size": 3072, "num_heads": 12, "out_hidden_size": 1024, "deepstack_visual_indexes": [0, 1]}
LLAMA_TEXT = {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32064, "max_position_embeddings": 4096}
CLIP = {"model_type": "clip_vision_model", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 3, "num_attention_heads": 12, "image_size": 336, "patch_size": 14, "projection_dim": 768, "vocab_size": 32000}
SMOL = {"text_config": {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 49280, "max_position_embeddings": 8192}, "vision_config": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 12, "image_size": 384, "patch_size": 14}, "scale_factor": 3, "image_token_id": 49190}
base.MODELS |= {
    "qwen2_vl": {"model_type": "qwen2_vl", "text_config": {"model_type": "qwen2_vl_text"} | QWEN_TEXT | MROPE, "vision_config": {"depth": 2, "embed_dim": 1280, "hidden_size": 1024, "num_heads": 16, "mlp_ratio": 4}, "image_token_id": 65000, "video_token_id": 65001},
    "qwen2_5_vl": {"model_type": "qwen2_5_vl", "text_config": {"model_type": "qwen2_5_vl_text"} | QWEN_TEXT | MROPE, "vision_config": {"depth": 3, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 1024, "fullatt_block_indexes": [1]}, "image_token_id": 65000, "video_token_id": 65001},
    "qwen3_vl": {"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text", "head_dim": 128} | QWEN_TEXT, "vision_config": TOWER3, "tie_word_embeddings": True, "image_token_id": 65000, "video_token_id": 65001},
    "qwen3_vl_moe": {"model_type": "qwen3_vl_moe", "text_config": {"model_type": "qwen3_vl_moe_text", "head_dim": 128, "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 256, "decoder_sparse_step": 1} | QWEN_TEXT, "vision_config": TOWER3, "image_token_id": 65000, "video_token_id": 65001},
    "mllama": {"model_type": "mllama", "text_config": {"model_type": "mllama_text_model", "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 65536, "cross_attention_layers": [1, 3], "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "max_position_embeddings": 131072, "pad_token_id": 4}, "vision_config": {"hidden_size": 640, "intermediate_size": 2560, "num_hidden_layers": 2, "num_global_layers": 2, "attention_heads": 8, "vision_output_dim": 1920, "image_size": 560, "intermediate_layers_indices": [0, 1], "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]}, "image_token_index": 65536},
    "llama4-tower": {"model_type": "llama4", "text_config": {"model_type": "llama4_text", "hidden_size": 512, "intermediate_size": 512, "intermediate_size_mlp": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 8000, "max_position_embeddings": 4096, "num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "attention_chunk_size": 8192, "rope_scaling": {"factor": 16.0, "high_freq_factor": 1.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}}, "vision_config": {"hidden_size": 352, "intermediate_size": 1408, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 336, "projector_input_dim": 1024, "projector_output_dim": 1024, "vision_output_dim": 1024, "rope_theta": 10000}},
    "glm4v": {"model_type": "glm4v", "text_config": {"model_type": "glm4v_text"} | QWEN_TEXT | {"rope_parameters": {"rope_type": "default", "mrope_section": [8, 12, 12], "partial_rotary_factor": 0.5, "rope_theta": 10000.0}}, "vision_config": {"depth": 2, "hidden_size": 768, "num_heads": 6, "out_hidden_size": 1024, "intermediate_size": 3072, "image_size": 336}, "image_token_id": 65000, "video_token_id": 65001},
    "llava": {"model_type": "llava", "text_config": LLAMA_TEXT, "vision_config": CLIP, "image_token_index": 32000},
    "pixtral": {"model_type": "llava", "text_config": {"model_type": "mistral", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 65536, "sliding_window": None, "max_position_embeddings": 131072}, "vision_config": {"model_type": "pixtral", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 12, "image_size": 1024, "patch_size": 16}, "image_token_index": 10, "vision_feature_layer": -1, "vision_feature_select_strategy": "full"},
    "internvl": {"model_type": "internvl", "text_config": {"model_type": "qwen3", "head_dim": 128, "tie_word_embeddings": False} | QWEN_TEXT, "vision_config": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 12, "attention_bias": True}, "image_token_id": 65000, "tie_word_embeddings": False},
    "smolvlm": {"model_type": "smolvlm"} | SMOL,
    "idefics3": {"model_type": "idefics3"} | SMOL,
    "paddleocr_vl": {"model_type": "paddleocr_vl", "text_config": {"model_type": "paddleocr_vl_text", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 65536, "rope_parameters": {"rope_type": "default", "mrope_section": [16, 24, 24], "rope_theta": 500000.0}}, "vision_config": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 12}, "image_token_id": 65000, "video_token_id": 65001},
    "voxtral": {"model_type": "voxtral", "text_config": LLAMA_TEXT | {"num_key_value_heads": 2, "head_dim": 128}, "audio_config": {"model_type": "voxtral_encoder", "hidden_size": 640, "intermediate_size": 2560, "num_hidden_layers": 2, "num_attention_heads": 10}, "audio_token_id": 24},
    "lfm2_vl": {"model_type": "lfm2_vl", "text_config": {"model_type": "lfm2", "hidden_size": 1024, "intermediate_size": 6656, "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 65536, "max_position_embeddings": 128000, "conv_L_cache": 3, "block_auto_adjust_ff_dim": True, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256, "layer_types": ["conv", "conv", "full_attention", "conv"]}, "vision_config": {"model_type": "siglip2_vision_model", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 12, "patch_size": 16, "num_patches": 256, "vision_use_head": False}},
    "gemma4_unified": {"model_type": "gemma4_unified", "text_config": {"model_type": "gemma4_unified_text", "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 4, "num_global_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "vocab_size": 131072, "sliding_window": 256, "attention_k_eq_v": True, "final_logit_softcapping": 30.0, "layer_types": ["sliding_attention", "full_attention", "full_attention"]}},
}
base.MODELS["llava_next"] = base.MODELS["llava"] | {"model_type": "llava_next", "image_grid_pinpoints": [[336, 672], [672, 336]]}
base.MODELS["mistral4"] = {"model_type": "mistral3", "text_config": {"model_type": "mistral4", "hidden_size": 512, "intermediate_size": 1536, "moe_intermediate_size": 192, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 8, "n_routed_experts": 16, "num_experts_per_tok": 4, "n_shared_experts": 1, "q_lora_rank": 192, "kv_lora_rank": 128, "qk_rope_head_dim": 32, "qk_nope_head_dim": 32, "v_head_dim": 64, "vocab_size": 32768, "max_position_embeddings": 1048576, "first_k_dense_replace": 1, "tie_word_embeddings": False}, "vision_config": base.MODELS["pixtral"]["vision_config"], "tie_word_embeddings": False, "spatial_merge_size": 2}
TEXTS = ["bf16", "pad", "load-device_map", "load-cpu", "lora-all-amp-ckpt", "trainer-fp32"]
WHOLE = [*base.ALL, "load-cpu", "nf4-lora"]
base.CASES = [
    {"id": f"{model}-{name}", "model": model, "batch": 2, "seq": 512, "steps": 2} | (mixtures.VARIANTS | base.VARIANTS)[name]
    for model, names in {
        "qwen2_vl": TEXTS,
        "qwen2_5_vl": TEXTS,
        "qwen3_vl": TEXTS,
        "qwen3_vl_moe": TEXTS,
        "mllama": [*base.ALL, "load-cpu", "trainer-fp32", "lora-drop-amp-ckpt", "nf4-lora"],
        "llama4-tower": [*base.MOST, "load-cpu", "trainer-fp32"],  # all-linear adapts the router, and fails
        "glm4v": WHOLE,
        "llava": WHOLE,
        "llava_next": TEXTS,
        "pixtral": WHOLE,
        "internvl": WHOLE,
        "smolvlm": WHOLE,
        "idefics3": TEXTS,
        "paddleocr_vl": WHOLE,
        "voxtral": WHOLE,
        "lfm2_vl": [*base.ALL, "load-cpu"],
        "gemma4_unified": WHOLE,
        "mistral4": WHOLE,
    }.items()
    for name in names
]

if __name__ == "__main__":
    mixtures.record_all(base.MODELS, base.CASES)
