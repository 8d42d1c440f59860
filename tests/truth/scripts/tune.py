"""The loops of torchtune 0.7's recipes: DPO (lora_dpo_single_device.py, full_dpo_distributed.py) and
distillation (knowledge_distillation_single_device.py), and optimizers that step in backward. The losses are torchtune's, the models transformers', which is how
torchtune's are predicted. `layers-*`: its linear layers with adapters (torchtune/modules/peft), also on NF4 weights of torchao, in a model of
transformers; recording starts when the model is loaded. Two layers, two steps. TORCHTUNE is the folder of torchtune, torchao and what they need.

usage: TORCHTUNE=FOLDER plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python tune.py OUTDIR [part of a name]
"""

import builtins
import contextlib
import dataclasses
import functools
import json
import lzma
import os
import pickle
import sys
import traceback
import typing

import peft
import torch
import transformers
import versions

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LLAMA = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 2, "num_attention_heads": 8,
         "num_key_value_heads": 2, "vocab_size": 32016, "tie_word_embeddings": False}
MODELS = {
    "llama": LLAMA,
    "tied": LLAMA | {"tie_word_embeddings": True},
    "wide": LLAMA | {"hidden_size": 768, "intermediate_size": 2048, "num_attention_heads": 12, "num_key_value_heads": 4, "num_hidden_layers": 3},
    "qwen2": LLAMA | {"model_type": "qwen2", "tie_word_embeddings": True},
}
LORA = {"lora": {"r": 8, "dropout": 0.0, "targets": LINEAR, "fp32_adapters": False}}
BASE = {"batch": 2, "seq": 200, "steps": 2, "bare": False, "method": "dpo"}
KD = {"method": "distillation", "teacher": "wide", "loss": "eighths-listed"}
FSDP = {"strategy": "fsdp2", "world": 4}
PARTS = FSDP | {"method": "texts", "bare": True, "loss": "eighths", "own_parts": ["embed_tokens", "lm_head"]}  # custom_sharded_layers
IN_BACKWARD = {"method": "texts", "in_backward": True, "clip": False}
LAYERS = {"method": "layers", "layers": "torchtune"}
DORA = {"lora": LORA["lora"] | {"options": {"use_dora": True}}}
NF4 = {"weights": "nf4-double"}
CASES = {
    "layers-llama-lora": ("llama", LORA | LAYERS),
    "layers-llama-lora-dropout": ("llama", {"lora": LORA["lora"] | {"dropout": 0.05}} | LAYERS),
    "layers-llama-lora-wrapped": ("llama", LORA | LAYERS | {"fsdp_ckpt": True, "accum": 2}),
    "layers-llama-dora": ("llama", DORA | LAYERS),
    "layers-llama-dora-dropout": ("llama", {"lora": DORA["lora"] | {"dropout": 0.05}} | LAYERS),
    "layers-llama-dora-wrapped": ("llama", DORA | LAYERS | {"fsdp_ckpt": True, "accum": 2}),
    "layers-llama-nf4": ("llama", LORA | LAYERS | NF4),
    "layers-llama-nf4-wrapped": ("llama", LORA | LAYERS | NF4 | {"fsdp_ckpt": True, "accum": 2}),
    "layers-llama-nf4-dora": ("llama", DORA | LAYERS | NF4),
    "layers-llama-nf4-dora-wrapped": ("llama", DORA | LAYERS | NF4 | {"fsdp_ckpt": True}),
    "layers-qwen2-lora": ("qwen2", LORA | LAYERS),
    "layers-qwen2-nf4": ("qwen2", LORA | LAYERS | NF4),
    "dpo-tune-llama": ("llama", {"ckpt": True}),
    "dpo-tune-llama-plain": ("llama", {}),
    "dpo-tune-llama-fp32": ("llama", {"param_dtype": "fp32"}),
    "dpo-tune-llama-lora": ("llama", LORA | {"ckpt": True}),
    "dpo-tune-llama-lora-plain": ("llama", LORA),
    "dpo-tune-llama-lora-accum": ("llama", LORA | {"accum": 3}),
    "dpo-tune-llama-lora-both": ("llama", LORA | {"accum": 3, "ckpt": True}),
    "dpo-tune-llama-lora-wrapped": ("llama", LORA | {"accum": 3, "fsdp_ckpt": True}),
    "dpo-tune-llama-wrapped": ("llama", {"fsdp_ckpt": True}),
    "dpo-tune-qwen2-lora": ("qwen2", LORA),
    "dpo-tune-tied-b1": ("tied", {"batch": 1}),
    "inward-llama": ("llama", IN_BACKWARD),
    "inward-llama-ckpt": ("llama", IN_BACKWARD | {"ckpt": True}),
    "inward-tied-foreach": ("tied", IN_BACKWARD | {"optim": "adamw_foreach"}),
    "inward-llama-lora": ("llama", LORA | IN_BACKWARD),
    "inward-llama-fsdp": ("llama", FSDP | IN_BACKWARD),
    "inward-llama-fsdp-wrapped": ("llama", FSDP | IN_BACKWARD | {"fsdp_ckpt": True, "steps": 3}),
    "inward-tied-fsdp": ("tied", FSDP | IN_BACKWARD | {"optim": "adamw_foreach", "world": 2}),
    "inward-llama-fsdp-fp32": ("llama", FSDP | IN_BACKWARD | {"param_dtype": "fp32", "steps": 3}),
    "distil-llama-lora": ("llama", LORA | KD),
    "distil-llama-lora-ckpt": ("llama", LORA | KD | {"ckpt": True}),
    "distil-llama-lora-accum": ("llama", LORA | KD | {"accum": 3}),
    "distil-llama-lora-both": ("llama", LORA | KD | {"accum": 3, "ckpt": True}),
    "distil-llama-lora-wrapped": ("llama", LORA | KD | {"accum": 3, "fsdp_ckpt": True}),
    "distil-llama-uneven": ("llama", KD | {"seq": 203}),
    "distil-llama-clip": ("llama", LORA | KD | {"clip": True}),
    "distil-llama-full": ("llama", LORA | KD | {"loss": "full"}),
    "distil-llama-full-fp32": ("llama", LORA | KD | {"loss": "full", "param_dtype": "fp32"}),
    "dpo-tune-llama-fsdp": ("llama", FSDP),
    "dpo-tune-llama-fsdp-wrapped": ("llama", FSDP | {"fsdp_ckpt": True}),
    "dpo-tune-llama-lora-fsdp": ("llama", FSDP | LORA | {"fsdp_ckpt": True}),
    "distil-llama-full-fsdp": ("llama", FSDP | LORA | KD | {"loss": "full"}),
    "distil-llama-lora-fsdp": ("llama", FSDP | LORA | KD | {"fsdp_ckpt": True}),
    "parts-llama": ("llama", PARTS),
    "parts-llama-wrapped": ("llama", PARTS | {"fsdp_ckpt": True, "accum": 2}),
    "parts-llama-lora": ("llama", PARTS | LORA | {"fsdp_ckpt": True}),
    "parts-llama-offload": ("llama", PARTS | {"offload": True}),
    "parts-llama-head": ("llama", PARTS | {"own_parts": ["lm_head"]}),
    "parts-llama-embedding": ("llama", PARTS | {"own_parts": ["embed_tokens"], "seq": 203}),
    "distil-qwen2-lora": ("qwen2", LORA | KD | {"teacher": "qwen2"}),
}


def import_torchtune():
    """In the child, because torchao initialises CUDA. torchtune/rlhf/loss/dpo.py uses some names without importing them."""
    global rlhf, DPOLoss, CEWithChunkedOutputLoss, ForwardKLLoss, ForwardKLWithChunkedOutputLoss
    global register_optim_in_bwd_hooks, scale_grads, set_activation_checkpointing
    sys.path.insert(0, os.environ["TORCHTUNE"])
    builtins.TypeVar, builtins.Optional, builtins.Tuple = typing.TypeVar, typing.Optional, typing.Tuple
    builtins.dataclass = dataclasses.dataclass
    from torchtune import rlhf
    from torchtune.modules.loss import CEWithChunkedOutputLoss, ForwardKLLoss, ForwardKLWithChunkedOutputLoss
    from torchtune.rlhf.loss import DPOLoss
    from torchtune.training import register_optim_in_bwd_hooks, scale_grads, set_activation_checkpointing


def adapters_off(model):
    return model.disable_adapter() if isinstance(model, peft.PeftModel) else contextlib.nullcontext()


def pairs_forward(model, batch):
    ids, labels = (x.to("cuda") for x in batch)
    count = ids.shape[0] // 2
    logits = model(input_ids=ids, use_cache=False).logits.float()
    log_probs = rlhf.get_batch_log_probs(logits, labels)
    return rlhf.ChosenRejectedOutputs(log_probs[:count], log_probs[count:], logits[:count], logits[count:])


def train_pairs(case, model, vocabulary):
    reference = None
    if not case.get("lora"):
        reference = second_model(case, MODELS[case["model"]])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    loss_fn, accum = DPOLoss(), case.get("accum", 1)
    running_loss = 0
    for idx in range(case["steps"] * accum):
        shape = (2 * case["batch"], case["seq"])
        batch = torch.randint(5, vocabulary - 1, shape), torch.randint(5, vocabulary - 1, shape)
        policy = pairs_forward(model, batch)
        chosen_mean = policy.chosen_logits.detach().mean()
        rejected_mean = policy.rejected_logits.detach().mean()
        del policy.chosen_logits, policy.rejected_logits
        other = rlhf.ChosenRejectedOutputs(None, None, None, None)
        with torch.no_grad():
            if reference is not None:
                other = pairs_forward(reference, batch)
                del other.chosen_logits, other.rejected_logits
            else:
                with adapters_off(model):
                    other = pairs_forward(model, batch)
        loss, chosen_rewards, rejected_rewards = loss_fn(policy, other)
        loss = loss.mean()
        reward_accuracies = (chosen_rewards > rejected_rewards).float()
        loss = loss / accum
        running_loss += loss
        loss.backward()
        if (idx + 1) % accum == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            running_loss.detach().item()
            log = [chosen_rewards.mean().cpu(), rejected_rewards.mean().cpu(), reward_accuracies.mean().cpu(),
                   (chosen_rewards - rejected_rewards).mean().cpu(), policy.rejected_logps.detach().mean().cpu(),
                   policy.chosen_logps.detach().mean().cpu(), rejected_mean.cpu(), chosen_mean.cpu()]
            del log
            running_loss = 0


def logits_of(case, model, ids):
    if case["loss"] == "full":
        return model(input_ids=ids, use_cache=False).logits.float()
    if case.get("world"):
        return model(input_ids=ids)
    model = model.get_base_model() if isinstance(model, peft.PeftModel) else model
    return chunks_of(model, ids)


def chunks_of(model, input_ids, **_):
    hidden = model.model(input_ids=input_ids, use_cache=False).last_hidden_state
    return [model.lm_head(chunk) for chunk in hidden.tensor_split(8, dim=1)]


def shard(case, model):
    """As torchtune's shard_model: each layer, then the rest. Its models return the logits in chunks themselves."""
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
    base = model.get_base_model() if isinstance(model, peft.PeftModel) else model
    if case.get("loss") == "eighths-listed":
        base.forward = functools.partial(chunks_of, base)
    policy = {"offload_policy": CPUOffloadPolicy()} if case.get("offload") else {}
    for layer in base.model.layers:
        fully_shard(layer, reshard_after_forward=True, **policy)
    for name in case.get("own_parts", []):
        fully_shard(base.get_submodule(name if name == "lm_head" else f"model.{name}"), reshard_after_forward=True, **policy)
    fully_shard(model, reshard_after_forward="own_parts" not in case, **policy)
    torch.cuda.empty_cache()


def distilled(case, model, teacher, batch, loss_fn, kd_loss_fn):
    ids, labels = batch["tokens"], batch["labels"]
    logits = logits_of(case, model, ids)
    with torch.no_grad():
        teacher_logits = logits_of(case, teacher, ids)
    if not isinstance(logits, list):
        labels = labels.reshape(-1)
        logits = logits.reshape(-1, logits.size(-1))
        teacher_logits = teacher_logits.reshape(-1, teacher_logits.size(-1))
    kd_loss = kd_loss_fn(logits, teacher_logits, labels)
    loss = loss_fn(logits, labels)
    del logits
    del teacher_logits
    return loss, kd_loss


def train_distilled(case, model, vocabulary):
    teacher = second_model(case, MODELS[case["teacher"]])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    loss_fn = torch.nn.CrossEntropyLoss() if case["loss"] == "full" else CEWithChunkedOutputLoss()
    kd_loss_fn = ForwardKLLoss() if case["loss"] == "full" else ForwardKLWithChunkedOutputLoss()
    accum = case.get("accum", 1)
    running_class_loss, running_kd_loss, num_tokens = 0, 0, 0
    for idx in range(case["steps"] * accum):
        batch = {k: torch.randint(5, vocabulary - 1, (case["batch"], case["seq"])) for k in ("tokens", "labels")}
        batch = {k: v.to("cuda") for k, v in batch.items()}
        current_num_tokens = (batch["labels"] != loss_fn.ignore_index).sum()
        num_tokens += current_num_tokens
        class_loss, kd_loss = distilled(case, model, teacher, batch, loss_fn, kd_loss_fn)
        running_class_loss += class_loss * current_num_tokens
        running_kd_loss += kd_loss * current_num_tokens
        current_loss = (1 - 0.5) * class_loss + 0.5 * kd_loss
        current_loss.backward()
        if (idx + 1) % accum == 0:
            scale_grads(model, 1 / num_tokens)
            if case.get("clip"):
                grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            class_loss_to_log = running_class_loss.detach().item() / num_tokens
            kd_loss_to_log = running_kd_loss.detach().item() / num_tokens
            loss_to_log = (1 - 0.5) * class_loss_to_log + 0.5 * kd_loss_to_log
            print(f"loss {loss_to_log}")
            running_class_loss, running_kd_loss, num_tokens = 0, 0, 0


def train_in_backward(case, model, config):
    optimizers = {p: versions.optimizer_of(case, [p]) for p in model.parameters() if p.requires_grad}
    register_optim_in_bwd_hooks(model=model, optim_dict=optimizers)
    for _ in range(case["steps"]):
        d = versions.batch_of(case, config, "causal")
        out = model(**d)
        loss = out.loss
        l = loss / 1
        l.backward()


def loss_in_eighths(head, hidden, labels):
    count = (labels != -100).sum()
    pieces = hidden.tensor_split(8, dim=1)
    targets = [x.reshape(-1) for x in labels.tensor_split(8, dim=1)]
    total = 0
    for piece, target in zip(pieces, targets):
        logits = head(piece)
        logits = logits.view(-1, logits.shape[-1])
        total += torch.nn.functional.cross_entropy(logits.float(), target, reduction="sum")
        del logits
    return total / count


def train_in_eighths(case, model, vocabulary):
    """The loop of full_finetune_distributed.py and its LinearCrossEntropyLoss, without the tokens that it masks."""
    base = model.get_base_model() if isinstance(model, peft.PeftModel) else model
    head = base.lm_head
    base.forward = lambda input_ids, **_: base.model(input_ids=input_ids, use_cache=False).last_hidden_state
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=not case.get("offload"))
    for _ in range(case["steps"]):
        for _ in range(case.get("accum", 1)):
            ids = torch.randint(5, vocabulary - 1, (case["batch"], case["seq"]), device="cuda")
            loss = loss_in_eighths(head, model(ids), ids)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def use_layers(case, model):
    """Replaces linear layers by torchtune's, of which only the adapters are trained."""
    from torchtune.modules.peft import DoRALinear, LoRALinear
    wanted = case["lora"]
    kind = DoRALinear if wanted.get("options", {}).get("use_dora") else LoRALinear
    for p in model.parameters():
        p.requires_grad = False
    torch.set_default_dtype(torch.bfloat16)
    for name, old in list(model.named_modules()):
        parent, _, last = name.rpartition(".")
        if last not in wanted["targets"]:
            continue
        with torch.device("cuda"):
            new = kind(old.in_features, old.out_features, rank=wanted["r"], alpha=16, dropout=wanted["dropout"],
                       use_bias=old.bias is not None, quantize_base=case.get("weights") == "nf4-double")
        for key, p in new.named_parameters():
            p.requires_grad = key in new.adapter_params()
        if kind is DoRALinear:
            new.initialize_dora_magnitude()
        setattr(model.get_submodule(parent), last, new)
    torch.set_default_dtype(torch.float32)


def second_model(case, about):
    plain = {k: v for k, v in case.items() if k not in ("lora", "ckpt", "fsdp_ckpt")}
    model = versions.build(plain, about)[0]
    model.eval()
    for p in model.parameters():
        p.requires_grad = False
    if case.get("world"):
        shard(case, model)
    return model


def record(name, case, about, out):
    torch.manual_seed(0)
    import_torchtune()
    torch.cuda.init()
    context = None if case.get("ckpt") or case.get("fsdp_ckpt") else "all"
    has_layers = "layers" in case
    start = functools.partial(torch.cuda.memory._record_memory_history, enabled="all", context=context, stacks="python", max_entries=2_000_000)
    if not has_layers:
        start()
    model, config, kind = versions.build({k: v for k, v in case.items() if k != "lora" or not has_layers}, about)
    if has_layers:
        use_layers(case, model)
    if case.get("fsdp_ckpt"):  # as torchtune checkpoints layers
        layers = {type(m) for m in model.modules() if type(m).__name__.endswith("DecoderLayer")}
        set_activation_checkpointing(model, auto_wrap_policy=layers)
    if case.get("world"):
        from torch.testing._internal.distributed.fake_pg import FakeStore
        torch.distributed.init_process_group("fake", rank=0, world_size=case["world"], store=FakeStore())
        shard(case, model)
    if has_layers:
        start()
        versions.loop(case, model, config, kind)
    elif "own_parts" in case:
        train_in_eighths(case, model, config.vocab_size)
    elif case["method"] == "texts":
        train_in_backward(case, model, config)
    else:
        (train_pairs if case["method"] == "dpo" else train_distilled)(case, model, config.vocab_size)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    if "teacher" in case:
        case["teacher"] = MODELS[case["teacher"]]
    result = {"id": name, "case": case, "config": about, "peak_alloc": stats["allocated_bytes.all.peak"],
              "peak_reserved": stats["reserved_bytes.all.peak"], "torch": torch.__version__, "transformers": transformers.__version__,
              "peft": peft.__version__}
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
            record(name, BASE | {"model": model} | options, dict(MODELS[model]), out)
        except Exception:
            print("FAILED", name)
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
