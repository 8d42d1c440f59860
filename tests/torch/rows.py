#!/usr/bin/env python3
"""rows.py PLIMSOLL ENVIRONMENT [SET...]: runs recorded programs on a simulated H200 and compares PyTorch's own counters with
those of the real card. Each set has a bar: how many rows must be equal to the byte, and how far off the worst may be.

The last line is "N passed, N failed". With --write FILE the table is written there as well."""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

TRUTH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "truth")
PROGRAMS = os.path.join(TRUTH, "simulate")
EQUAL = 0.8  # of the rows, in allocated and in reserved memory
WORST = 0.005, 0.01
FOREIGN_WORST = 0.01, 0.02


def rows_of(path):
    with open(path) as f:
        return json.load(f)


def families():
    return [rows_of(p) for p in sorted(glob.glob(os.path.join(TRUTH, "families", "*.json")))]


class Set:
    def __init__(self, name, truth, program, arguments, worst=WORST, equal=EQUAL, env=(), transformers=None):
        self.name, self.truth, self.program, self.arguments = name, truth, program, arguments
        self.worst, self.equal, self.env, self.transformers = worst, equal, dict(env), transformers


def ids(rows):
    return ",".join(r["id"] for r in rows)


def sets():
    """The arguments of a program: OUT is its output, CASES a file with the rows' cases, ID a row for each run."""
    zoo, trainers, ada, versions, foreign = (
        rows_of(os.path.join(PROGRAMS, name + ".json")) for name in ("zoo", "trainers", "emulated_ada", "versions", "../foreign")
    )
    yield Set("families", families(), "family_traces.py", ["OUT"])
    yield Set("emulated_ada", ada, "measure.py", ["CASES", "OUT", "--jobs", "2"], env={"NO_CUDNN": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:2:16:8"})
    yield Set("zoo", zoo, "zoo.py", ["OUT", ids(zoo)], env={"JOBS": "2"})
    yield Set("trainers", trainers, "trainers.py", ["OUT", "ID"])
    for version in sorted({r["transformers"] for r in versions}, reverse=True):
        rows = [r for r in versions if r["transformers"] == version]
        yield Set("transformers-" + version, rows, "measure.py", ["CASES", "OUT", "--jobs", "2"], transformers=version)
    yield Set("foreign", foreign, "foreign.py", ["OUT", ids(foreign)], worst=FOREIGN_WORST, equal=0)


def run(plimsoll, environment, one, folder):
    """Runs a set's program; returns its rows by id."""
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


def peak(row, what):
    names = {"allocated": ("peak_allocated", "peak_alloc"), "reserved": ("peak_reserved",)}[what]
    return next((row[n] for n in names if n in row), None)


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
        for i, what in enumerate(("allocated", "reserved")):
            is_, want = peak(got, what), peak(row, what)
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
    parser.add_argument("--write")
    args = parser.parse_args()
    passed = failed = 0
    table = []
    with tempfile.TemporaryDirectory(prefix="plimsoll-rows-") as folder:
        for one in sets():
            if args.sets and one.name not in args.sets:
                continue
            equal, worst = compare(one, run(os.path.abspath(args.plimsoll), args.environment, one, folder))
            for i, what in enumerate(("allocated", "reserved")):
                is_met = equal[i] >= one.equal * len(one.truth) and worst[i] <= one.worst[i]
                passed, failed = passed + is_met, failed + (not is_met)
                text = "%s %s: %d of %d equal, worst %.3f %% off" % (one.name, what, equal[i], len(one.truth), 100 * worst[i])
                print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)
            table.append((one.name, len(one.truth), equal, worst))
    if args.write:
        with open(args.write, "w") as f:
            f.write("| rows | count | allocated equal | worst | reserved equal | worst |\n|---|---|---|---|---|---|\n")
            for name, count, equal, worst in table:
                f.write("| %s | %d | %d | %.3f %% | %d | %.3f %% |\n" % (name, count, equal[0], 100 * worst[0], equal[1], 100 * worst[1]))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
