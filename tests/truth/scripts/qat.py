"""Quantisation-aware training: transformers' models whose linear layers torchao has replaced by fake-quantised ones, as torchtune's
and Axolotl's trainings do it. Two layers, three steps. TORCHAO is the folder of torchao 0.18
(axolotl-*: 0.17, which Axolotl requires).

usage: TORCHAO=FOLDER plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python qat.py OUTDIR [part of a name]
"""

import json
import lzma
import os
import pickle
import sys
import traceback

import peft
import torch
import transformers
import tune
import versions

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LLAMA = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 2, "num_attention_heads": 8,
         "num_key_value_heads": 2, "vocab_size": 32016, "tie_word_embeddings": False}
MODELS = {
    "llama": LLAMA,
    "tied": LLAMA | {"tie_word_embeddings": True},
    "uneven": LLAMA | {"intermediate_size": 1408},  # 1408 is no multiple of 256
    "qwen2": LLAMA | {"model_type": "qwen2"},
    "qwen3": LLAMA | {"model_type": "qwen3", "head_dim": 64, "tie_word_embeddings": True},
}
LORA = {"lora": {"r": 8, "dropout": 0.0, "targets": LINEAR, "fp32_adapters": False}}
BASE = {"batch": 2, "seq": 200, "steps": 3, "qat": "int8-int4", "group": 256}
AXOLOTL = {"qat": "axolotl-int8-int4", "group": 32}
MX = {"qat": "axolotl-mxfp4", "group": 32}
EIGHTHS = {"loss": "eighths"}
FSDP = {"strategy": "fsdp2", "world": 4}
CASES = {
    "qat-llama": ("llama", {}),
    "qat-llama-32": ("llama", {"group": 32}),
    "qat-llama-fp32": ("llama", {"param_dtype": "fp32", "group": 32}),
    "qat-llama-fp16-amp": ("llama", {"param_dtype": "fp32", "amp": "bf16"}),
    "qat-llama-ckpt": ("llama", {"ckpt": True}),
    "qat-llama-reentrant": ("llama", {"ckpt": True, "reentrant": True}),
    "qat-llama-accum": ("llama", {"accum": 3, "ckpt": True}),
    "qat-llama-pad": ("llama", {"mask": "pad"}),
    "qat-uneven": ("uneven", {}),
    "qat-tied": ("tied", {}),
    "qat-qwen2": ("qwen2", {}),
    "qat-qwen3-ckpt": ("qwen3", {"ckpt": True}),
    "qat-llama-trainer": ("llama", {"loop": "trainer", "ckpt": True}),
    "qat-llama-lora": ("llama", LORA),
    "qat-llama-lora-ckpt": ("llama", LORA | {"ckpt": True}),
    "qat-llama-eighths": ("llama", EIGHTHS),
    "qat-llama-eighths-ckpt": ("llama", EIGHTHS | {"ckpt": True, "accum": 2}),
    "qat-tied-eighths": ("tied", EIGHTHS),
    "qat-llama-fsdp": ("llama", FSDP),
    "qat-llama-fsdp-ckpt": ("llama", FSDP | {"ckpt": True}),
    "qat-llama-fsdp-lora": ("llama", FSDP | LORA),
    "qat-tied-fsdp-accum": ("tied", FSDP | {"accum": 2}),
    "qat-llama-weights": ("llama", {"qat": "int4"}),
    "qat-llama-weights-ckpt": ("llama", {"qat": "int4", "group": 32, "ckpt": True}),
    "axolotl-llama": ("llama", AXOLOTL),
    "axolotl-llama-256": ("llama", AXOLOTL | {"group": 256}),
    "axolotl-llama-fp32": ("llama", AXOLOTL | {"param_dtype": "fp32"}),
    "axolotl-llama-amp": ("llama", AXOLOTL | {"param_dtype": "fp32", "amp": "bf16", "ckpt": True}),
    "axolotl-llama-reentrant": ("llama", AXOLOTL | {"ckpt": True, "reentrant": True}),
    "axolotl-tied-trainer": ("tied", AXOLOTL | {"loop": "trainer", "ckpt": True}),
    "axolotl-qwen3-fsdp": ("qwen3", AXOLOTL | FSDP | {"ckpt": True}),
    "axolotl-llama-mxfp4": ("llama", MX),
    "axolotl-llama-mxfp4-amp": ("llama", MX | {"amp": "bf16"}),
    "axolotl-llama-mxfp4-fp32": ("llama", MX | {"param_dtype": "fp32"}),
    "axolotl-llama-mxfp4-lora": ("llama", MX | LORA),
    "axolotl-qwen3-mxfp4-fsdp": ("qwen3", MX | FSDP | {"ckpt": True}),
    "axolotl-qwen2-mxfp4-ckpt": ("qwen2", MX | {"ckpt": True}),
    "axolotl-tied-mxfp4-trainer": ("tied", MX | {"loop": "trainer", "ckpt": True, "accum": 2}),
    "axolotl-llama-lora": ("llama", AXOLOTL | LORA | {"ckpt": True}),
}


def prepare_as_axolotl(case, model):
    """prepare_model_for_qat of its utils/quantization.py: all linear layers, also a tied head."""
    from torchao.quantization import quantize_
    from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig
    from torchao.quantization.qat.fake_quantize_config import Int4WeightFakeQuantizeConfig
    if case["qat"] == "axolotl-mxfp4":
        from torchao.prototype.qat import MXFakeQuantizeConfig
        both = MXFakeQuantizeConfig(dtype=torch.float4_e2m1fn_x2, block_size=32)
        return quantize_(model, QATConfig(activation_config=both, weight_config=both))
    weight = Int4WeightFakeQuantizeConfig(group_size=case["group"], activation_dtype=torch.bfloat16)
    inputs = IntxFakeQuantizeConfig(dtype=torch.int8, granularity="per_token", is_symmetric=False)
    return quantize_(model, QATConfig(weight_config=weight, activation_config=inputs))


def prepare(case, model):
    """torchtune's recipes: all linear layers whose inputs are whole groups, but no tied head (which is no nn.Linear there)."""
    from torchao.quantization.qat import Int4WeightOnlyQATQuantizer, Int8DynActInt4WeightQATQuantizer
    from torchao.quantization.qat.linear import FakeQuantizedLinear
    kind = {"int8-int4": Int8DynActInt4WeightQATQuantizer, "int4": Int4WeightOnlyQATQuantizer}[case["qat"]]
    quantizer = kind(groupsize=case["group"])
    quantizer.precision = next(model.parameters()).dtype
    if not case.get("lora"):
        return quantizer.prepare(model)
    configs = quantizer.get_activation_fake_quantize_config(), quantizer.get_weight_fake_quantize_config()
    for layer in model.modules():  # as QATLoRALinear: the layers under adapters alone
        if isinstance(layer, peft.tuners.lora.Linear):
            layer.base_layer = FakeQuantizedLinear.from_linear(layer.base_layer, *configs)
    return model


def build(case, about):
    if case["qat"].startswith("axolotl"):  # before adapters
        model, config, kind = versions.build({k: v for k, v in case.items() if k != "lora"}, about)
        prepare_as_axolotl(case, model)
        return (add_adapters(case, model) if case.get("lora") else model), config, kind
    model, config, kind = versions.build(case, about)
    if about["tie_word_embeddings"]:
        head, model.lm_head = model.lm_head, None
    model = prepare(case, model)
    if about["tie_word_embeddings"]:
        model.lm_head = head
    return model, config, kind


def add_adapters(case, model):
    lora = case["lora"]
    wanted = peft.LoraConfig(r=lora["r"], lora_alpha=2 * lora["r"], lora_dropout=lora["dropout"], target_modules=lora["targets"], bias="none")
    model = peft.get_peft_model(model, wanted, autocast_adapter_dtype=lora.get("fp32_adapters", True))
    if case.get("ckpt"):
        model.enable_input_require_grads()
    return model


def in_eighths(model):
    """The logits and the loss of an eighth of the tokens at a time, outside of the model."""
    inner, head = model.model, model.lm_head

    def forward(input_ids, labels, **_):
        hidden = inner(input_ids=input_ids, use_cache=False).last_hidden_state
        count = (labels != -100).sum()
        pieces = hidden.tensor_split(8, dim=1)
        targets = [x.reshape(-1) for x in labels.tensor_split(8, dim=1)]
        total = 0
        for piece, target in zip(pieces, targets):
            logits = head(piece)
            logits = logits.view(-1, logits.shape[-1])
            total += torch.nn.functional.cross_entropy(logits.float(), target, reduction="sum")
            del logits
        return transformers.modeling_outputs.CausalLMOutput(loss=total / count)

    model.forward = forward


def bare_loop(case, model, config):
    """The loop of the other sharded recordings, which does not clip."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    for _ in range(case["steps"]):
        for _ in range(case.get("accum", 1)):
            ids = torch.randint(5, config.vocab_size - 1, (case["batch"], case["seq"]), device="cuda")
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def shortened(snapshot):
    """As in versions.py, and torchao's files by what follows its folder."""
    for trace in snapshot["device_traces"] + [snapshot["segments"]]:
        for event in trace:
            for frames in [event] + event.get("blocks", []):
                for frame in frames.get("frames", []):
                    frame["filename"] = frame["filename"].split(os.environ["TORCHAO"] + "/")[-1]
    return versions.shortened(snapshot)


def record(name, case, about, out):
    sys.path.insert(0, os.environ["TORCHAO"])
    import torchao
    torch.manual_seed(0)
    torch.cuda.init()
    context = None if case.get("ckpt") else "all"
    torch.cuda.memory._record_memory_history(enabled="all", context=context, stacks="python", max_entries=2_000_000)
    if case.get("world"):
        from torch.testing._internal.distributed.fake_pg import FakeStore
        torch.distributed.init_process_group("fake", rank=0, world_size=case["world"], store=FakeStore())
    model, config, kind = build(case, about)
    if case.get("loss"):
        in_eighths(model)
    if case.get("world"):
        tune.shard(case, model)
    torch.cuda.reset_peak_memory_stats()
    if case.get("world"):
        bare_loop(case, model, config)
    else:
        (versions.train if case.get("loop") == "trainer" else versions.loop)(case, model, config, kind)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    result = {"id": name, "case": case, "config": about, "peak_alloc": stats["allocated_bytes.all.peak"],
              "peak_reserved": stats["reserved_bytes.all.peak"], "torch": torch.__version__, "transformers": transformers.__version__,
              "peft": peft.__version__, "torchao": torchao.__version__}
    with lzma.open(f"{out}/{name}.pickle.xz", "wb", preset=9) as f:
        pickle.dump(shortened(torch.cuda.memory._snapshot()), f)
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
            record(name, BASE | options, dict(MODELS[model]), out)
        except Exception:
            print("FAILED", name)
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
