"""What optimizers allocate: two layers, three steps, in the loops of versions.py. The folders PACKAGES
have bitsandbytes 0.50, schedulefree 1.4, galore-torch 1.0, apollo-torch 1.0.3, adam-mini 1.1.1, came-pytorch 0.1.3,
torch-optimi 0.3.3, grokadamw 0.1.2, lomo-optim 0.1.1 and badam 1.4, installed with pip --no-deps --target.

usage: PACKAGES=FOLDER:FOLDER plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python optimizers.py OUTDIR [part of a name]
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


def adam_mini(model):
    """As LLaMA-Factory makes it."""
    from adam_mini import Adam_mini
    config = model.config
    return Adam_mini(model.named_parameters(), lr=1e-5, dim=config.hidden_size, n_heads=config.num_attention_heads,
                     n_kv_heads=config.num_key_value_heads, verbose=False)


def badam(model):
    """BAdam for the first layer, around fused AdamW, as LLaMA-Factory makes it for badam_mode: layer."""
    from badam import BlockOptimizer
    from transformers import Trainer
    decay = Trainer.get_decay_parameter_names(None, model)
    groups = [{"params": [p for n, p in model.named_parameters() if (n in decay) == is_decayed], "weight_decay": 0.0}
              for is_decayed in (False, True)]
    return BlockOptimizer(torch.optim.AdamW(groups, lr=1e-5, fused=True), list(model.named_parameters()), switch_block_every=50,
                          switch_mode="ascending", verbose=0)


def warm_radam(model):
    """Past its first steps, in which it only collects moments."""
    optimizer = of("schedulefree", "RAdamScheduleFree")(model)
    for group in optimizer.param_groups:
        group["k"] = 10
    return optimizer


def root_of_usual_weights(bound, root):
    """max() in AdaLOMO, for parameters whose root mean square is above 0.001: nothing is computed that tells."""
    bool(root > bound)
    return root


def bound_of_calm_updates(growth, bound):
    """max() in APOLLO, as long as no update grows by more than a percent: nothing is computed that tells."""
    bool(bound > growth)
    return bound


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
    "paged-ademamix-8bit": of("bitsandbytes.optim", "AdEMAMix", optim_bits=8, is_paged=True),
    "schedule-free-radam": warm_radam,
    "adam-mini": adam_mini,
    "came": of("came_pytorch", "CAME"),
    "stable-adamw": of("optimi", "StableAdamW"),
    "optimi-adamw": of("optimi", "AdamW", foreach=False),
    "grokadamw": of("grokadamw", "GrokAdamW"),
    "badam": badam,
}

# By Trainer, which makes the optimizer itself. Layers are those that Axolotl's and LLaMA-Factory's examples name.
LAYERS = {"optim_target_modules": ["self_attn", "mlp"]}
TRAINED = {
    "galore": {"optim": "galore_adamw", **LAYERS},
    "galore-rank-64-head": {"optim": "galore_adamw", "optim_args": "rank=64", "optim_target_modules": "all-linear"},
    "galore-layerwise": {"optim": "galore_adamw_layerwise", **LAYERS},
    "galore-8bit": {"optim": "galore_adamw_8bit", **LAYERS},
    "galore-8bit-layerwise": {"optim": "galore_adamw_8bit_layerwise", **LAYERS},
    "galore-adafactor": {"optim": "galore_adafactor", **LAYERS},
    "galore-adafactor-layerwise": {"optim": "galore_adafactor_layerwise", **LAYERS},
    "apollo": {"optim": "apollo_adamw", **LAYERS},
    "apollo-mini": {"optim": "apollo_adamw", "optim_args": "rank=1,scale_type=tensor", "optim_target_modules": "all-linear"},
    "apollo-layerwise": {"optim": "apollo_adamw_layerwise", **LAYERS},
    "lomo": {"optim": "lomo"},
    "adalomo": {"optim": "adalomo"},
    "stable-adamw-trainer": {"optim": "stable_adamw"},
    "adam-mini-trainer": {},
    "came-trainer": {},
    "badam-trainer": {},
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
    sys.path += os.environ.get("PACKAGES", "").split(":")  # not earlier: transformers would import them before the fork
    if "apollo" in case["optim"]:
        importlib.import_module("apollo_torch.apollo").max = bound_of_calm_updates
    if case["optim"] == "adalomo":
        importlib.import_module("lomo_optim.adalomo").max = root_of_usual_weights
    torch.manual_seed(0)
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(enabled="all", context="all", stacks="python", max_entries=2_000_000)
    model, config = build(case)
    optimizer = OPTIMIZERS[case["optim"]](model) if case["optim"] in OPTIMIZERS else None
    if hasattr(optimizer, "train"):
        optimizer.train()
    versions.optimizer_of = lambda *_: optimizer
    torch.cuda.reset_peak_memory_stats()
    if case.get("loop") == "trainer":
        versions.train(case, model, config, "causal", optimizer)
    else:
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
    for optimizer in [*OPTIMIZERS, *TRAINED]:
        case = {"batch": 2, "seq": 128, "steps": 3, "optim": optimizer}
        if "badam" in optimizer:
            case["trained"] = [r"layers\.0\."]
        if optimizer in TRAINED:
            arguments = TRAINED[optimizer]
            case |= {"loop": "trainer", "optim": arguments.get("optim", optimizer.removesuffix("-trainer")), "arguments": arguments}
        for name, options in ((optimizer, {}), (optimizer + "-fp32", FP32)):
            if part not in name:
                continue
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                continue
            try:
                record(name, case | options, out)
            except Exception:
                print("FAILED", name)
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(0)


if __name__ == "__main__":
    main()
