#!/usr/bin/env python3
"""dialect_check.py DUMP FOLDER...: what dialect_dump changed, read with PyYAML, json and Python's own parser.

One test per file, which does the same written with other line ends, with a byte order mark and without the last line
end. A change is one line of a unified diff: one added, or one removed and one added. Where the
program's table says that an ecosystem sets the knob by several keys, lines of these keys may be added, changed and
removed, and no others. All other values are equal, and a number is the number that was asked for. With every
removal, that key is gone and all else is equal.

In a shell, the mark that a command goes on is not part of a line; in Python, keyword arguments and items of
dicts are the values.
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


# ---- values --------------------------------------------------------------------------------------------

def leaves(node, path=""):
    if isinstance(node, (dict, list)) and node:
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            yield from leaves(value, f"{path}.{key}")
    else:
        yield path, node


def arguments(node, path=""):
    """Keyword arguments and items of dicts by the names that they stand below."""
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


def values(path, text):
    if path.endswith(".py"):
        found = {}
        for key, value in arguments(ast.parse(text)):
            twin = sum(k.split("#")[0] == key for k in found)
            found[f"{key}#{twin}" if twin else key] = value
        return {key: value for key, value in found.items() if value is not ABSENT}
    if path.endswith(".sh"):
        return {}
    return dict(leaves(json.loads(text) if path.endswith(".json") else yaml.safe_load(text)))


# ---- lines ---------------------------------------------------------------------------------------------

def lines_of(path, text):
    lines = text.splitlines()
    return [line.rstrip(" \\") for line in lines] if path.endswith(".sh") else lines


def changed_lines(before, after):
    """Numbers of the lines that are gone, and of those that are new."""
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
    """Lines of the keys and of all that is below them, read from marks of PyYAML's."""
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
    if path.endswith((".py", ".sh")):
        names = [p.rstrip(".*").split(".")[-1] for p in patterns]
        return {i for i, line in enumerate(text.splitlines()) if any(name in line for name in names)}
    return set(lines_of_keys(yaml.compose(text.replace("\t", " ")), patterns))


def lines_without(path, text, gone, patterns):
    """Lines of Python as they are once keyword arguments of the set are taken out of them."""
    if not path.endswith(".py"):
        return set()
    names = "|".join(re.escape(p) for p in patterns if "*" not in p)
    argument = re.compile(rf""",\s*(?:{names})=(?:"[^"]*"|'[^']*'|{{[^}}]*}}|[\w.]+)""")
    return {argument.sub("", lines_of(path, text)[i]) for i in gone}


# ---- checks --------------------------------------------------------------------------------------------

def wrong_lines(change, text):
    """How often it was one line, and what is wrong."""
    path, now = change["file"], change["text"]
    gone, new = changed_lines(lines_of(path, text), lines_of(path, now))
    if not gone and not new:
        return "same", None
    if len(new) == 1 and len(gone) <= 1:
        return "line", None
    if "set" not in change:
        return None, f"{len(gone)} lines go and {len(new)} come"
    patterns = change["set"].split(",")
    new = [i for i in new if lines_of(path, now)[i] not in lines_without(path, text, gone, patterns)]
    stray = set(gone) - allowed_lines(path, text, patterns) | set(new) - allowed_lines(path, now, patterns)
    return "set", f"lines {sorted(stray)} are not of {change['set']}" if stray else None


def wrong_values(change, before):
    after = values(change["file"], change["text"])
    patterns = change.get("set", "").split(",")
    moved = {k: after.get(k, ABSENT) for k in before | after
             if before.get(k, ABSENT) != after.get(k, ABSENT) or type(before.get(k)) is not type(after.get(k))}
    outside = {k for k in moved if not is_of(k.lstrip("."), patterns) and moved[k] not in ({}, [])}
    if len(outside) > 1 or outside and len(outside) < len(moved):
        return f"these differ: {moved}"
    numbers = [v for v in moved.values() if type(v) in (int, float)]
    if moved and change["to"].replace(".", "").isdigit() and float(change["to"]) not in numbers:
        return "" if "set" in change else f"{change['to']} was asked for, not {moved}"
    return None


def wrongly_removed(change, before):
    after = values(change["file"], change["text"])
    lost = [key for key in before if key not in after]
    new = [key for key in after if key not in before and after[key] != {}]
    if [key.lstrip(".") for key in lost] != [change["removed"].replace("\\.", ".")] or new:
        return f"lost {lost}, new {new}"
    return None if all(before[key] == after[key] for key in after if key in before) else "others differ"


# ---- other line ends -------------------------------------------------------------------------------------

WAYS = {  # how the same file is written elsewhere; a shell takes neither
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "a byte order mark": lambda text: "\ufeff" + text,
    "no last line end": lambda text: text.rstrip("\n"),
}


def written_otherwise(dump, files, texts, changes, way):
    """Files whose changes are not those of the same file as it is, written that way."""
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
            folders = [f"{pathlib.Path(f['file']).parent}/" for f in (there, here)]  # of a new file that is named
            got = there["text"].replace(*folders) if "text" in there else None
            is_last = way == "no last line end" and got is not None and expected is not None
            if is_last:
                got, expected = got.rstrip("\n"), expected.rstrip("\n")
            if got != expected and copies[there["file"]] not in wrong:
                wrong.add(copies[there["file"]])
                print(f"{there['file']}: with {way}, {there.get('knob') or there.get('removed')} to "
                      f"{there.get('to')}: {there.get('refusal') or there.get('error') or 'another text'}")
    return wrong


def main():
    dump, *folders = sys.argv[1:]
    is_told_all = "--refusals" in folders
    kinds = (".yaml", ".yml", ".json", ".py", ".sh")
    files = [str(f) for folder in folders if folder != "--refusals" for f in sorted(pathlib.Path(folder).rglob("*"))
             if f.suffix in kinds and f.name != "plimsoll.yaml"]
    if not files:
        print("skipped: no configuration files in", *folders)
        print("0 passed, 0 failed, 1 skipped")
        return 0
    output = subprocess.run([dump, *files], capture_output=True, check=True).stdout
    failed = dict.fromkeys(files, False)
    count = dict.fromkeys(("same", "line", "set", "removed", "refused"), 0)
    texts = {f: pathlib.Path(f).read_text() for f in files}
    before = {f: values(f, texts[f]) for f in files}
    changes = [json.loads(line) for line in output.splitlines()]
    for change in changes:
        file, found = change["file"], change.get("error")
        if "refusal" in change:
            count["refused"] += 1
            if is_told_all:
                print(f"{pathlib.Path(file).name}: {change['knob']} to {change['to']}: {change['refusal']}")
        elif "removed" in change:
            if file.endswith((".py", ".sh")):
                continue  # tests/io/formats/test_remove.c knows them
            count["removed"] += 1
            found = found or wrongly_removed(change, before[file])
        elif not found:
            kind, found = wrong_lines(change, texts[file])
            found = found or wrong_values(change, before[file])
            if kind:
                count[kind] += 1
        if found:
            failed[file] = True
            print(f"{file}: {change.get('knob') or change.get('removed')} to {change.get('to')}: {found}")
    plain = [f for f in files if not f.endswith(".sh") and "\r" not in texts[f]]
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
