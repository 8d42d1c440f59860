#!/usr/bin/env python3
"""yaml_check.py < EDITS: reads back what dump_edits wrote, with the readers that trainers use. The settings must have
the values of the file; an edit must change its key to its value and nothing else, on one line."""
import json
import sys

import yaml

PRECISE = yaml.SafeLoader  # the one that safe_load uses; slow
FAST = getattr(yaml, "CSafeLoader", PRECISE)


def text_of_keys(base):
    """A loader whose keys are as written: `yes: 1` is the key "yes"."""

    class Loader(base):
        def construct_mapping(self, node, deep=False):
            self.flatten_mapping(node)
            return {key.value: self.construct_object(value, deep=True) for key, value in node.value}

    Loader.add_constructor("tag:yaml.org,2002:map", lambda self, node: self.construct_mapping(node))
    return Loader


LOADERS = {base: text_of_keys(base) for base in (PRECISE, FAST)}


def load(name, text, base):
    if name.endswith(".json"):
        return json.loads(text)
    return yaml.load(text, LOADERS[base])


def flat(value, path=()):
    """Path to type and value, for comparing: 1, 1.0 and True are three values, NaN equals NaN."""
    if isinstance(value, dict) and value:
        pairs = value.items()
    elif isinstance(value, list) and value:
        pairs = ((str(i), item) for i, item in enumerate(value))
    else:
        return {path: (type(value).__name__, repr(value))}
    return {at: leaf for key, item in pairs for at, leaf in flat(item, path + (key,)).items()}


def path_of(key):
    parts, part, at = [], "", 0
    while at < len(key):
        if key[at] == ".":
            parts.append(part)
            part = ""
        else:
            at += key[at] == "\\"
            part += key[at]
        at += 1
    return tuple(parts + [part])


def leaf(value):
    return (type(value).__name__, repr(value))


def check_settings(row, text):
    known = flat(load(row["file"], text, PRECISE))
    said = {path_of(s["key"]): s for s in row["settings"]}
    empty = {("dict", "{}"), ("list", "[]")}
    missing = {path for path, value in known.items() if value not in empty} - set(said)
    wrong = [s["key"] for path, s in said.items() if not s["derived"] and known.get(path) != leaf(s["value"])]
    return f"not reported: {sorted(missing)}; reported otherwise: {wrong}" if missing or wrong else ""


def is_alias(setting):
    """PyYAML follows these; ${...} is text for it."""
    return setting["derived"] and setting["value"].startswith("*")


def check_edit(row, text, before, aliases, base):
    path = path_of(row["key"])
    after = flat(load(row["file"], row["text"], base))
    wanted = dict(before)
    if row["is_new"]:
        wanted.pop((), None)
        wanted = {at: value for at, value in wanted.items() if at != path[: len(at)]}
    followers = {path_of(key) for key, root in aliases.items() if root == row["key"]}
    for at in {path} | followers:
        wanted[at] = leaf(row["value"])
    if after != wanted:
        different = {at for at in after.keys() | wanted.keys() if after.get(at) != wanted.get(at)}
        return f"differs at {sorted(different)}: {[after.get(at) for at in sorted(different)]}"
    old, new = text.split("\n"), row["text"].split("\n")
    if not row["is_new"] and row["is_on_one_line"]:
        lines = sum(a != b for a, b in zip(old, new))
        if len(old) != len(new) or lines > 1:
            return "more than one line changed"
    if row["is_new"] and len(new) < len(old):
        return "lines are gone"
    return ""


def main():
    failed = passed = 0
    texts, flats, aliases = {}, {}, {}
    for line in sys.stdin:
        row = json.loads(line)
        name = row["file"]
        if "settings" in row:
            with open(name, encoding="utf-8", newline="") as file:
                texts[name] = file.read().removeprefix("\ufeff")
            flats[name] = {base: flat(load(name, texts[name], base)) for base in LOADERS}
            aliases[name] = {s["key"]: s["root"] for s in row["settings"] if is_alias(s)}
            why = check_settings(row, texts[name])
        else:
            row["text"] = row["text"].removeprefix("\ufeff")
            base = PRECISE if row["is_first"] else FAST
            try:
                why = check_edit(row, texts[name], flats[name][base], aliases[name], base)
            except (yaml.YAMLError, ValueError) as error:
                why = f"cannot be read: {error}"
        passed += not why
        failed += bool(why)
        if why:
            print(f"FAIL {name}: {row.get('key', 'settings')} = {row.get('value')!r}: {why}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


sys.exit(main())
