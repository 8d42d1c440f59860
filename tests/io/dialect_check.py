#!/usr/bin/env python3
"""dialect_check.py DUMP FOLDER...: what dialect_dump changed, read with PyYAML and json.

One test per file: with every change, exactly as many values differ as were edited, a new block counting as
one, no key is lost, and a number is the number that was asked for.
"""
import json
import os
import pathlib
import subprocess
import sys

try:
    import yaml
except ImportError:  # Debian's PyYAML is for Debian's Python
    if sys.executable == "/usr/bin/python3":
        raise
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])


def parse(path, text):
    return json.loads(text) if path.endswith(".json") else yaml.safe_load(text)


def leaves(node, path=""):
    if isinstance(node, (dict, list)) and node:
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            yield from leaves(value, f"{path}.{key}")
    else:
        yield path, node


def wrong(change, before):
    after = dict(leaves(parse(change["file"], change["text"])))
    lost = [key for key in before if key not in after and before[key] not in (None, {}, [])]
    if lost:
        return f"lost {lost}"
    absent = object()
    changed = {k: v for k, v in after.items()
               if before.get(k, absent) != v or type(before.get(k)) is not type(v) and k in before}
    tops = {key.split(".")[1] for key in before}
    made = {k for k in changed if k.split(".")[1] not in tops}  # a block of its own is one edit
    blocks = {k.split(".")[1] for k in made}
    if len(changed) - len(made) + len(blocks) != change["edits"]:
        return f"{change['edits']} edits, but these differ: {changed}"
    numbers = [v for v in changed.values() if type(v) in (int, float)]
    if changed and change["to"].replace(".", "").isdigit() and float(change["to"]) not in numbers:
        return f"{change['to']} was asked for, not {changed}"
    return None


def main():
    dump, *folders = sys.argv[1:]
    files = [str(f) for folder in folders for f in sorted(pathlib.Path(folder).rglob("*"))
             if f.suffix in (".yaml", ".yml", ".json") and f.name != "plimsoll.yaml"]
    if not files:
        print("skipped: no configuration files in", *folders)
        print("0 passed, 0 failed, 1 skipped")
        return 0
    output = subprocess.run([dump, *files], capture_output=True, check=True).stdout
    failed = dict.fromkeys(files, False)
    before = {f: dict(leaves(parse(f, pathlib.Path(f).read_text()))) for f in files}
    for change in map(json.loads, output.splitlines()):
        file = change["file"]
        if "refusal" in change:
            continue
        found = change.get("error") or wrong(change, before[file])
        if found:
            failed[file] = True
            print(f"{change.get('knob')} to {change.get('to')}: {found}")
    for file, bad in failed.items():
        print("FAIL" if bad else "ok  ", "real parsers agree:", pathlib.Path(file).name)
    print(f"{len(files) - sum(failed.values())} passed, {sum(failed.values())} failed")
    return any(failed.values())


if __name__ == "__main__":
    sys.exit(main())
