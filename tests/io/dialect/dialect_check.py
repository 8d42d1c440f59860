#!/usr/bin/env python3
"""dialect_check.py DUMP FOLDER...: compares what dump_dialects read and changed with PyYAML, json and Python's parser.

Every number that is read must be the one that a real parser has at that key. If a folder has a truth.json (see
tests/configs/generate.py), the dialect must be the one it names, and every knob in it must be read and changeable.

One test per file, also with other line ends, with a byte order mark and without the last line end. A change must be one
line of a unified diff: one added, or one removed and one added. If an ecosystem sets the knob by several keys, or
several keys of the file set it, only lines of these keys may be added, changed and removed. All other values must be
equal, and if numbers are written, the requested one must be among them. After every removal, that key must be gone
and everything else equal.

In a shell script, the \\ of a continued line is not part of the line; in Python, keyword arguments and items of dicts
are the values.
"""
import ast
import difflib
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:  # Debian's PyYAML is for Debian's Python
    if sys.executable == "/usr/bin/python3":
        raise
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

ABSENT = object()
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


# ---- values --------------------------------------------------------------------------------------------

def leaves(node, path=""):
    if isinstance(node, (dict, list)) and node:
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            yield from leaves(value, f"{path}.{key}")
    else:
        yield path, node


def arguments(node, path=""):
    """Keyword arguments and items of dicts by their path."""
    pairs = []
    if isinstance(node, ast.Call):
        pairs = [(k.arg, k.value) for k in node.keywords if k.arg]
    elif isinstance(node, ast.Dict):
        pairs = [(k.value, v) for k, v in zip(node.keys, node.values) if isinstance(k, ast.Constant)]
    for name, value in pairs:
        yield f"{path}.{name}", value.value if isinstance(value, ast.Constant) else ABSENT
        yield from arguments(value, f"{path}.{name}")
    inside = {id(value) for _, value in pairs}
    for child in ast.iter_child_nodes(node):
        below = [child.value] if isinstance(child, ast.keyword) else [child]
        for other in below:
            if id(other) not in inside:
                yield from arguments(other, path)


def is_command(path):
    return path.endswith((".sh", "Dockerfile"))


def values(path, text):
    if path.endswith(".py"):
        found = {}
        for key, value in arguments(ast.parse(text)):
            twin = sum(k.split("#")[0] == key for k in found)
            found[f"{key}#{twin}" if twin else key] = value
        return {key: value for key, value in found.items() if value is not ABSENT}
    if is_command(path):
        return {}
    return dict(leaves(json.loads(text) if path.endswith(".json") else yaml.load(text, LOADER)))


# ---- lines ---------------------------------------------------------------------------------------------

def lines_of(path, text):
    lines = text.splitlines()
    return [line.rstrip(" \\") for line in lines] if is_command(path) else lines


def changed_lines(before, after):
    """The numbers of removed and of new lines."""
    gone, new = [], []
    for what, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if what != "equal":
            gone += range(a, b)
            new += range(c, d)
    return gone, new


def is_of(key, patterns):
    return any(fnmatch.fnmatchcase(key, p) or fnmatch.fnmatchcase(key, "*." + p) for p in patterns)


def last_line(node):
    if isinstance(node, yaml.ScalarNode) or node.flow_style:
        return node.end_mark.line - (node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line)
    below = [last_line(n) for pair in node.value for n in (pair if isinstance(pair, tuple) else (pair,))]
    return max(below, default=node.start_mark.line)


def lines_of_keys(node, patterns, path=""):
    """The lines of the keys and of everything below them, by the marks of PyYAML."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = f"{path}.{key.value}".lstrip(".")
            if is_of(name, patterns):
                yield from range(key.start_mark.line, last_line(value) + 1)
            else:
                yield from lines_of_keys(value, patterns, name)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield from lines_of_keys(value, patterns, f"{path}.{i}")


def allowed_lines(path, text, patterns):
    if path.endswith(".py") or is_command(path):
        names = [p.rstrip(".*").split(".")[-1] for p in patterns]
        return {i for i, line in enumerate(text.splitlines()) if any(name in line for name in names)}
    return set(lines_of_keys(yaml.compose(text.replace("\t", " "), LOADER), patterns))


def lines_without(path, text, gone, patterns):
    """Lines of Python without the keyword arguments of the set."""
    if not path.endswith(".py"):
        return set()
    names = "|".join(re.escape(p) for p in patterns if "*" not in p)
    argument = re.compile(rf""",\s*(?:{names})=(?:"[^"]*"|'[^']*'|{{[^}}]*}}|[\w.]+)""")
    return {argument.sub("", lines_of(path, text)[i]) for i in gone}


# ---- checks --------------------------------------------------------------------------------------------

def keys_together(change):
    """Keys that may change together: the declared set, and all keys of this file that set the knob."""
    keys = change["keys"] if len(change["keys"]) > 1 else []
    return change["set"].split(",") if "set" in change else keys


def wrong_lines(change, text):
    """How many changes were one line, and what is wrong."""
    path, now = change["file"], change["text"]
    gone, new = changed_lines(lines_of(path, text), lines_of(path, now))
    if not gone and not new:
        return "same", None
    if len(new) == 1 and len(gone) <= 1:
        return "line", None
    patterns = keys_together(change)
    if not patterns:
        return None, f"{len(gone)} lines go and {len(new)} come"
    new = [i for i in new if lines_of(path, now)[i] not in lines_without(path, text, gone, patterns)]
    stray = set(gone) - allowed_lines(path, text, patterns) | set(new) - allowed_lines(path, now, patterns)
    return "set", f"lines {sorted(stray)} are not of {patterns}" if stray else None


def wrong_values(change, before):
    after = values(change["file"], change["text"])
    patterns = keys_together(change)
    moved = {k: after.get(k, ABSENT) for k in before | after
             if before.get(k, ABSENT) != after.get(k, ABSENT) or type(before.get(k)) is not type(after.get(k))}
    outside = {k for k in moved if not is_of(k.lstrip("."), patterns) and moved[k] not in ({}, [])}
    if len(outside) > 1 or outside and len(outside) < len(moved):
        return f"these differ: {moved}"
    numbers = [v for v in moved.values() if type(v) in (int, float)]
    if numbers and change["to"].replace(".", "").isdigit() and float(change["to"]) not in numbers:
        return None if patterns else f"{change['to']} was asked for, not {moved}"
    return None


NUMBERS = ("micro_batch", "accumulate", "sequence", "lora_rank", "lora_alpha", "lora_dropout", "epochs", "workers",
           "global_batch", "clip")
STAYS = {"strategy"}  # changed where the file is referred to


def wrong_reading(line, before, truth):
    """Errors in the knobs that were read, compared with a real parser and with the truth."""
    for name, knob in line["knobs"].items():
        there = before.get("." + knob["keys"][0]) if len(knob["keys"]) == 1 else None
        if name in NUMBERS and knob["value"] is not None and type(there) in (int, float) and \
                there != float(knob["value"]):
            return f"{name} is {there}, not {knob['value']}"
    if not truth:
        return None
    if line["dialect"] != truth["dialect"]:
        return f"{line['dialect']}, not {truth['dialect']}"
    read = {name: line["knobs"].get(name, {}).get("value") for name in truth["knobs"]}
    return None if read == truth["knobs"] else f"read as {read}, not {truth['knobs']}"


def wrongly_removed(change, before):
    after = values(change["file"], change["text"])
    lost = [key for key in before if key not in after]
    new = [key for key in after if key not in before and after[key] != {}]
    if [key.lstrip(".") for key in lost] != [change["removed"].replace("\\.", ".")] or new:
        return f"lost {lost}, new {new}"
    return None if all(before[key] == after[key] for key in after if key in before) else "others differ"


# ---- other line ends -------------------------------------------------------------------------------------

WAYS = {  # other encodings of the same file; a shell accepts neither
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "a byte order mark": lambda text: "\ufeff" + text,
    "no last line end": lambda text: text.rstrip("\n"),
}


def written_otherwise(dump, files, texts, changes, way):
    """Files whose changes differ from those of the original file, apart from the encoding."""
    write, wrong = WAYS[way], set()
    with tempfile.TemporaryDirectory() as folder:
        copies = {}
        for i, file in enumerate(files):
            copy = pathlib.Path(folder, str(i), pathlib.Path(file).name)
            copy.parent.mkdir()
            copy.write_bytes(write(texts[file]).encode())
            copies[str(copy)] = file
        output = subprocess.run([dump, *copies], capture_output=True, check=True).stdout
        for here, there in zip(changes, map(json.loads, output.splitlines())):
            expected = write(here["text"]) if "text" in here else None
            folders = [f"{pathlib.Path(f['file']).parent}/" for f in (there, here)]  # the folder in the name of a new file
            if there.get("knobs") != here.get("knobs"):
                wrong.add(copies[there["file"]])
                print(f"{there['file']}: with {way}, other knobs are read")
            got = there["text"].replace(*folders) if "text" in there else None
            is_last = way == "no last line end" and got is not None and expected is not None
            if is_last:
                got, expected = got.rstrip("\n"), expected.rstrip("\n")
            if got != expected and copies[there["file"]] not in wrong:
                wrong.add(copies[there["file"]])
                print(f"{there['file']}: with {way}, {there.get('knob') or there.get('removed')} to "
                      f"{there.get('to')}: {there.get('refusal') or there.get('error') or 'another text'}")
    return wrong


def truth_of(folders):
    """The contents of the truth.json files, by file."""
    known = {}
    for folder in map(pathlib.Path, folders):
        if (folder / "truth.json").exists():
            known |= {str(folder / name): t for name, t in json.loads((folder / "truth.json").read_text()).items()}
    return known


def main():
    dump, *folders = sys.argv[1:]
    is_told_all = "--refusals" in folders
    kinds = (".yaml", ".yml", ".json", ".py", ".sh")
    truth = truth_of(folders)
    files = [str(f) for folder in folders if folder != "--refusals" for f in sorted(pathlib.Path(folder).rglob("*"))
             if f.suffix in kinds and f.name not in ("plimsoll.yaml", "truth.json", "config.json") or str(f) in truth]
    for folder in folders:
        if not pathlib.Path(folder).is_dir():
            print("skipped: there is no", folder)
    if not files:
        print("skipped: no configuration files in", *folders)
        print("0 passed, 0 failed, 1 skipped")
        return 0
    output = subprocess.run([dump, *files], capture_output=True, check=True).stdout
    failed = dict.fromkeys(files, False)
    count = dict.fromkeys(("same", "line", "set", "removed", "refused"), 0)
    texts = {f: pathlib.Path(f).read_bytes().decode() for f in files}
    before = {f: values(f, texts[f]) for f in files}
    changes = [json.loads(line) for line in output.splitlines()]
    for change in changes:
        file, found = change["file"], change.get("error")
        if "dialect" in change:
            found = wrong_reading(change, before[file], truth.get(file))
        elif "refusal" in change:
            count["refused"] += 1
            if change["knob"] in truth.get(file, {}).get("knobs", {}).keys() - STAYS:
                found = change["refusal"]
            if is_told_all:
                print(f"{pathlib.Path(file).name}: {change['knob']} to {change['to']}: {change['refusal']}")
        elif "removed" in change:
            if file.endswith(".py") or is_command(file):
                continue  # tested in tests/io/formats/test_remove.c
            count["removed"] += 1
            found = found or wrongly_removed(change, before[file])
        elif not found:
            kind, found = wrong_lines(change, texts[file])
            found = found or wrong_values(change, before[file])
            if kind:
                count[kind] += 1
        if found:
            failed[file] = True
            what = change.get("knob") or change.get("removed") or "read"
            print(f"{file}: {what}{' to ' + change['to'] if 'to' in change else ''}: {found}")
    plain = [f for f in files if not is_command(f) and "\r" not in texts[f]]
    of_plain = [change for change in changes if change["file"] in set(plain)]
    for way in WAYS:
        for file in written_otherwise(dump, plain, texts, of_plain, way):
            failed[file] = True
    for file, bad in failed.items():
        print("FAIL" if bad else "ok  ", "real parsers agree:", pathlib.Path(file).name)
    print(f"{count['line']} changes are one line, {count['set']} are lines of a declared set of keys, {count['same']} are "
          f"there already; {count['refused']} are refused; {count['removed']} settings are taken out")
    print(f"{len(files) - sum(failed.values())} passed, {sum(failed.values())} failed")
    return any(failed.values())


if __name__ == "__main__":
    sys.exit(main())
