"""Activations offloaded to the host by the class OffloadActivations of TRL and of torchtune, which copies them on a stream
of its own: three layers, two steps, in a plain loop and in Trainer. "covers" is what runs inside the class's context: the
whole training step, as in TRL's SFTTrainer and in Axolotl, or the model without its loss, as in torchtune's recipes.

usage: plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python offloading.py OUTDIR [part of a name]
TORCHTUNE names a folder with torchtune and torchao, which are not on PYTHONPATH because torchao initialises CUDA.
"""

import contextlib
import functools
import json
import lzma
import os
import pickle
import sys
import traceback

import peft
import torch
import transformers
import trl
import versions
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, BitsAndBytesConfig

MODELS = {
    "llama": {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 3, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "tie_word_embeddings": False},
    "qwen2": {"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 3, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 32000, "tie_word_embeddings": True},
    "gemma2": {"model_type": "gemma2", "hidden_size": 1152, "intermediate_size": 4608, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 32000, "tie_word_embeddings": True},
}
MODELS |= {
    "mistral": MODELS["llama"] | {"model_type": "mistral", "sliding_window": None},
    "qwen3": MODELS["llama"] | {"model_type": "qwen3", "head_dim": 64},
    "phi3": MODELS["llama"] | {"model_type": "phi3", "pad_token_id": 0},
    "mixtral": MODELS["llama"] | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 1024, "sliding_window": None},
    "gpt2": {"model_type": "gpt2", "n_embd": 768, "n_layer": 3, "n_head": 12, "vocab_size": 50257},
}
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LORA = {"lora": {"r": 8, "dropout": 0.0, "targets": LINEAR}}
DROPPED = {"lora": {"r": 8, "dropout": 0.05, "targets": LINEAR}}
PHI_LORA = {"lora": {"r": 8, "dropout": 0.05, "targets": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]}}
CKPT, REENTRANT = {"ckpt": True}, {"ckpt": True, "reentrant": True}
NF4 = DROPPED | {"weights": "nf4-double", "load": "device_map", "prepare": True}
AMP = {"amp": "bf16"}
FP32 = {"param_dtype": "fp32", "amp": "bf16"}
TRAINER = {"loop": "trainer", "amp": "bf16"}
ONE = {"streams": False}
TRL = {"offload": "trl", "covers": "step"}
AXOLOTL = {"offload": "axolotl", "covers": "step"}
HIDDEN = {"offload": "hidden_states", "covers": "step"}
TUNE = {"offload": "torchtune", "covers": "logits"}
# One rank of FSDP2 with a fake process group; torchtune shards each layer and then the rest.
FSDP = {"strategy": "fsdp2", "world": 4, "bare": False, "clip": False}
CASES = {
    "trl-llama": ("llama", TRL),
    "trl-llama-one": ("llama", TRL | ONE),
    "trl-llama-ckpt": ("llama", TRL | CKPT),
    "trl-llama-ckpt-one": ("llama", TRL | CKPT | ONE),
    "trl-llama-reentrant": ("llama", TRL | REENTRANT),
    "trl-llama-reentrant-one": ("llama", TRL | REENTRANT | ONE),
    "trl-llama-fp32": ("llama", TRL | FP32),
    "trl-llama-fp32-ckpt": ("llama", TRL | FP32 | CKPT),
    "trl-llama-maskpad": ("llama", TRL | {"mask": "pad"}),
    "trl-llama-lora": ("llama", TRL | LORA),
    "trl-llama-lora-one": ("llama", TRL | LORA | ONE),
    "trl-llama-lora-amp": ("llama", TRL | DROPPED | AMP),
    "trl-llama-lora-ckpt": ("llama", TRL | LORA | CKPT),
    "trl-llama-lora-reentrant": ("llama", TRL | LORA | REENTRANT),
    "trl-llama-trainer": ("llama", TRL | TRAINER),
    "trl-llama-trainer-ckpt": ("llama", TRL | TRAINER | CKPT),
    "trl-llama-trainer-accum": ("llama", TRL | TRAINER | CKPT | {"accum": 2}),
    "trl-llama-trainer-lora": ("llama", TRL | TRAINER | DROPPED),
    "trl-llama-trainer-lora-ckpt": ("llama", TRL | TRAINER | DROPPED | CKPT),
    "trl-llama-trainer-lora-one": ("llama", TRL | TRAINER | DROPPED | ONE),
    "trl-llama-trainer-lora-reentrant": ("llama", TRL | TRAINER | DROPPED | REENTRANT),
    "trl-qwen2": ("qwen2", TRL),
    "trl-qwen2-ckpt": ("qwen2", TRL | CKPT),
    "trl-qwen2-lora": ("qwen2", TRL | LORA | AMP),
    "trl-gemma2-lora": ("gemma2", TRL | LORA),
    "trl-mixtral": ("mixtral", TRL),
    "trl-gpt2": ("gpt2", TRL),
    "trl-phi3": ("phi3", TRL),
    "trl-phi3-lora": ("phi3", TRL | PHI_LORA),
    "trl-qwen3-lora": ("qwen3", TRL | LORA),
    "trl-mistral": ("mistral", TRL | {"mask": "pad"}),
    "axolotl-llama-lora": ("llama", AXOLOTL | LORA),
    "axolotl-llama-lora-one": ("llama", AXOLOTL | LORA | ONE),
    "axolotl-llama-lora-maskpad": ("llama", AXOLOTL | LORA | {"mask": "pad"}),
    "axolotl-llama-trainer-lora-reentrant": ("llama", AXOLOTL | TRAINER | DROPPED | REENTRANT),
    "axolotl-llama-trainer-lora-ckpt": ("llama", AXOLOTL | TRAINER | DROPPED | CKPT),
    "axolotl-llama-trainer-lora-reentrant-one": ("llama", AXOLOTL | TRAINER | DROPPED | REENTRANT | ONE),
    "axolotl-qwen2-trainer-lora-reentrant": ("qwen2", AXOLOTL | TRAINER | LORA | REENTRANT | {"accum": 2}),
    "trl-llama-nf4": ("llama", TRL | NF4),
    "trl-llama-nf4-ckpt": ("llama", TRL | NF4 | CKPT),
    "trl-llama-trainer-nf4-ckpt": ("llama", TRL | TRAINER | NF4 | CKPT),
    "axolotl-llama-trainer-nf4-reentrant": ("llama", AXOLOTL | TRAINER | NF4 | REENTRANT),
    "axolotl-qwen2-trainer-nf4-reentrant": ("qwen2", AXOLOTL | TRAINER | NF4 | REENTRANT | {"prepare": False}),
    "tune-llama-nf4-ckpt": ("llama", TUNE | NF4 | CKPT),
    "hidden-llama-ckpt": ("llama", HIDDEN | CKPT),
    "hidden-llama-fp32-ckpt": ("llama", HIDDEN | FP32 | CKPT),
    "hidden-llama-trainer-ckpt": ("llama", HIDDEN | TRAINER | CKPT | {"accum": 2}),
    "hidden-llama-trainer-lora-ckpt": ("llama", HIDDEN | TRAINER | DROPPED | CKPT),
    "hidden-llama-reentrant": ("llama", HIDDEN | REENTRANT),
    "hidden-llama-fp32-reentrant": ("llama", HIDDEN | FP32 | REENTRANT),
    "hidden-llama-trainer-reentrant": ("llama", HIDDEN | TRAINER | REENTRANT | {"accum": 2}),
    "hidden-llama-trainer-lora-reentrant": ("llama", HIDDEN | TRAINER | DROPPED | REENTRANT),
    "trl-llama-trainer-wrapped": ("llama", TRL | TRAINER | {"fsdp_ckpt": True}),
    "trl-llama-wrapped": ("llama", TRL | {"fsdp_ckpt": True}),
    "tune-llama": ("llama", TUNE),
    "tune-llama-one": ("llama", TUNE | ONE),
    "tune-llama-ckpt": ("llama", TUNE | CKPT),
    "tune-llama-ckpt-one": ("llama", TUNE | CKPT | ONE),
    "tune-llama-ckpt-accum": ("llama", TUNE | CKPT | {"accum": 2}),
    "tune-llama-reentrant": ("llama", TUNE | REENTRANT),
    "tune-llama-fp32-ckpt": ("llama", TUNE | FP32 | CKPT),
    "tune-llama-lora": ("llama", TUNE | LORA),
    "tune-llama-lora-ckpt": ("llama", TUNE | LORA | CKPT),
    "tune-llama-lora-ckpt-one": ("llama", TUNE | LORA | CKPT | ONE),
    "tune-llama-fsdp": ("llama", TUNE | FSDP),
    "tune-llama-fsdp-wrapped": ("llama", TUNE | FSDP | {"fsdp_ckpt": True}),
    "tune-llama-fsdp-wrapped-one": ("llama", TUNE | FSDP | ONE | {"fsdp_ckpt": True}),
    "tune-llama-lora-fsdp-wrapped": ("llama", TUNE | FSDP | LORA | {"fsdp_ckpt": True}),
    "tune-qwen2-fsdp-wrapped": ("qwen2", TUNE | FSDP | {"fsdp_ckpt": True, "world": 2}),
    "tune-qwen2-ckpt": ("qwen2", TUNE | CKPT),
    "tune-qwen2-lora-ckpt": ("qwen2", TUNE | DROPPED | CKPT),
}


def axolotl_manager(case, model, streams):
    """AXOLOTL is its src/axolotl, of which only the logger is replaced."""
    import importlib.util
    import logging
    import types
    for name in ("axolotl", "axolotl.utils", "axolotl.utils.logging"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["axolotl.utils.logging"].get_logger = logging.getLogger
    is_hidden = case["offload"] == "hidden_states"
    is_patched = is_hidden and case.get("reentrant")  # loaders/model.py, _apply_activation_checkpointing
    file = "monkeypatch/activation_offload_checkpoint.py" if is_patched else "monkeypatch/checkpoint_activation_offload.py" if is_hidden else "core/trainers/mixins/activation_checkpointing.py"
    spec = importlib.util.spec_from_file_location("offloading_of_axolotl", os.path.join(os.environ["AXOLOTL"], file))
    axolotl = sys.modules["offloading_of_axolotl"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(axolotl)
    if is_patched:
        axolotl.patch_hidden_states_offload()
        return contextlib.nullcontext()
    if is_hidden:
        return axolotl.get_checkpoint_hidden_states_offloading_ctx_manager(use_streams=streams)
    if streams:
        axolotl._patch_trl_offload_current_stream()
        axolotl._patch_trl_offload_compute_stream_clone()
    return axolotl.get_lora_act_offloading_ctx_manager(model, use_streams=streams)


def wrap_layers(model):
    """As Axolotl's ac_wrap_hf_model."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    from transformers import GradientCheckpointingLayer
    apply_activation_checkpointing(model, auto_wrap_policy=ModuleWrapPolicy({GradientCheckpointingLayer}))


def shard(case, model):
    """As torchtune's shard_model."""
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore
    torch.distributed.init_process_group("fake", rank=0, world_size=case["world"], store=FakeStore())
    base = model.get_base_model() if isinstance(model, peft.PeftModel) else model
    for layer in base.model.layers:
        fully_shard(layer, reshard_after_forward=True)
    fully_shard(model, reshard_after_forward=True)
    torch.cuda.empty_cache()


def manager_of(case, model):
    streams = case.get("streams", True)
    if case["offload"] == "trl":
        from trl.models import activation_offloading  # initialises CUDA
        return activation_offloading.get_act_offloading_ctx_manager(model, use_streams=streams)
    if case["offload"] in ("axolotl", "hidden_states"):
        return axolotl_manager(case, model, streams)
    sys.path.append(os.environ["TORCHTUNE"])
    from torchtune.training import _activation_offloading as tune
    object.__setattr__(model, "output", model.get_output_embeddings())  # as torchtune's models call their head
    tune.OffloadActivations = functools.partial(tune.OffloadActivations, use_streams=streams)
    return tune.get_act_offloading_ctx_manager(model, True)


def model_and_loss(manager, model, batch):
    labels = batch["labels"]
    with manager:
        out = model(**{k: v for k, v in batch.items() if k != "labels"})
    out["loss"] = model.loss_function(logits=out.logits, labels=labels, vocab_size=model.config.vocab_size)
    return out


def loop(case, model, config, kind):
    """versions.loop, with the class's context around a forward or a whole pass."""
    params = [p for p in model.parameters() if p.requires_grad]
    opt = versions.optimizer_of(case, params)
    accum, amp = case.get("accum", 1), case.get("amp")
    manager = manager_of(case, model)
    is_step = case["covers"] == "step"
    for _ in range(case["steps"]):
        for _ in range(accum):
            d = versions.batch_of(case, config, kind)
            with manager if is_step else contextlib.nullcontext():
                with torch.autocast("cuda", dtype=versions.DTYPES[amp]) if amp else torch.enable_grad():
                    out = model(**d) if is_step else model_and_loss(manager, model, d)
                    loss = out.loss
                l = loss / accum
                l.backward()
        if case.get("clip", True):
            torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)


def train(case, model, config, kind):
    from transformers import Trainer, TrainingArguments  # initialise CUDA

    class OffloadingTrainer(Trainer):
        def training_step(self, *args, **kwargs):
            with self.manager:
                return super().training_step(*args, **kwargs)

    args = TrainingArguments(
        output_dir="trainer", per_device_train_batch_size=case["batch"], max_steps=case["steps"],
        gradient_accumulation_steps=case.get("accum", 1), bf16=case.get("amp") == "bf16", gradient_checkpointing=case.get("ckpt") is True,
        optim="adamw_torch_fused", report_to=[], save_strategy="no", logging_steps=1000, learning_rate=1e-5, disable_tqdm=True,
        gradient_checkpointing_kwargs={"use_reentrant": case.get("reentrant", False)} if case.get("ckpt") is True else None)
    trainer = OffloadingTrainer(model=model, args=args, train_dataset=versions.Texts(case, config.vocab_size, kind))
    trainer.manager = manager_of(case, model)
    trainer.train()


def quantised(case, about):
    """bitsandbytes' 4-bit weights under adapters; bitsandbytes must be on PYTHONPATH. It initialises CUDA, so that each case needs
    a process of its own: give its whole name."""
    import tempfile
    keys = dict(about)
    config = CONFIG_MAPPING[keys.pop("model_type")](**keys)
    with tempfile.TemporaryDirectory() as folder:
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
        torch.cuda.init()
        start_recording(case)
        how = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16, bnb_4bit_use_double_quant=True)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, device_map={"": 0}, attn_implementation="sdpa", quantization_config=how)
    model.config.use_cache = False
    if case["prepare"]:
        model = peft.prepare_model_for_kbit_training(model, False)
    elif case.get("ckpt"):
        model.enable_input_require_grads()
    if case.get("ckpt"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": case.get("reentrant", False)})
    lora = case["lora"]
    model = peft.get_peft_model(model, peft.LoraConfig(r=lora["r"], lora_alpha=16, lora_dropout=lora["dropout"], target_modules=lora["targets"]))
    if case.get("ckpt"):
        model.enable_input_require_grads()
    return model.train(), model.config, "causal"


def start_recording(case):
    context = None if case.get("ckpt") else "all"
    torch.cuda.memory._record_memory_history(enabled="all", context=context, stacks="python", max_entries=2_000_000)


def record(name, case, about, out):
    torch.manual_seed(0)
    if "weights" in case:
        model, config, kind = quantised(case, about)
    else:
        torch.cuda.init()
        start_recording(case)
        model, config, kind = versions.build(dict(case), about)
    if case.get("fsdp_ckpt"):
        wrap_layers(model)
    if case.get("world"):
        shard(case, model)
    torch.cuda.reset_peak_memory_stats()
    (train if case.get("loop") == "trainer" else loop)(case, model, config, kind)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    result = {"id": name, "case": case, "config": about,
              "peak_alloc": stats["allocated_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"],
              "torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__, "trl": trl.__version__}
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
        child = os.fork() if part != name else 0
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
