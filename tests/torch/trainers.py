#!/usr/bin/env python3
"""trainers.py PLIMSOLL ENVIRONMENT [NAME...]: `plimsoll run` with the trainers and launchers that people use, on simulated GPUs:
each rank reports, the worst rank rules, a failure is explained and cured, and nothing is left behind.

The programs are in tests/torch/trainers. The last line is "N passed, N failed"."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trainers")
MARK = "--mark-of-trainers"  # among the arguments of the programs
passed = failed = 0


def check(is_met, text, shown=""):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)
    if not is_met:
        print(str(shown)[-6000:])


# ---- on the simulated card ---------------------------------------------------------------------------------


def left():
    """Processes of the program that still run."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if MARK.encode() in words and b"--inside" not in words:
            found.append(" ".join(w.decode() for w in words))
    return found


def texts():
    """The program's own files."""
    found = {}
    for path in glob.glob("*.py") + glob.glob("*.json") + glob.glob("*.yaml"):
        with open(path) as f:
            found[path] = f.read()
    return found


def inside(plimsoll, command):
    """Runs the command on the simulated card, and writes down what it left behind."""
    before = texts()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    found = {"status": done.returncode, "said": done.stdout, "left": left(), "changed": sorted(k for k, v in before.items() if texts().get(k) != v)}
    shown = subprocess.run([plimsoll, "runs", "show", "1", "--json", "--svg", "memory.svg"], stdout=subprocess.PIPE, text=True)
    found["shown"] = json.loads(shown.stdout) if shown.returncode == 0 else None
    found["text"] = subprocess.run([plimsoll, "runs", "show", "1"], stdout=subprocess.PIPE, text=True).stdout
    found["svg"] = open("memory.svg").read() if os.path.exists("memory.svg") else ""
    with open("found.json", "w") as f:
        json.dump(found, f)


class Run:
    """One `plimsoll run` of a program of PROGRAMS on so many simulated GPUs. `path` is for PYTHONPATH."""

    def __init__(self, gpus, limit, options, launcher, program, flags, path=None):
        plimsoll, environment = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
        with tempfile.TemporaryDirectory(prefix="plimsoll-trainers-") as folder:
            shutil.copy(os.path.join(PROGRAMS, program), folder)
            env = dict(os.environ, PATH=os.path.join(environment, "bin") + ":" + os.environ["PATH"], XDG_STATE_HOME=os.path.join(folder, "state"), OMP_NUM_THREADS="1")
            if path:
                env["PYTHONPATH"] = path
            inner = [plimsoll, "run", "--no-check", *options, "--", *launcher, program, *flags, MARK]
            helper = [sys.executable, os.path.abspath(__file__), plimsoll, "--inside", *inner]
            outer = [plimsoll, "simulate", "--gpu", "4090", "--gpus", str(gpus), "--limit", limit, "--steps", "0", "--writable", folder, "--"]
            done = subprocess.run(outer + helper, cwd=folder, env=env, capture_output=True, text=True)
            found = os.path.join(folder, "found.json")
            if not os.path.exists(found):
                raise RuntimeError(done.stdout + done.stderr)
            with open(found) as f:
                self.__dict__.update(json.load(f))
        # Another rank may be in the middle of a line when plimsoll speaks: C++ code writes its lines in pieces.
        self.lines = re.findall("plimsoll: .*", self.said)
        self.samples = self.shown["samples"] if self.shown else []

    def ends(self, name, status, steps, ranks, worst=None):
        """What holds for every run. `steps`: how many are recorded, or a range of that. `worst`: the rank that needs the most."""
        if status is not None:
            check(self.status == status, "%s: the exit status is %d" % (name, status), self.said)
        check(not self.left, "%s: no process is left" % name, self.left)
        check(not self.changed, "%s: its files are as before" % name, self.changed)
        seen = {s["rank"] for s in self.samples if s["reserved_bytes"]}
        check(seen == set(range(ranks)), "%s: ranks that report: %s" % (name, sorted(seen)), self.said)
        recorded = self.shown and self.shown["steps"]
        check(recorded in (steps if isinstance(steps, range) else [steps]), "%s: %s steps are recorded" % (name, recorded), self.said)
        check("<svg" in self.svg, "%s: its memory is drawn" % name)
        if worst is not None:
            check(self.shown and self.shown["fullest_rank"] == worst, "%s: the record has the worst rank" % name, self.text)
        if worst is not None and ranks > 1:
            check("on the fullest GPU (rank %d)" % worst in self.lines[-1], "%s: the last line has the worst rank" % name, self.lines)
            check("were in use on the GPU of rank %d" % worst in self.text, "%s: runs names it" % name, self.text)

    def says(self, words, text):
        check(any(words in line for line in self.lines), text, "\n".join(self.lines) + "\n" + self.said[-3000:])


# ---- programs ----------------------------------------------------------------------------------------------

BATCH = ["--per_device_train_batch_size", "16", "--gradient_accumulation_steps", "1"]
AGAIN = "starting again with micro batch 8 and 2 accumulation steps instead of 16 and 1"
TWO = ["torchrun", "--nproc-per-node", "2"]


def torchrun():
    """Rank 1 runs out of memory, torchrun ends rank 0, and both resume from the checkpoint that rank 0 has saved."""
    run = Run(2, "1200MiB", ["--resume", "--resume last.pt"], TWO, "ddp.py", BATCH)
    run.ends("torchrun", 0, 6, 2, worst=1)
    run.says("out of memory on rank 1: 4 steps fitted", "torchrun: the rank that failed is named, with its own steps")
    run.says(AGAIN, "torchrun: it goes on with a smaller micro batch")
    made = ["rank %d made 3 steps, batch 8 x 2" % rank in run.said for rank in (0, 1)]
    check(made == [True, True], "torchrun: --resume reaches both ranks", run.said)


def leak():
    run = Run(2, "3GiB", [], TWO, "ddp.py", ["--steps", "70", "--leak", "1"])
    run.ends("a leak in one rank", 0, 70, 2, worst=1)
    run.says("rank 1: memory grows by 4.00 MiB per step", "a leak in one rank: it is announced with the rank")
    check("rank 0: memory grows" not in run.said, "a leak in one rank: the other one is not blamed", run.said)
    run.says("ddp.py:", "a leak in one rank: its line is named")


def accelerate(processes):
    kind = ["--multi_gpu"] if processes > 1 else []
    launcher = ["accelerate", "launch", *kind, "--num_processes", str(processes), "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    run = Run(processes, "1200MiB", [], launcher, "accelerated.py", BATCH)
    name = "accelerate launch, %d" % processes
    run.ends(name, 0, 6, processes, worst=processes - 1)
    run.says("out of memory%s: 4 steps fitted" % (" on rank 1" if processes > 1 else ""), "%s: the failure is explained" % name)
    run.says(AGAIN, "%s: it goes on with a smaller micro batch" % name)


def sft():
    flags = "--output_dir out --num_train_epochs 1 --save_steps 2 --report_to none --bf16 true --max_length 2048".split()
    run = Run(1, "700MiB", [], ["python"], "sft.py", flags + BATCH)
    run.ends("TRL's SFTTrainer", 0, 8, 1)
    run.says("out of memory: 5 steps fitted", "TRL's SFTTrainer: the failure is explained")
    run.says("starting again with", "TRL's SFTTrainer: it is started again")
    run.says("resuming from out/checkpoint-4", "TRL's SFTTrainer: it resumes from its checkpoint")
    check("global step 8" in run.said, "TRL's SFTTrainer: it makes all steps", run.said)


def lightning(devices):
    path = os.path.join(os.path.abspath(sys.argv[2]), "lightning")
    flags = ["--batch_size", "16", "--accumulate_grad_batches", "1", "--devices", str(devices)]
    run = Run(devices, "1200MiB", [], ["python"], "lit.py", flags, path)
    name = "Lightning on %d" % devices
    run.ends(name, 0, 8, devices)
    run.says("5 steps fitted", "%s: the failure is explained" % name)
    run.says(AGAIN, "%s: it goes on with a smaller micro batch" % name)
    resumed = [line for line in run.lines if "resuming from" in line]
    check(len(resumed) == 1 and "saved/epoch=0-step=4.ckpt" in resumed[0], "%s: it says once that it resumes from its checkpoint" % name, run.said)
    check(run.said.count("global step 8 batch 8 x 2") == devices, "%s: the steps of both starts are as many as before" % name, run.said)


def deepspeed(stage, launcher):
    """Its micro batch is in a dict of the program, without an accumulation, so it is not started again."""
    run = Run(2, "1200MiB", [], launcher, "zero.py", ["--stage", str(stage)])
    name = "DeepSpeed, ZeRO %d by %s" % (stage, launcher[0])
    run.ends(name, None, range(4, 7), 2)  # rank 0 goes on until the launcher sees that rank 1 has failed
    check(run.status not in (0, 2), "%s: the exit status is the launcher's (%d)" % (name, run.status))
    run.says("out of memory on rank 1: 4 steps fitted", "%s: the failure is explained" % name)
    run.says("the program is not started again: it has no accumulation setting", "%s: it says why it is not started again" % name)
    run = Run(2, "6GiB", [], launcher, "zero.py", ["--stage", str(stage)])
    run.ends(name + " with enough memory", 0, 6, 2, worst=1)


def spawn():
    """Only torch.distributed knows the ranks, and only the run how many there are."""
    run = Run(2, "1200MiB", [], ["python"], "spawn.py", ["--batch_size", "16", "--gradient_accumulation_steps", "1"])
    run.ends("spawn", 0, 6, 2, worst=1)
    run.says("out of memory on rank 1: 4 steps fitted", "spawn: the rank that failed is named")
    run.says(AGAIN, "spawn: it goes on with a smaller micro batch")


CASES = {
    "torchrun": torchrun,
    "leak": leak,
    "accelerate1": lambda: accelerate(1),
    "accelerate2": lambda: accelerate(2),
    "sft": sft,
    "lightning1": lambda: lightning(1),
    "lightning2": lambda: lightning(2),
    "zero2": lambda: deepspeed(2, ["deepspeed", "--num_gpus", "2"]),
    "zero3": lambda: deepspeed(3, TWO),
    "spawn": spawn,
}


def main():
    if sys.argv[2] == "--inside":
        return inside(sys.argv[1], sys.argv[3:])
    for name in sys.argv[3:] or CASES:
        CASES[name]()
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
