"""One rank of sharded training with bitsandbytes' weights under adapters, behind a fake process group: a manual loop
with fully_shard, accelerate's FSDP2, DeepSpeed's engine and Trainer. Two layers, three steps, a Python stack on every allocation.
bitsandbytes must be on PYTHONPATH.

usage: quantised_shards.py OUTDIR [NAME...]   (each case runs in a process of its own)
"""

import json
import os
import subprocess
import sys
import tempfile

import torch

import accelerate_fsdp

ALL8 = {"r": 8, "targets": "all-linear", "dropout": 0.05}
NARROW = ALL8 | {"fp32_adapters": False}
CASES = {}


def case(id, **k):
    CASES[id] = {"id": id, "model": "tiny-llama", "layers": 2, "batch": 2, "seq": 256, "strategy": "fsdp2", "world": 4,
                 "param": "bf16", "weights": "nf4-double", "load": "device_map", "lora": NARROW} | k


ACCELERATE = {"loop": "accelerate", "mixed": "bf16"}
TRAINER = {"loop": "trainer", "mixed": "bf16", "ckpt": True}
case("nf4-fsdp")
case("nf4-fsdp-ckpt", ckpt=True)
case("nf4-fsdp-single-w3", weights="nf4", world=3)
case("nf4-fsdp-mixed", mp="bf16")
case("nf4-fsdp-wide", lora=ALL8, mp="bf16")
case("nf4-fsdp-offload", offload=True)
case("nf4-fsdp-noreshard-accum", reshard=False, accum=2)
case("nf4-accel", **ACCELERATE)
case("nf4-accel-ckpt-w8", ckpt=True, world=8, **ACCELERATE)
case("nf4-accel-fsdpckpt", fsdp_ckpt=True, **ACCELERATE)
case("nf4-accel-offload", offload=True, **ACCELERATE)
case("nf4-accel-wide", lora=ALL8, **ACCELERATE)
case("nf4-accel-bytes", storage="uint8", **ACCELERATE)
case("nf4-accel-accum-clip", accum=2, clip=1.0, **ACCELERATE)
case("nf4-accel-efficient", efficient=True, **ACCELERATE)
case("nf4-accel-qwen2", model="qwen2.5-0.5b", **ACCELERATE)
case("nf4-trainer-ckpt", **TRAINER)
case("nf4-trainer-prepared", prepare=True, **TRAINER)
ZERO = {"strategy": "zero", "lora": ALL8}
case("nf4-zero1", stage=1, loop="engine", **ZERO)
case("nf4-zero2", stage=2, loop="engine", **ZERO)
case("nf4-zero2-offload-w8", stage=2, loop="engine", offload_optimizer=True, world=8, **ZERO)
case("nf4-zero2-trainer", stage=2, loop="trainer", **ZERO)
case("int8-fsdp", weights="int8")
case("int8-accel", weights="int8", **ACCELERATE)


def folder_of(c):
    return os.path.join(tempfile.gettempdir(), f"quantised-{c['model']}-{c['layers']}")


def save(c):
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM
    if os.path.exists(folder_of(c) + "/config.json"):
        return
    config = accelerate_fsdp.config_of(c)
    config = CONFIG_MAPPING[config.pop("model_type")](**config)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder_of(c))


def quantisation(c):
    from transformers import BitsAndBytesConfig
    if c["weights"] == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16,
                              bnb_4bit_use_double_quant=c["weights"] == "nf4-double",
                              bnb_4bit_quant_storage=getattr(torch, c.get("storage", "bfloat16")))


# With a process group, transformers reserves less memory ahead of loading, depending on the model's plan for tensor
# parallelism. The models are loaded as if there were no group yet.
def load_alone():
    import transformers.modeling_utils
    transformers.modeling_utils._is_torch_distributed_initialized = lambda: False


# accelerate_fsdp.build, from a checkpoint.
def build(c):
    import peft
    from transformers import AutoModelForCausalLM
    load_alone()
    m = AutoModelForCausalLM.from_pretrained(folder_of(c), dtype=torch.bfloat16, device_map={"": 0},
                                             attn_implementation="sdpa", quantization_config=quantisation(c))
    m.config.use_cache = False
    if c.get("prepare"):
        m = peft.prepare_model_for_kbit_training(m, False)
    lora = peft.LoraConfig(r=c["lora"]["r"], lora_alpha=16, lora_dropout=c["lora"]["dropout"],
                           target_modules=c["lora"]["targets"], task_type="CAUSAL_LM")
    m = peft.get_peft_model(m, lora, autocast_adapter_dtype=c["lora"].get("fp32_adapters", True))
    if c.get("ckpt"):
        m.enable_input_require_grads()
    return m.train(), m.config


def in_loop(c, r):
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    m, k = build(c)
    if c.get("ckpt"):
        m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": bool(c.get("reentrant"))})
    how = {"reshard_after_forward": c.get("reshard", True)}
    if c.get("mp"):
        how["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    if c.get("offload"):
        how["offload_policy"] = CPUOffloadPolicy()
    for layer in m.base_model.model.model.layers:
        fully_shard(layer, **how)
    fully_shard(m, **how)
    r["loaded_alloc"] = torch.cuda.memory_allocated()
    o = torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-5, fused=True)
    for i in range(3):
        for j in range(c.get("accum", 1)):
            ids = torch.randint(5, k.vocab_size - 1, (c["batch"], c["seq"]), device="cuda")
            loss = m(input_ids=ids, labels=ids).loss
            loss.backward()
        o.step()
        o.zero_grad(set_to_none=True)


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[2] == "--one":
        accelerate_fsdp.build = build
        c = CASES[sys.argv[3]]
        if "loop" not in c:
            accelerate_fsdp.with_accelerator = in_loop
        save(c)
        if c["strategy"] == "zero":
            import zero_init
            zero_init.HERE = os.path.dirname(zero_init.HERE)
            zero_init.load = lambda c, path: build(c)[0]
            zero_init.record(sys.argv[1], c)
        accelerate_fsdp.record(sys.argv[1], {"loop": "manual"} | c)
    for name in sys.argv[2:] or CASES:
        r = subprocess.run([sys.executable, __file__, sys.argv[1], "--one", name], capture_output=True, text=True)
        print(r.stdout[-1500:] + ("" if r.returncode == 0 else f"FAILED {name}\n{r.stderr[-1500:]}\n"), end="", flush=True)
