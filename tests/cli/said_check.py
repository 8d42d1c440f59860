#!/usr/bin/env python3
"""said_check.py PLIMSOLL FOLDER...: what plan and check say as text about the files in the folders is also in --json.

One test per file that gets an answer: every note, assumption and unverified part of the text is a string of the JSON, and
"faster, but not safe" and "the smallest of N candidates" are settings there.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

KINDS = (".yaml", ".yml", ".json", ".sh", ".py")
EVERY = 4  # files; all of them take minutes
SAID = re.compile(r"^(note|assumes|unverified): (.*(?:\n +.*)*)", re.M)
PLACE = re.compile(r"^\S+\.\w+(:\d+)?: ")


class Wrong(Exception):
    pass


def one_line(text):
    return " ".join(text.split())


def strings(value):
    if isinstance(value, str):
        yield one_line(value)
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(part)


def run(program, path, *more):
    words = [program, "plan", path.name, "--gpu", "24GiB", "--try", "micro_batch=1", *more]
    return subprocess.run(words, cwd=path.parent, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def compare(text, document):
    there = list(strings(document))
    for kind, words in SAID.findall(text):
        said = PLACE.sub("", one_line(words))
        for part in said.split("; ") if kind == "assumes" else [said]:
            if not any(part in words for words in there):
                raise Wrong(f"{kind}: {part!r} is not in the JSON")
    if "faster, but not safe" in text and not document["faster_within_margin"]:
        raise Wrong("faster_within_margin is null")
    if "the smallest of" in one_line(text) and not document["smallest"]:
        raise Wrong("smallest is null")


def main():
    program, *folders = sys.argv[1:]
    program = os.path.abspath(program)
    os.environ |= {"HF_HOME": "nowhere", "PLIMSOLL_NVML": "none"}
    passed = failed = 0
    for folder in map(pathlib.Path, folders):
        for path in sorted(p for p in folder.rglob("*") if p.suffix in KINDS)[::EVERY]:
            text = run(program, path)
            if text.returncode not in (0, 1):
                continue
            try:
                compare(text.stdout, json.loads(run(program, path, "--json").stdout))
            except Wrong as wrong:
                failed += 1
                print(f"FAIL {path}: {wrong}")
            else:
                passed += 1
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
