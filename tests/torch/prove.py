#!/usr/bin/env python3
"""prove.py PLIMSOLL ENVIRONMENT: `plimsoll plan FILES --prove` runs the plan of a small training on simulated GPUs.

The command is a script without arguments, a launch script, the launch command that the plan proposes, or --command. The files must
stay as they are. A program that needs more than is predicted disproves its plan; one that fails or has too little data leaves it
unproved. The last line is "N passed, N failed"."""
import json
import os
import subprocess
import sys
import tempfile

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 2816,
          "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
          "hidden_act": "silu", "tie_word_embeddings": False, "dtype": "float32"}
SCRIPT = '''import torch
from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        ids = torch.full((512,), i %% 1000)
        return {"input_ids": ids, "labels": ids}


model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("model"))
%s
Trainer(model, arguments, train_dataset=Tokens()).train()
'''
ARGUMENTS = 'arguments = TrainingArguments(output_dir="out", per_device_train_batch_size=2, gradient_accumulation_steps=4, bf16=True, report_to=[])'
PARSED = "arguments = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]"
FLAGS = "--output_dir out --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --bf16 True --report_to none"
LOOP = '''import torch
from accelerate import Accelerator
from transformers import AutoConfig, AutoModelForCausalLM

accelerator = Accelerator()
model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("model"))
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader([torch.full((512,), i) for i in range(64)], batch_size=1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for ids in loader:
    accelerator.backward(model(input_ids=ids, labels=ids).loss)
    optimizer.step()
    optimizer.zero_grad()
'''
AGREES = 0.02  # of the prediction
passed = failed = 0


def check(is_met, text):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)


def contents(folder):
    return {name: open(os.path.join(folder, name)).read() for name in sorted(os.listdir(folder)) if name.endswith((".py", ".sh"))}


def made(folder, files):
    """The files ({name: text}) and a model's configuration in a folder."""
    os.mkdir(os.path.join(folder, "model"))
    for name, text in {**files, "model/config.json": json.dumps(CONFIG)}.items():
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)


def plimsoll(folder, *words):
    env = dict(os.environ, PATH=os.path.join(sys.argv[2], "bin") + ":" + os.environ["PATH"])
    return subprocess.run([os.path.abspath(sys.argv[1]), *words], cwd=folder, env=env, capture_output=True, text=True)


def prove(files, *words):
    """The exit code and the document of `plan --prove` for these files, which must not change."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-prove-") as folder:
        made(folder, files)
        done = plimsoll(folder, "plan", *words, "--model", "model/config.json", "--seq", "512", "--prove", "--json")
        check(contents(folder) == files and not os.path.exists(os.path.join(folder, "out")), "the files stay as they are")
    if done.returncode not in (0, 1):
        print(done.stderr[-2000:])
        return done.returncode, None
    return done.returncode, json.loads(done.stdout)


def by_hand():
    """The steps that a plan leaves to the user, done: DeepSpeed under accelerate."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-prove-") as folder:
        made(folder, {"loop.py": LOOP})
        held = [word for fix in ("strategy=zero3", "offload=parameters", "alloc_conf=unchanged") for word in ("--fix", fix)]
        done = plimsoll(folder, "plan", "loop.py", "--model", "model/config.json", "--seq", "512", "--gpu", "24GiB", "--world", "2", *held, "--json")
        launch = json.loads(done.stdout)["launch"]
        for one in launch["files"]:
            with open(os.path.join(folder, one["path"]), "w") as f:
                f.write(one["text"])
        done = plimsoll(folder, "simulate", "--gpu", "24GiB", "--gpus", "2", "--json", "--", *launch["command"].split())
        ran = json.loads(done.stdout)["run"] if done.returncode in (0, 1) else {"processes": []}
        seen = [(p["steps"], (p["observed"] or {}).get("strategy")) for p in ran["processes"] if p["peak_allocated_bytes"]]
        check(len(seen) == 2 and all(steps == 3 and "zero3" in (how or "") for steps, how in seen), "%s: %s" % (launch["command"], seen))
        if len(seen) != 2:
            print(done.stderr[-2000:])


def proved(name, command, files, *words):
    code, found = prove(files, *words)
    proof = found and found.get("proof")
    if not proof or not proof["needs_bytes"]:
        check(False, "%s: there is no proof: %s" % (name, proof))
        return
    off = proof["needs_bytes"] / proof["predicted_bytes"] - 1
    check(code == 0 and proof["result"] == "proved" and abs(off) < AGREES, "%s: %s, %+.2f %%" % (name, proof["result"], 100 * off))
    changes = {change["knob"]: change["to"] for change in found["changes"]}
    check(changes.get("micro_batch", 0) > 2, "%s: the plan has another micro batch: %s" % (name, changes))
    check(command in proof["command"], "%s: it runs %s" % (name, proof["command"]))


def unproved(name, result, why, files, *words):
    code, found = prove(files, *words)
    proof = found["proof"] if found else {}
    check(code == 1 and proof.get("result") == result and why in (proof["why"] or ""), "%s: %s" % (name, proof))


def main():
    script = {"train.py": SCRIPT % ARGUMENTS}
    flags = {"train.py": SCRIPT % PARSED}
    line = "python train.py " + FLAGS
    proved("a script", "python train.py", script, "train.py", "--gpu", "24GiB")
    proved("a launch script", "bash run.sh", {**flags, "run.sh": "#!/bin/bash\n%s\n" % line}, "run.sh", "train.py", "--gpu", "24GiB")
    proved("a command", "--per_device_train_batch_size 8", flags, "train.py", "--command", line, "--gpu", "24GiB")
    proved("two GPUs", "torchrun", script, "train.py", "--gpu", "24GiB", "--world", "2")
    more = {"train.py": SCRIPT % (ARGUMENTS + '\nmore = torch.empty(20 << 30, dtype=torch.uint8, device="cuda")')}
    unproved("more memory than predicted", "disproved", "with enough memory it uses", more, "train.py", "--gpu", "24GiB")
    short = {"train.py": (SCRIPT % ARGUMENTS).replace("(512,)", "(64,)")}
    unproved("short samples", "unproved", "x 64 tokens", short, "train.py", "--gpu", "24GiB")
    wrong = {"train.py": SCRIPT % (ARGUMENTS + '\nraise ValueError("no such column")')}
    unproved("a program that fails", "unproved", "ValueError: no such column", wrong, "train.py", "--gpu", "24GiB")
    by_hand()
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
