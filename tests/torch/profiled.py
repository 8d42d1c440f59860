#!/usr/bin/env python3
"""profiled.py PLIMSOLL ENVIRONMENT: `plimsoll profile` inside `plimsoll simulate`, which gives it a card to measure. What it
measures there must be what simulate says, to the byte, and what differs on purpose must be named.
The last line is "N passed, N failed"."""
import json
import os
import shlex
import subprocess
import sys
import tempfile

PROGRAM = """
import sys
import torch

model = torch.nn.Sequential(torch.nn.Embedding(5000, 512), torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 5000)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(100):
    ids = torch.randint(0, 5000, (int(sys.argv[1]), 128), device="cuda")
    loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, flush=True)
"""
# On a real card, times are those of events; on a simulated one, each takes a millisecond.
EVENTS = """
import torch
import plimsoll_measured as measured

measured.install(torch)
measured._has_events = True
torch.ones(9).cuda()
for steps in 1, 2, 2, 3:
    measured.after_step(steps)
print("measured", measured.step_seconds())
"""
# What profile loads into a program must not need the stand-ins, which a real card does not have.
ALONE = """
import ctypes
import os

os.environ["PLIMSOLL_PROFILE"] = os.environ.pop("PLIMSOLL_CARD")
find = ctypes.CDLL.__getattr__


def find_in_others(library, name):
    if name.startswith("plimsoll"):
        raise AttributeError(name)
    return find(library, name)


ctypes.CDLL.__getattr__ = find_in_others
import torch

weights = torch.ones(9, requires_grad=True, device="cuda")
optimizer = torch.optim.SGD([weights], lr=0.1)
for _ in range(2):
    weights.sum().backward()
    optimizer.step()
import plimsoll_hook

print("alone", plimsoll_hook._made(), plimsoll_hook._is_simulated)
"""
STEPS = 4
passed = failed = 0


def check(is_met, text):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)


class Bench:
    def __init__(self, plimsoll, python, folder):
        self.plimsoll, self.folder, self.program = plimsoll, folder, os.path.join(folder, "train.py")
        self.python = [python, self.program]
        with open(self.program, "w") as f:
            f.write(PROGRAM)

    def simulate(self, batch):
        command = [self.plimsoll, "simulate", "--gpu", "4090", "--steps", str(STEPS), "--json", "--"] + self.python + [str(batch)]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout

    def shown(self, program):
        command = [self.plimsoll, "simulate", "--gpu", "4090", "--verbose", "--", self.python[0], "-c", program]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr

    def profile(self, batch, options, is_unsandboxed=False):
        """Returns the result, and what it wrote to standard error."""
        out, err = os.path.join(self.folder, "out"), os.path.join(self.folder, "err")
        inner = [self.plimsoll, "profile", "--steps", str(STEPS), "--json"] + options + ["--"] + self.python + [str(batch)]
        line = "%s >%s 2>%s" % (shlex.join(inner), shlex.quote(out), shlex.quote(err))
        where = ["--unsandboxed"] if is_unsandboxed else ["--writable", self.folder]
        subprocess.run([self.plimsoll, "simulate", "--gpu", "4090", "--steps", "0"] + where + ["--", "sh", "-c", line], stdout=subprocess.DEVNULL)
        with open(out) as f, open(err) as g:
            text, told = f.read(), g.read()
        if not text:
            print(told[-2000:])
        return (json.loads(text) if text else None), told


def peaks(result):
    run, process = result["run"], result["run"]["processes"][0]
    return process["peak_allocated_bytes"], process["peak_reserved_bytes"], run["needs_bytes"], process["steps"]


def main():
    with tempfile.TemporaryDirectory(prefix="plimsoll-profile-") as folder:
        bench = Bench(os.path.abspath(sys.argv[1]), os.path.join(sys.argv[2], "bin", "python"), folder)
        text, path = bench.simulate(8), os.path.join(folder, "simulated.json")
        simulated = json.loads(text)
        with open(path, "w") as f:
            f.write(text)
        measured, told = bench.profile(8, ["--against", path])
        check(measured and peaks(measured) == peaks(simulated), "peaks are equal: %s" % (measured and [peaks(simulated), peaks(measured)]))
        check(measured["run"]["replay"]["holders"] == simulated["run"]["replay"]["holders"], "the same lines hold the peak")
        check(measured["run"]["processes"][0]["observed"] == simulated["run"]["processes"][0]["observed"], "the same was observed")
        compared = measured["comparison"]
        check(compared and compared["made"] == "simulated" and not compared["lines"] and not compared["versions"], "nothing differs")
        check(measured["was_ended"] and len(measured["step_seconds"]) == STEPS - 1 and measured["seconds_per_step"] > 0, "steps are timed: %s" % measured["step_seconds"])
        check("ended after %d" % STEPS in told and "step %d" % (STEPS - 1) in told, "the program's output is shown, and that it will be ended")
        check(measured["gpu"] == "NVIDIA RTX 4090" and measured["other_processes_bytes"] == 0, "the GPU is named")

        check("alone 2 False" in bench.shown(ALONE), "the modules need no stand-ins")
        check("measured [0.001, 0.001]" in bench.shown(EVENTS), "times of events are read")
        other, _ = bench.profile(16, ["--against", path])
        check([(o["name"], o["predicted"], o["measured"]) for o in other["comparison"]["observed"]] == [("batch", "8 x 128", "16 x 128")], "another batch is named")
        check(any(r["where"].startswith("train:") and r["measured_bytes"] > r["predicted_bytes"] for r in other["comparison"]["lines"]), "lines of the program that need more: %s" % [r["where"] for r in other["comparison"]["lines"]])

        both, _ = bench.profile(8, ["--compare"], is_unsandboxed=True)
        sides = [both["comparison"]["peak_%s" % which] for which in ("allocated", "reserved")] if both and both["comparison"] else []
        check(sides and all(s["predicted_bytes"] == s["measured_bytes"] for s in sides), "--compare simulates the same command: %s" % sides)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
