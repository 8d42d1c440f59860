#!/usr/bin/env python3
"""Plans every configuration file of a folder for 24 GiB: how many are answered, and in how much time on one core.

usage: configs.py PLIMSOLL FOLDER [--record PAGE]

Runs offline, with an empty cache of models. Times are CPU seconds of whole processes. Prints the slowest files.
"""

import collections
import os
import pathlib
import sys
import tempfile
import time

from compare import machine, record

MOST_SECONDS = 2.0
KINDS = (".yaml", ".yml", ".json")


def run(command, environment):
    """Exit code and CPU seconds."""
    process = os.posix_spawn(command[0], command, environment, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(process, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def main(plimsoll, folder, *options):
    files = sorted(p for p in pathlib.Path(folder).rglob("*") if p.suffix in KINDS)
    if not files:
        print(f"not measured: there are no files in {folder}")
        return
    rows = []
    with tempfile.TemporaryDirectory() as empty:
        environment = os.environ | {"HOME": empty, "HF_HOME": empty, "XDG_CACHE_HOME": empty, "NO_COLOR": "1"}
        for path in files:
            command = [os.path.abspath(plimsoll), "plan", str(path), "--gpu", "24GiB"]
            rows.append((*run(command, environment)[::-1], path.name))
    rows.sort(reverse=True)
    codes = collections.Counter(code for _, code, _ in rows)
    slow = sum(seconds > MOST_SECONDS for seconds, _, _ in rows)
    lines = [f"| files | a plan | nothing fits | refused | over {MOST_SECONDS:.0f} s | median | slowest |", "|---|---|---|---|---|---|---|",
             f"| {len(rows)} | {codes[0]} | {codes[1]} | {codes[2]} | {slow} | {rows[len(rows) // 2][0]:.2f} s | {rows[0][0]:.2f} s |"]
    text = f"{machine()}, {time.strftime('%Y-%m-%d')}, `make bench`, CPU seconds of `plimsoll plan FILE --gpu 24GiB`:\n\n" + "\n".join(lines)
    print(text)
    for seconds, code, name in rows[:10]:
        print(f"{seconds:.2f} s  exit {code}  {name}")
    if options[:1] == ("--record",):
        record(options[1], "configurations", text)
    if slow:
        sys.exit("a target is missed")


main(*sys.argv[1:])
