#!/usr/bin/env python3
"""times.py PLIMSOLL ENVIRONMENT [--write]: compares the seconds per step that `plimsoll simulate` tells with recorded ones.

The rows are programs that ran on an H200 (tests/truth/timing.json, timing_more.json). simulate prints how far its figure was
off there at most; that number is in src/app/simulate/step_time_error.h, which --write writes from the rows below. Without
--write, three short rows are run, which must be within that range. The last line is "N passed, N failed"."""
import json
import math
import os
import subprocess
import sys
import tempfile

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADER = os.path.join(os.path.dirname(TESTS), "src", "app", "simulate", "step_time_error.h")
SHORT = "x2-gpt2-amp-s512-b64 x4-bert-amp-s128-b32 x1-llama1b-s2048-b1".split()
MORE = """x2-gpt2-amp-s512-b4 x2-gpt2-amp-s512-b64-ckpt x4-bert-amp-s128-b128 x5-t5base-b4 x5-t5base-b16 x1-llama1b-s2048-b8
x1-llama1b-s2048-b4-ckpt p1-qwen0.5b-s1024-b4 p1-qwen0.5b-s1024-b16-ckpt x3-mistral7b-lora16-trainer-s1024-b4""".split()


def recorded():
    rows = {}
    for name in "timing.json", "timing_more.json":
        with open(os.path.join(TESTS, "truth", name)) as f:
            rows.update({r["id"]: r for r in json.load(f)})
    return rows


def told(plimsoll, python, row, folder):
    """Seconds per step on the simulated card; None: the program did not run."""
    cases = os.path.join(folder, "cases.json")
    with open(cases, "w") as f:
        json.dump([dict(row["case"], id=row["id"], steps=3)], f)
    words = [python, os.path.join(TESTS, "truth", "simulate", "measure.py"), cases, os.path.join(folder, "out.jsonl")]
    command = [plimsoll, "simulate", "--gpu", "H200", "--steps", "0", "--json", "--", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        print(done.stderr[-2000:])
        return None
    steps = [p["step"] for p in json.loads(done.stdout)["run"]["processes"] if p["step"]]
    return steps[0]["seconds"] if steps else None


def write(worst, count):
    with open(HEADER, "w") as f:
        f.write("// Written by tests/torch/times.py --write: how far the seconds per step were off at most, as a factor, and on how many\n")
        f.write("// recorded runs of one card (H200).\n#ifndef PLIM_STEP_TIME_ERROR_H\n#define PLIM_STEP_TIME_ERROR_H\n\n")
        f.write("#define STEP_TIME_WORST %.1f\n#define STEP_TIME_RUNS %d\n\n#endif\n" % (math.ceil(10 * worst) / 10, count))


def bar():
    with open(HEADER) as f:
        return float(next(line for line in f if "STEP_TIME_WORST " in line).split()[2])


def main():
    plimsoll, python = os.path.abspath(sys.argv[1]), os.path.join(sys.argv[2], "bin", "python")
    is_writing, rows, factors, failed = "--write" in sys.argv, recorded(), [], 0
    for name in SHORT + (MORE if is_writing else []):
        with tempfile.TemporaryDirectory(prefix="plimsoll-times-") as folder:
            seconds, truth = told(plimsoll, python, rows[name], folder), rows[name]["step_seconds"]
        factors.append(max(seconds / truth, truth / seconds) if seconds else math.inf)
        is_met = seconds and (is_writing or factors[-1] <= bar())
        failed += not is_met
        print("%s %s: %s s per step, recorded %.3f s" % ("ok  " if is_met else "FAIL", name, seconds and "%.3f" % seconds, truth), flush=True)
    if is_writing and not failed:
        write(max(factors), len(factors))
    print("%d passed, %d failed" % (len(factors) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
