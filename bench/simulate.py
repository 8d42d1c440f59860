"""Times `plimsoll simulate` on three steps of a 7B LoRA training, start of Python included, against its targets: seconds and
host memory; the share of the program's CPU time that is spent in the simulated GPU; and what keeping integers true costs.

usage: simulate.py PLIMSOLL ENVIRONMENT [--record PAGE]
ENVIRONMENT: what tests/torch/environment.sh makes
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from compare import machine, record

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKPOINT = os.path.join(HERE, "..", "tests", "torch", "sparse_checkpoint.py")
MODEL = "Qwen/Qwen2.5-7B-Instruct=qwen2.5-7b:bfloat16"
SECONDS, HOST_BYTES, SHARE, FACTOR = 60, 4 << 30, 0.05, 2.0
ROUNDS = 2


class Bench:
    def __init__(self, plimsoll, environment, folder):
        self.folder, self.python = folder, os.path.join(environment, "bin", "python")
        self.simulate = [plimsoll, "simulate", "--gpu", "H200", "--json"]
        self.env = dict(os.environ, HF_HUB_CACHE=os.path.join(folder, "hub"))
        os.mkdir(self.env["HF_HUB_CACHE"])
        # simulate itself says that this does not use the GPU, and exits with 1.
        hub = self.env["HF_HUB_CACHE"]
        subprocess.run([*self.simulate, "--writable", hub, "--", self.python, CHECKPOINT, hub, MODEL], env=self.env, capture_output=True)
        assert os.listdir(hub), "no checkpoint"

    def run(self, words, before=(), **env):
        """What simulate found, seconds, and seconds of CPU time."""
        start, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [*before, *self.simulate, *words]
        done = subprocess.run(command, env=dict(self.env, **env), capture_output=True, text=True)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(f"failed: {' '.join(command)}\n{done.stderr[-2000:]}")
        found = json.loads(done.stdout)
        return found, time.monotonic() - start, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime

    def train(self, before=(), **env):
        return self.run(["--", self.python, os.path.join(HERE, "lora7b.py"), os.path.join(self.folder, "out")], before, **env)

    def cost(self):
        found, seconds, _ = min((self.train() for _ in range(ROUNDS)), key=lambda run: run[1])
        host = sum(p["host_bytes"] for p in found["run"]["processes"])
        assert found["run"]["steps"] == 3
        target = f"under {SECONDS} s, under {HOST_BYTES >> 30} GiB"
        yield "three steps of a 7B LoRA training", f"{seconds:.1f} s, {host / 2**30:.2f} GiB of host memory", target, seconds < SECONDS and host < HOST_BYTES

    def share(self):
        """perf counts samples of the CPU; those in the library of the simulated GPU, and in the kernel when it calls it."""
        what, target = "CPU time spent in the simulated GPU", f"under {100 * SHARE:.0f} % of the program's"
        if not shutil.which("perf"):
            yield what, "not measured: perf is not installed", target, True
            return
        data = os.path.join(self.folder, "perf.data")
        self.train(["perf", "record", "--quiet", "--call-graph", "fp", "-F", "499", "-o", data, "--"])
        script = ["perf", "script", "-i", data, "--comms", "python", "-F", "ip,dso"]
        samples = subprocess.run(script, capture_output=True, text=True).stdout.strip().split("\n\n")
        inside = sum(is_in_card(s) for s in samples)
        yield what, f"{100 * inside / len(samples):.1f} % of {len(samples)} samples", target, inside < SHARE * len(samples)

    def values(self):
        with_values, without = (min(self.train(PLIMSOLL_VALUES=on)[2] for _ in range(ROUNDS)) for on in ("1", "0"))
        measured = f"{with_values:.1f} s of CPU time instead of {without:.1f} s ({with_values / without:.2f} times)"
        yield "keeping integers and booleans true", measured, f"at most {FACTOR:.0f} times", with_values <= FACTOR * without


def is_in_card(sample):
    """The first frame outside the kernel and the C library decides."""
    for library in re.findall(r"\((.*)\)$", sample, re.M):
        if "kernel" not in library and "libc.so" not in library and library != "[unknown]":
            return "libplimsoll-card" in library
    return False


def main(plimsoll, environment, *options):
    lines, is_met = ["| what | measured | target |", "|---|---|---|"], True
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as folder:
        bench = Bench(os.path.abspath(plimsoll), environment, folder)
        for part in (bench.cost, bench.share, bench.values):
            for what, measured, target, is_well in part():
                lines.append(f"| {what} | {measured} | {target} |")
                print(lines[-1], flush=True)
                is_met = is_met and is_well
    text = f"{machine()}, {time.strftime('%Y-%m-%d')}, `make bench`:\n\n" + "\n".join(lines)
    if options[:1] == ("--record",):
        record(options[1], "simulated GPU", text)
    if not is_met:
        sys.exit("a target is missed")


main(*sys.argv[1:])
