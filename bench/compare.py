#!/usr/bin/env python3
"""Measures plimsoll against Python's own pickle.load, in one run, on a snapshot grown to about 1 GB.

usage: compare.py PLIMSOLL BENCH_SIMULATOR SNAPSHOT WORKDIR [--record FILE]

Prints the figures and the bars they have to meet; exits with 1 if one is missed. --record writes
them to the marked part of FILE (docs/measurements.md).
"""

import glob
import json
import os
import platform
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GROWN_BYTES = 1_000_000_000
ROUNDS = 2


def run(command):
    """(seconds, peak resident bytes) of a command; its output is dropped."""
    start = time.monotonic()
    with open(os.devnull, "wb") as null:
        process = subprocess.Popen(command, stdout=null)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if os.waitstatus_to_exitcode(status) not in (0, 1):  # 1: plimsoll has a finding
        sys.exit(f"failed: {' '.join(command)}")
    return seconds, usage.ru_maxrss * 1024


def best(command, rounds):
    runs = [run(command) for _ in range(rounds)]
    return min(seconds for seconds, _ in runs), max(peak for _, peak in runs)


def python_load(path, collect=True):
    """Seconds inside pickle.load alone, and the process's peak; `collect`: with Python's garbage collector."""
    program = ("" if collect else "import gc; gc.disable(); ") + (
        "import pickle,sys,time; f=open(sys.argv[1],'rb'); s=time.monotonic(); d=pickle.load(f); "
        "print(time.monotonic()-s, file=sys.stderr); import os; os._exit(0)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, path], stderr=subprocess.PIPE, text=True)
    seconds = float(process.stderr.read())
    _, _, usage = os.wait4(process.pid, 0)
    return seconds, usage.ru_maxrss * 1024


def grown(snapshot, workdir):
    path = os.path.join(workdir, "grown.pickle")
    if not os.path.exists(path):
        os.makedirs(workdir, exist_ok=True)
        subprocess.run(
            [sys.executable, os.path.join(HERE, "grow.py"), snapshot, path + ".part", str(GROWN_BYTES)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        os.rename(path + ".part", path)
    return path


def machine():
    model = next(
        (line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    return (
        f"{model}, {os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"
    )


def measure(plimsoll, simulator, snapshot, workdir):
    path = grown(snapshot, workdir)
    subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)  # into the page cache, for both
    python_seconds, python_peak = python_load(path)
    uncollected_seconds, _ = python_load(path, collect=False)
    seconds, peak = best([plimsoll, "replay", path, "--json"], ROUNDS)
    report = json.loads(subprocess.run([plimsoll, "replay", path, "--json"], capture_output=True).stdout)
    rate = float(subprocess.run([simulator, snapshot, "3"], capture_output=True, check=True).stdout)
    return {
        "file_bytes": os.path.getsize(path),
        "entries": report["entries"],
        "exact": report["exact"],
        "python_seconds": python_seconds,
        "uncollected_seconds": uncollected_seconds,
        "python_peak": python_peak,
        "seconds": seconds,
        "peak": peak,
        "rate": rate,
    }


def table(m, snapshot):
    mb = 1e6
    rows = [
        (
            "file",
            f"{os.path.basename(snapshot)} grown to {m['file_bytes'] / mb:,.0f} MB, {m['entries']:,} entries",
            "",
        ),
        ("`pickle.load` alone", f"{m['python_seconds']:.1f} s, {m['python_peak'] / mb:,.0f} MB peak", ""),
        ("the same with Python's garbage collector off", f"{m['uncollected_seconds']:.1f} s", ""),
        ("`plimsoll replay --json`, all of it", f"{m['seconds']:.2f} s, {m['peak'] / mb:,.0f} MB peak", ""),
        ("times faster than `pickle.load`", f"{m['python_seconds'] / m['seconds']:.1f}", "at least 10"),
        ("share of Python's peak memory", f"{m['peak'] / m['python_peak']:.3f}", "under 0.25"),
        ("simulator alone, events per second", f"{m['rate'] / mb:.1f} million", "at least 10 million"),
        ("replay exact", "yes" if m["exact"] else "no", "yes"),
    ]
    lines = ["| what | measured | target |", "|---|---|---|"] + [f"| {a} | {b} | {c} |" for a, b, c in rows]
    return "\n".join(lines)


def met(m):
    return (
        m["python_seconds"] >= 10 * m["seconds"]
        and m["peak"] < m["python_peak"] / 4
        and m["rate"] >= 10e6
        and m["exact"]
    )


def exactness(build):
    """What the tests against recordings measured, in their own words; None if they are not built."""
    lines = []
    for name in ("test_truth", "test_address_model", "test_what_if"):
        programs = glob.glob(os.path.join(build, "*", "tests", "**", name), recursive=True)
        if not programs:
            return None
        output = subprocess.run(programs[:1], capture_output=True, text=True).stdout.splitlines()
        lines += [f"$ {name}"] + [line for line in output if not line.startswith(("ok ", "  "))]
    return "```\n" + "\n".join(lines) + "\n```"


def record(path, what, text, target="bench"):
    begin, end = f"<!-- {what}: make {target} writes from here -->", f"<!-- {what}: to here -->"
    page = open(path).read()
    head, rest = page.split(begin)
    tail = rest.split(end)[1]
    with open(path, "w") as file:
        file.write(f"{head}{begin}\n{text}\n{end}{tail}")


def main(plimsoll, simulator, snapshot, workdir, *options):
    m = measure(plimsoll, simulator, snapshot, workdir)
    text = f"{machine()}, {time.strftime('%Y-%m-%d')}, `make bench`:\n\n{table(m, snapshot)}"
    print(text)
    if options[:1] == ("--record",):
        record(options[1], "speed", text)
        found = exactness(os.path.join(os.path.dirname(simulator), "../.."))
        if found:
            record(options[1], "exactness", found)
        else:
            print("not recorded: exactness, because make test has not built its programs")
    if not met(m):
        sys.exit("a target is missed")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
