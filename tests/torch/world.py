#!/usr/bin/env python3
"""world.py PLIMSOLL ENVIRONMENT: `plimsoll simulate --world N` lets one process stand for N ranks, and `--with` changes a
setting for one run.

With two ranks, the peaks must be those of two real processes; with 64, parameters must be a 64th of the model where they
are sharded. The last line is "N passed, N failed"."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPTS = os.path.join(TESTS, "fixtures", "simulate")
MODES = {"ddp": 1, "fsdp": 64, "fsdp2": 64}  # how many parts of the parameters there are on 64 ranks
passed = failed = 0


def check(is_met, text):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)


def simulate(plimsoll, options, words):
    done = subprocess.run([plimsoll, "simulate", "--gpu", "H200", "--json", *options, "--", *words], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        print(done.stderr[-3000:])
        return None
    return json.loads(done.stdout)


def said(found):
    """What rank 0 printed: bytes that it holds, bytes of the model, ranks, names."""
    with open(found["run"]["log"]) as f:
        line = re.search(r"rank 0 holds (\d+) bytes of (\d+); (\d+) ranks, (\d+) names", f.read())
    return [int(x) for x in line.groups()] if line else None


def peaks(found):
    p = next(p for p in found["run"]["processes"] if p["rank"] == 0 and p["peak_reserved_bytes"])
    return p["peak_allocated_bytes"], p["peak_reserved_bytes"]


def world(plimsoll, python, mode):
    script = [os.path.join(SCRIPTS, "sharded.py"), mode]
    torchrun = [python, "-m", "torch.distributed.run", "--nproc-per-node"]
    alone = simulate(plimsoll, ["--world", "2", "--steps", "0"], [python, *script])
    real = simulate(plimsoll, ["--gpus", "2", "--steps", "0"], [*torchrun, "2", *script])
    check(alone and real and peaks(alone) == peaks(real), "%s: rank 0 of 2 needs what it needs beside a real rank: %s" % (mode, alone and peaks(alone)))
    many = simulate(plimsoll, ["--world", "64", "--steps", "0"], [python, *script])
    got = many and said(many)
    check(got and got[0] * MODES[mode] == got[1] and got[2:] == [64, 64], "%s: rank 0 of 64: %s" % (mode, got))
    if mode == "ddp":
        words = [plimsoll, "simulate", "--gpu", "H200", "--world", "2", "--", *torchrun, "2", *script]
        told = subprocess.run(words, capture_output=True, text=True).stderr
        check("torchrun --nproc-per-node 1" in told, "a launcher that starts more processes than there are cards: %s" % told[-300:])
    if mode == "fsdp2":
        launched = simulate(plimsoll, ["--world", "64", "--steps", "0"], [*torchrun, "1", *script])
        check(launched and many and peaks(launched) == peaks(many), "fsdp2: torchrun with one worker stands for 64 ranks as well")


def zero_peaks(found):
    """What rank 0 printed: bytes of ZeRO 3, 2 and 1."""
    with open(found["run"]["log"]) as f:
        return re.findall(r"rank 0 of 2: ZeRO \d needs (\d+)", f.read())


def zero(plimsoll):
    """DeepSpeed by its own launcher, which starts a process for each card that it finds."""
    words = [os.path.join(sys.argv[2], "bin", "deepspeed"), os.path.join(SCRIPTS, "zero_stages.py")]
    alone = simulate(plimsoll, ["--world", "2", "--steps", "0"], words)
    real = simulate(plimsoll, ["--gpus", "2", "--steps", "0"], words)
    got = [zero_peaks(x) if x else [] for x in (alone, real)]
    check(got[0] == got[1] and len(got[0]) == 3 and peaks(alone) == peaks(real), "deepspeed: rank 0 of 2 needs what it needs beside a real rank: %s" % got)
    ranks = [p["rank"] for p in real["run"]["processes"] if p["peak_reserved_bytes"]] if real else []
    check(ranks == [0, 1], "deepspeed: with two cards there are two ranks")
    seen = next(p["observed"] for p in alone["run"]["processes"] if p["peak_reserved_bytes"]) if alone else {}
    is_whole = seen.get("strategy") == "deepspeed zero3" and seen["parameters"] == 4 * (512 * 512 + 512)
    check(is_whole, "deepspeed: the parameters of ZeRO 3 are those of all ranks: %s" % seen)


def changed(plimsoll, python):
    """--with: the program's own batch and checkpointing change, the file does not."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-with-") as folder:
        path = os.path.join(folder, "trainer.py")
        shutil.copy(os.path.join(SCRIPTS, "trainer.py"), path)
        before = open(path).read()
        found = simulate(plimsoll, ["--with", "micro_batch=2", "--with", "checkpoint=on", "--with", "alloc_conf=expandable_segments:True"], [python, path])
        seen = found and found["run"]["processes"][0]["observed"]
        check(seen and seen["batch"][0] == 2 and seen["checkpointing"], "--with changes what the program does: %s" % seen)
        check(found and len(found["changed"]) == 3, "the report names the changes: %s" % (found and found["changed"]))
        check(open(path).read() == before, "the script is as it was")


def main():
    plimsoll, python = os.path.abspath(sys.argv[1]), os.path.join(sys.argv[2], "bin", "python")
    for mode in MODES:
        world(plimsoll, python, mode)
    zero(plimsoll)
    changed(plimsoll, python)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
