#!/usr/bin/env python3
"""edit_check.py EDIT_DUMP [--all]: compares what the Python and TOML editors read and write with Python's own readers.

For every setting, the syntax tree must have a node at its span, with its value. After every edit, the new text must read
like the old one with that one value changed, or with that one entry added. Ends with "N passed, N failed[, N skipped]".
In addition to the files in editing/ it reads every fifth file of Python's library; with --all every one.
"""
import ast
import collections
import copy
import json
import pathlib
import subprocess
import sys
import sysconfig
import warnings

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None

warnings.simplefilter("ignore")  # about invalid escapes in other people's strings
NULL, BOOL, INTEGER, REAL, TEXT, DERIVED = range(6)
counts = collections.Counter()
problems = []


def check(condition, *what):
    counts["passed" if condition else "failed"] += 1
    if not condition and len(problems) < 20:
        problems.append(" ".join(str(w)[:300] for w in what))


def dump(program, *arguments):
    with subprocess.Popen([program, *map(str, arguments)], stdout=subprocess.PIPE) as child:
        for line in child.stdout:
            yield json.loads(line)


def value_of(kind, value):
    return float(value) if kind == REAL else value


def same(a, b):
    return type(a) is type(b) and (a == b or a != a and b != b)


# ---- Python ------------------------------------------------------------------------------------------


class Source:
    def __init__(self, data):
        self.data = data
        self.tree = ast.parse(data)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant):
                node.kind = None  # the u of u""
        self.starts = [0]
        at = 0
        for line in self.lines(data):
            at += len(line) + 1
            self.starts.append(at)
        self.nodes = {}
        for parent in ast.walk(self.tree):
            for name, field in ast.iter_fields(parent):
                for index, node in enumerate(field) if isinstance(field, list) else [(None, field)]:
                    if isinstance(node, ast.expr):
                        self.nodes.setdefault(self.span(node), (parent, name, index, node))

    @staticmethod
    def lines(data):
        return data.replace(b"\r\n", b" \n").replace(b"\r", b"\n").split(b"\n")

    def span(self, node):
        mark = 3 if self.data.startswith(b"\xef\xbb\xbf") else 0
        begin = self.starts[node.lineno - 1] + node.col_offset + (mark if node.lineno == 1 else 0)
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        return begin, end + (mark if node.end_lineno == 1 else 0)


def constants(body, path=""):
    """Constants of modules and classes, from the syntax tree."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from constants(node.body, f"{path}{node.name}.")
        single = isinstance(node, ast.Assign) and len(node.targets) == 1
        target = node.targets[0] if single else getattr(node, "target", None)
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or not isinstance(target, ast.Name):
            continue
        if not getattr(node, "simple", 1):  # (x): int = 1
            continue
        try:
            value = ast.literal_eval(node.value)
        except (ValueError, TypeError, SyntaxError, RecursionError):
            continue
        yield f"{path}{target.id}", node.value, value


def representable(value):
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return True
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str) and "\0" not in value and value.isprintable()


def check_python_settings(file, settings):
    source = Source(pathlib.Path(file).read_bytes())
    literals = {}
    for s in settings:
        if s["kind"] == DERIVED or s["begin"] == s["end"]:
            continue
        found = source.nodes.get((s["begin"], s["end"]))
        value = value_of(s["kind"], s["value"])
        check(found and same(ast.literal_eval(found[3]), value), file, s["line"], s["key"], value)
        literals[s["begin"]] = s["key"]
    bound = collections.Counter(
        n.id for n in ast.walk(source.tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    )
    unclear = {s["begin"] for s in settings if s["kind"] == DERIVED}
    for key, node, value in constants(source.tree.body):
        begin, end = source.span(node)
        if bound[key] > 1 and begin not in literals:
            continue  # its value depends on when it is used
        if not representable(value) or b"\\N{" in source.data[begin:end]:
            continue
        if begin in unclear:  # other code may change it: exec, self.x = ..., a class that is passed to a function
            counts["unclear"] += 1
        else:
            check(literals.get(begin) == key, file, node.lineno, key, "is not read")


def literal(value):
    return ast.parse(repr(value), mode="eval").body


def tree_of(text):
    return Source(text.encode()).tree


def replaced(source, span, value):
    parent, name, index, old = source.nodes[span]
    if index is None:
        setattr(parent, name, literal(value))
    else:
        getattr(parent, name)[index] = literal(value)
    dumped = ast.dump(source.tree)
    if index is None:
        setattr(parent, name, old)
    else:
        getattr(parent, name)[index] = old
    return dumped


def without_entry(tree, name, value):
    """Removes the one keyword argument or dict entry of that name and value."""
    removed = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            kept = [k for k in node.keywords if k.arg != name or not same(plain(k.value), value)]
            removed += len(node.keywords) - len(kept)
            node.keywords = kept
        elif isinstance(node, ast.Dict):
            pairs = [(k, v) for k, v in zip(node.keys, node.values)
                     if not (isinstance(k, ast.Constant) and k.value == name)]
            removed += len(node.keys) - len(pairs)
            node.keys, node.values = [k for k, _ in pairs], [v for _, v in pairs]
    return removed


def plain(node):
    try:
        return ast.literal_eval(node)
    except ValueError:
        return NotImplemented


def without_default(old, new):
    """Removes the default= that was added to an add_argument."""
    def arguments(tree):
        return [n for n in ast.walk(tree)
                if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "add_argument"]
    def defaults(call):
        return [k for k in call.keywords if k.arg == "default"]
    added = []
    for before, after in zip(arguments(old), arguments(new)):
        if not defaults(before) and defaults(after):
            added += defaults(after)
            after.keywords = [k for k in after.keywords if k.arg != "default"]
    return [plain(k.value) for k in added]


def check_python_edit(source, edit):
    value = value_of(edit["kind"], edit["value"])
    try:
        tree = tree_of(edit["text"])
    except SyntaxError as error:
        check(False, edit["file"], edit["key"], repr(value), error)
        return
    if edit["is_new"]:
        removed = without_entry(tree, "plimsoll_new", value)
        good = removed == 1 and ast.dump(tree) == ast.dump(source.tree)
    elif edit["begin"] == edit["end"]:
        added = without_default(source.tree, tree)
        good = len(added) == 1 and same(added[0], value) and ast.dump(tree) == ast.dump(source.tree)
    else:
        good = replaced(source, (edit["begin"], edit["end"]), value) == ast.dump(tree)
    check(good, edit["file"], edit["key"], repr(value), "is not what the new text says")


# ---- TOML --------------------------------------------------------------------------------------------


def parts_of(key):
    parts, part, escaped = [], "", False
    for c in key:
        if escaped or c not in "\\.":
            part, escaped = part + c, False
        elif c == "\\":
            escaped = True
        else:
            parts, part = parts + [part], ""
    return parts + [part]


def holder(tree, parts):
    for part in parts:
        tree = tree[int(part)] if isinstance(tree, list) else tree[part]
    return tree


def place(tree, parts):
    inside = holder(tree, parts[:-1])
    return inside, int(parts[-1]) if isinstance(inside, list) else parts[-1]


def same_tree(a, b):
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same_tree(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same_tree, a, b))
    return same(a, b)


def leaves(tree):
    if isinstance(tree, (dict, list)):
        return sum(map(leaves, tree.values() if isinstance(tree, dict) else tree))
    return 1


def check_toml_settings(file, settings):
    tree = tomllib.loads(pathlib.Path(file).read_bytes().decode("utf-8-sig"))
    for s in settings:
        inside, last = place(tree, parts_of(s["key"]))
        is_date = not isinstance(inside[last], (bool, int, float, str))
        value = value_of(s["kind"], s["value"])
        check(is_date or same(inside[last], value), file, s["line"], s["key"], value)
    check(leaves(tree) == len(settings), file, "has", leaves(tree), "values,", len(settings), "read")


def check_toml_edit(tree, edit):
    value = value_of(edit["kind"], edit["value"])
    try:
        after = tomllib.loads(edit["text"].removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        check(False, edit["file"], edit["key"], repr(value), error)
        return
    wanted = copy.deepcopy(tree)
    inside, last = place(wanted, parts_of(edit["key"]))
    inside[last] = value
    check(same_tree(wanted, after), edit["file"], edit["key"], repr(value), "is not what it says")


# ---- all ---------------------------------------------------------------------------------------------


def is_readable(path):
    try:
        data = path.read_bytes()
        data.decode()
        ast.parse(data)
        return True
    except (SyntaxError, ValueError, RecursionError):
        return False


def check_settings(program, files):
    for answer in dump(program, "settings", *files):
        file = answer["file"]
        if "error" in answer:
            check("UTF-8" in answer["error"], file, answer["error"])
        elif file.endswith(".toml"):
            check_toml_settings(file, answer["settings"])
        else:
            check_python_settings(file, answer["settings"])


def check_edits(program, limit, files):
    file, old = None, None
    for edit in dump(program, "edits", limit, *files):
        if "error" in edit:
            continue
        if file != edit["file"]:
            file, data = edit["file"], pathlib.Path(edit["file"]).read_bytes()
            is_toml = file.endswith(".toml")
            old = tomllib.loads(data.decode("utf-8-sig")) if is_toml else Source(data)
        (check_toml_edit if file.endswith(".toml") else check_python_edit)(old, edit)


def main():
    program = sys.argv[1]
    here = pathlib.Path(__file__).parent / "editing"
    python = sorted(here.glob("*.py"))
    toml = sorted(here.glob("*.toml")) if tomllib else []
    library = sorted(pathlib.Path(sysconfig.get_path("stdlib")).rglob("*.py"))
    library = [p for p in library if "site-packages" not in p.parts]
    library = [p for p in library[:: 1 if "--all" in sys.argv else 5] if is_readable(p)]
    check_settings(program, python + toml + library)
    check_edits(program, 1000, python + toml)
    check_edits(program, 3, library[::8])
    # Few settings may be unclear: a reader that is certain of nothing would never be wrong.
    check(counts["unclear"] < 0.03 * counts["passed"], counts["unclear"], "constants are unclear")
    if not tomllib:
        print("skipped: there is no tomllib")
    print(*problems, sep="\n")
    skipped = "" if tomllib else ", 1 skipped"
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return counts["failed"] > 0


sys.exit(main())
