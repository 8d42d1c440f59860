#!/usr/bin/env python3
"""dialect_check.py DUMP FOLDER...: what dialect_dump changed, read with PyYAML and json.

One test per file: with every change, exactly as many values differ as were edited, a new block counting as
one, no key is lost but what another optimizer does not know, and a number is the number that was asked for.
With every removal, that key is gone and all else is equal.
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


def block_of(knob, top):
    """Axolotl's plugin of Liger and the keys it reads belong together."""
    is_liger = knob == "liger" and (top == "plugins" or top.startswith("liger_"))
    return "liger" if is_liger else top


def wrong(change, before):
    after = dict(leaves(parse(change["file"], change["text"])))
    lost = [key for key in before if key not in after and before[key] not in (None, {}, [])]
    taken_out = [key for key in lost if change["knob"] == "optimizer" and key.endswith(".fused")]
    if lost != taken_out:
        return f"lost {lost}"
    absent = object()
    changed = {k: v for k, v in after.items()
               if before.get(k, absent) != v or type(before.get(k)) is not type(v) and k in before}
    tops = {key.split(".")[1] for key in before}
    made = {k for k in changed if k.split(".")[1] not in tops}  # a block of its own is one edit
    blocks = {block_of(change["knob"], k.split(".")[1]) for k in made}
    if len(changed) - len(made) + len(blocks) + len(taken_out) != change["edits"]:
        return f"{change['edits']} edits, but these differ: {changed}"
    numbers = [v for v in changed.values() if type(v) in (int, float)]
    if changed and change["to"].replace(".", "").isdigit() and float(change["to"]) not in numbers:
        return f"{change['to']} was asked for, not {changed}"
    return None


def wrongly_removed(change, before):
    after = dict(leaves(parse(change["file"], change["text"])))
    lost = [key for key in before if key not in after]
    new = [key for key in after if key not in before and after[key] != {}]
    if [key.lstrip(".") for key in lost] != [change["removed"].replace("\\.", ".")] or new:
        return f"lost {lost}, new {new}"
    return None if all(before[key] == after[key] for key in after if key in before) else "others differ"


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
    removals = 0
    before = {f: dict(leaves(parse(f, pathlib.Path(f).read_text()))) for f in files}
    for change in map(json.loads, output.splitlines()):
        file = change["file"]
        if "refusal" in change:
            continue
        check = wrongly_removed if "removed" in change else wrong
        removals += "removed" in change
        found = change.get("error") or check(change, before[file])
        if found:
            failed[file] = True
            print(f"{change.get('knob') or change.get('removed')} to {change.get('to')}: {found}")
    for file, bad in failed.items():
        print("FAIL" if bad else "ok  ", "real parsers agree:", pathlib.Path(file).name)
    print(f"{removals} settings taken out")
    print(f"{len(files) - sum(failed.values())} passed, {sum(failed.values())} failed")
    return any(failed.values())


if __name__ == "__main__":
    sys.exit(main())
