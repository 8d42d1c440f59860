#!/usr/bin/env python3
"""configs.py PLIMSOLL FOLDER...: runs `plimsoll` on each configuration file in the folders, whatever it contains.

One test per file: plan and check exit with 0, 1 or 2, never by a signal, and with 2 they say why. A plan has the numbers
that a real parser reads at the keys of the file. Applying it changes the file, which the next plan accepts; undoing it
restores every byte.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:  # Debian's PyYAML is for Debian's Python
    if sys.executable == "/usr/bin/python3":
        raise
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

KINDS = (".yaml", ".yml", ".json", ".py", ".sh")
CARD = ("--gpu", "80GiB")
FEW = ("--try", "micro_batch=1,2,3", "--try", "checkpoint=on,off")  # a short search
# Keys with the same meaning in every ecosystem, and the setting of a plan to which they belong.
NUMBERS = {"micro_batch_size": "micro_batch", "per_device_train_batch_size": "micro_batch",
           "gradient_accumulation_steps": "accumulate", "sequence_len": "sequence", "cutoff_len": "sequence"}


class Wrong(Exception):
    pass


def run(folder, program, *words):
    """Exit code, stdout and stderr of a command, which must exit normally."""
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    command = " ".join(words)
    if done.returncode not in (0, 1, 2):
        raise Wrong(f"{command}: exit {done.returncode}")
    if done.returncode == 2 and not re.match(r"error: .+", done.stderr):
        raise Wrong(f"{command}: exit 2 without a reason")
    if done.returncode != 2 and not done.stdout.strip():
        raise Wrong(f"{command}: no answer")
    return done.returncode, done.stdout, done.stderr


def parsed(path):
    if path.suffix in (".yaml", ".yml"):
        return yaml.safe_load(path.read_text())
    return json.loads(path.read_text()) if path.suffix == ".json" else {}


def compare_numbers(path, document):
    """The planned settings without the changes are those of the file. If nothing fits there are none."""
    if not document["chosen"]:
        return
    now = document["chosen"] | {change["knob"]: change["from"] for change in document["changes"]}
    for key, value in parsed(path).items():
        setting = NUMBERS.get(key)
        if setting and type(value) is int and now[setting] != value:
            raise Wrong(f"{key} is {value}, and {setting} was read as {now[setting]}")


def apply_and_undo(folder, program, path, text, world):
    """A plan with manual steps is refused with exit 2, and then nothing changes."""
    code, _, _ = run(folder, program, "apply", "plan.json")
    if code == 2:
        if path.read_bytes() != text:
            raise Wrong("apply was refused, and changed the file")
        return
    code, _, why = run(folder, program, "plan", path.name, *CARD, *FEW, *world)
    if code == 2:
        raise Wrong(f"the next plan refuses the applied file: {why}")
    run(folder, program, "undo")
    left = sorted(p.name for p in folder.iterdir() if p not in (path, folder / "plan.json"))
    if path.read_bytes() != text or left:
        raise Wrong(f"undo did not restore it: {left}")


def try_file(program, original):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = folder / original.name
        shutil.copyfile(original, path)
        text = path.read_bytes()
        run(folder, program, "check", path.name, *CARD)
        world = ()
        code, _, _ = run(folder, program, "plan", path.name, *CARD, *FEW, "--out", "plan.json")
        if code == 2:  # the number of GPUs may be what is missing
            world = ("--world", "8")
            code, _, _ = run(folder, program, "plan", path.name, *CARD, *FEW, *world, "--out", "plan.json")
        if code == 2:
            return "refused"
        compare_numbers(path, json.loads((folder / "plan.json").read_text()))
        apply_and_undo(folder, program, path, text, world)
        return "planned"


def main():
    program, *folders = sys.argv[1:]
    program = os.path.abspath(program)
    os.environ |= {"HF_HOME": "nowhere", "PLIMSOLL_NVML": "none"}
    passed = failed = skipped = 0
    ends = {"refused": 0, "planned": 0}
    for folder in map(pathlib.Path, folders):
        if not folder.is_dir():
            print("skipped: there is no", folder)
            skipped += 1
        for path in sorted(p for p in folder.rglob("*") if p.suffix in KINDS and p.name != "truth.json"):
            try:
                ends[try_file(program, path)] += 1
                passed += 1
                print("ok  ", path.relative_to(folder))
            except Wrong as why:
                failed += 1
                print("FAIL", f"{path.relative_to(folder)}: {why}")
    print(f"{ends['planned']} planned, {ends['refused']} refused")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return failed != 0


sys.exit(main())
