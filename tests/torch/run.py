#!/usr/bin/env python3
"""run.py PLIMSOLL ENVIRONMENT: `plimsoll run` with real PyTorch on a simulated card. A run fails, is explained, resumes from its
checkpoint with planned settings and finishes; a model that is in memory twice and a leak are named with their lines; a
capped program may spill; a program that reads and resets PyTorch's peaks sees the same as without plimsoll.
The last line is "N passed, N failed"."""
import os
import subprocess
import sys
import tempfile

# The samples get longer after five steps, so that memory runs out when there are checkpoints.
TRAINER = """
import torch
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = LlamaForCausalLM(LlamaConfig(hidden_size=512, intermediate_size=1376, num_hidden_layers=4, num_attention_heads=8, vocab_size=4000))


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 16 * 8

    def __getitem__(self, i):
        return torch.arange(1024 if i >= 16 * 5 else 64) % 1000


def collate(rows):
    longest = max(len(r) for r in rows)
    ids = torch.stack([torch.nn.functional.pad(r, (0, longest - len(r))) for r in rows])
    return {"input_ids": ids, "labels": ids}


class InOrder(Trainer):
    def _get_train_sampler(self, *args):
        return torch.utils.data.SequentialSampler(self.train_dataset)


trainer = InOrder(model=model, args=args, train_dataset=Samples(), data_collator=collate)
trainer.train()
print("global step", trainer.state.global_step, "batch", args.per_device_train_batch_size, "x", args.gradient_accumulation_steps)
"""
FLAGS = "--output_dir out --per_device_train_batch_size 16 --gradient_accumulation_steps 1 --num_train_epochs 1 --save_steps 2 --report_to none --bf16 true"
# Little memory beside the optimizer's state: a paged optimizer would be the fastest cure, but bitsandbytes is not installed.
SFT = """
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

words = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, "<unk>": 2} | {"w%d" % i: i for i in range(3, 8000)}, unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
model = LlamaForCausalLM(LlamaConfig(hidden_size=512, intermediate_size=1376, num_hidden_layers=4, num_attention_heads=8, vocab_size=8000))
data = Dataset.from_dict({"text": [" ".join("w%d" % (3 + i * j % 7000) for j in range(900)) for i in range(32)]})
args = SFTConfig(output_dir="out", per_device_train_batch_size=8, gradient_accumulation_steps=1, num_train_epochs=1, max_length=1024, report_to="none", bf16=True, gradient_checkpointing=False)
SFTTrainer(model=model, args=args, train_dataset=data, processing_class=tokenizer).train()
"""
MISTAKES = """
import time
import torch

model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
twin = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
kept = []
for step in range(70):
    model(torch.ones(64, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.zeros(1 << 20, device="cuda"))
    time.sleep(0.3)
"""
# Every third batch is larger. The program resets and reads peaks by both of PyTorch's modules.
SWINGS = """
import time
import torch

model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = []
for step in range(40):
    if step % 5 == 4:
        torch.cuda.reset_peak_memory_stats()
    if step == 20 and hasattr(torch, "accelerator"):
        torch.accelerator.reset_peak_memory_stats()
    model(torch.ones(4096 if step % 3 == 2 else 512, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    seen.append([v for k, v in sorted(torch.cuda.memory_stats().items()) if k.endswith(".peak")])
    seen.append([torch.cuda.max_memory_allocated(), torch.accelerator.max_memory_allocated() if hasattr(torch, "accelerator") else 0])
    time.sleep(0.3)
with open("seen", "w") as f:
    print(seen, file=f)
"""
passed = failed = 0


def check(is_met, text, shown=""):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)
    if not is_met:
        print(shown[-3000:])


def run(options, limit, program, flags, is_run=True):
    """What the program and plimsoll wrote on standard error, and the program's file `seen`."""
    plimsoll, python = os.path.abspath(sys.argv[1]), os.path.join(sys.argv[2], "bin", "python")
    with tempfile.TemporaryDirectory(prefix="plimsoll-run-") as folder:
        with open(os.path.join(folder, "train.py"), "w") as f:
            f.write(program)
        inner = ([plimsoll, "run", "--no-check", *options, "--"] if is_run else []) + [python, "train.py", *flags]
        outer = [plimsoll, "simulate", "--gpu", "4090", "--limit", limit, "--steps", "0", "--writable", folder, "-v", "--"]
        env = dict(os.environ, XDG_STATE_HOME=os.path.join(folder, "state"), PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
        said = subprocess.run(outer + inner, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr
        path = os.path.join(folder, "seen")
        return said, open(path).read() if os.path.exists(path) else ""


def keeps_the_programs_peaks():
    said, seen = run([], "3GiB", SWINGS, [])
    alone, seen_alone = run([], "3GiB", SWINGS, [], is_run=False)
    check(seen and seen == seen_alone, "the program sees the peaks that it sees without plimsoll", said + alone)
    check("the peak swings between 53.3 MiB and 177 MiB from step to step" in said, "swings between steps are told", said)


def main():
    said, _ = run([], "2GiB", TRAINER, FLAGS.split())
    check("out of memory: 5 steps fitted, then a batch was longer than all before it: 1024 tokens per sample, at most 64 before" in said, "running out of memory after five steps is explained", said)
    check("starting again with the planned settings checkpoint=on" in said, "it goes on with the fastest settings that are predicted to fit", said)
    check("resuming from out/checkpoint-4" in said and "global step 8 batch 16 x 1" in said, "it resumes from its checkpoint and makes all steps", said)
    check("plimsoll: finished after 8 optimizer steps" in said, "all steps are counted", said)
    said, _ = run([], "1300MiB", SFT, [])
    check("starting again with" in said and "paged" not in said, "a plan uses only packages that are installed", said)
    check("plimsoll: finished after 4 optimizer steps" in said, "TRL's trainer goes on too", said)
    check("Traceback" in said and "/plimsoll_" not in said, "the traceback has only frames of the program", said)
    said, _ = run([], "350MiB", MISTAKES.replace("twin = ", "# "), [])
    check("out of memory: a leak filled the GPU: memory grew by 4.00 MiB with each step" in said, "a leak is the cause, not the optimizer in whose step memory ran out", said)
    check("that are made at train.py:13" in said, "its line is in the last lines", said)
    said, _ = run(["--hook"], "3GiB", MISTAKES, [])
    check("train.py:5" in said and "train.py:6" in said, "models of the same shapes are named with their lines", said)
    check("memory grows by 4.00 MiB per step" in said and "train.py:13" in said, "a leak is announced, and its line is named", said)
    check("hook library: one process used at most" in said and "0 requests failed" in said, "the hook library records", said)
    said, _ = run(["--spill", "--retries", "0"], "600MiB", MISTAKES.replace("range(70)", "range(30)").replace("time.sleep(0.3)", "pass").replace("1 << 20", "1 << 22"), [])
    check("SPILLED: " in said and "finished after 30 optimizer steps" in said, "a program that does not fit goes on with spilled memory", said)
    keeps_the_programs_peaks()
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
