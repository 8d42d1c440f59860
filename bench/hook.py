"""Measures the hook library on the GPU of this machine: what recording costs a training step, what PyTorch sees of a cap, and
the time of a step with memory spilled to the host, with and without the rule that the optimizer's state goes there first.
Takes about five minutes on an H200. Prints a table for docs/measurements.md; the exit status is 1 if a target is missed.

usage: hook.py BUILD PYTHON [--quick]
BUILD:   build/release, with the targets plimsoll and dump_hook
PYTHON:  with torch; on a machine without a GPU that of tests/torch/environment.sh, with --quick
--quick: a small model on a simulated card. Times mean nothing there; everything else is checked.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OVERHEAD = 0.01  # of a step's time, with recording on
ROUNDS, STEPS, WARM_UP, SPILLED_STEPS = 2, 40, 5, 5
MIB = 1 << 20
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


class Bench:
    def __init__(self, build, python, folder, is_quick):
        self.build, self.python, self.folder, self.is_quick = os.path.abspath(build), python, folder, is_quick

    def run(self, options=None, steps=STEPS, **env):
        """What the training said, and the record; without options, without the library."""
        record, log = os.path.join(self.folder, "record.json"), os.path.join(self.folder, "log")
        command = [self.python, os.path.join(HERE, "hook_train.py"), "quick" if self.is_quick else "full", str(steps)]
        if options is not None:
            launcher, library = os.path.join(self.build, "tests/hook/dump_hook"), os.path.join(self.build, "card/libplimsoll_hook.so")
            command = [launcher, library, record, *map(str, options), "--", *command]
        line = "%s >%s 2>&1" % (shlex.join(command), shlex.quote(log))
        words = ["sh", "-c", line]
        if self.is_quick:
            words = [os.path.join(self.build, "plimsoll"), "simulate", "--gpu", "H200", "--steps", "0", "--writable", self.folder, "--", *words]
        else:
            env["PYTHONPATH"] = ":".join(filter(None, [os.path.join(self.build, "card/python"), os.environ.get("PYTHONPATH")]))
        subprocess.run(words, env=dict(os.environ, **env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(log) as f:
            text = f.read()
        if not text.strip().endswith("}"):
            sys.exit("failed: %s\n%s" % (shlex.join(command), text[-3000:]))
        said = json.loads(text.strip().splitlines()[-1])
        if options is not None:
            with open(record) as f:
                said["record"] = json.load(f)["processes"][0]
        return said

    def overhead(self):
        """Runs alternate, so that a card that gets warm slows both down."""
        runs = {on: [] for on in (False, True)}
        for _ in range(ROUNDS):
            for on in runs:
                runs[on].append(self.run([] if on else None))
        off, on = (min(statistics.median(r["seconds"][WARM_UP:]) for r in runs[on]) for on in runs)
        share = on / off - 1
        yield "a step with recording on", f"{1e3 * on:.2f} ms instead of {1e3 * off:.2f} ms ({100 * share:+.2f} %)", f"within {100 * OVERHEAD:.0f} %", share <= OVERHEAD
        off, on = (min(r["malloc_seconds"] for r in runs[on]) for on in runs)
        yield "a cudaMalloc and its cudaFree", f"{1e6 * on:.1f} us instead of {1e6 * off:.1f} us", "", True
        plain, last = runs[False][-1], runs[True][-1]
        peak, reserved = last["record"]["peak_bytes"], last["peak_reserved_bytes"]
        yield "recorded peak", f"{peak / MIB:,.0f} MiB, of which {reserved / MIB:,.0f} MiB are PyTorch's", "not less than PyTorch's", peak >= reserved
        self.plain, self.peak_bytes = plain, reserved

    def cap(self):
        cap = self.peak_bytes // 2
        run = self.run(["--cap", cap], steps=3)
        left, total, property_total = run["sees"]
        text = f"{cap / MIB:,.0f} MiB: PyTorch sees {total / MIB:,.0f} MiB, {left / MIB:,.0f} MiB free; device properties: {property_total / MIB:,.0f} MiB"
        yield "a cap", text, "the cap in all three", total == property_total == cap and left <= cap
        said = "GPU 0 has a total capacity of %s" % amount(cap)
        error = run["error"] or "no error"
        yield "out of memory at the cap", error[: error.find(" is free")][-110:], said, said in error and run["record"]["peak_bytes"] <= cap

    def spill(self):
        """The card lacks half of the optimizer's state, which is twice the weights."""
        before = statistics.median(self.plain["seconds"][WARM_UP:])
        for kind, env in ("segments", {}), ("expandable segments", EXPANDABLE):
            times = {}
            plain = self.run(steps=SPILLED_STEPS, **env)
            cap = plain["peak_reserved_bytes"] - self.weights_bytes()
            for rule, options in ("the optimizer's state first", []), ("whatever fails", ["--no-cold"]):
                run = self.run(["--cap", cap, "--spill", 64 << 30, *options], steps=SPILLED_STEPS, **env)
                seconds = times[rule] = min(run["seconds"][2:], default=float("nan"))
                spilled, peak = (run["record"][k] / MIB for k in ("spilled_bytes", "peak_spilled_bytes"))
                text = f"{1e3 * seconds:.0f} ms instead of {1e3 * before:.0f} ms; {spilled:,.0f} MiB spilled (at most {peak:,.0f}), {run['retries']} retries"
                is_right = self.is_quick or (not run["error"] and abs(run["loss"] / plain["loss"] - 1) < 1e-2)
                yield f"a step with {kind}, spilling {rule}", text + ("" if is_right else f"; {run['error'] or 'another loss'}"), "the same loss", is_right and spilled > 0
            first, other = times.values()
            yield f"{kind}: the rule makes a step", f"{other / first:.1f} times as fast", "faster", self.is_quick or first < other

    def weights_bytes(self):
        return (100 if self.is_quick else 3072) * MIB


def amount(size):
    """As PyTorch writes it."""
    return f"{size / MIB:.2f} MiB" if size <= 1 << 30 else f"{size / (1 << 30):.2f} GiB"


def card():
    """Its name and driver, as nvidia-smi says."""
    query = "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
    text = subprocess.run(query, shell=True, capture_output=True, text=True).stdout.strip()
    return text + ", " if text else ""


def main(build, python, *options):
    is_quick, is_met = "--quick" in options, True
    begin = time.monotonic()
    print("| what | measured | target |\n|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as folder:
        bench = Bench(build, python, folder, is_quick)
        for part in bench.overhead, bench.cap, bench.spill:
            for what, measured, target, is_well in part():
                is_well = is_well or (is_quick and "step" in what)
                print(f"| {what} | {measured} | {target} |{'' if is_well else ' MISSED'}", flush=True)
                is_met = is_met and is_well
    print(f"{card()}{time.strftime('%Y-%m-%d')}, {time.monotonic() - begin:.0f} s in all")
    if not is_met:
        sys.exit("a target is missed")


main(*sys.argv[1:])
