#!/usr/bin/env python3
"""rows.py PLIMSOLL ENVIRONMENT [SET...]: runs recorded programs on a simulated H200 and compares PyTorch's own counters with
those of the real card. Each set has a bar: how many rows must be equal to the byte, and how far off the worst may be.

The last line is "N passed, N failed". With --record PAGE the table is written into that page as well."""
import argparse
import glob
import json
import lzma
import os
import pickle
import subprocess
import sys
import tempfile
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRUTH = os.path.join(TESTS, "truth")
sys.path.append(os.path.join(os.path.dirname(TESTS), "bench"))
from compare import machine, record  # noqa: E402
PROGRAMS = os.path.join(TRUTH, "simulate")
EQUAL = 0.8  # of the rows, in allocated and in reserved memory
WORST = 0.005, 0.01
FOREIGN_WORST = 0.01, 0.02
OTHERS_WORST = 0.03, 0.15  # of the ranks that were not recorded: where shards are uneven, theirs differ from rank 0's

# When NCCL freed the first bucket of DDP in the recording, if not in the second backward pass (truth/simulate/sharded.py):
# read off the stacks of short runs. Full-size runs were repeated instead, and may have any of the peaks that were seen.
FREED = {
    "ddp-gemma2": 3,
    "ddp-gpt2-fp32amp": 9,  # after the three steps
    "ddp-llama-ckpt-accum": 3,
    "ddp-llama-view0": 9,
    "ddp-llama-view1": 9,
    "ddp-mixtral": 9,
    "ddp-phi3-ckpt": 9,
    "ddp-qwen2-fp32amp-ones": 9,
    "ddp-tiny-view0": "forward",
}
NOT_DECIDED = {"ddp-neox"}  # freed in the middle of the second backward pass

# One row of every kind, with one process for each rank. The sets all-fsdp2 and all-zero have all rows; those of ZeRO with
# offload are only there, because their ranks need several GiB of host memory each.
FSDP2 = """fsdp2-llama3b-ckpt-b2s2048 fsdp2-qwen3-0.6b-b2s1024-noreshard fsdp-gpt2-mp-eager-pad fsdp-llama-mp-ckpt-w2
fsdp-qwen2-bf16-w3 fsdp-qwen2-mp-w3 fsdp-tiny-mp-ckpt fsdp-tiny-mp-pad fsdp-tiny-mp-lora fsdp-llama-bf16 fsdp-llama-mp-accum
fsdp-llama-mp-offload fsdp-llama-mp-reduce16 fsdp-mixtral-bf16 fsdp-qwen2-mp-ckpt-w8"""
ZERO = """zero1-tiny zero2-tiny zero3-tiny zero2-qwen2-accum zero3-qwen2-accum init-tiny init-tiny-lora trainer-tiny
trainer-zero2-tiny"""


def rows_of(path):
    with open(path) as f:
        return json.load(f)


def folder_of(name):
    return [rows_of(p) for p in sorted(glob.glob(os.path.join(TRUTH, name, "*.json")))]


def sharded():
    """Strategy -> rows."""
    rows = [r for name in ("sharded", "sharded_more", "sharded_ddp") for r in rows_of(os.path.join(TRUTH, name + ".json"))]
    rows += folder_of("sharded") + folder_of("zero_init")
    again = {r["id"]: r["peaks"] for r in rows_of(os.path.join(TRUTH, "sharded_ddp_again.json"))}
    for r in rows:
        r["case"].update({"freed": FREED[r["id"]]} if r["id"] in FREED else {})
        if r["id"].startswith("ddp1-"):
            r["outcomes"] = again[r["id"]]
    rows = [r for r in rows if r["id"] not in NOT_DECIDED]
    return {name: [r for r in rows if r["case"]["strategy"] == name] for name in ("ddp", "fsdp2", "zero")}


def ranks_of(row):
    """DDP was recorded with a single rank, and needs the same with more."""
    return 2 if row["case"]["strategy"] == "ddp" else row["case"]["world"]


class Set:
    def __init__(self, name, truth, program, arguments, worst=WORST, equal=EQUAL, env=(), transformers=None, is_long=False):
        self.name, self.truth, self.program, self.arguments = name, truth, program, arguments
        self.worst, self.equal, self.env, self.transformers = worst, equal, dict(env), transformers
        self.has_ranks = program == "sharded.py"
        self.is_long = is_long  # runs only if it is named


def ids(rows):
    return ",".join(r["id"] for r in rows)


def sets():
    """The arguments of a program: OUT is its output, CASES a file with the rows' cases, ID a row for each run."""
    zoo, trainers, ada, versions, foreign, more = (
        rows_of(os.path.join(PROGRAMS, name + ".json")) for name in ("zoo", "trainers", "emulated_ada", "versions", "../foreign", "../foreign_more")
    )
    yield Set("families", folder_of("families"), "family_traces.py", ["OUT"])
    yield Set("emulated_ada", ada, "measure.py", ["CASES", "OUT", "--jobs", "2"], env={"NO_CUDNN": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:2:16:8"})
    yield Set("zoo", zoo, "zoo.py", ["OUT", ids(zoo)], env={"JOBS": "2"})
    yield Set("trainers", trainers, "trainers.py", ["OUT", "ID"])
    for version in sorted({r["transformers"] for r in versions}, reverse=True):
        rows = [r for r in versions if r["transformers"] == version]
        yield Set("transformers-" + version, rows, "measure.py", ["CASES", "OUT", "--jobs", "2"], transformers=version)
    # In one thread, because the moments at which the contrastive program frees memory depend on the machine's number of threads.
    alone = {"OMP_NUM_THREADS": "1"}
    yield Set("foreign", foreign, "foreign.py", ["OUT", ids(foreign)], worst=FOREIGN_WORST, equal=0, env=alone)
    overflows = {r["id"]: r["overflows"] for r in more if "overflows" in r}
    yield Set("foreign-more", more, "foreign.py", ["OUT", ids(more)], worst=FOREIGN_WORST, equal=0, env=alone | {"OVERFLOWS": json.dumps(overflows)})
    strategies = sharded()
    yield Set("ddp", strategies["ddp"], "sharded.py", ["CASES", "OUT"])
    for name, chosen in (("fsdp2", FSDP2.split()), ("zero", ZERO.split())):
        rows = strategies[name]
        yield Set(name, [r for r in rows if r["id"] in chosen], "sharded.py", ["CASES", "OUT"])
        yield Set("all-" + name, rows, "sharded.py", ["CASES", "OUT"], is_long=True)


def run_ranks(plimsoll, environment, one, folder):
    """Runs the rows of each number of ranks together; returns what rank 0 measured by id, with the other ranks in it."""
    found = {}
    for ranks in sorted({ranks_of(r) for r in one.truth}):
        cases, out = (os.path.join(folder, "%s-%d.%s" % (one.name, ranks, end)) for end in ("json", "jsonl"))
        with open(cases, "w") as f:
            json.dump([r["case"] for r in one.truth if ranks_of(r) == ranks], f)
        command = [plimsoll, "simulate", "--gpu", "H200", "--gpus", str(ranks), "--steps", "0", "--writable", folder, "--json", "--"]
        command += [os.path.join(environment, "bin", "torchrun"), "--nproc-per-node", str(ranks)]
        done = subprocess.run(command + [os.path.join(PROGRAMS, one.program), cases, out], capture_output=True, text=True)
        if done.returncode not in (0, 1):
            print(done.stderr[-2000:])
        if os.path.exists(out):
            with open(out) as f:
                for row in map(json.loads, f):
                    found.setdefault(row["id"], {})[row["rank"]] = row
    return {id: dict(by_rank.get(0, {}), others=[r for rank, r in sorted(by_rank.items()) if rank]) for id, by_rank in found.items()}


def compare_others(one, found):
    """Prints the ranks that differ from the recording, which is of rank 0. True: they are near it."""
    equal, count, worst = 0, 0, [0.0, 0.0]
    for row in one.truth:
        for rank in range(1, ranks_of(row)):
            got = next((r for r in found.get(row["id"], {}).get("others", ()) if r["rank"] == rank), {})
            got = [peak(got, what) if got.get("status") == "ok" else None for what in ("allocated", "reserved")]
            want = nearest(row, got)
            off = [None if None in got else is_ - want[i] for i, is_ in enumerate(got)]
            count, equal = count + 1, equal + (off == [0, 0])
            worst = [max(w, 1.0 if None in off else abs(o) / t) for w, o, t in zip(worst, off, want)]
            if off != [0, 0]:
                print("%-34s rank %d: %s" % (row["id"], rank, "no result" if None in off else "allocated %+d, reserved %+d" % tuple(off)))
    is_met = equal >= EQUAL * count and worst[0] <= OTHERS_WORST[0] and worst[1] <= OTHERS_WORST[1]
    text = "%s: %d of %d other ranks as rank 0, worst %.3f %% and %.3f %% off" % (one.name, equal, count, 100 * worst[0], 100 * worst[1])
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)
    return is_met


def run(plimsoll, environment, one, folder):
    """Runs a set's program; returns its rows by id."""
    if one.has_ranks:
        return run_ranks(plimsoll, environment, one, folder)
    out = os.path.join(folder, one.name if one.program == "family_traces.py" else one.name + ".jsonl")
    cases = os.path.join(folder, one.name + ".cases.json")
    with open(cases, "w") as f:
        json.dump([dict(r.get("case", {}), id=r["id"]) for r in one.truth], f)
    env = dict(os.environ, **one.env)
    if one.transformers:
        path = os.path.join(environment, "transformers-" + one.transformers)
        env["PYTHONPATH"] = path
    command = [plimsoll, "simulate", "--gpu", "H200", "--steps", "0", "--writable", folder, "--json", "--"]
    command += [os.path.join(environment, "bin", "python"), os.path.join(PROGRAMS, one.program)]
    for row in one.truth if "ID" in one.arguments else [None]:  # one run for each row, or for all
        words = {"OUT": out, "CASES": cases, "ID": row and row["id"]}
        done = subprocess.run(command + [words.get(a, a) for a in one.arguments], env=env, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            print(done.stderr[-2000:])
    if os.path.isdir(out):
        found = [rows_of(p) for p in glob.glob(os.path.join(out, "*.json"))]
    elif os.path.exists(out):
        with open(out) as f:
            found = [json.loads(line) for line in f]
    else:
        found = []
    return {r["id"]: r for r in found}


def events_of(path):
    """Allocations by size and the frees between them, up to the last allocation. The order of frees that follow each other may be
    that of a hash table, so they are sorted."""
    with (lzma.open if path.endswith(".xz") else open)(path, "rb") as f:
        trace = pickle.load(f)["device_traces"][0]
    numbers, events, freed = {}, [], []
    for event in trace:
        if event["action"] == "alloc":
            events.append((sorted(freed), event["size"]))
            numbers[event["addr"]], freed = len(events), []
        elif event["action"] == "free_requested":
            freed.append(numbers.get(event["addr"], 0))
    return events


def compare_events(one, folder):
    """Prints the programs whose events differ from those on the real card. True: none."""
    differing = 0
    for row in one.truth:
        truth = events_of(os.path.join(TRUTH, one.name, row["id"] + ".pickle.xz"))
        path = os.path.join(folder, one.name, row["id"] + ".pickle")
        got = events_of(path) if os.path.exists(path) else []
        if got != truth:
            differing += 1
            first = next((i for i, pair in enumerate(zip(got, truth)) if pair[0] != pair[1]), min(len(got), len(truth)))
            print("%-34s allocation %d of %d differs" % (row["id"], first, len(truth)))
    text = "%s: the events of %d of %d programs are those of the real card" % (one.name, len(one.truth) - differing, len(one.truth))
    print("%s %s" % ("FAIL" if differing else "ok  ", text), flush=True)
    return not differing


def peak(row, what):
    names = {"allocated": ("peak_allocated", "peak_alloc"), "reserved": ("peak_reserved",)}[what]
    return next((row[n] for n in names if n in row), None)


def nearest(row, got):
    """The peaks of the recording, or of the repeated run that is nearest."""
    outcomes = [[peak(row, "allocated"), peak(row, "reserved")]] + row.get("outcomes", [])
    return outcomes[0] if None in got else min(outcomes, key=lambda o: abs(o[0] - got[0]) + abs(o[1] - got[1]))


def compare(one, found):
    """Prints the rows; returns for allocated and reserved: rows that are equal, and the worst difference."""
    equal, worst = [0, 0], [0.0, 0.0]
    for row in one.truth:
        got, texts = found.get(row["id"], {}), []
        if row.get("status", "ok") != "ok":
            same = got.get("status") == row["status"]
            equal = [e + same for e in equal]
            worst = worst if same else [1.0, 1.0]
            print("%-34s %s (recorded: %s)" % (row["id"], got.get("status", "no result"), row["status"]))
            continue
        wanted = nearest(row, [peak(got, what) for what in ("allocated", "reserved")])
        for i, what in enumerate(("allocated", "reserved")):
            is_, want = peak(got, what), wanted[i]
            off = abs(is_ - want) / want if is_ is not None else 1.0
            equal[i] += off == 0
            worst[i] = max(worst[i], off)
            texts.append("equal" if off == 0 else "no result" if is_ is None else "%+d (%+.3f %%)" % (is_ - want, 100 * (is_ - want) / want))
        print("%-34s allocated %s, reserved %s%s" % (row["id"], *texts, " " + got.get("error", "")[-200:].replace("\n", " ") if "error" in got else ""))
    return equal, worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plimsoll")
    parser.add_argument("environment")
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--record")
    args = parser.parse_args()
    passed = failed = 0
    table = []
    with tempfile.TemporaryDirectory(prefix="plimsoll-rows-") as folder:
        for one in sets():
            if one.name not in args.sets if args.sets else one.is_long:
                continue
            found = run(os.path.abspath(args.plimsoll), args.environment, one, folder)
            equal, worst = compare(one, found)
            if one.has_ranks or one.program == "family_traces.py":
                is_met = compare_others(one, found) if one.has_ranks else compare_events(one, folder)
                passed, failed = passed + is_met, failed + (not is_met)
            for i, what in enumerate(("allocated", "reserved")):
                is_met = equal[i] >= one.equal * len(one.truth) and worst[i] <= one.worst[i]
                passed, failed = passed + is_met, failed + (not is_met)
                text = "%s %s: %d of %d equal, worst %.3f %% off" % (one.name, what, equal[i], len(one.truth), 100 * worst[i])
                print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)
            table.append((one.name, len(one.truth), equal, worst))
    if args.record:
        lines = ["| rows | count | allocated equal | worst | reserved equal | worst |", "|---|---|---|---|---|---|"]
        for name, count, equal, worst in table:
            lines.append("| %s | %d | %d | %.3f %% | %d | %.3f %% |" % (name, count, equal[0], 100 * worst[0], equal[1], 100 * worst[1]))
        lines = ["%s, %s, `RECORD=1 make test-torch`:" % (machine(), time.strftime("%Y-%m-%d")), ""] + lines
        record(args.record, "rows", "\n".join(lines), "test-torch")
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
