"""Settings of peft's adapters beside rank and layers, and models of which only a part is trained: two or three layers, two
steps, in the loops of versions.py.

usage: plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python adapters.py OUTDIR [part of a name]
"""

import json
import lzma
import os
import pickle
import re
import sys
import traceback

import peft
import torch
import transformers
import versions
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

MODELS = {
    "llama": {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "tie_word_embeddings": False},
    "tied": {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "tie_word_embeddings": True},
    "qwen2": {"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 3, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 32000, "tie_word_embeddings": True},
    "gemma2": {"model_type": "gemma2", "hidden_size": 1152, "intermediate_size": 4608, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 32000, "tie_word_embeddings": True},
    "gpt2": {"model_type": "gpt2", "n_embd": 768, "n_layer": 2, "n_head": 12, "vocab_size": 50257},
}
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ENDS = ["embed_tokens", "lm_head"]
AMP = {"param_dtype": "fp32", "amp": "bf16"}


def lora(**options):
    return {"lora": {"r": 8, "dropout": options.pop("dropout", 0.0), "targets": options.pop("targets", LINEAR), "options": options}}


CASES = {
    "llama-saved": ("llama", lora(modules_to_save=ENDS)),
    "llama-saved-ampbf16": ("llama", lora(modules_to_save=ENDS, dropout=0.05) | {"amp": "bf16"}),
    "llama-saved-fp32": ("llama", lora(modules_to_save=ENDS) | AMP),
    "llama-saved-ckpt": ("llama", lora(modules_to_save=ENDS) | {"ckpt": True}),
    "llama-saved-trainer": ("llama", lora(modules_to_save=ENDS) | {"amp": "bf16", "ckpt": True, "loop": "trainer", "accum": 2}),
    "llama-saved-head": ("llama", lora(modules_to_save=["lm_head"])),
    "llama-saved-embedding": ("llama", lora(modules_to_save=["embed_tokens"])),
    "tied-saved": ("tied", lora(modules_to_save=ENDS)),
    "tied-saved-trainer": ("tied", lora(modules_to_save=ENDS) | {"amp": "bf16", "loop": "trainer"}),
    "tied-saved-embedding": ("tied", lora(modules_to_save=["embed_tokens"])),
    "qwen2-saved": ("qwen2", lora(modules_to_save=ENDS)),
    "gemma2-saved": ("gemma2", lora(modules_to_save=ENDS)),
    "llama-dora": ("llama", lora(use_dora=True)),
    "llama-dora-dropout": ("llama", lora(use_dora=True, dropout=0.05)),
    "llama-dora-amp": ("llama", lora(use_dora=True, dropout=0.05) | {"amp": "bf16"}),
    "llama-dora-fp32": ("llama", lora(use_dora=True) | AMP),
    "llama-dora-ckpt": ("llama", lora(use_dora=True) | {"ckpt": True}),
    "llama-dora-trainer": ("llama", lora(use_dora=True, dropout=0.05) | {"amp": "bf16", "ckpt": True, "loop": "trainer"}),
    "qwen2-dora": ("qwen2", lora(use_dora=True)),
    "gpt2-dora": ("gpt2", lora(use_dora=True, targets=["c_attn", "c_proj", "c_fc"])),
    "llama-head": ("llama", lora(targets=LINEAR + ["lm_head"])),
    "llama-head-alone": ("llama", lora(targets=["lm_head"])),
    "llama-head-amp": ("llama", lora(targets=LINEAR + ["lm_head"], dropout=0.05) | {"amp": "bf16"}),
    "llama-head-ckpt": ("llama", lora(targets=LINEAR + ["lm_head"], dropout=0.05) | {"ckpt": True}),
    "llama-head-trainer": ("llama", lora(targets=LINEAR + ["lm_head"]) | {"amp": "bf16", "loop": "trainer"}),
    "qwen2-head": ("qwen2", lora(targets=LINEAR + ["lm_head"])),
    "gemma2-head": ("gemma2", lora(targets=LINEAR + ["lm_head"])),
    "llama-rslora": ("llama", lora(use_rslora=True)),
    "qwen2-layers": ("qwen2", lora(layers_to_transform=[1, 2])),
    "qwen2-excluded": ("qwen2", lora(exclude_modules=["down_proj", "layers.0.mlp.up_proj"])),
    "qwen2-bias-all": ("qwen2", lora(bias="all", targets=["o_proj", "v_proj"])),
    "qwen2-bias-lora": ("qwen2", lora(bias="lora_only", targets=["o_proj", "v_proj"])),
    "qwen2-bias-trainer": ("qwen2", lora(bias="all") | {"amp": "bf16", "loop": "trainer"}),
    "qwen2-trained-last": ("qwen2", {"trained": [r"layers\.2\."]}),
    "qwen2-trained-first": ("qwen2", {"trained": [r"layers\.0\."]}),
    "qwen2-trained-mlp": ("qwen2", {"trained": [r"layers\.1\.mlp", "norm"]}),
    "qwen2-trained-bias": ("qwen2", {"trained": ["bias"]} | AMP),
    "llama-trained-ends": ("llama", {"trained": [r"^lm_head\.weight$", "embed_tokens"]}),
    "llama-trained-head": ("llama", {"trained": ["lm_head"], "amp": "bf16"}),
    "gpt2-trained-last": ("gpt2", {"trained": [r"h\.1\."]}),
    "qwen2-trained-ckpt": ("qwen2", {"trained": [r"layers\.2\."], "ckpt": True}),
    "qwen2-trained-first-ckpt": ("qwen2", {"trained": [r"layers\.0\."], "ckpt": True}),
    "qwen2-trained-trainer": ("qwen2", {"trained": [r"layers\.1\.", "embed_tokens"], "amp": "bf16", "ckpt": True, "loop": "trainer", "accum": 2}),
    "qwen2-trained-wide": ("qwen2", {"trained": [r"layers\.2\."], "wide": True, "amp": "bf16"}),
    "qwen2-trained-wide-first": ("qwen2", {"trained": [r"layers\.[01]\."], "wide": True, "amp": "bf16", "ckpt": "trained", "reentrant": True}),
    "qwen2-trained-wide-last": ("qwen2", {"trained": [r"layers\.[12]\."], "wide": True, "amp": "bf16", "ckpt": "trained", "reentrant": True, "loop": "trainer"}),
}


# NEFTune, by Trainer.
def noisy(**options):
    return {"loop": "trainer", "arguments": {"optim": "adamw_torch_fused", "neftune_noise_alpha": 5}} | options


CASES |= {
    "llama-noise": ("llama", noisy()),
    "llama-noise-ckpt": ("llama", noisy(ckpt=True, amp="bf16")),
    "llama-noise-fp32": ("llama", noisy(**AMP)),
    "llama-noise-lora": ("llama", noisy(amp="bf16") | lora()),
    "llama-noise-lora-ckpt": ("llama", noisy(ckpt=True, amp="bf16", accum=2) | lora()),
    "gemma2-noise-lora-ckpt": ("gemma2", noisy(ckpt=True, amp="bf16") | lora()),
    "gpt2-noise": ("gpt2", noisy()),
}


def checkpoint_trained_layers(model, reentrant):
    """As LLaMA-Factory: only layers with trained parameters, whose input is made to need a gradient."""

    def call(function, hidden, *args, **kwargs):
        layer = getattr(function, "func", function).__self__
        if not any(p.requires_grad for p in layer.parameters()):
            return function(hidden, *args, **kwargs)
        hidden.requires_grad_(True)
        return torch.utils.checkpoint.checkpoint(function, hidden, *args, use_reentrant=reentrant, **kwargs)

    model._set_gradient_checkpointing(enable=True, gradient_checkpointing_func=call)


def build(case, about):
    keys = dict(about)
    config = CONFIG_MAPPING[keys.pop("model_type")](**keys)
    config.use_cache = False
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=versions.DTYPES[case.get("param_dtype", "bf16")])
    model.train()
    if case.get("ckpt") == "trained":
        checkpoint_trained_layers(model, case.get("reentrant", False))
    elif case.get("ckpt"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if "lora" in case:
        wanted = case["lora"]
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=wanted["r"], lora_alpha=2 * wanted["r"], lora_dropout=wanted["dropout"], target_modules=wanted["targets"], **wanted["options"]))
        if case.get("ckpt"):
            model.enable_input_require_grads()
    for name, parameter in model.named_parameters() if "trained" in case else []:
        parameter.requires_grad = any(re.search(wanted, name) for wanted in case["trained"])
        if parameter.requires_grad and case.get("wide"):
            parameter.data = parameter.data.to(torch.float32)
    return model, config, "causal"


def record(name, case, about, out):
    torch.manual_seed(0)
    torch.cuda.init()
    context = None if case.get("ckpt") else "all"
    torch.cuda.memory._record_memory_history(enabled="all", context=context, stacks="python", max_entries=2_000_000)
    model, config, kind = build(case, about)
    loaded = torch.cuda.memory_stats()["allocated_bytes.all.peak"]
    torch.cuda.reset_peak_memory_stats()
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    (versions.train if case.get("loop") == "trainer" else versions.loop)(case, model, config, kind)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    result = {"id": name, "case": case, "config": about, "trained": trained, "peak_loading": loaded,
              "peak_alloc": stats["allocated_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"],
              "torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    with lzma.open(f"{out}/{name}.pickle.xz", "wb", preset=9) as f:
        pickle.dump(versions.shortened(torch.cuda.memory._snapshot()), f)
    with open(f"{out}/{name}.json", "w") as f:
        json.dump(result, f, indent=1)
    print(name, result["peak_alloc"], flush=True)


def main():
    out, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    os.makedirs(out, exist_ok=True)
    for name, (model, options) in CASES.items():
        if part not in name:
            continue
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        try:
            record(name, {"batch": 2, "seq": 256, "steps": 2} | options, MODELS[model], out)
        except Exception:
            print("FAILED", name)
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
