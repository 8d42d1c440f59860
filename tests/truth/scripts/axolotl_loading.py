"""4-bit and 8-bit models with adapters as Axolotl loads them: embeddings, head, norms and routers become float32, peft prepares
the model, and all but the routers return to 16 bits (loaders/model.py); then two steps of Trainer under autocast.

usage: plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python axolotl_loading.py OUTDIR CASE
peft 0.19.1, which Axolotl pins, must be on PYTHONPATH, and bitsandbytes. One case per process, because bitsandbytes
initialises CUDA.
"""

import gc
import json
import lzma
import os
import pickle
import sys
import tempfile

import peft
import torch
import transformers
import versions
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

LLAMA = {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 3, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "tie_word_embeddings": False}
MODELS = {
    "llama": LLAMA,
    "qwen2": {"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 3, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 32000, "tie_word_embeddings": True},
    "qwen3": LLAMA | {"model_type": "qwen3", "head_dim": 64},
    "falcon_h1": {"model_type": "falcon_h1", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 32784, "mamba_d_ssm": 768, "mamba_n_heads": 24, "mamba_d_head": 32, "mamba_n_groups": 1, "mamba_d_state": 32, "mamba_chunk_size": 64, "mamba_norm_before_gate": False, "mamba_rms_norm": False, "tie_word_embeddings": True, "max_position_embeddings": 16384},
    "mixtral": LLAMA | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 1024, "sliding_window": None},
}
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
NF4 = {"weights": "nf4-double", "prepare": "axolotl"}
CKPT = {"ckpt": True, "reentrant": True}
SKIP = {"leaves_tables": True}
CASES = {
    "axolotl-llama-nf4": ("llama", NF4),
    "axolotl-llama-nf4-reentrant": ("llama", NF4 | CKPT),
    "axolotl-llama-nf4-skip": ("llama", NF4 | SKIP),
    "axolotl-qwen2-nf4": ("qwen2", NF4),
    "axolotl-qwen3-nf4-reentrant": ("qwen3", NF4 | CKPT),
    "axolotl-mixtral-nf4": ("mixtral", NF4),
    "axolotl-falcon_h1-nf4": ("falcon_h1", NF4 | {"skipped": ["out_proj"], "seq": 200}),
}


def convert(model, tables, dtype, before):
    """_convert_embedding_modules_dtype of Axolotl's loaders/model.py."""
    for name, module in model.named_modules():
        if "norm" in name:
            module.to(dtype)
        if before and name.endswith(".gate"):
            module.to(dtype)
        if any(m in name for m in tables) and hasattr(module, "weight"):
            module.to(dtype=dtype)


def prepare(model, checkpoints, leaves_tables):
    """peft's function; with embeddings_skip_upcast, as monkeypatch/peft/utils.py changes its loop."""
    if not leaves_tables:
        return peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=checkpoints)
    for name, p in model.named_parameters():
        p.requires_grad = False
    for name, p in model.named_parameters():
        is_narrow = p.dtype in (torch.float16, torch.bfloat16) and p.__class__.__name__ != "Params4bit"
        if is_narrow and all(n not in name for n in ("embed_tokens", "lm_head")):
            p.data = p.data.to(torch.float32)
    return model


def load(case, about):
    keys = dict(about)
    config = CONFIG_MAPPING[keys.pop("model_type")](**keys)
    is_nf4, ckpt = case["weights"] == "nf4-double", bool(case.get("ckpt"))
    with tempfile.TemporaryDirectory() as folder:
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
        torch.cuda.init()
        torch.cuda.memory._record_memory_history(enabled="all", context=None if ckpt else "all", stacks="python", max_entries=2_000_000)
        how = (BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16, bnb_4bit_use_double_quant=True,
                                  llm_int8_skip_modules=case["skipped"] + ["lm_head"] if "skipped" in case else None)
               if is_nf4 else BitsAndBytesConfig(load_in_8bit=True))
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, device_map={"": 0}, attn_implementation="sdpa", quantization_config=how)
    model.config.use_cache = False
    leaves_tables = bool(case.get("leaves_tables"))
    tables = [] if leaves_tables and is_nf4 else ["embed_tokens", "lm_head"]
    convert(model, tables, torch.float32, True)
    if ckpt:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": case["reentrant"]})
    model = prepare(model, ckpt, leaves_tables)
    convert(model, tables, torch.bfloat16, False)
    lora = case["lora"]
    model = peft.get_peft_model(model, peft.LoraConfig(r=lora["r"], lora_alpha=16, lora_dropout=lora["dropout"], target_modules=lora["targets"]))
    if ckpt:
        model.enable_input_require_grads()
    for _ in range(3):
        gc.collect()
        torch.cuda.empty_cache()
    return model.train()


def train(case, model, config):
    args = TrainingArguments(
        output_dir="trainer", per_device_train_batch_size=case["batch"], max_steps=case["steps"], bf16=True, gradient_checkpointing=bool(case.get("ckpt")),
        optim="adamw_torch_fused", report_to=[], save_strategy="no", logging_steps=1000, learning_rate=1e-5, disable_tqdm=True,
        gradient_checkpointing_kwargs={"use_reentrant": case["reentrant"]} if case.get("ckpt") else None)
    Trainer(model=model, args=args, train_dataset=versions.Texts(case, config.vocab_size, "causal")).train()


def main():
    out, name = sys.argv[1], sys.argv[2]
    about, options = MODELS[CASES[name][0]], CASES[name][1]
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "in_proj"] if "falcon" in name else LINEAR
    case = {"batch": 2, "seq": 256, "steps": 2, "loop": "trainer", "amp": "bf16", "load": "device_map", "lora": {"r": 8, "dropout": 0.05, "targets": targets}} | options
    os.makedirs(out, exist_ok=True)
    torch.manual_seed(0)
    model = load(case, about)
    loaded = torch.cuda.memory_stats()
    train(case, model, model.config)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    result = {"id": name, "case": case, "config": about, "loaded_alloc": loaded["allocated_bytes.all.peak"], "loaded_reserved": loaded["reserved_bytes.all.peak"],
              "peak_alloc": stats["allocated_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"],
              "torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    with lzma.open(f"{out}/{name}.pickle.xz", "wb", preset=9) as f:
        pickle.dump(versions.shortened(torch.cuda.memory._snapshot()), f)
    with open(f"{out}/{name}.json", "w") as f:
        json.dump(result, f, indent=1)
    print(name, result["loaded_alloc"], result["peak_alloc"], flush=True)


if __name__ == "__main__":
    main()
