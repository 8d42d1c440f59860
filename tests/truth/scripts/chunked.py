"""Runs a 7B model with adapters and a chunked cross entropy in the loop, under the memory of a smaller card: the rows of
seeds_chunked.json. It was rewritten after measuring.

usage: chunked.py CASES.json OUT.jsonl   (one after the other, each in a process of its own)
Beside this file: models.json
"""

import json
import os
import sys
import traceback

import torch
import peft
import transformers
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

HERE = os.path.dirname(os.path.abspath(__file__))


def chunk_loss(hidden, weight, labels):
    return cross_entropy((hidden @ weight.t()).float(), labels, reduction="sum")


def build(case):
    with open(os.path.join(HERE, "models.json")) as f:
        config = json.load(f)[case["model"]]
    config = transformers.CONFIG_MAPPING[config.pop("model_type")](**config)
    config.use_cache = False
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    model.train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    lora = case["lora"]
    adapters = peft.LoraConfig(r=lora["r"], lora_alpha=2 * lora["r"], lora_dropout=lora["dropout"], target_modules=lora["targets"])
    model = peft.get_peft_model(model, adapters)
    model.enable_input_require_grads()
    return model


def loss_of(base, ids, chunk):
    hidden = base.model(input_ids=ids).last_hidden_state[:, :-1].flatten(0, 1)
    labels, loss = ids[:, 1:].reshape(-1), 0
    for i in range(0, len(hidden), chunk):
        rows = slice(i, i + chunk)
        loss = loss + checkpoint(chunk_loss, hidden[rows], base.lm_head.weight, labels[rows], use_reentrant=False)
    return loss / labels.numel()


def train(case):
    model = build(case)
    base, parameters = model.base_model.model, [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=True)
    for _ in range(case["steps"]):
        for _ in range(case["accum"]):
            ids = torch.randint(5, 150000, (case["batch"], case["seq"]), device="cuda")
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = loss_of(base, ids, case["chunk"])
            (loss / case["accum"]).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def child(case, out):
    os.environ["PYTORCH_ALLOC_CONF"] = os.environ["PYTORCH_CUDA_ALLOC_CONF"] = case["alloc_conf"]
    result = {"id": case["id"], "status": "ok"}
    torch.cuda.init()
    torch.cuda.set_per_process_memory_fraction(case["cap_gb"] * 2**30 / torch.cuda.get_device_properties(0).total_memory)
    try:
        train(case)
    except torch.OutOfMemoryError:
        result["status"] = "oom"
    except BaseException:
        result.update(status="error", error=traceback.format_exc()[-1200:])
    stats = torch.cuda.memory_stats()
    result.update(peak_allocated=stats["allocated_bytes.all.peak"], peak_reserved=stats["reserved_bytes.all.peak"],
                  alloc_retries=stats["num_alloc_retries"])
    with open(out, "a") as f:
        f.write(json.dumps(result) + "\n")
    os._exit(0)


def main():
    transformers.logging.set_verbosity_error()
    with open(sys.argv[1]) as f:
        cases = json.load(f)
    for case in cases:
        pid = os.fork()
        if pid == 0:
            child(case, sys.argv[2])
        os.waitpid(pid, 0)


main()
