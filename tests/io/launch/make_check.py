#!/usr/bin/env python3
"""Compares the commands that are read from Makefiles with those that make runs.

    make_check.py DUMP [COUNT [SEED]]

Random Makefiles are run by make, with a stand-in for python that writes down its arguments and its environment, and read by
DUMP, whose script sh runs with the same stand-in. A value may be unknown to the reader; every other word must be the same,
and every target that starts a training must be found.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

NAMES = ["A", "B", "C", "D", "LONG_NAME"]

STAND_IN = """#!/bin/sh
{ printf '%s' "E=$E"; printf '\\037%s' "$@"; printf '\\036'; } >> "$RECORD"
"""


class Writer:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *choices):
        return self.random.choice(choices)

    def value(self, in_shell):
        n, name = str(self.random.randint(1, 64)), self.pick(*NAMES)
        plain = [n, n, f"$({name})", f"${{{name}}}", f"$({name})", f"$({name}) {n}", f"{n}-$({name})", f"x$({name})y"]
        odd = [f'"{n} {n}"', f"'{n}'", f"'$({name})'", f'"$({name})"', "$$E", f"$${{E}}", "'$$E'", f"$({name}:1=2)",
               "$(shell echo 3)", f"$(subst 1,2,$({name}))", "$(words a b c)", "$A", "$(UNSET)", "$($(A))",
               f"$$(echo {n})", "$(CURDIR)" if False else "5", "\\#" if not in_shell else "6",
               f"{n} \\\n\t  {n}", "it\\'s", f"$(if $({name}),1,2)", "*.none", "a=b:c"]
        return self.pick(*plain) if self.random.random() < 0.85 else self.pick(*odd)

    def assignment(self):
        name, sign = self.pick(*NAMES), self.pick("=", "=", ":=", ":=", "?=", "+=", "::=", " =", "  :=")
        before = self.pick("", "", "", "", "export ", "override ", "  ")
        comment = self.pick("", "", "", " # a comment $(A)", "# 1")
        return f"{before}{name}{sign} {self.value(False)}{comment}\n"

    def statement(self):
        name = self.pick(*NAMES)
        kind = self.random.random() * (1 if self.is_wild else 0.83)
        if kind < 0.75:
            return self.assignment()
        if kind < 0.80:
            return f"export {name}\n"
        if kind < 0.83:
            return f"define {name}\n{self.value(False)}\nendef\n"
        if kind < 0.90:
            test = self.pick(f"ifdef {name}", f"ifeq ($({name}),3)", f"ifneq '$({name})' ''", f"ifndef {name}")
            rest = self.pick("", "else\n" + self.assignment(), f"else ifdef A\n{self.assignment()}")
            return f"{test}\n{self.assignment()}{rest}endif\n"
        if kind < 0.92:
            return f"undefine {name}\n"
        if kind < 0.94:
            return f"$(eval {name} = {self.random.randint(1, 64)})\n"
        if kind < 0.96:
            return "-include none.mk\n"
        return f"# {name} is a comment, \\\n which goes on\n"

    def command(self):
        words = ["python", "train.py"]
        for _ in range(self.random.randint(1, 4)):
            words.append(self.pick("--batch ", "--lr=", "") + self.value(True))
        gaps = [self.pick(" ", " ", " ", " ", " \\\n\t", " \\\n\t\t", "  ", " \\\n ") for _ in words]
        line = "".join(word + gap for word, gap in zip(words, gaps)).rstrip(" \\\n\t")
        return self.pick("", "", "@", "-", "@- ", " ") + self.pick("", "", "E=5; ", "cd . && ", "E=7 ") + line + \
            self.pick("", "", "", " # a comment", " 2>&1 | cat", "; true")

    def makefile(self):
        # Most variables have values, so that most commands can be compared.
        lines = [f"{name} = {self.random.randint(1, 64)}\n" for name in NAMES if self.random.random() < 0.95]
        self.is_wild = self.random.random() < 0.3
        lines += [self.statement() for _ in range(self.random.randint(0, 8))]
        if self.random.random() < 0.1:
            lines.append(".ONESHELL:\n")
        lines.append(".PHONY: data t0 t1 t2 t3\ndata:\n")
        for i in range(self.random.randint(1, 4)):
            if self.random.random() < 0.2:
                lines.append(f"t{i}: {self.pick('', 'export ')}{self.pick(*NAMES)} {self.pick('=', ':=')} {self.value(False)}\n")
            head = f"t{i}:{self.pick('', ' data', ' data # a comment')}"
            if self.random.random() < 0.1:
                lines.append(f"t{i}: ; {self.command().lstrip()}\n")
                continue
            body = "".join("\t" + self.pick(self.command(), self.command(), "export E=9", "echo $(A) >/dev/null", "# text", "true") + "\n"
                           for _ in range(self.random.randint(1, 3)))
            lines.append(f"{head}\n{body}")
            lines += [self.statement() for _ in range(self.random.randint(0, 2))]
        return "".join(lines)


def run(words, folder):
    record = os.path.join(folder, "record")
    open(record, "w").close()
    environment = {"PATH": folder + ":/usr/bin:/bin", "RECORD": record, "HOME": folder}
    done = subprocess.run(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    with open(record) as file:
        return done, [call.split("\037") for call in file.read().split("\036")[:-1]]


def compare(seed, dump, folder, counts):
    text = Writer(seed).makefile()
    path = os.path.join(folder, "Makefile")
    with open(path, "w") as file:
        file.write(text)
    read = json.loads(subprocess.run([dump, path], capture_output=True, text=True, check=True).stdout)
    found = {target["name"]: target for target in read["targets"]}
    scripts = [target["script"].lstrip("\n") for target in read["targets"]]
    problems = []
    for i in range(4):
        name = f"t{i}"
        if f"\n{name}:" not in "\n" + text:
            continue
        done, ours = run(["make", "-s", "-k", name], folder)
        if "***" in done.stderr and ("missing" in done.stderr or "unterminated" in done.stderr or "recursive" in done.stderr.lower()):
            counts["refused"] += 1
            continue
        if read["error"]:
            problems.append(f"make reads it, and we say: {read['error']}")
            continue
        if name not in found:
            # The same commands as an earlier target, an unclosed quote, or nothing that trains.
            if ours and done.returncode == 0 and not any(ours == calls for calls in counts["last"].values()):
                problems.append(f"{name} is not found; make runs {ours}")
            continue
        target = found[name]
        if target["refused"]:
            counts["unclear"] += 1
            continue
        if "\1" in target["script"]:
            counts["unclear"] += 1
            continue
        script = os.path.join(folder, "script")
        with open(script, "w") as file:
            # Each line of a recipe runs, whatever the one before returned.
            file.write(target["script"])
        _, mine = run(["sh", script], folder)
        counts["last"][name] = ours
        counts["compared"] += 1
        if done.returncode == 0 and mine != ours:
            problems.append(f"{name}: make runs {ours}\nwe read  {mine}\nfrom {target['script']!r}")
    counts["last"].clear()
    for problem in problems:
        print(f"FAIL seed {seed}: {problem}\n{text}")
    return not problems


def main():
    dump, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    if not shutil.which("make"):
        print("skipped: make is not installed\n0 passed, 0 failed, 1 skipped")
        return 0
    counts = {"compared": 0, "unclear": 0, "refused": 0, "last": {}}
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        stand_in = os.path.join(folder, "python")
        with open(stand_in, "w") as file:
            file.write(STAND_IN)
        os.chmod(stand_in, 0o755)
        for seed in range(first, first + count):
            failed += not compare(seed, dump, folder, counts)
            if failed >= 5:
                break
    if count >= 100 and counts["compared"] < count // 4:
        print(f"FAIL only {counts['compared']} targets of {count} Makefiles could be compared")
        failed += 1
    print(f"{counts['unclear']} targets are unclear, {counts['refused']} are refused")
    print(f"{counts['compared']} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
