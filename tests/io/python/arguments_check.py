#!/usr/bin/env python3
"""arguments_check.py DUMP [COUNT [SEED]]: random training scripts, executed by Python and read by the program.

Each script creates TrainingArguments in some roundabout way: constants, dicts, argparse, dataclasses, functions,
conditions, and changes after the assignment. A fake transformers records what the Trainer really gets. What the program
reads for a knob must be that, or UNCLEAR."""
import contextlib
import dataclasses
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import types

# By argument: the knob, its default, values to choose from, and how the program writes a value.
KEYS = {
    "per_device_train_batch_size": ("micro_batch", 8, [1, 2, 4, 16, 32], str),
    "gradient_accumulation_steps": ("accumulate", 1, [2, 4, 8], str),
    "dataloader_num_workers": ("workers", 0, [1, 2, 3], str),
    "num_train_epochs": ("epochs", 3, [1, 2, 5], str),
    "gradient_checkpointing": ("checkpoint", False, [True, False], lambda v: "on" if v else "off"),
}
NOISE = ["# {} must never be read from here: TrainingArguments({}=7)",
         'NOTE_{} = "TrainingArguments({}=7)"',
         "# setattr(args, '{}', 7) and BATCH = 7 ({})"]


# ---- the fake transformers -----------------------------------------------------------------------------------

@dataclasses.dataclass
class TrainingArguments:
    output_dir: str = "out"
    per_device_train_batch_size: int = 8
    gradient_accumulation_steps: int = 1
    dataloader_num_workers: int = 0
    num_train_epochs: int = 3
    gradient_checkpointing: bool = False


class Model:
    @classmethod
    def from_pretrained(cls, name, **kwargs):
        return cls()


class Trainer:
    trained = None

    def __init__(self, model=None, args=None):
        self.args = args

    def train(self):
        Trainer.trained = {key: getattr(self.args, key) for key in KEYS}


def execute(text, argv):
    """The arguments of the script's Trainer; None: the script fails or does not train."""
    fake = types.ModuleType("transformers")
    fake.TrainingArguments, fake.Trainer, fake.AutoModelForCausalLM = TrainingArguments, Trainer, Model
    before, sys.argv = sys.argv, ["train.py", *argv]
    sys.modules["transformers"] = fake
    script = types.ModuleType("__main__")
    own, sys.modules["__main__"] = sys.modules["__main__"], script  # dataclasses look up their module
    Trainer.trained = None
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(compile(text, "train.py", "exec"), script.__dict__)
    except (Exception, SystemExit) as error:
        if os.environ.get("SHOW_ERRORS"):
            print(text, repr(error), file=sys.stderr)
        return None
    finally:
        sys.argv, sys.modules["__main__"] = before, own
    return Trainer.trained


# ---- scripts -------------------------------------------------------------------------------------------------

class Script:
    """The lines of one script: those of the module, and those of the training function, if there is one."""

    def __init__(self, dice):
        self.dice, self.lines, self.count, self.argv = dice, [], 0, []
        self.parser, self.flags = [], []
        self.behind = []  # changes of the arguments after their creation

    def add(self, *lines):
        self.lines += lines

    def name(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def value(self, key):
        return self.dice.choice(KEYS[key][2])

    def noise(self):
        if self.dice.random() < 0.3:
            key = self.dice.choice(list(KEYS))
            self.add(self.dice.choice(NOISE).format(self.name("n"), key))

    # ---- ways to write a value: each returns an expression ------------------------------------------------

    def literal(self, key):
        return repr(self.value(key))

    def constant(self, key):
        name = self.name("BATCH")
        self.add(f"{name} = {self.value(key)!r}")
        change = self.dice.choice([None] * 5 + ["again", "if", "global", "globals", "exec", "walrus", "augmented", "loop",
                                                "tuple", "import", "try", "while", "with"])
        new = self.value(key)
        if change == "again":
            self.add(f"{name} = {new!r}")
        elif change == "if":
            self.add(f"if {self.condition()}:", f"    {name} = {new!r}")
        elif change == "global":
            function = self.name("adjust")
            self.add(f"def {function}():", f"    global {name}", f"    {name} = {new!r}")
            if self.dice.random() < 0.7:
                self.add(f"{function}()")
        elif change == "globals":
            self.add(self.dice.choice([f"globals()['{name}'] = {new!r}", f"globals().update({name}={new!r})",
                                       f"vars()['{name}'] = {new!r}"]))
        elif change == "exec":
            self.add(f"exec('{name} = {new!r}')")
        elif change == "walrus":
            self.add(f"print({name} := {new!r})")
        elif change == "augmented" and not isinstance(new, bool):
            self.add(f"{name} {self.dice.choice(['*', '+'])}= 2")
        elif change == "loop":
            self.add(f"for {name} in [{new!r}, {self.value(key)!r}]:", "    pass")
        elif change == "tuple":
            self.add(f"{name}, other = {new!r}, 1")
        elif change == "import":
            self.add("import sys as " + self.name("sys"))
        elif change == "try":
            self.add("try:", f"    {name} = int({str(int(new))!r})", "except ValueError:", "    pass")
        elif change == "while":
            self.add("while True:", f"    {name} = {new!r}", "    break")
        elif change == "with":
            self.add("import contextlib", "with contextlib.suppress(ValueError):", f"    {name} = {new!r}")
        return name

    def computed(self, key):
        if isinstance(KEYS[key][1], bool):
            return f"not {self.constant(key)}"
        a, b = self.constant(key), self.literal(key)
        return self.dice.choice([f"{a} * {b}", f"max({a}, {b})", f"int({a})", f"{a} if {self.condition()} else {b}",
                                 f"({a} + {b})", f"[{a}, {b}][0]", f"dict(x={a})['x']", f"abs(-{a})",
                                 f"(lambda x: x)({a})", f"{a} // 1", f"{a} or {b}", f"sum([{a}, {b}])"])

    def condition(self):
        flag = self.name("flag")
        kind = self.dice.choice(["constant", "argument", "unknown", "equal"])
        if kind == "argument" and self.parser is not None:
            self.parser.append(f"parser.add_argument('--{flag}', action='store_true')")
            if self.dice.random() < 0.5:
                self.flags.append(f"--{flag}")
            return f"'--{flag}' in sys.argv"
        if kind == "unknown":
            return f"len(sys.argv) > {self.dice.randrange(3)}"
        self.add(f"{flag} = {self.dice.choice([True, False, 0, 1])!r}")
        return flag if kind != "equal" else f"{flag} == 1"

    def in_dict(self, key):
        name, entry = self.name("config"), self.dice.choice(["size", key])
        value, new = self.value(key), self.value(key)
        nested = self.dice.random() < 0.3
        place = f"{name}['train']" if nested else name
        inner = f"{{'{entry}': {value!r}, 'other': 5}}"
        self.add(f"{name} = {{'train': {inner}}}" if nested else f"{name} = {inner}")
        change = self.dice.choice([None] * 6 + ["set", "update", "union", "or", "function", "key", "pop", "named",
                                                "setdefault", "alias", "clear", "method", "two"])
        if change == "set":
            self.add(f"{place}['{entry}'] = {new!r}")
        elif change == "update":
            self.add(self.dice.choice([f"{place}.update({{'{entry}': {new!r}}})", f"{place}.update({entry}={new!r})"]))
        elif change == "union":
            self.add(f"{place} |= {{'{entry}': {new!r}}}")
        elif change == "or":
            self.add(f"{name} = {name} | {{'{entry}': {new!r}, 'train': {{'{entry}': {new!r}}}}}")
        elif change == "function":
            function = self.name("change")
            self.add(f"def {function}(c):", self.dice.choice([f"    c['{entry}'] = {new!r}", f"    c.update({entry}={new!r})"]),
                     f"{function}({place})")
        elif change == "two":
            inner, outer = self.name("inner"), self.name("outer")
            self.add(f"def {outer}(c):", f"    {inner}(c)", f"def {inner}(d):", f"    d['{entry}'] = {new!r}",
                     f"{outer}({place})")
        elif change == "key":
            self.add(f"key = '{entry}'", f"{place}[key] = {new!r}")
        elif change == "pop":
            self.add(self.dice.choice([f"{place}.pop('{entry}')", f"del {place}['{entry}']"]))
            return f"{place}.get('{entry}', {new!r})"
        elif change == "named":
            self.add(f"for key, value in {{'{entry}': {new!r}}}.items():", f"    {place}[key] = value")
        elif change == "setdefault":
            self.add(f"{place}.setdefault('{entry}', {new!r})")
        elif change == "alias":
            self.add(f"same = {place}", f"same['{entry}'] = {new!r}")
        elif change == "clear":
            self.add(f"{place}.clear()", f"{place}['{entry}'] = {new!r}")
        elif change == "method":
            self.add(f"{place}.__setitem__('{entry}', {new!r})")
        return self.dice.choice([f"{place}['{entry}']", f"{place}.get('{entry}')"])

    def argument(self, key):
        name, default, new = self.name("arg"), self.value(key), self.value(key)
        if isinstance(default, bool):
            action = self.dice.choice(["store_true", "store_false"])
            self.parser.append(f"parser.add_argument('--{name}', action='{action}')")
            if self.dice.random() < 0.4:
                self.flags.append(f"--{name}")
            return f"args.{name}"
        self.parser.append(f"parser.add_argument('--{name}', type=int, default={default!r})")
        if self.dice.random() < 0.4:
            self.flags += [f"--{name}", str(new)]
        change = self.dice.choice([None] * 7 + ["defaults", "set", "setattr", "dict", "vars", "update", "loop", "replace"])
        if change == "defaults":
            self.parser.append(f"parser.set_defaults({name}={new!r})")
        elif change:
            self.behind_parse = getattr(self, "behind_parse", []) + {
                "set": [f"args.{name} = {new!r}"],
                "setattr": [f"setattr(args, '{name}', {new!r})"],
                "dict": [f"args.__dict__['{name}'] = {new!r}"],
                "vars": [f"vars(args)['{name}'] = {new!r}"],
                "update": [f"vars(args).update({name}={new!r})"],
                "loop": [f"for k, v in {{'{name}': {new!r}}}.items():", "    setattr(args, k, v)"],
                "replace": [f"args = argparse.Namespace(**{{**vars(args), '{name}': {new!r}}})"],
            }[change]
        return f"args.{name}"

    def field(self, key):
        kind, name = self.name("Config"), self.name("config")
        value, new = self.value(key), self.value(key)
        self.add("@dataclass", f"class {kind}:", f"    size: int = {value!r}", "    other: int = 3")
        change = self.dice.choice([None] * 5 + ["post", "given", "set", "setattr", "replace", "unpacked", "class", "method",
                                                "frozen", "inherit"])
        if change == "post":
            self.add("    def __post_init__(self):", f"        self.size = {new!r}")
        if change == "frozen":
            self.add("    def __post_init__(self):", f"        object.__setattr__(self, 'size', {new!r})")
        if change == "method":
            self.add("    def adjust(self):", f"        self.size = {new!r}")
        if change == "inherit":
            child = self.name("Child")
            self.add("@dataclass", f"class {child}({kind}):", f"    size: int = {new!r}")
            kind = child
        given = {"given": f"size={new!r}", "unpacked": f"**{{'size': {new!r}}}"}.get(change, "")
        self.add(f"{name} = {kind}({given})")
        if change == "set":
            self.add(f"{name}.size = {new!r}")
        if change == "setattr":
            self.add(f"setattr({name}, 'size', {new!r})")
        if change == "replace":
            self.add(f"{name} = dataclasses.replace({name}, size={new!r})")
        if change == "class":
            self.add(f"{kind}.size = {new!r}", f"{name} = {kind}()")
        if change == "method":
            self.add(f"{name}.adjust()")
        return f"{name}.size"

    def returned(self, key):
        function, value, new = self.name("choose"), self.value(key), self.value(key)
        return self.dice.choice([
            lambda: (self.add(f"def {function}():", f"    return {value!r}"), f"{function}()"),
            lambda: (self.add(f"def {function}(n={value!r}):", "    return n"), f"{function}()"),
            lambda: (self.add(f"def {function}(n={value!r}):", "    return n"), f"{function}({new!r})"),
            lambda: (self.add(f"def {function}():", f"    n = {value!r}", f"    n = {new!r}", "    return n"), f"{function}()"),
        ])()[1]

    def environment(self, key):
        if isinstance(KEYS[key][1], bool):
            return self.literal(key)
        return f"int(os.environ.get('{self.name('NOT_SET')}', {self.value(key)!r}))"

    def expression(self, key):
        return self.dice.choice([self.literal, self.constant, self.constant, self.computed, self.in_dict, self.argument,
                                 self.argument, self.field, self.returned, self.environment])(key)

    # ---- the call -----------------------------------------------------------------------------------------

    def given(self, items):
        """The text of the call's arguments."""
        how = self.dice.choice(["named", "named", "unpacked", "both", "forwarded"])
        named = [f"{key}={text}" for key, text in items]
        if how == "named" or not items:
            return ", ".join(["'out'", *named])
        cut = 0 if how == "unpacked" else len(items) // 2
        name = self.name(self.dice.choice(["kwargs", "training_config"]))
        entries = ", ".join(f"'{key}': {text}" for key, text in items[cut:])
        self.late.append(f"{name} = {{{entries}}}")
        key, (_, _, values, _) = self.dice.choice(list(KEYS.items())[cut and 2:])
        taken = {key for key, _ in items[:cut]}
        new = self.dice.choice(values)
        text = name
        change = self.dice.choice([None] * 4 + ["update", "union", "set", "function", "pop", "merged", "loop", "more"])
        if key in taken:
            change = None
        if change == "update":
            self.late.append(f"{name}.update({key}={new!r})")
        elif change == "union":
            text = f"({name} | {{'{key}': {new!r}}})"
        elif change == "set":
            self.late.append(f"{name}['{key}'] = {new!r}")
        elif change == "function":
            function = self.name("fill")
            self.add(f"def {function}(c):", f"    c['{key}'] = {new!r}")
            self.late.append(f"{function}({name})")
        elif change == "pop":
            self.late.append(f"{name}.pop('{key}', None)")
        elif change == "merged":
            text = f"{{**{name}, '{key}': {new!r}}}"
        elif change == "loop":
            self.late += [f"for k in ['{key}']:", f"    {name}[k] = {new!r}"]
        elif change == "more":
            other = self.name("more")
            self.late += [f"{other} = json.loads('{{\"{key}\": {json.dumps(new)}}}')", f"{name} = {{**{name}, **{other}}}"]
        return ", ".join(["'out'", *named[:cut], f"**{text}"])

    def change_behind(self):
        key, (_, _, values, _) = self.dice.choice(list(KEYS.items()))
        new = self.dice.choice(values)
        return self.dice.choice([[]] * 6 + [
            [f"training_args.{key} = {new!r}"], [f"setattr(training_args, '{key}', {new!r})"],
            [f"for k, v in {{'{key}': {new!r}}}.items():", "    setattr(training_args, k, v)"],
            [f"training_args = dataclasses.replace(training_args, {key}={new!r})"],
            [f"vars(training_args).update({key}={new!r})"], [f"training_args.__dict__['{key}'] = {new!r}"],
            ["def late(a):", f"    a.{key} = {new!r}", "late(training_args)"],
            [f"if len(sys.argv) > 1:", f"    training_args.{key} = {new!r}"]])

    def write(self):
        chosen = [key for key in KEYS if self.dice.random() < 0.6]
        self.late = []
        items = []
        for key in chosen:
            self.noise()
            items.append((key, self.expression(key)))
        given = self.given(items)
        head = ["import argparse, dataclasses, json, os, sys", "from dataclasses import dataclass",
                "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments"]
        parse, argv = [], list(self.flags)
        if self.parser:
            call = "parser.parse_args()"
            if self.dice.random() < 0.15:
                call, argv = f"parser.parse_args({argv!r})", []
            parse = ["parser = argparse.ArgumentParser()", *self.parser, f"args = {call}",
                     *getattr(self, "behind_parse", [])]
        body = [*self.late, f"training_args = TrainingArguments({given})", *self.change_behind(),
                "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B')",
                "Trainer(model=model, args=training_args).train()"]
        if self.dice.random() < 0.4:
            inside = parse + body if self.dice.random() < 0.5 and not any(
                "args." in line for line in self.lines) else body
            outside = [] if inside is not body else parse
            lines = [*head, *self.lines, *outside, "def main():", *("    " + line for line in inside),
                     "if __name__ == '__main__':", "    main()"]
        else:
            lines = [*head, *self.lines, *parse, *body]
        return "\n".join(lines) + "\n", argv


# ---- the comparison ------------------------------------------------------------------------------------------

def make(folder, seed):
    """Writes one project; returns what its Trainer gets, or None."""
    text, argv = Script(random.Random(seed)).write()
    os.mkdir(folder)
    with open(os.path.join(folder, "train.py"), "w") as file:
        file.write(text)
    if argv:
        with open(os.path.join(folder, "run.sh"), "w") as file:
            file.write("python train.py " + " ".join(argv) + "\n")
    return execute(text, argv)


def compare(got, read):
    """Lines about values that the program reads differently, and the number of values that it knows."""
    wrong, known = [], 0
    for key, (knob, _, _, write) in KEYS.items():
        said = read[knob]
        if said["origin"] in ("unclear", "absent"):
            continue
        known += 1
        if said["value"] != write(got[key]):
            wrong.append(f"{knob}: Python has {got[key]!r}, the program says {said['value']} ({said['origin']})")
    return wrong, known


def main():
    dump, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 400
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with tempfile.TemporaryDirectory() as root:
        expected = {}
        for seed in range(first, first + count):
            folder = os.path.join(root, str(seed))
            got = make(folder, seed)
            if got:
                expected[folder] = got
        output = subprocess.run([dump, *expected], capture_output=True, text=True, check=True).stdout
        failed = known = 0
        for line in output.splitlines():
            read = json.loads(line)
            wrong, count_known = ([read["error"]], 0) if "error" in read else compare(expected[read["folder"]], read)
            known += count_known
            failed += bool(wrong)
            if wrong and failed <= int(os.environ.get("SHOW", 5)):
                print(f"seed {os.path.basename(read['folder'])}:", *wrong, sep="\n  ")
                for name in ("train.py", "run.sh"):
                    path = os.path.join(read["folder"], name)
                    if os.path.exists(path):
                        print(open(path).read())
        share = known / max(1, len(expected) * len(KEYS))
        print(f"{len(expected)} scripts, {failed} read wrongly; {share:.0%} of the values are known")
        # A reader that knows nothing is never wrong.
        bad = failed + (share < 0.3) + (len(expected) < 0.9 * count)
        print(f"{len(expected) - failed} passed, {bad} failed")
        sys.exit(bad > 0)


main()
