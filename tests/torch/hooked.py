#!/usr/bin/env python3
"""hooked.py PLIMSOLL ENVIRONMENT: the hook library in front of the simulated card, under real PyTorch. What it records must be
what the card has and what PyTorch says, a cap must be what PyTorch sees, and memory that is spilled must be the optimizer's
state. The last line is "N passed, N failed"."""
import json
import os
import shlex
import subprocess
import sys
import tempfile

MIB = 1 << 20
# Weights, gradients and each of the two states take 320 MiB, activations 640 MiB. Without a limit it reserves 2,166 MiB.
PROGRAM = """
import torch

print("sees", *torch.cuda.mem_get_info(), torch.cuda.get_device_properties(0).total_memory)
model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(20)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    loss = model(torch.randn(4096, 2048, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved(), flush=True)
print("retries", torch.cuda.memory_stats()["num_alloc_retries"])
print("copied", torch.arange(5, device="cuda").tolist(), optimizer.state[model[-1].weight]["exp_avg"].device)
"""
# Likewise, resumed from a checkpoint.
RESUMED = PROGRAM.replace(
    "for step in range(3):",
    """
values = {i: {"step": torch.tensor(5.0), "exp_avg": torch.zeros(p.shape), "exp_avg_sq": torch.zeros(p.shape)} for i, p in enumerate(model.parameters())}
optimizer.load_state_dict({"state": values, "param_groups": optimizer.state_dict()["param_groups"]})
del values
for step in range(3):""",
    1,
)
# The passes within the optimizer's step, as Lightning has them.
CLOSURE = PROGRAM.replace("    loss = model", "    def passes():\n        loss = model").replace("    loss.backward()\n    optimizer.step()", "        loss.backward()\n        return loss\n\n    optimizer.step(passes)")
ONE = "import torch\nprint('step', torch.ones(9, device='cuda').device)"
CAP, SPILL = 1500 * MIB, 4096 * MIB
passed = failed = 0


def check(is_met, text):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)


class Run:
    """A program in `simulate`, with the hook library unless `options` is None."""

    def __init__(self, bench, program, options, expandable=False):
        record, log, path = (os.path.join(bench.folder, name) for name in ("record.json", "log", "program.py"))
        with open(path, "w") as f:
            f.write(program)
        command = [bench.python, path]
        if options is not None:
            command = [bench.launcher, bench.library, record, *map(str, options), "--", *command]
        line = "%s >%s 2>&1" % (shlex.join(command), shlex.quote(log))
        env = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:%s" % expandable)
        words = [bench.plimsoll, "simulate", "--gpu", "4090", "--steps", "0", "--json", "--writable", bench.folder, "--", "sh", "-c", line]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
        self.needs = json.loads(done.stdout)["run"]["needs_bytes"]
        with open(log) as f:
            self.log = f.read()
        self.processes = self.events = None
        if options is not None:
            with open(record) as f:
                found = json.load(f)
            self.processes, self.events = found["processes"], found["events"]

    def said(self, what):
        """The numbers behind a word at the start of a line, of the last such line."""
        lines = [line.split()[1:] for line in self.log.splitlines() if line.startswith(what + " ")]
        return [int(word) for word in lines[-1] if word.isdigit()] if lines else []


class Bench:
    def __init__(self, plimsoll, environment, folder):
        build = os.path.dirname(os.path.abspath(plimsoll))
        self.plimsoll, self.folder, self.python = os.path.abspath(plimsoll), folder, os.path.join(environment, "bin", "python")
        self.library = os.path.join(build, "card", "libplimsoll_hook.so")
        self.launcher = os.path.join(build, "tests", "hook", "dump_hook")


def check_records(bench, context, expandable):
    kind = "expandable segments" if expandable else "segments"
    run = Run(bench, PROGRAM, [], expandable)
    mine = run.processes[0] if len(run.processes) == 1 else {}
    check(mine.get("peak_bytes") == run.needs - context, "%s: the record has the card's bytes: %s, %d" % (kind, mine.get("peak_bytes"), run.needs - context))
    check(mine.get("peak_bytes") == run.said("step")[-1], "%s: and PyTorch's: %s" % (kind, run.said("step")))
    check(mine.get("current_bytes") == run.said("step")[-2] and not mine.get("refusals"), "%s: all of it is there at the end" % kind)
    return run


def check_cap(bench, expandable):
    kind = "expandable segments" if expandable else "segments"
    run = Run(bench, PROGRAM, ["--cap", CAP], expandable)
    check(run.said("sees") == [CAP, CAP, CAP], "%s: PyTorch sees a card of the cap's size: %s" % (kind, run.said("sees")))
    check("OutOfMemoryError" in run.log and "total capacity of 1.46 GiB" in run.log, "%s: and says so when it is full%s" % (kind, "" if "1.46 GiB" in run.log else ": " + run.log[-500:]))
    check(run.processes[0]["peak_bytes"] <= CAP and run.processes[0]["refusals"] == 2, "%s: asked twice, refused twice" % kind)


def check_cold(bench, kind, program, expandable):
    """What is cold goes to the host and stays there; PyTorch never has to release its cache."""
    cold = Run(bench, program, ["--cap", CAP, "--spill", SPILL], expandable)
    check(len(cold.said("step")) == 3 and cold.said("retries") == [0], "%s: the run goes on, without retries: %s" % (kind, cold.said("retries")))
    spilled, phases = cold.processes[0]["spilled_bytes"], [i for i, e in enumerate(cold.events) if e["kind"] == "phase"]
    check(0 < spilled <= 680 * MIB, "%s: %d MiB of the state are spilled, with 20 MiB to round up to" % (kind, spilled // MIB))
    others = cold.events[: phases[0]] + cold.events[phases[-1] :] if phases else []
    check(len(phases) == 2 and not any(e["kind"] == "spill" for e in others), "%s: and nothing but the state" % kind)
    check("copied [0, 1, 2, 3, 4] cuda:0" in cold.log, "%s: its tensors are on the card%s" % (kind, "" if "cuda:0" in cold.log else ": " + cold.log[-800:]))


def check_spill(bench, expandable):
    kind = "expandable segments" if expandable else "segments"
    check_cold(bench, kind, PROGRAM, expandable)
    check_cold(bench, "%s, resumed" % kind, RESUMED, expandable)
    check_cold(bench, "%s, passes in a closure" % kind, CLOSURE, expandable)
    hot = Run(bench, PROGRAM, ["--cap", CAP, "--spill", SPILL, "--no-cold"], expandable)
    check(len(hot.said("step")) == 3 and hot.said("retries") > [0], "%s: without the rule, after PyTorch released its cache" % kind)
    kinds = [e["kind"] for e in hot.events]
    check("phase" not in kinds and kinds.index("refused") < kinds.index("spill"), "%s: which a refusal told it to do" % kind)


def main():
    with tempfile.TemporaryDirectory(prefix="plimsoll-hook-") as folder:
        bench = Bench(sys.argv[1], sys.argv[2], folder)
        context = Run(bench, ONE, None).needs - 2 * MIB
        plain = Run(bench, PROGRAM, None)
        run = check_records(bench, context, False)
        check(run.log == plain.log and run.needs == plain.needs, "the program runs as without the library")
        check_records(bench, context, True)
        for expandable in (False, True):
            check_cap(bench, expandable)
            check_spill(bench, expandable)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
