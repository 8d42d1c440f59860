#!/usr/bin/env python3
"""healed.py PLIMSOLL PYTHON [--real]: the LoRA training of tests/fixtures/seed0, a 7B model, under `plimsoll run --cap 24GiB`. It
runs out of memory, is explained, goes on with settings that fit, and finishes. On a simulated H200, or with --real on the GPU
of this machine. PYTHON has torch, transformers, peft and datasets.

The checkpoint is a sparse file of zeros. The last line is "N passed, N failed"."""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

TORCH = os.path.dirname(os.path.abspath(__file__))
SEED = os.path.join(os.path.dirname(TORCH), "fixtures", "seed0")
# Where datasets is not installed: what the training uses of it.
DATASETS = """
import json


class Dataset:
    pass


class IterableDataset:
    pass


class Rows(list):
    def map(self, function, remove_columns):
        return Rows({**{k: v for k, v in row.items() if k not in remove_columns}, **function(row)} for row in self)


def load_dataset(kind, data_files, split):
    with open(data_files) as f:
        return Rows(map(json.loads, f))
"""
passed = failed = 0


def check(is_met, text):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)


def prepare(plimsoll, python, folder, is_real):
    """Returns the environment."""
    work = os.path.join(folder, "work")
    shutil.copytree(SEED, work)
    os.makedirs(os.path.join(work, "data"))
    os.makedirs(os.path.join(work, "logs"))
    letters = random.Random(0)
    with open(os.path.join(work, "data", "train.jsonl"), "w") as f:
        for _ in range(48):  # three optimizer steps
            f.write(json.dumps({"text": "".join(letters.choices("abcdefgh ", k=2100))}) + "\n")
    path = os.path.join(work, "config", "config.py")
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(text.replace('"num_train_epochs": 15', '"num_train_epochs": 1'))
    if subprocess.run([python, "-c", "import importlib.util as u; exit(u.find_spec('datasets') is None)"]).returncode:
        with open(os.path.join(work, "datasets.py"), "w") as f:
            f.write(DATASETS)
    hub = os.path.join(folder, "hub")
    maker = os.path.join(TORCH, "sparse_checkpoint.py")
    os.makedirs(hub)
    make = [python, maker, hub, "Qwen/Qwen2.5-7B-Instruct=qwen2.5-7b:float16"]
    if not is_real:
        make = [plimsoll, "simulate", "--gpu", "H200", "--writable", hub, "--"] + make
    subprocess.run(make, stdout=subprocess.DEVNULL)  # simulate says that it did not use the GPU
    bin = os.path.join(folder, "bin")
    os.makedirs(bin)
    with open(os.path.join(bin, "python3"), "w") as f:
        f.write('#!/bin/sh\nexec "%s" "$@"\n' % python)
    os.chmod(os.path.join(bin, "python3"), 0o755)
    return dict(os.environ, PATH=bin + ":" + os.environ["PATH"], HF_HOME=folder, HF_HUB_CACHE=hub, HF_HUB_OFFLINE="1", XDG_STATE_HOME=os.path.join(folder, "state"))


def main():
    plimsoll, python, is_real = os.path.abspath(sys.argv[1]), os.path.abspath(shutil.which(sys.argv[2])), "--real" in sys.argv[3:]
    with tempfile.TemporaryDirectory(prefix="plimsoll-healed-") as folder:
        env = prepare(plimsoll, python, folder, is_real)
        work = os.path.join(folder, "work")
        before = open(os.path.join(work, "config", "config.py")).read()
        command = [plimsoll, "run", "--cap", "24GiB", "--", "bash", "start_baseline.sh"]
        if not is_real:
            command = [plimsoll, "simulate", "--gpu", "H200", "--steps", "0", "--writable", folder, "-v", "--"] + command
        began = time.time()
        done = subprocess.run(command, cwd=work, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = [line for line in done.stdout.split("\n") if line.startswith("plimsoll: ")]
        print("\n".join(said))
        check("out of memory: " in "\n".join(said), "it runs out of memory, and says why")
        check(any("starting again with" in line for line in said), "it is started again with other settings")
        end = next((line for line in said if re.match("plimsoll: finished after 3 optimizer steps", line)), None)
        check(end, "it finishes after all three steps, in %.0f s" % (time.time() - began))
        check(open(os.path.join(work, "config", "config.py")).read() == before, "its files are as before")
        if failed:
            print(done.stdout[-3000:])
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
