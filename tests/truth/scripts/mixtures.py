"""Families with a mixture of experts, on a simulated H200 (`plimsoll simulate`): few layers, two steps, in the loops and with
the options of new_families.py.

usage: plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python mixtures.py OUTDIR [part of a name]
"""

import new_families
import torch
from new_families import VARIANTS, main

SMALL = {"hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 8000, "max_position_embeddings": 4096}
MODELS = {
    "qwen3_moe": SMALL | {"model_type": "qwen3_moe", "num_key_value_heads": 2, "head_dim": 64, "moe_intermediate_size": 192, "num_experts": 32, "num_experts_per_tok": 8, "norm_topk_prob": True},
    "qwen3_moe-dense": SMALL | {"model_type": "qwen3_moe", "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 1536, "moe_intermediate_size": 192, "num_experts": 9, "num_experts_per_tok": 3, "decoder_sparse_step": 2, "tie_word_embeddings": True},
    "gpt_oss": SMALL | {"model_type": "gpt_oss", "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 512, "num_local_experts": 16, "num_experts_per_tok": 4, "sliding_window": 128},
    "glm4_moe_lite": SMALL | {"model_type": "glm4_moe_lite", "num_key_value_heads": 8, "intermediate_size": 1536, "moe_intermediate_size": 192, "n_routed_experts": 16, "num_experts_per_tok": 4, "q_lora_rank": 192, "kv_lora_rank": 128, "qk_rope_head_dim": 32, "qk_nope_head_dim": 96, "v_head_dim": 128},
    "deepseek_v3": SMALL | {"model_type": "deepseek_v3", "num_hidden_layers": 3, "num_key_value_heads": 8, "intermediate_size": 1536, "moe_intermediate_size": 192, "n_routed_experts": 16, "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2, "n_shared_experts": 2, "first_k_dense_replace": 1, "q_lora_rank": 192, "kv_lora_rank": 128, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64},
    "deepseek_v2": SMALL | {"model_type": "deepseek_v2", "num_hidden_layers": 3, "num_key_value_heads": 8, "intermediate_size": 1536, "moe_intermediate_size": 192, "n_routed_experts": 16, "num_experts_per_tok": 4, "n_shared_experts": 2, "first_k_dense_replace": 1, "q_lora_rank": None, "kv_lora_rank": 128, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64, "topk_method": "greedy", "n_group": 1, "topk_group": 1},
    "deepseek_v2-groups": SMALL | {"model_type": "deepseek_v2", "num_key_value_heads": 8, "intermediate_size": 1536, "moe_intermediate_size": 192, "n_routed_experts": 16, "num_experts_per_tok": 4, "n_shared_experts": 2, "first_k_dense_replace": 1, "q_lora_rank": 192, "kv_lora_rank": 128, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2},
    "glm4_moe": SMALL | {"model_type": "glm4_moe", "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 1536, "moe_intermediate_size": 192, "n_routed_experts": 16, "num_experts_per_tok": 4, "first_k_dense_replace": 1, "attention_bias": True, "use_qk_norm": False, "partial_rotary_factor": 0.5},
    "glm4_moe-norm": SMALL | {"model_type": "glm4_moe", "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 1536, "moe_intermediate_size": 192, "n_routed_experts": 16, "num_experts_per_tok": 4, "first_k_dense_replace": 1, "attention_bias": True, "use_qk_norm": True, "partial_rotary_factor": 0.5},
    "llama4": SMALL | {"model_type": "llama4_text", "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 512, "intermediate_size_mlp": 1024, "num_local_experts": 4, "num_experts_per_tok": 1, "attention_chunk_size": 256},
    "llama4-step": SMALL | {"model_type": "llama4_text", "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 512, "intermediate_size_mlp": 1024, "num_local_experts": 4, "num_experts_per_tok": 1, "attention_chunk_size": 8192, "interleave_moe_layer_step": 2, "use_qk_norm": False},
    "llama4-linear": SMALL | {"model_type": "llama4_text", "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 512, "intermediate_size_mlp": 1024, "num_local_experts": 4, "num_experts_per_tok": 1, "attention_chunk_size": 8192, "llama4_linearized_experts": True},
    "qwen2_moe": SMALL | {"model_type": "qwen2_moe", "num_key_value_heads": 8, "intermediate_size": 1536, "moe_intermediate_size": 192, "shared_expert_intermediate_size": 768, "num_experts": 16, "num_experts_per_tok": 4},
    "granitemoe": SMALL | {"model_type": "granitemoe", "num_key_value_heads": 2, "intermediate_size": 192, "num_local_experts": 16, "num_experts_per_tok": 4, "tie_word_embeddings": True, "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.015625, "logits_scaling": 6.0},
    "phimoe": SMALL | {"model_type": "phimoe", "num_key_value_heads": 2, "intermediate_size": 800, "num_local_experts": 8, "num_experts_per_tok": 2, "attention_bias": True, "lm_head_bias": True, "sliding_window": 131072, "input_jitter_noise": 0.01, "router_jitter_noise": 0.01},
    "afmoe": SMALL | {"model_type": "afmoe", "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 1536, "moe_intermediate_size": 192, "num_experts": 16, "num_experts_per_tok": 4, "num_shared_experts": 1, "num_dense_layers": 1, "global_attn_every_n_layers": 3, "sliding_window": 256, "mup_enabled": True},
    "kimi_linear": SMALL | {"model_type": "kimi_linear", "num_hidden_layers": 4, "num_key_value_heads": 8, "intermediate_size": 1536, "moe_intermediate_size": 192, "num_experts": 16, "num_experts_per_token": 4, "num_shared_experts": 1, "first_k_dense_replace": 1, "kv_lora_rank": 128, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64},
    "jamba": SMALL | {"model_type": "jamba", "num_hidden_layers": 4, "num_key_value_heads": 2, "intermediate_size": 768, "num_experts": 4, "num_experts_per_tok": 2, "attn_layer_period": 4, "attn_layer_offset": 2, "use_mamba_kernels": False},
    "minimax_m2": SMALL | {"model_type": "minimax_m2", "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 192, "num_local_experts": 16, "num_experts_per_tok": 4, "rope_parameters": {"rope_type": "default", "rope_theta": 5000000.0, "partial_rotary_factor": 0.5}},
    "olmoe": SMALL | {"model_type": "olmoe", "num_key_value_heads": 8, "intermediate_size": 256, "num_experts": 16, "num_experts_per_tok": 4},
    "ernie4_5_moe": SMALL | {"model_type": "ernie4_5_moe", "num_hidden_layers": 3, "num_key_value_heads": 2, "intermediate_size": 1536, "moe_intermediate_size": 192, "moe_num_experts": 16, "moe_k": 4, "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "tie_word_embeddings": True},
    "dbrx": {"model_type": "dbrx", "d_model": 512, "n_heads": 8, "n_layers": 2, "max_seq_len": 4096, "vocab_size": 8000, "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 500000}, "ffn_config": {"ffn_hidden_size": 256, "hidden_size": 512, "moe_num_experts": 4, "moe_top_k": 2, "moe_jitter_eps": 0.01, "moe_loss_weight": 0.05}},
}
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
LORA = {"r": 16, "targets": ATTENTION, "dropout": 0.0}
LORA_AMP = {"lora": LORA | {"dropout": 0.05}, "amp": "bf16"}
VARIANTS = VARIANTS | {
    "lora": {"lora": LORA},
    "lora-drop-amp": LORA_AMP,
    "lora-drop-amp-ckpt": LORA_AMP | {"ckpt": True},
    "lora-all": {"lora": LORA | {"targets": "all-linear"}},
    "lora-all-amp": {"lora": LORA | {"targets": "all-linear"}, "amp": "bf16"},
    "nf4-lora": {"lora": LORA, "amp": "bf16", "load": "device_map", "weights": "nf4"},
    "nf4-lora-ckpt": {"lora": LORA | {"dropout": 0.05, "targets": new_families.STATES}, "amp": "bf16", "load": "device_map", "weights": "nf4", "ckpt": True},
    "trainer-lora-ckpt": LORA_AMP | {"ckpt": True, "loop": "trainer", "accum": 2},
}
LENGTHS = {"jamba": 24}  # it computes token by token
EAGER = ("gpt_oss",)  # their classes do not support PyTorch's attention
ALL = [name for name in VARIANTS if name not in ("bf16-flash", "nf4-lora", "nf4-lora-ckpt")]
MOST = ["bf16", "bf16-ckpt", "bf16-ckpt-reentrant", "bf16-eager", "pad", "fp32-ampbf16", "lora-drop-amp-ckpt", "lora-all", "chunked", "load-device_map", "trainer-lora-ckpt"]
SOME = ["bf16", "lora-drop-amp-ckpt", "fp32-ampbf16"]
NAMES = {model: MOST for model in MODELS} | {model: ALL for model in ("qwen3_moe", "gpt_oss", "deepseek_v3")} | {
    "qwen3_moe-dense": SOME + ["load-device_map"], "deepseek_v2-groups": SOME + ["lora-all"], "glm4_moe-norm": SOME}
NAMES["llama4-linear"] = ["nf4-lora", "nf4-lora-ckpt"]
NAMES |= {model: NAMES[model] + ["nf4-lora"] for model in ("qwen3_moe", "gpt_oss", "llama4")}
CASES = [
    {"id": f"{model}-{name}", "model": model, "batch": 2, "seq": LENGTHS.get(model, 512), "steps": 2} | VARIANTS[name] | ({"attn": "eager"} if model in EAGER else {})
    for model, names in NAMES.items() for name in names
]
# State spaces, of which new_families.py has the other cases.
STATES = {name: new_families.MODELS[name] for name in ("falcon_h1", "granitemoehybrid", "nemotron_h")}
MODELS |= STATES
CASES += [{"id": f"{model}-{name}", "model": model, "batch": 2, "seq": 200, "steps": 2} | VARIANTS[name] for model in STATES for name in ("nf4-lora", "nf4-lora-ckpt")]



class LinearExperts(torch.nn.Module):
    """Llama 4's experts with linear layers of their own, as Axolotl has them (llama4_linearized_experts)."""

    def __init__(self, config):
        super().__init__()
        self.shape = (config.num_local_experts, -1, config.hidden_size)
        wide, narrow = config.intermediate_size, config.hidden_size
        for name, (rows, columns) in {"gate_projs": (narrow, wide), "up_projs": (narrow, wide), "down_projs": (wide, narrow)}.items():
            layers = [torch.nn.Linear(rows, columns, bias=False) for _ in range(config.num_local_experts)]
            setattr(self, name, torch.nn.ModuleList(layers))
        self.activation = torch.nn.SiLU()

    def forward(self, rows):
        rows = rows.view(self.shape)
        out = torch.zeros_like(rows)
        for i, (gate_proj, up_proj, down_proj) in enumerate(zip(self.gate_projs, self.up_projs, self.down_projs)):
            own = rows[i]
            gate = gate_proj(own)
            up = up_proj(own)
            out[i] = down_proj(up * self.activation(gate))
        return out.view(-1, self.shape[2])


def use_linear_experts():
    from transformers.models.llama4.modeling_llama4 import Llama4TextMoe
    build = Llama4TextMoe.__init__

    def built(self, config):
        build(self, config)
        if getattr(config, "llama4_linearized_experts", False):
            self.experts = LinearExperts(config)

    Llama4TextMoe.__init__ = built


def record_all(models, cases):
    use_linear_experts()
    new_families.MODELS, new_families.CASES = models, cases
    main()


if __name__ == "__main__":
    record_all(MODELS, CASES)
