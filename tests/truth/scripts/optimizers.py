"""What optimizers allocate: two layers, three steps, in the loop of versions.py. The folder PACKAGES
has bitsandbytes 0.50 and schedulefree 1.4.

usage: PACKAGES=FOLDER plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python optimizers.py OUTDIR [part of a name]
"""

import importlib
import json
import lzma
import os
import pickle
import sys
import traceback

import torch
import transformers
import versions
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

LLAMA = {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "tie_word_embeddings": False}
FP32 = {"param_dtype": "fp32", "amp": "bf16"}


def of(module, name, **options):
    return lambda model: getattr(importlib.import_module(module), name)(model.parameters(), lr=1e-5, **options)


class muon:
    """Muon for the matrices of layers, AdamW for the rest."""

    def __init__(self, model):
        inner = [p for n, p in model.named_parameters() if p.ndim == 2 and "layers" in n]
        ids = set(map(id, inner))
        others = [p for p in model.parameters() if id(p) not in ids]
        self.model = model
        self.both = [torch.optim.Muon(inner, lr=1e-5), torch.optim.AdamW(others, lr=1e-5, fused=True)]

    def step(self):
        for optimizer in self.both:
            optimizer.step()

    def zero_grad(self, set_to_none):
        self.model.zero_grad(set_to_none)


OPTIMIZERS = {
    "rmsprop": of("torch.optim", "RMSprop"),
    "rmsprop-bnb": of("bitsandbytes.optim", "RMSprop", optim_bits=32),
    "rmsprop-8bit": of("bitsandbytes.optim", "RMSprop", optim_bits=8),
    "ademamix": of("bitsandbytes.optim", "AdEMAMix", optim_bits=32),
    "ademamix-8bit": of("bitsandbytes.optim", "AdEMAMix", optim_bits=8),
    "paged-ademamix": of("bitsandbytes.optim", "AdEMAMix", optim_bits=32, is_paged=True),
    "schedule-free-adamw": of("schedulefree", "AdamWScheduleFree"),
    "schedule-free-sgd": of("schedulefree", "SGDScheduleFree"),
    "muon": muon,
}


def build(case):
    keys = dict(LLAMA)
    config = CONFIG_MAPPING[keys.pop("model_type")](**keys)
    config.use_cache = False
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=versions.DTYPES[case.get("param_dtype", "bf16")])
    model.train()
    return model, config


def record(name, case, out):
    sys.path.append(os.environ.get("PACKAGES", ""))  # not earlier: transformers would import them before the fork
    torch.manual_seed(0)
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(enabled="all", context="all", stacks="python", max_entries=2_000_000)
    model, config = build(case)
    optimizer = OPTIMIZERS[case["optim"]](model)
    if hasattr(optimizer, "train"):
        optimizer.train()
    versions.optimizer_of = lambda *_: optimizer
    torch.cuda.reset_peak_memory_stats()
    versions.loop(case, model, config, "causal")
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    result = {"id": name, "case": case, "config": LLAMA, "peak_alloc": stats["allocated_bytes.all.peak"],
              "peak_reserved": stats["reserved_bytes.all.peak"], "torch": torch.__version__, "transformers": transformers.__version__}
    with lzma.open(f"{out}/{name}.pickle.xz", "wb", preset=9) as f:
        pickle.dump(versions.shortened(torch.cuda.memory._snapshot()), f)
    with open(f"{out}/{name}.json", "w") as f:
        json.dump(result, f, indent=1)
    print(name, result["peak_alloc"], flush=True)


def main():
    out, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    os.makedirs(out, exist_ok=True)
    for optimizer in OPTIMIZERS:
        for name, options in ((optimizer, {}), (optimizer + "-fp32", FP32)):
            if part not in name:
                continue
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                continue
            try:
                record(name, {"batch": 2, "seq": 128, "steps": 3, "optim": optimizer} | options, out)
            except Exception:
                print("FAILED", name)
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(0)


if __name__ == "__main__":
    main()
