"""Families of text models beside those of new_families.py, in its loops and with its options, on a simulated H200: two narrow
layers, two steps.

usage: plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python text_families.py OUTDIR [part of a name]
"""

import new_families
from new_families import ALL, EXTRA, HYBRID, LORA, STATES, VARIANTS, main

SMALL = {"hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 8000, "max_position_embeddings": 2048}
LLAMA = SMALL | {"intermediate_size": 1408, "num_key_value_heads": 2}
FALCON = SMALL | {"model_type": "falcon", "bias": False, "alibi": False}
MODELS = {
    "falcon": FALCON | {"hidden_size": 576, "num_attention_heads": 9, "multi_query": True, "parallel_attn": True, "new_decoder_architecture": False},
    "falcon-new": FALCON | {"num_kv_heads": 2, "new_decoder_architecture": True},
    "falcon-one-norm": FALCON | {"num_kv_heads": 2, "new_decoder_architecture": True, "num_ln_in_parallel_attn": 1},
    "falcon-alibi": FALCON | {"alibi": True, "bias": True, "multi_query": False, "parallel_attn": False, "new_decoder_architecture": False},
    "mpt": {"model_type": "mpt", "d_model": 512, "n_heads": 8, "n_layers": 2, "vocab_size": 8000, "max_seq_len": 2048},
    "apertus": LLAMA | {"model_type": "apertus", "tie_word_embeddings": False},
    "opt": SMALL | {"model_type": "opt", "ffn_dim": 2048, "dropout": 0.1},
    "gptj": {"model_type": "gptj", "n_embd": 512, "n_head": 4, "n_layer": 2, "n_positions": 2048, "rotary_dim": 64, "vocab_size": 8000},
    "gpt_neo": {"model_type": "gpt_neo", "hidden_size": 512, "num_layers": 2, "num_heads": 8, "attention_types": [[["global", "local"], 1]], "vocab_size": 8000, "max_position_embeddings": 2048, "window_size": 256},
    "gpt_bigcode": {"model_type": "gpt_bigcode", "n_embd": 512, "n_head": 8, "n_inner": 2048, "n_layer": 2, "n_positions": 2048, "vocab_size": 8000, "resid_pdrop": 0.1},
    "bloom": {"model_type": "bloom", "hidden_size": 512, "n_layer": 2, "n_head": 8, "vocab_size": 8000},
    "bitnet": LLAMA | {"model_type": "bitnet", "tie_word_embeddings": True},
    "mamba": {"model_type": "mamba", "hidden_size": 512, "num_hidden_layers": 2, "vocab_size": 8000},
    "mamba-narrow": {"model_type": "mamba", "hidden_size": 512, "num_hidden_layers": 2, "vocab_size": 8000, "residual_in_fp32": False, "use_bias": True, "use_conv_bias": False, "tie_word_embeddings": False, "time_step_rank": 24},
    "mamba2": {"model_type": "mamba2", "hidden_size": 512, "num_heads": 16, "head_dim": 64, "n_groups": 2, "num_hidden_layers": 2, "vocab_size": 8000, "chunk_size": 64},
    "mamba2-narrow": {"model_type": "mamba2", "hidden_size": 512, "num_heads": 16, "head_dim": 64, "n_groups": 2, "num_hidden_layers": 2, "vocab_size": 8000, "chunk_size": 64, "residual_in_fp32": False, "use_bias": True, "use_conv_bias": False, "tie_word_embeddings": True},
    "gemma3n_text": LLAMA | {"model_type": "gemma3n_text", "num_hidden_layers": 5, "head_dim": 64, "vocab_size_per_layer_input": 8000, "hidden_size_per_layer_input": 128, "num_kv_shared_layers": 2, "sliding_window": 256, "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"], "activation_sparsity_pattern": [0.95, 0.0, 0.0, 0.0, 0.0], "intermediate_size": [1408] * 5},
    "arcee": LLAMA | {"model_type": "arcee"},
    "hunyuan_v1_dense": LLAMA | {"model_type": "hunyuan_v1_dense", "head_dim": 64, "tie_word_embeddings": True},
    "hunyuan_v1_dense-alpha": LLAMA | {"model_type": "hunyuan_v1_dense", "head_dim": 64, "tie_word_embeddings": True, "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}},
    "helium": LLAMA | {"model_type": "helium", "head_dim": 64},
    "glm": LLAMA | {"model_type": "glm", "head_dim": 64, "partial_rotary_factor": 0.5, "pad_token_id": 0},
    "olmo": LLAMA | {"model_type": "olmo", "tie_word_embeddings": True},
    "olmo-clip": LLAMA | {"model_type": "olmo", "clip_qkv": 8.0},
    "ernie4_5": LLAMA | {"model_type": "ernie4_5", "head_dim": 64},
    "exaone4": LLAMA | {"model_type": "exaone4", "num_hidden_layers": 4, "sliding_window": 256, "sliding_window_pattern": 4},
    "exaone4-full": LLAMA | {"model_type": "exaone4", "sliding_window": None, "layer_types": ["full_attention"] * 2, "tie_word_embeddings": True},
}
QUANTISED = {  # run each by its whole name
    "nf4-lora-states": {"lora": LORA | {"targets": STATES}, "amp": "bf16", "load": "device_map", "weights": "nf4"},
    "nf4-lora-states-ckpt": {"lora": LORA | {"dropout": 0.05, "targets": STATES}, "amp": "bf16", "load": "device_map", "weights": "nf4", "ckpt": True}}
SOME = ["bf16", "pad", "fp32-ampbf16", "lora-all-amp-ckpt"]
NAMES = {model: ALL for model in MODELS} | {
    "falcon": [*ALL, "fp32-ampbf16-eager"], "falcon-one-norm": SOME, "falcon-alibi": [*ALL, "fp32-ampbf16-eager"],
    "mamba": [*(name for name in HYBRID if name != "whole-chunks"), "fp32"],
    "mamba-narrow": ["bf16", "bf16-ckpt", "fp32-ampbf16", "lora-states-amp-ckpt", "load-device_map"],
    "mamba2": [*HYBRID, "fp32", *QUANTISED],
    "mamba2-narrow": ["bf16", "bf16-ckpt", "fp32-ampbf16", "lora-states-amp-ckpt", "load-device_map"],
    "hunyuan_v1_dense-alpha": ["bf16"], "olmo-clip": SOME, "exaone4-full": [*SOME, "load-device_map"]}
LENGTHS = {"mamba": 24, "mamba-narrow": 24, "mamba2": 200, "mamba2-narrow": 200}  # mamba computes token by token
EAGER = ("mpt", "bloom", "gptj", "gpt_neo", "mamba", "mamba-narrow", "mamba2", "mamba2-narrow")  # their classes do not support PyTorch's attention
CASES = [
    {"id": f"{model}-{name}", "model": model, "batch": 2, "seq": LENGTHS.get(model, 512), "steps": 2} | (VARIANTS | EXTRA | QUANTISED)[name] | ({"attn": "eager"} if model in EAGER else {})
    for model, names in NAMES.items() for name in names if not (model in EAGER and name == "bf16-eager")
]


if __name__ == "__main__":
    new_families.MODELS, new_families.CASES = MODELS, CASES
    main()
