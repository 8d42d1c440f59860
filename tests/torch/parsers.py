#!/usr/bin/env python3
"""parsers.py PLIMSOLL ENVIRONMENT [FOLDER...]: files of Axolotl, LLaMA-Factory, torchtune, TRL and the alignment handbook as a plan
leaves them are read and validated by the framework itself, which must not object to anything that it accepted in the original. So are the files that `plimsoll estimate --as` writes, to
which it must not object at all.

The files are those of ../shared/configs and tests/fixtures and generated ones; or of the folders given. Every row of a plan,
the plan itself and its fallbacks, is applied to a copy of its own. The last line is "N passed, N failed[, N skipped]"."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
PROGRAM = os.path.abspath(sys.argv[1])
GPUS = ("24GiB", "80GiB")  # the second where nothing fits on the first
# How a plan names the dialects of its files; the folder of ENVIRONMENT that its parser needs besides its own; a line that it must
# refuse. The handbook's files are TRL's of an older version.
FRAMEWORKS = {
    "axolotl": (("Axolotl",), "bitsandbytes", "micro_batch_size: many"),
    "torchtune": (("torchtune",), "bitsandbytes", "wrong: {_component_: torch.optim.AdamW, wrong: 1}"),
    "llamafactory": (("LLaMA-Factory", "LLaMA-Factory v1"), "transformers-4.57.6", "wrong: 1"),
    "handbook": (("TRL",), "transformers-4.57.6", "wrong: 1"),
    "trl": (("TRL",), "", "wrong: 1"),
    "scripts": ((), "", "TrainingArguments(wrong=1)"),
    "launchers": ((), "", "wrong: 1"),
}
# Runs that `estimate --as` writes down, and for which trainers: the name there, and the framework that reads it.
RUNS = (
    "--lora-rank 16 --batch 2 --checkpoint --amp bf16",
    "--lora-rank 8 --weights nf4 --checkpoint --amp bf16 --lora-targets q_proj,v_proj --lora-dropout 0.05",
    "--lora-rank 8 --weights nf4-double --reentrant --amp bf16 --optimizer paged-adamw-8bit",
    "--lora-rank 8 --weights int8 --amp bf16 --lora-save embed_tokens",
    "--amp bf16 --batch 2 --accumulate 4 --optimizer adafactor --no-clip --neftune",
    "--amp bf16 --checkpoint --offload activations",
    "--amp bf16 --checkpoint --liger --loss fused",
    "--amp bf16 --loss fused",
    "--amp bf16 --attention flash --mask packed",
    "--amp bf16 --strategy ddp --world 2",
    "--amp bf16 --strategy fsdp2 --world 2",
    "--amp bf16 --strategy fsdp2 --world 2 --offload parameters",
    "--amp bf16 --strategy zero2 --world 2 --offload optimizer",
    "--amp bf16 --strategy zero3 --world 2 --offload parameters --checkpoint",
)
WRITERS = (
    ("axolotl", "axolotl"),
    ("llama-factory", "llamafactory"),
    ("torchtune", "torchtune"),
    ("transformers", "scripts"),
    ("trl", "scripts"),
    ("unsloth", "scripts"),
    ("accelerate", "launchers"),
    ("deepspeed", "launchers"),
)
totals = collections.Counter()


def check(is_met, text):
    totals["passed" if is_met else "failed"] += 1
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)


def skip(text):
    totals["skipped"] += 1
    print("skipped: " + text, flush=True)


def plimsoll(folder, *words):
    env = dict(os.environ, HF_HOME="nowhere", PLIMSOLL_NVML="none")
    return subprocess.run([PROGRAM, *words], cwd=folder if os.path.isdir(folder) else None, capture_output=True, text=True, env=env)


# ---- plans, applied ----------------------------------------------------------------------------------


def named_in(path):
    """The JSON files that a file names, as paths from its folder."""
    with open(path) as f:
        names = set(re.findall(r"[\w./-]+\.json\b", f.read()))
    return [name for name in names if not os.path.isabs(name) and not name.startswith("..")]


def copied(folder, original):
    """A folder of its own with the file and the JSON files that it names."""
    path = os.path.join(folder, os.path.basename(original))
    os.makedirs(folder)
    shutil.copyfile(original, path)
    for name in named_in(original):
        beside, here = os.path.join(os.path.dirname(original), name), os.path.join(folder, name)
        if os.path.exists(beside):
            os.makedirs(os.path.dirname(here), exist_ok=True)
            shutil.copyfile(beside, here)
    return path


def completed(path):
    """The same file; DeepSpeed files that its framework ships, which a plan knows by name, are put beside it for the parser."""
    for name in named_in(path):
        here = os.path.join(os.path.dirname(path), name)
        stage = re.search(r"(?:ds_z|zero)_?([0-3])", name)
        if not stage or os.path.exists(here):
            continue
        os.makedirs(os.path.dirname(here), exist_ok=True)
        with open(here, "w") as f:
            json.dump({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": int(stage[1])}}, f)
    return path


def rows(plan):
    """The rows of the plan that write something: the number, and the options of `plimsoll apply`."""
    for i, rung in enumerate(plan["rungs"]):
        if rung["writes"] or rung["creates"]:
            yield i + 1, [word for one in rung["by_hand"] for word in ("--done", one["knob"])]


def planned(folder, original):
    """(the folder of the first plan that fits, the plan); None if there is none."""
    for gpu in GPUS:
        here = os.path.join(folder, gpu)
        name = os.path.basename(copied(here, original))
        code = plimsoll(here, "plan", name, "--gpu", gpu, "--out", "plan.json").returncode
        if code == 2:  # the number of GPUs may be what is missing
            code = plimsoll(here, "plan", name, "--gpu", gpu, "--world", "8", "--out", "plan.json").returncode
        if code == 0:
            with open(os.path.join(here, "plan.json")) as f:
                return here, json.load(f)
        if code == 2:
            return None
    return None


def framework_of(path, plan):
    """The framework that reads the file; None: its parser is not here."""
    found = {one["dialect"] for one in plan["files"]}
    names = [name for name, (dialects, _, _) in FRAMEWORKS.items() if found.intersection(dialects)]
    is_old = os.path.basename(path).startswith("handbook")
    return next((name for name in names if name not in ("trl", "handbook") or (name == "handbook") == is_old), None)


def applied(folder, original):
    """(framework, the original's copy, the file as each row leaves it); None if no plan changes it."""
    found = planned(folder, original)
    if not found:
        return None
    here, plan = found
    name = os.path.basename(original)
    framework, paths = framework_of(original, plan), []
    for row, options in rows(plan) if framework else ():
        path = copied(os.path.join(folder, "row %d" % row), original)
        shutil.copy(os.path.join(here, "plan.json"), os.path.dirname(path))
        done = plimsoll(os.path.dirname(path), "apply", "plan.json", "--rung", str(row), *options)
        if done.returncode:
            check(False, "%s: row %d of the plan is written: %s" % (name, row, done.stderr))
        else:
            paths.append(completed(path))
    return framework, completed(os.path.join(here, name)), paths


def found_in(folder):
    for at, _, names in sorted(os.walk(folder)):
        yield from (os.path.join(at, name) for name in sorted(names) if name.endswith((".yaml", ".yml")))


def all_applied(folder, roots):
    """{framework: {original: [the file as a plan leaves it, ...]}}."""
    files = [path for root in roots for path in found_in(root)]
    by_framework, counts = collections.defaultdict(dict), collections.Counter()
    with ThreadPoolExecutor(2) as pool:
        for one in pool.map(lambda i: applied(os.path.join(folder, str(i)), files[i]), range(len(files))):
            counts["planned"] += bool(one)
            counts["of a framework whose parser is here"] += bool(one and one[0])
            counts["changed by their plans"] += bool(one and one[2])
            if one and one[2]:
                by_framework[one[0]][one[1]] = one[2]
    print("%d files: %s" % (len(files), ", ".join("%d %s" % (n, what) for what, n in counts.items())), flush=True)
    return by_framework


# ---- files that are written anew -----------------------------------------------------------------------


def written(folder, words, trainer):
    """The path of the file, with those that it names beside it; None if the trainer does not take these settings."""
    done = plimsoll(folder, "estimate", "--model", "qwen2.5-0.5b", "--seq", "512", "--loop", "trainer", *words.split(), "--as", trainer, "--json")
    if done.returncode:
        return None
    answer = json.loads(done.stdout)
    os.makedirs(folder)
    for one in [answer, *answer["other_files"]]:
        with open(os.path.join(folder, one["file"]), "w") as f:
            # Its parser looks for the recipe in a comment, and only a user knows the names of the weights.
            f.write("# %s\n" % answer["command"] * (trainer == "torchtune" and one is answer) + one["text"])
    return os.path.join(folder, answer["file"])


def all_written(folder):
    """{framework: {file: []}}."""
    found = collections.defaultdict(dict)
    for trainer, framework in WRITERS:
        for i, words in enumerate(RUNS):
            path = written(os.path.join(folder, trainer, str(i), "file"), words, trainer)
            if path:
                found[framework][path] = []
    return found


def judge(framework, files, wrong, objections):
    check(all(objections[path] for path in wrong.values()), "%s refuses a wrong line" % framework)
    for path in files:
        trainer, number = path.split(os.sep)[-4:-2]
        said = "".join("\n     " + one[:1000] for one in objections[path])
        check(not objections[path], "%s reads what is written for %s: %s%s" % (framework, trainer, RUNS[int(number)], said))


# ---- the frameworks ----------------------------------------------------------------------------------


def read(framework, paths, folder, python_path):
    """What the framework objects to in each file; or why it could not be asked."""
    files, result = os.path.join(folder, framework + "-files.json"), os.path.join(folder, framework + "-result.json")
    with open(files, "w") as f:
        json.dump(paths, f)
    env = dict(os.environ, PYTHONPATH=python_path, HF_HUB_OFFLINE="1", DISABLE_VERSION_CHECK="1", WANDB_MODE="disabled", AXOLOTL_DO_NOT_TRACK="1")
    program = [os.path.join(sys.argv[2], "bin", "python"), os.path.join(HERE, "parsers_check.py"), framework, files, result]
    # On a simulated card, because torch cannot be imported without one here.
    command = [PROGRAM, "simulate", "--gpu", "H200", "--steps", "0", "--writable", folder, "--", *program]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if not os.path.exists(result):
        return done.stderr[-2000:]
    with open(result) as f:
        return json.load(f)


def broken(original, line):
    """A copy of the file with a line that the parser must refuse."""
    path = copied(os.path.join(os.path.dirname(os.path.dirname(original)), "broken"), original)
    with open(path, "a") as f:
        f.write("\n%s\n" % line)
    return path


def compare(framework, files, wrong, objections):
    def new(original, path):
        return [one for one in objections[path] if one not in objections[original]]

    accepted = [path for path in files if not objections[path]]
    print("%s accepts %d of %d originals whole" % (framework, len(accepted), len(files)))
    check(any(new(*one) for one in wrong.items()), "%s refuses a wrong line" % framework)
    for original, paths in sorted(files.items(), key=lambda one: os.path.basename(one[0])):
        name = os.path.basename(original)
        if not new(original, wrong[original]):
            reason = (objections[original] or ["it does not object to a wrong line"])[0]
            skip("%s does not read %s: %s" % (framework, name, reason[:300]))
            continue
        for path in paths:
            found = new(original, path)
            place = "%s, %s" % (name, os.path.basename(os.path.dirname(path)))
            check(not found, "%s reads %s%s" % (framework, place, "".join("\n     " + one[:1000] for one in found)))


def ask(framework, files, folder, installed):
    """(the framework's objections, the copies with a wrong line)."""
    _, beside, line = FRAMEWORKS[framework]
    wrong = {original: broken(original, line) for original in files}
    paths = [*files, *wrong.values(), *[path for one in files.values() for path in one]]
    python_path = [os.path.join(installed, framework)] + ([os.path.join(sys.argv[2], beside)] if beside else [])
    return read(framework, paths, folder, ":".join(python_path)), wrong


def main():
    made = subprocess.run([os.path.join(HERE, "parsers_environment.sh"), sys.argv[2]], stdout=subprocess.PIPE, text=True)
    if made.returncode == 3:
        skip("the packages of tests/torch/parsers_environment.sh cannot be downloaded")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    installed = made.stdout.strip()
    with tempfile.TemporaryDirectory(prefix="plimsoll-parsers-") as folder:
        generated = os.path.join(folder, "generated")
        roots = sys.argv[3:] or [os.path.join(ROOT, "..", "shared", "configs"), os.path.join(ROOT, "tests", "fixtures"), generated]
        subprocess.run([sys.executable, os.path.join(ROOT, "tests", "configs", "generate.py"), generated], check=True)
        for root in roots:
            if not os.path.isdir(root):
                skip("there is no " + root)
        found = all_applied(os.path.join(folder, "work"), [root for root in roots if os.path.isdir(root)])
        with ThreadPoolExecutor(2) as pool:
            asked = pool.map(lambda name: ask(name, found[name], folder, installed), found)
            for framework, (objections, wrong) in zip(found, asked):
                if isinstance(objections, str):
                    check(False, "%s can be imported: %s" % (framework, objections))
                else:
                    compare(framework, found[framework], wrong, objections)
        anew = all_written(os.path.join(folder, "written")) if not sys.argv[3:] else {}
        for framework in anew:
            objections, wrong = ask(framework, anew[framework], folder, installed)
            if isinstance(objections, str):
                check(False, "%s can be imported: %s" % (framework, objections))
            else:
                judge(framework, anew[framework], wrong, objections)
    print("%d passed, %d failed%s" % (totals["passed"], totals["failed"], ", %d skipped" % totals["skipped"] if totals["skipped"] else ""))
    return 1 if totals["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
