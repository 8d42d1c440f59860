"""Encoders in mixed precision, with masks, through other attention kernels and through Trainer: two
layers at real width, two steps, a Python stack on every allocation.

usage: encoders.py OUTDIR
"""

import lzma
import os
import pickle
import sys

import torch
from transformers import (
    CONFIG_MAPPING,
    AutoModel,
    AutoModelForMaskedLM,
    Trainer,
    TrainingArguments,
)

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

# name, model type, head, batch, length, parameters, autocast, attention, mask or loop
CASES = """
bert-fp16-eager-pad bert mlm 8 128 fp32 fp16 eager pad
bert-fp16-efficient-pad bert mlm 8 100 fp32 fp16 efficient pad
bert-fp16-math bert mlm 8 100 fp32 fp16 math none
bert-fp16-noclip bert mlm 4 128 fp32 fp16 sdpa noclip
bert-fp16-pad bert mlm 8 128 fp32 fp16 sdpa pad
bert-fp16-trainer bert mlm 8 128 fp32 fp16 sdpa trainer
bert-fp32-pad bert mlm 8 100 fp32 0 sdpa pad
mpnet-fp16 mpnet encoder 8 128 fp32 fp16 eager none
mpnet-fp16-b1-pad mpnet encoder 1 64 fp32 fp16 eager pad
mpnet-fp32-pad mpnet encoder 4 100 fp32 0 eager pad
mpnet-mlm-bf16-b1-ones mpnet mlm 1 200 bf16 0 eager ones
roberta-bf16-b1-ones roberta mlm 1 128 bf16 0 sdpa ones
roberta-encoder-fp16-pad roberta encoder 4 512 fp32 fp16 sdpa pad
roberta-encoder-fp32-b1-pad roberta encoder 1 128 fp32 0 sdpa pad
roberta-fp16 roberta mlm 8 128 fp32 fp16 sdpa none
"""


def build(kind, head, dtype, attention):
    config = CONFIG_MAPPING[kind](num_hidden_layers=2)
    if kind != "bert":
        config.max_position_embeddings = 514
    if attention in ("efficient", "math"):
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(attention == "efficient")
        attention = "sdpa"
    auto = AutoModel if head == "encoder" else AutoModelForMaskedLM
    with torch.device("cuda"):
        model = auto.from_config(config, dtype=DTYPES[dtype], attn_implementation=attention)
    return model.train(), config.vocab_size


def make_batch(vocabulary, head, batch, length, option):
    ids = torch.randint(5, vocabulary - 1, (batch, length), device="cuda")
    inputs = {"input_ids": ids}
    if option in ("ones", "pad"):
        mask = torch.ones_like(ids)
        if option == "pad":
            mask[:, -(length // 4) :] = 0
        inputs["attention_mask"] = mask
    if head == "mlm":
        inputs["labels"] = ids.clone()
    return inputs


def train_with_trainer(model, batch, length):
    row = {k: torch.ones(length).long() * 7 for k in ("input_ids", "attention_mask", "labels")}
    args = TrainingArguments(
        output_dir="trainer",
        per_device_train_batch_size=batch,
        max_steps=2,
        fp16=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    Trainer(model=model, args=args, train_dataset=[row] * batch * 2).train()


def train(kind, head, batch, length, dtype, amp, attention, option):
    model, vocabulary = build(kind, head, dtype, attention)
    if option == "trainer":
        train_with_trainer(model, batch, length)
        return
    params = list(model.parameters())
    opt = torch.optim.AdamW(params, fused=True)
    scaler = torch.amp.GradScaler("cuda") if amp == "fp16" else None
    for _ in range(2):
        d = make_batch(vocabulary, head, batch, length, option)
        with torch.autocast("cuda", dtype=DTYPES[amp]) if scaler else torch.enable_grad():
            out = model(**d)
            loss = out.loss if head == "mlm" else out.last_hidden_state.float().pow(2).mean()
        l = loss / 1
        (scaler.scale(l) if scaler else l).backward()
        if option != "noclip":
            if scaler:
                scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(params, 1.0)
        if scaler:
            scaler.step(opt)
            scaler.update()
        else:
            opt.step()
        opt.zero_grad(set_to_none=True)


def record(folder, name, kind, head, batch, length, *rest):
    torch.cuda.memory._record_memory_history(
        enabled="all", context="all", stacks="python", max_entries=900000
    )
    train(kind, head, int(batch), int(length), *rest)
    with lzma.open(f"{folder}/{name}.pickle.xz", "w") as f:
        pickle.dump(torch.cuda.memory._snapshot(), f)
    print(name, torch.cuda.max_memory_allocated())


for line in CASES.split("\n")[1:-1]:
    pid = os.fork()  # each in a fresh process
    if pid:
        os.waitpid(pid, 0)
        continue
    record(sys.argv[1], *line.split())
    sys.stdout.flush()
    os._exit(0)
