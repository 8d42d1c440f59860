#!/usr/bin/env python3
"""plan.py PLIMSOLL ENVIRONMENT: `plimsoll plan -- python SCRIPT` for programs whose models plimsoll does not know.

The peaks that PyTorch recorded on a real card (tests/truth/foreign.json) tell which micro batches fit: what it reserved is
enough, and what it allocated is needed. Lines through the two largest recorded batches tell what to expect of larger cards,
to a tenth: memory need not grow along a straight line.
The last line is "N passed, N failed"."""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPTS = os.path.join(TESTS, "fixtures", "simulate")
CARDS = (24, 40, 80)  # GiB
GIB = 1 << 30
SECONDS = 180  # for a plan
FAR = 0.1
passed = failed = 0


def check(is_met, text):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)


def recorded(model):
    """Batch -> allocated and reserved bytes."""
    with open(os.path.join(TESTS, "truth", "foreign.json")) as f:
        rows = [r for r in json.load(f) if r["model"] == model]
    wanted = {"gsa": lambda r: r["seq"] == 1024, "contrastive": lambda r: r["negatives"] == 24}[model]
    return {r["batch"]: (r["peak_alloc"], r["peak_reserved"]) for r in rows if wanted(r)}


def reaches(truth, which, budget):
    """Where the line through the two largest recorded batches reaches the budget; None: it does not rise."""
    a, b = sorted(truth)[-2:]
    slope = (truth[b][which] - truth[a][which]) / (b - a)
    return b + (budget - truth[b][which]) / slope if slope > 0 else None


def plan(plimsoll, words, card):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([plimsoll, "plan", "--gpu", "%dGiB" % card, "--json", "--"] + words, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode not in (0, 1):
        print(done.stderr[-2000:])
    return (json.loads(done.stdout) if done.stdout else None), seconds


def one(plimsoll, python, model, script, card):
    name, truth = "%s on %d GiB" % (model, card), recorded(model)
    found, seconds = plan(plimsoll, [python, script], card)
    if not found or not found["planned"]:
        check(False, name + ": there is no plan")
        return
    planned = found["planned"]
    context = planned["needs_bytes"] - planned["peak_reserved_bytes"]
    fit = [b for b in truth if truth[b][1] + context <= card * GIB]
    enough, most = (reaches(truth, which, card * GIB - context) for which in (1, 0))
    tried = ", ".join("%d %s" % (r["micro_batch"], r["verdict"]) for r in found["runs"])
    is_met = planned["micro_batch"] >= max(fit) and planned["micro_batch"] >= (1 - FAR) * enough and (not most or planned["micro_batch"] <= (1 + FAR) * most)
    line = "along the lines %d to %s" % (enough, int(most) if most else "any")
    check(is_met, "%s: planned %d; recorded peaks fit up to %d, %s (tried: %s)" % (name, planned["micro_batch"], max(fit), line, tried))
    check(found["is_exact"] and planned["is_on_card"], "%s: the next larger micro batch does not fit, and the plan was proved" % name)
    check(seconds <= SECONDS, "%s: %d runs, %.0f s of processor time" % (name, len(found["runs"]), seconds))


def accumulated(plimsoll, python, folder):
    """transformers' Trainer: the effective batch stays, and so do the files."""
    path = os.path.join(folder, "trainer.py")
    shutil.copy(os.path.join(SCRIPTS, "trainer.py"), path)
    before, when = open(path).read(), os.stat(path).st_mtime_ns
    found, _ = plan(plimsoll, [python, path], 24)
    planned = found and found["planned"]
    check(planned and planned["micro_batch"] * planned["accumulate"] == found["now"]["effective_batch"] == 64, "the effective batch stays: %s" % planned)
    check(planned and "gradient_accumulation_steps=%d" % planned["accumulate"] in found["changes"]["diff"], "the diff has both settings")
    check(open(path).read() == before and os.stat(path).st_mtime_ns == when, "the script is as it was")


def main():
    plimsoll, python = os.path.abspath(sys.argv[1]), os.path.join(sys.argv[2], "bin", "python")
    with tempfile.TemporaryDirectory(prefix="plimsoll-plan-") as folder:
        for model in ("gsa", "contrastive"):
            script = os.path.join(folder, model + ".py")
            shutil.copy(os.path.join(SCRIPTS, model + ".py"), script)
            for card in CARDS:
                one(plimsoll, python, model, script, card)
        accumulated(plimsoll, python, folder)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
