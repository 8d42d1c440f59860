#!/usr/bin/env python3
"""launchers.py PLIMSOLL ENVIRONMENT: programs of several processes on simulated cards, started as users start them, and what
the user is told when a rank fails.

The last line is "N passed, N failed"."""
import glob
import json
import os
import subprocess
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPT = os.path.join(TESTS, "fixtures", "simulate", "ranks.py")
MARK = "--mark-%d" % os.getpid()  # among the arguments of all processes that are started here
passed = failed = 0


def check(is_met, text):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)


def left():
    """Processes of the programs that still run."""
    count = 0
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                count += MARK.encode() in f.read()
        except OSError:
            pass
    return count


def simulate(gpus, launcher, script, *options):
    """The text is for people, with all blanks alike."""
    plimsoll, environment = os.path.abspath(sys.argv[1]), sys.argv[2]
    env = dict(os.environ, PATH=os.path.join(environment, "bin") + ":" + os.environ["PATH"], OMP_NUM_THREADS="1")
    command = [plimsoll, "simulate", "--gpu", "H200", "--gpus", str(gpus), *options, "--", *launcher, *script, MARK]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    check(left() == 0, "%s: no process is left" % " ".join(launcher))
    return done, " ".join(done.stdout.split()), " ".join(done.stderr.split())


def launched(gpus, *launcher):
    done, _, said = simulate(gpus, launcher, [SCRIPT], "--json")
    found = json.loads(done.stdout) if done.returncode == 0 else {"run": {"processes": []}}
    steps = {p["rank"]: p["steps"] for p in found["run"]["processes"] if p["peak_allocated_bytes"]}
    is_met = done.returncode == 0 and steps == {rank: 3 for rank in range(gpus)}
    check(is_met, "%s: %d ranks made 3 steps each" % (" ".join(launcher), gpus))
    if not is_met:
        print(done.returncode, steps, said[-1000:])


def main():
    launched(8, "torchrun", "--nproc-per-node", "8")
    launched(2, "accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no")
    launched(2, "deepspeed", "--num_gpus", "2")
    torchrun = ["torchrun", "--nproc-per-node"]
    for ranks in ("2", "4"):
        done, _, said = simulate(int(ranks), [*torchrun, ranks], [os.path.join(TESTS, "card", "collectives_check.py")], "--steps", "0", "--verbose")
        check(done.returncode == 0, "%s ranks exchange true integers%s" % (ranks, "" if done.returncode == 0 else ": " + said[-2000:]))

    done, _, said = simulate(2, [*torchrun, "2"], [SCRIPT, "raises"])
    wanted = "error: rank 1 of 2 failed, but not because of memory: ValueError: the data of rank 1 is broken (%s:" % SCRIPT
    check(done.returncode == 2 and wanted in said, "a rank that raises: %s" % said[-400:])
    done, told, _ = simulate(2, [*torchrun, "2"], [SCRIPT, "leaves"])
    check(done.returncode == 0 and "rank 1 ended after 1 of 3 steps" in told, "a rank that leaves early is named: %s" % told[-400:])
    check("note: DistributedDataParallel's first bucket" in told, "the rule for DDP's first bucket is named")
    check("call of ncclAllReduce another rank did not answer" in told or "calls of ncclAllReduce another rank did not answer" in told, "and the collective that waits for it")
    done, _, said = simulate(2, [*torchrun, "4"], [SCRIPT])
    check(done.returncode == 2 and "the program starts 4 processes, one for each GPU: --gpus 4" in said, "4 processes on 2 cards: %s" % said[-400:])
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
