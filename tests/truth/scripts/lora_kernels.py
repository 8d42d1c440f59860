"""What Axolotl's LoRA kernels do with each family: its monkeypatch/lora_kernels.py runs with the real transformers and peft that it
pins, on a model of few layers on the meta device. Of Axolotl only the functions that this needs are loaded.

usage: plimsoll simulate -- python lora_kernels.py AXOLOTL/src/axolotl OUT.json TYPE...   (transformers 5.14.1, peft 0.19.1)
For each type: "works"; "attention" if patch_self_attn_lora stops; "layers" if get_layers does not find the layers, either.
"""

import json
import logging
import sys
import types

import peft
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

# Configurations whose defaults transformers itself cannot build.
NEEDED = {
    "hunyuan_v1_dense": {"head_dim": 128, "rope_theta": 10000.0},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16, "num_hidden_layers": 32},
    "nemotron": {"num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128},
}
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
OTHER_TARGETS = {name: LINEAR for name in ("falcon_h1", "qwen2_vl", "qwen2_5_vl", "idefics3", "smolvlm")} | {"gpt2": ["c_attn"], "mamba2": ["in_proj"]}


class Settings(dict):
    __getattr__ = dict.get


class Log(logging.LoggerAdapter):
    warning_once = info = debug = setLevel = lambda *a, **k: None
    getEffectiveLevel = lambda self: 0


def stand_in(name, **values):
    module = types.ModuleType(name)
    module.__path__ = []
    module.__dict__.update(values)
    sys.modules[name] = module
    return module


def function_of(path, name, imports):
    text = open(path).read()
    start = text.index("def %s(" % name)
    end = text.find("\ndef ", start + 1)
    found = {}
    exec(imports + text[start:end if end > 0 else None], found)
    return found[name]


def kernels_of(axolotl):
    for name in ("axolotl", "axolotl.kernels", "axolotl.monkeypatch", "axolotl.utils", "axolotl.utils.callbacks"):
        stand_in(name)
    names = ["embedding", "gdn_in_proj", "linear", "mlp_geglu", "mlp_swiglu", "o", "qk", "qkv"]
    stand_in("axolotl.kernels.lora", **{"apply_lora_" + n: lambda *a: None for n in names})
    stand_in("axolotl.utils.dict", DictDefault=dict)
    stand_in("axolotl.utils.logging", get_logger=lambda n: Log(logging.getLogger(n)))
    stand_in("axolotl.monkeypatch.utils", detab_code=function_of(axolotl + "/monkeypatch/utils.py", "detab_code", "import re\nfrom typing import Tuple\n"))
    mapping = "from typing import Tuple\nfrom transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES\n"
    stand_in("axolotl.utils.callbacks.models", get_causal_lm_model_cls_prefix=function_of(axolotl + "/utils/callbacks/models.py", "get_causal_lm_model_cls_prefix", mapping))
    module = stand_in("axolotl.monkeypatch.lora_kernels")
    exec(compile(open(axolotl + "/monkeypatch/lora_kernels.py").read(), "lora_kernels.py", "exec"), module.__dict__)
    return module


def shorten_list(part, key):
    try:
        setattr(part, key, getattr(part, key)[:4])
    except AttributeError:  # it is computed
        pass


def shorten(config):
    parts = [config] + [getattr(config, n) for n in ("text_config", "vision_config", "audio_config") if getattr(config, n, None) is not None]
    for part in parts:
        for key in ("num_hidden_layers", "depth", "num_layers", "n_layer", "n_layers"):
            if isinstance(getattr(part, key, None), int):
                setattr(part, key, min(4, getattr(part, key)))
        for key in ("layer_types", "mlp_layer_types", "layers_block_type"):
            if isinstance(getattr(part, key, None), list):
                shorten_list(part, key)


def model_of(name, config):
    shorten(config)
    if name in ("idefics3", "smolvlm"):
        config.text_config.pad_token_id = 0
    with torch.device("meta"):
        if name == "voxtral":
            return transformers.VoxtralForConditionalGeneration(config)
        images = name in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
        return (AutoModelForImageTextToText if images else AutoModelForCausalLM).from_config(config)


def targets_of(name, model):
    names = {n.split(".")[-1] for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) or "Linear" in m.__class__.__name__}
    return OTHER_TARGETS.get(name) or sorted(names - {"lm_head", "embed_out"})


def outcome(kernels, name):
    config = AutoConfig.for_model(name, **NEEDED.get(name, {}))
    kernels.AutoConfig = types.SimpleNamespace(from_pretrained=lambda *a, **k: config)
    works = True
    try:
        kernels.patch_self_attn_lora(Settings(base_model="x"))
    except (AssertionError, ValueError):
        works = False
    with torch.device("meta"):
        model = model_of(name, config)
        model = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=targets_of(name, model), task_type="CAUSAL_LM"), autocast_adapter_dtype=False)
    try:
        kernels.apply_lora_kernel_patches(model, Settings(lora_qkv_kernel=True, lora_o_kernel=True, lora_mlp_kernel=True))
    except (NotImplementedError, AttributeError):
        return "layers"
    return "works" if works else "attention"


def main():
    kernels, results = kernels_of(sys.argv[1]), {}
    for name in sys.argv[3:]:
        try:
            results[name] = outcome(kernels, name)
        except Exception as error:
            print("skipped:", name, str(error).replace("\n", " ")[:120])
    with open(sys.argv[2], "w") as f:
        json.dump({"transformers": transformers.__version__, "peft": peft.__version__, "families": results}, f, indent=1)


if __name__ == "__main__":
    main()
