#!/usr/bin/env python3
"""parsers.py PLIMSOLL ENVIRONMENT: files of Axolotl, LLaMA-Factory, torchtune and the alignment handbook as a plan leaves them are
read by the framework's own parser, which must not object to anything that it accepted in the original.

Every row of a plan is applied to a copy of its own: the plan and its fallbacks. Of each framework, six files are taken; with
PARSERS=all, all of them. The last line is "N passed, N failed[, N skipped]"."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIGS = os.path.join(HERE, "..", "..", "..", "shared", "configs")
FILES = 1000 if os.environ.get("PARSERS") == "all" else 6
# What its files begin with here, the environment's folder that its parser needs besides its own, and lines that it must refuse.
FRAMEWORKS = {
    "axolotl": (("axolotl__",), "bitsandbytes", "micro_batch_size: many"),
    "torchtune": (("torchtune__",), "bitsandbytes", "wrong: {_component_: torch.optim.AdamW, wrong: 1}"),
    "llamafactory": (("llamafactory__", "llama-factory__"), "transformers-4.57.6", "wrong: 1"),
    "handbook": (("handbook__",), "transformers-4.57.6", "wrong: 1"),
}
passed = failed = skipped = 0


def check(is_met, text):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)


def plimsoll(folder, *words):
    return subprocess.run([os.path.abspath(sys.argv[1]), *words], cwd=folder, capture_output=True, text=True)


def copied(folder, name):
    """A folder of its own with the file, and with DeepSpeed files of the names that are in it."""
    path = os.path.join(folder, name)
    os.makedirs(folder)
    shutil.copyfile(os.path.join(CONFIGS, name), path)
    with open(path) as f:
        named = re.findall(r"examples/deepspeed/ds_z([0-3])(\w*\.json)", f.read())
    for stage, rest in named:
        os.makedirs(os.path.join(folder, "examples", "deepspeed"), exist_ok=True)
        with open(os.path.join(folder, "examples", "deepspeed", "ds_z%s%s" % (stage, rest)), "w") as f:
            json.dump({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": int(stage)}}, f)
    return path


def rows(folder):
    """The rows of the plan that write something: the number, and the options of `plimsoll apply`."""
    with open(os.path.join(folder, "plan.json")) as f:
        plan = json.load(f)
    for i, rung in enumerate(plan["rungs"] if plan["fits"] else []):
        if rung["writes"] or rung["creates"]:
            yield i + 1, [word for one in rung["by_hand"] for word in ("--done", one["knob"])]


def applied(folder, name):
    """The file as each row of its plans leaves it (for two cards, if all files are wanted); none if there is no plan, or if it has nothing to write."""
    found = []
    for gpu in ("24GiB", "80GiB") if FILES > 6 else ("24GiB",):
        planned = os.path.join(folder, gpu)
        copied(planned, name)
        if plimsoll(planned, "plan", name, "--gpu", gpu, "--out", "plan.json").returncode:
            continue
        for row, options in rows(planned):
            path = copied(os.path.join(folder, "%s-%d" % (gpu, row)), name)
            shutil.copy(os.path.join(planned, "plan.json"), os.path.dirname(path))
            done = plimsoll(os.path.dirname(path), "apply", "plan.json", "--rung", str(row), *options)
            if done.returncode:
                check(False, "%s, %s: row %d of the plan is written: %s" % (name, gpu, row, done.stderr))
            else:
                found.append(path)
    return found


def spread(names):
    """All of them, but so that the first few are from everywhere in the list."""
    step = max(1, len(names) // FILES)
    return [name for i in range(step) for name in names[i::step]]


def written(folder, prefixes):
    """{original: [the file as a plan leaves it, ...]}, of as many files as are wanted."""
    waiting = spread(sorted(name for name in os.listdir(CONFIGS) if name.startswith(prefixes) and name.endswith((".yaml", ".yml"))))
    found = {}

    def work():
        while waiting and len(found) < FILES:
            name = waiting.pop(0)
            paths = applied(os.path.join(folder, name), name)
            if paths:
                found[os.path.join(folder, name, "24GiB", name)] = paths

    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(work) for _ in range(2)]:
            one.result()
    return found


def read(framework, paths, folder, python_path):
    """What the framework's parser objects to in each file."""
    files, result = os.path.join(folder, "files.json"), os.path.join(folder, "result.json")
    with open(files, "w") as f:
        json.dump(paths, f)
    env = dict(os.environ, PYTHONPATH=python_path, HF_HUB_OFFLINE="1", DISABLE_VERSION_CHECK="1", WANDB_MODE="disabled", AXOLOTL_DO_NOT_TRACK="1")
    program = [os.path.join(sys.argv[2], "bin", "python"), os.path.join(HERE, "parsers_check.py"), framework, files, result]
    # On a simulated card, because torch cannot be imported without one here.
    command = [os.path.abspath(sys.argv[1]), "simulate", "--gpu", "H200", "--steps", "0", "--writable", folder, "--", *program]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if not os.path.exists(result):
        check(False, "%s can be imported: %s" % (framework, done.stderr[-2000:]))
        return None
    with open(result) as f:
        return json.load(f)


def broken(original, line):
    """A copy of the file with a line that the parser must refuse."""
    name = os.path.basename(original)
    path = copied(os.path.join(os.path.dirname(os.path.dirname(original)), "broken"), name)
    with open(path, "a") as f:
        f.write("\n%s\n" % line)
    return path


def compare(framework, files, wrong, objections):
    global skipped

    def new(original, path):
        return [one for one in objections[path] if one not in objections[original]]

    accepted = [path for path in files if not objections[path]]
    check(files, "%s accepts %d of %d originals whole" % (framework, len(accepted), len(files)))
    check(any(new(*one) for one in wrong.items()), "%s refuses a wrong line" % framework)
    for original, paths in files.items():
        if not new(original, wrong[original]):
            skipped += 1
            reason = (objections[original] or ["it does not object to a wrong line"])[0]
            print("skipped: %s does not read %s: %s" % (framework, os.path.basename(original), reason[:300]))
            continue
        for path in paths:
            place = "%s, %s" % (os.path.basename(path), os.path.basename(os.path.dirname(path)))
            found = new(original, path)
            check(not found, "%s is read%s" % (place, "".join("\n     " + one[:1000] for one in found)))


def main():
    if not os.path.isdir(CONFIGS):
        print("skipped: the real files are not here: ../shared/configs")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    made = subprocess.run([os.path.join(HERE, "parsers_environment.sh"), sys.argv[2]], stdout=subprocess.PIPE, text=True)
    if made.returncode == 3:
        print("skipped: the packages of tests/torch/parsers_environment.sh cannot be downloaded")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    for framework, (prefixes, beside, line) in FRAMEWORKS.items():
        with tempfile.TemporaryDirectory(prefix="plimsoll-parsers-") as folder:
            files = written(folder, prefixes)
            python_path = ":".join((os.path.join(made.stdout.strip(), framework), os.path.join(sys.argv[2], beside)))
            wrong = {original: broken(original, line) for original in files}
            paths = [*files, *wrong.values(), *[path for one in files.values() for path in one]]
            objections = read(framework, paths, folder, python_path)
            if objections is not None:
                compare(framework, files, wrong, objections)
    print("%d passed, %d failed%s" % (passed, failed, ", %d skipped" % skipped if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
