#!/usr/bin/env python3
"""Every example is run: the lines that begin with `plimsoll` in README.md, docs/ and the examples of help and man pages.

usage: examples_check.py PLIMSOLL

Commands that print something in a page with their output are the business of tools/manual.sh. Those that start a program (behind --) get
one that is over at once, and their options are read and checked all the same. A line passes if the program does not say that it was
used wrongly: exit codes 0 and 1, or that of the program."""
import glob, json, os, re, shlex, shutil, signal, subprocess, sys, tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
SNAPSHOT = os.path.join(ROOT, "tests/truth/snapshots/stacks-leak-logits.pickle.xz")
YAML = """base_model: Qwen/Qwen2.5-0.5B
micro_batch_size: 2
gradient_accumulation_steps: 4
sequence_len: 512
optimizer: adamw_torch
bf16: true
datasets:
  - path: data.jsonl
    type: completion
"""
PROGRAM = """import sys
from transformers import Trainer, TrainingArguments, AutoModelForCausalLM
if "torch" in sys.argv: raise SystemExit(0)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype="bfloat16")
args = TrainingArguments(output_dir="out", per_device_train_batch_size=2, gradient_accumulation_steps=4, bf16=True)
Trainer(model=model, args=args).train()
"""
SHELL = "python train.py\n"
CONFIG = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
          "vocab_size": 1000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16"}
# What such a machine and such programs cannot do. The command line was understood.
UNMET = ("needs an NVIDIA GPU", "the program did not use the GPU", "memory is recorded after each optimizer step, and it made none")
SERVES = ("watch", "web")  # they go on until they are ended

failures = passed = 0


def check(ok, text):
    global failures, passed
    passed, failures = passed + bool(ok), failures + (not ok)
    if not ok:
        print("FAIL " + text)


def lines_of_pages():
    """(place, command) for each bare command of the pages; commands with output are marked by "$"."""
    for page in ["README.md", *sorted(glob.glob("docs/**/*.md", recursive=True, root_dir=ROOT))]:
        inside = shows_output = False
        with open(os.path.join(ROOT, page)) as file:
            for number, line in enumerate(file, 1):
                if line.startswith("```"):
                    inside, shows_output = not inside, False
                elif inside and line.startswith("$ "):
                    shows_output = True
                elif inside and not shows_output and line.startswith("plimsoll ") and not line.startswith("plimsoll: "):
                    yield f"{page}:{number}", line


def lines_of_help(plimsoll):
    """The examples of every command's help, which are those of its man page."""
    names = re.findall(r"^  (\w+)  ", subprocess.run([plimsoll, "--help"], capture_output=True, text=True).stdout, re.M)
    for name in dict.fromkeys(names):
        text = subprocess.run([plimsoll, name, "--help"], capture_output=True, text=True).stdout
        examples = text[text.find("\nExamples:"):] if "\nExamples:" in text else ""
        for line in re.findall(r"^  (plimsoll .*(?:\\\n.*)*)$", examples, re.M):
            yield f"plimsoll {name} --help", line


def prepare(folder, plimsoll):
    def write(name, text):
        os.makedirs(os.path.dirname(os.path.join(folder, name)) or folder, exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)

    write("train.yaml", YAML)
    write("train.py", PROGRAM)
    write("train.sh", SHELL)
    write("launch.sh", SHELL)
    write("a.yaml", YAML)
    write("b.yaml", YAML)
    os.makedirs(os.path.join(folder, "man1"))
    write("my-model/config.json", json.dumps(CONFIG))
    write("lengths.txt", "100\n300\n512\n")
    shutil.copy(os.path.join(ROOT, "tests/fixtures/logs/fragmentation.log"), os.path.join(folder, "train.log"))
    shutil.copy(SNAPSHOT, os.path.join(folder, "snapshot.pickle"))
    shutil.copy(SNAPSHOT, os.path.join(folder, "snapshot.pickle.xz"))
    for python in ("python", "torchrun", "accelerate", "deepspeed"):  # programs that are over at once
        write("bin/" + python, "#!/bin/sh\nexit 0\n")
        os.chmod(os.path.join(folder, "bin", python), 0o755)
    os.symlink(plimsoll, os.path.join(folder, "bin", "plimsoll"))


def main(plimsoll):
    plimsoll = os.path.abspath(plimsoll)
    examples = [*lines_of_pages(), *lines_of_help(plimsoll)]
    check(len(examples) > 60, f"{len(examples)} examples")
    for place, line in examples:
        with tempfile.TemporaryDirectory() as folder:
            prepare(folder, plimsoll)
            run_example(place, line, folder)
    print(f"{passed} passed, {failures} failed")
    return failures > 0


def run_example(place, line, folder):
    line = re.sub(r"\s+#.*", "", line.strip()).replace("/usr/local/share/man/man1", "man1").replace("| source", "| cat")
    words = shlex.split(line)
    environment = {**os.environ, "PATH": os.path.join(folder, "bin") + ":" + os.environ["PATH"], "HOME": folder, "HF_HOME": folder,
                   "XDG_STATE_HOME": folder, "XDG_CACHE_HOME": folder, "PLIMSOLL_NVML": "none", "COLUMNS": "80"}
    if "apply" in words or "plan.json" in words and "--out" not in words:
        subprocess.run(["plimsoll", "plan", "train.yaml", "--gpu", "24GiB", "--out", "plan.json"], cwd=folder, env=environment, capture_output=True)
    for _ in range(3 if words[1] == "runs" else 0):
        subprocess.run(["plimsoll", "run", "--", "python", "train.py"], cwd=folder, env=environment, capture_output=True)
    if "--against" in words:
        with open(os.path.join(folder, words[words.index("--against") + 1]), "w") as out:
            subprocess.run(["plimsoll", "estimate", "-m", "gpt2", "--json"], cwd=folder, env=environment, stdout=out)
    seconds = 3 if words[1] in SERVES else 300
    with subprocess.Popen(["bash", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            output, _ = process.communicate()
            check(words[1] in SERVES, f"{place}: {line}\n     hangs: {output[-300:]}")
            return
    wrong = re.search(r"^error: (unknown |-+[a-z-]+ needs |.*is not allowed|unexpected )", output, re.M)
    starts_program = "--" in words or words[1] in ("run", "simulate", "profile")
    is_unmet = any(reason in output for reason in UNMET)
    check(not wrong and (process.returncode in (0, 1) or is_unmet or starts_program and process.returncode != 2), f"{place}: {line}\n     exit {process.returncode}: {output[-400:]}")


sys.exit(main(*sys.argv[1:]))
