#!/usr/bin/env python3
"""seeds.py PLIMSOLL ENVIRONMENT [SEED...]: the trainings of tests/fixtures/seed0 to seed4 on simulated cards. As they are
they run out of memory; after `plimsoll plan` and `plimsoll apply` they fit; `plimsoll undo` restores every byte.

Checkpoints are sparse files of zeros, and the texts are random. The last line is "N passed, N failed"."""
import concurrent.futures
import filecmp
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

TORCH = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(os.path.dirname(TORCH), "fixtures")
CHECKPOINTS = (
    "Qwen/Qwen2.5-7B-Instruct=qwen2.5-7b:float16",
    "meta-llama/Llama-3.2-1B=llama-3.2-1b:bfloat16",
    "sentence-transformers/all-MiniLM-L6-v2=minilm-l6:float32",
    "google/flan-t5-xl=flan-t5-xl:bfloat16",
)
OUT_OF_MEMORY = r"(torch\.|\b)OutOfMemoryError: CUDA out of memory\. Tried to allocate [0-9.]+ [KMG]iB"


class Seed:
    """A copy of a fixture, and what was checked with it."""

    def __init__(self, number, run, steps=2):  # the second step has the optimizer's state from its beginning
        self.run, self.name, self.passed, self.failed = run, "seed%d" % number, 0, 0
        self.folder, self.steps = os.path.join(run.folder, self.name), steps
        shutil.copytree(os.path.join(FIXTURES, self.name), self.folder)

    def check(self, is_met, text):
        self.passed, self.failed = self.passed + bool(is_met), self.failed + (not is_met)
        print("%s %s: %s" % ("ok  " if is_met else "FAIL", self.name, text), flush=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_rows(self, name, keys, length, count=64):
        os.makedirs(os.path.dirname(self.path(name)))
        letters = random.Random(0)
        with open(self.path(name), "w") as f:
            for _ in range(count):
                f.write(json.dumps({k: "".join(letters.choices("abcdefgh ", k=length)) for k in keys}) + "\n")

    def edit(self, name, old, new):
        with open(self.path(name)) as f:
            text = f.read()
        if old not in text:
            self.check(False, "%s has no %r" % (name, old))
        with open(self.path(name), "w") as f:
            f.write(text.replace(old, new))

    def plimsoll(self, *words, env=()):
        return subprocess.run([self.run.plimsoll, *words], cwd=self.folder, env=dict(self.run.env, **dict(env)), capture_output=True, text=True)

    def simulate(self, card, words, gpus=1, env=()):
        options = ("--gpu", card, "--gpus", str(gpus), "--steps", str(self.steps), "--json", "--")
        done = self.plimsoll("simulate", *options, *words, env=env)
        if done.returncode not in (0, 1):
            print(done.stderr[-2000:], flush=True)
        return (json.loads(done.stdout) if done.stdout else {"verdict": "failed"}), done.returncode

    def does_not_fit(self, found, status):
        with open(found["run"]["log"]) as f:
            error = re.search(OUT_OF_MEMORY, f.read())
        needs = (found["large_enough"] or found["run"])["needs_bytes"] / 2**30
        self.check(found["verdict"] == "does_not_fit" and status == 1, "does not fit: %s, needs %.2f GiB" % (found["verdict"], needs))
        self.check(error, "PyTorch says: %s" % (error and error.group(0)))

    def fits(self, found):
        needs = found.get("run", {}).get("needs_bytes", 0) / 2**30
        self.check(found["verdict"] == "fits" and found["run"]["steps"] >= self.steps, "fits: %s, needs %.2f GiB" % (found["verdict"], needs))

    def plan(self, *words):
        done = self.plimsoll("plan", *words, "--out", "../%s.json" % self.name)
        planned = re.search(r"^planned:.*", done.stdout, re.M)
        self.check(done.returncode == 0 and planned, planned.group(0) if planned else done.stdout[-500:] + done.stderr[-500:])

    def apply(self, *words):
        self.before = self.folder + ".before"
        shutil.copytree(self.folder, self.before)
        done = self.plimsoll("apply", "../%s.json" % self.name, *words)
        self.check(done.returncode == 0, "the plan is applied" + done.stderr[-500:] * (done.returncode != 0))

    def undo(self):
        done = self.plimsoll("undo")
        self.check(done.returncode == 0 and same_files(self.before, self.folder), "undo restores every byte")


def same_files(a, b):
    found = filecmp.dircmp(a, b, ignore=[".plimsoll"])
    names = filecmp.cmpfiles(a, b, found.common_files, shallow=False)
    if found.left_only or found.right_only or names[1] or names[2]:
        return False
    return all(same_files(os.path.join(a, d), os.path.join(b, d)) for d in found.common_dirs)


def seed0(run):
    """LoRA of a 7B model: constants in config.py, started by a script that loses the exit status."""
    seed, words = Seed(0, run), ("bash", "start_baseline.sh")
    seed.write_rows("data/train.jsonl", ["text"], 2100)
    os.mkdir(seed.path("logs"))
    seed.does_not_fit(*seed.simulate("4090", words))
    seed.plan("start_baseline.sh", "--gpu", "4090", "--fix", "liger=off")
    seed.apply("--done", "chunked_loss")  # before the manual step: a plan is refused once its files have changed
    shutil.copy(seed.path("train_baseline.py"), seed.folder + ".py")
    seed.edit("train_baseline.py", "    model.gradient_checkpointing_enable()\n", "    use_chunked_loss(model, 512)\n    model.gradient_checkpointing_enable()\n")
    seed.edit("train_baseline.py", "\nfrom config.config", "\nfrom chunked_loss import use_chunked_loss\nfrom config.config")
    with open(seed.path("chunked_loss.py"), "w") as f:
        f.write(seed.plimsoll("help", "chunked_loss").stdout)
    seed.fits(seed.simulate("4090", words)[0])
    os.remove(seed.path("chunked_loss.py"))
    shutil.copy(seed.folder + ".py", seed.path("train_baseline.py"))
    seed.undo()
    return seed


def seed1(run):
    """ZeRO-3 on three GPUs, started by `accelerate launch` with Hydra's overrides. flash-attn and bitsandbytes are not
    installed here; the program and its model are those of tests/torch/seed1."""
    seed, words = Seed(1, run), ("bash", "scripts/experiments.sh")
    shutil.copytree(os.path.join(TORCH, "seed1"), seed.folder, dirs_exist_ok=True)
    seed.write_rows("data/train.jsonl", ["text"], 1100, 256)
    seed.edit("scripts/experiments.sh", "flash_attention_2", "sdpa")
    seed.edit("configs/trainer/finetune.yaml", "paged_adamw_32bit", "adamw_torch")
    seed.edit("scripts/experiments.sh", "train_batch_size=4", "train_batch_size=8")  # as in the trainer's file
    seed.edit("scripts/experiments.sh", "accumulation_steps=4", "accumulation_steps=2")
    seed.edit("configs/accelerate/zero_stage3.json", '"train_micro_batch_size_per_gpu": 4', '"train_micro_batch_size_per_gpu": 8')
    seed.does_not_fit(*seed.simulate("16GiB", words, 3))
    files = ["scripts/experiments.sh", "configs/trainer/finetune.yaml", "configs/accelerate/default_config.yaml", "configs/accelerate/zero_stage3.json"]
    seed.plan(*files, "--model", "llama-3.2-1b", "--gpu", "16GiB", "--fix", "liger=off", "--fix", "chunked_loss=off")
    seed.apply()
    seed.fits(seed.simulate("16GiB", words, 3)[0])
    seed.undo()
    return seed


def too_aggressive(seed):
    """The settings of seed2 that its authors called too aggressive."""
    config = "training/configs/pretrain_512m.yaml"
    os.mkdir(seed.path("training"))
    for name in ("configs", "train.py"):
        os.rename(seed.path(name), seed.path("training/" + name))
    seed.edit(config, "micro_batch_size: 2 ", "micro_batch_size: 8 ")
    seed.edit(config, "gradient_accumulation_steps: 32", "gradient_accumulation_steps: 1")
    seed.edit(config, "global_batch_size: 256", "global_batch_size: 32")
    seed.edit(config, "max_seq_len: 1024", "max_seq_len: 2048")
    seed.edit(config, "num_workers: 4", "num_workers: 0")
    return config


def seed2(run):
    """A home-made model on four GPUs, with the settings that its authors called too aggressive: plans by simulated runs."""
    seed = Seed(2, run)
    config = too_aggressive(seed)
    words = ("torchrun", "--nproc_per_node=4", "training/train.py", "--config", config, "--output_dir", "outputs/512m")
    conf = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    seed.does_not_fit(*seed.simulate("44GiB", words, 4, env=conf))
    done = seed.plimsoll("plan", "--gpu", "44GiB", "--json", "--", *words, env=conf)
    diff = json.loads(done.stdout)["changes"]["diff"] if done.returncode == 0 else ""
    diff = diff or ""  # null: nothing has to change
    seed.check(diff, "there is a plan: %s" % (re.findall(r"^\+ .*", diff, re.M) or done.stderr[-800:]))
    seed.before = seed.folder + ".before"
    shutil.copytree(seed.folder, seed.before)
    subprocess.run(["patch", "-p1", "--quiet"], input=diff, text=True, cwd=seed.folder)
    seed.fits(seed.simulate("44GiB", words, 4, env=conf)[0])
    return seed


def seed3(run):
    """A contrastive encoder whose stages are files of their own."""
    seed, words = Seed(3, run, steps=1), ("python", "train.py")  # adapters have a small optimizer state
    seed.does_not_fit(*seed.simulate("6GiB", words))
    seed.plan("conf/config.yaml", "--gpu", "6GiB", "--allow", "n_negatives")
    seed.apply()
    seed.fits(seed.simulate("6GiB", words)[0])
    seed.undo()
    return seed


def docker_run(path):
    """What `docker run` would start: the words of ENTRYPOINT and CMD, and the variables of ENV."""
    with open(path) as f:
        text = re.sub(r"\\\n\s*", " ", f.read())
    words = json.loads(re.search(r"^ENTRYPOINT (.*)", text, re.M).group(1)) + json.loads(re.search(r"^CMD (.*)", text, re.M).group(1))
    return words, dict(pair.split("=", 1) for pair in re.search(r"^ENV (.*)", text, re.M).group(1).split())


def seed4(run):
    """FLAN-T5-XL in three copies. The report names them; the script is repaired by hand, and then there is a plan."""
    seed, file = Seed(4, run), "Dockerfile.training"
    seed.write_rows("data/recipes.jsonl", ["ingredients", "recipe"], 600, 512)
    words, env = docker_run(seed.path(file))
    found, status = seed.simulate("5090", words, env=env)
    seed.does_not_fit(found, status)
    copies = ((found["large_enough"] or found["run"])["replay"] or {}).get("duplicates", [])
    seed.check("in_bfloat16" in json.dumps(copies), "the copies are named: %s" % json.dumps(copies)[:300])
    seed.edit("cli/train.py", "    converted = in_bfloat16(loaded)\n    model = on_card(converted)\n", "    model = loaded\n")
    seed.plan(file, "--seq", "512", "--gpu", "5090")
    seed.apply()
    words, env = docker_run(seed.path(file))
    found, status = seed.simulate("5090", words, env=env)
    seed.fits(found)
    seed.check(status == 0, "no duplicated model is left")
    seed.undo()
    return seed


class Run:
    def __init__(self, plimsoll, environment, folder):
        self.plimsoll, self.folder = plimsoll, folder
        hub = os.path.join(folder, "hub")
        path = os.path.join(environment, "bin") + ":" + os.environ["PATH"]
        self.env = dict(os.environ, PATH=path, HF_HUB_CACHE=hub, PYTHONDONTWRITEBYTECODE="1")
        os.mkdir(hub)
        words = ["python", os.path.join(TORCH, "sparse_checkpoint.py"), hub, *CHECKPOINTS]
        subprocess.run([plimsoll, "simulate", "--gpu", "H200", "--writable", hub, "--", *words], env=self.env, capture_output=True)
        assert os.listdir(hub), "no checkpoints"  # simulate itself says that the program did not use the GPU


def prepare(folder):
    """The files of seed2 with those settings, for docs/cases/home-made-model.md."""
    too_aggressive(Seed(2, type("Folder", (), {"folder": folder})))


def main():
    if sys.argv[1] == "--prepare":
        return prepare(sys.argv[2])
    wanted = sys.argv[3:] or ["seed0", "seed1", "seed2", "seed3", "seed4"]
    missing = [p for p in ("deepspeed", "hydra") if not glob.glob(os.path.join(sys.argv[2], "lib", "python3*", "site-packages", p))]
    if missing and "seed1" in wanted:
        print("skipped: seed1, because the environment has no %s" % " and no ".join(missing))
        wanted.remove("seed1")
    with tempfile.TemporaryDirectory(prefix="plimsoll-seeds-") as folder:
        run = Run(os.path.abspath(sys.argv[1]), sys.argv[2], folder)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            seeds = list(pool.map(lambda name: globals()[name](run), wanted))
    passed, failed = sum(s.passed for s in seeds), sum(s.failed for s in seeds)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
