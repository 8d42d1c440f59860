"""Runs what plans chose, and what is near it, in Trainer under the memory of a smaller card: does it fit, what
does it take, how long is a step.

usage: plans.py CASES.json OUT.jsonl SECONDS   (one after the other, each in a process of its own)
CASES.json: rows of id, scenario, why, case and cap_bytes; beside this file: models.json and docs/chunked_loss.py
"""

import json
import os
import sys
import time
import traceback

import peft
import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments

from chunked_loss import use_chunked_loss

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = json.load(open(os.path.join(HERE, "models.json")))
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
STEPS = 3


def build(case):
    config = dict(MODELS[case["model"]])
    config = CONFIG_MAPPING[config.pop("model_type")](**config)
    config.use_cache = False
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=DTYPES[case.get("dtype", "bf16")], attn_implementation="sdpa")
    if case["chunk"]:
        use_chunked_loss(model, case["chunk"])
    if case.get("lora"):
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=case["lora"], lora_alpha=2 * case["lora"], lora_dropout=case.get("dropout", 0.0), target_modules="all-linear"))
    return model, config


class Rows(torch.utils.data.Dataset):
    def __init__(self, count, length, vocabulary):
        self.count, self.length, self.vocabulary = count, length, vocabulary

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        ids = torch.randint(5, self.vocabulary - 1, (self.length,))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


class Clock(TrainerCallback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, *a, **k):
        torch.cuda.synchronize()
        self.start = time.perf_counter()

    def on_step_end(self, *a, **k):
        torch.cuda.synchronize()
        self.times.append(round(time.perf_counter() - self.start, 5))


def train(case, result):
    model, config = build(case)
    clock = Clock()
    result["times"] = clock.times
    args = TrainingArguments(
        output_dir="/tmp/plans", per_device_train_batch_size=case["batch"], gradient_accumulation_steps=case["accum"],
        max_steps=STEPS, bf16=case.get("amp") == "bf16", fp16=case.get("amp") == "fp16", gradient_checkpointing=case["ckpt"],
        optim="adamw_torch_fused", report_to=[], save_strategy="no", logging_steps=1000, disable_tqdm=True)
    rows = Rows(case["batch"] * case["accum"] * STEPS, case["seq"], config.vocab_size)
    Trainer(model=model, args=args, train_dataset=rows, callbacks=[clock]).train()


def child(row, out):
    result = dict(id=row["id"], scenario=row["scenario"], why=row["why"], case=row["case"], cap_bytes=row["cap_bytes"])
    try:
        os.environ["PYTORCH_ALLOC_CONF"] = os.environ["PYTORCH_CUDA_ALLOC_CONF"] = row["case"]["alloc_conf"]
        torch.cuda.init()
        total = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(row["cap_bytes"] / total)
        train(row["case"], result)
        result["status"] = "ok"
    except torch.OutOfMemoryError:
        result["status"] = "oom"
    except BaseException:
        result.update(status="error", error=traceback.format_exc()[-1200:])
    stats = torch.cuda.memory_stats()
    result.update(peak_allocated=stats["allocated_bytes.all.peak"], peak_reserved=stats["reserved_bytes.all.peak"],
                  alloc_retries=stats["num_alloc_retries"])
    with open(out, "a") as f:
        f.write(json.dumps(result) + "\n")
    print(result["id"], result["status"], result.get("times"), result.get("error", "")[-500:], flush=True)
    os._exit(0)


def main():
    cases, out, seconds = json.load(open(sys.argv[1])), sys.argv[2], float(sys.argv[3])
    transformers.logging.set_verbosity_error()
    start = time.time()
    for row in cases:
        if time.time() - start > seconds:
            print("no time for", row["id"])
            continue
        pid = os.fork()
        if pid == 0:
            child(row, out)
        os.waitpid(pid, 0)


main()
