#!/usr/bin/env python3
"""generate.py FOLDER [SEED]: small training configurations of every dialect, and the truth about them.

Each file sets some knobs with the keys of its dialect. The seed decides which knobs and values, their order, quotes,
comments, nesting and line ends. FOLDER/truth.json contains the dialect and the knobs of each file, with the values of
`plimsoll help knobs`. tests/io/dialect/dialect_check.py compares them with what is read.
"""
import json
import pathlib
import random
import sys

MODELS = ("meta-llama/Llama-3.2-1B", "Qwen/Qwen2.5-0.5B", "mistralai/Mistral-7B-v0.1")
WORDS = {"on": True, "off": False}

# The values of each knob, as in `plimsoll help knobs`.
VALUES = {
    "model": MODELS,
    "micro_batch": (1, 2, 4, 8),
    "accumulate": (2, 8, 16),
    "sequence": (512, 1024, 4096),
    "lora_rank": (8, 16, 64),
    "lora_alpha": (16, 32),
    "checkpoint": ("on", "off"),
    "liger": ("on", "off"),
    "packing": ("on", "off"),
    "epochs": (1, 2, 3),
    "workers": (3, 4, 8),
    "world": (2, 4, 8),
    "global_batch": (64, 128),
    "clip": (0.3, 0.75),
    "optimizer": ("adamw", "adamw-8bit"),
    "strategy": ("zero2", "zero3"),
}
OPTIMIZERS = {"adamw": "adamw_torch_fused", "adamw-8bit": "adamw_bnb_8bit"}

HF = {"micro_batch": "per_device_train_batch_size", "accumulate": "gradient_accumulation_steps",
      "checkpoint": "gradient_checkpointing", "epochs": "num_train_epochs", "workers": "dataloader_num_workers",
      "optimizer": "optim", "clip": "max_grad_norm", "liger": "use_liger_kernel"}
TRL = HF | {"sequence": "max_length", "packing": "packing"}
LORA = {"lora_rank": "lora_r", "lora_alpha": "lora_alpha"}
ARGUMENTS = {"model": "model_name_or_path"}

# Dialect, file name, the keys of knobs, lines or values by which the dialect is recognised.
YAML = (
    ("TRL", "trl.yaml", ARGUMENTS | TRL | LORA, {"dataset_name": "trl-lib/Capybara", "use_peft": True}),
    ("TRL", "handbook.yaml", ARGUMENTS | TRL | LORA,
     {"dataset_mixer": {"HuggingFaceH4/ultrachat_200k": 1.0}, "use_peft": True, "torch_dtype": "bfloat16"}),
    ("Axolotl", "axolotl.yml",
     {"model": "base_model", "micro_batch": "micro_batch_size", "accumulate": "gradient_accumulation_steps",
      "sequence": "sequence_len", "packing": "sample_packing", "lora_rank": "lora_r", "lora_alpha": "lora_alpha",
      "epochs": "num_epochs", "optimizer": "optimizer", "checkpoint": "gradient_checkpointing"},
     {"adapter": "lora", "lora_target_linear": True, "datasets": [{"path": "tatsu-lab/alpaca", "type": "alpaca"}]}),
    ("LLaMA-Factory", "factory.yaml",
     ARGUMENTS | {k: HF[k] for k in ("micro_batch", "accumulate", "epochs", "workers", "optimizer", "clip")} |
     {"sequence": "cutoff_len", "lora_rank": "lora_rank", "lora_alpha": "lora_alpha", "packing": "packing",
      "liger": "enable_liger_kernel"},
     {"stage": "sft", "do_train": True, "finetuning_type": "lora", "template": "llama3"}),
    ("torchtune", "tune.yaml",
     {"micro_batch": "batch_size", "accumulate": "gradient_accumulation_steps", "epochs": "epochs",
      "sequence": "tokenizer.max_seq_len", "lora_rank": "model.lora_rank", "lora_alpha": "model.lora_alpha",
      "packing": "dataset.packed", "checkpoint": "enable_activation_checkpointing"},
     {"model._component_": "torchtune.models.llama3_2.lora_llama3_2_1b", "model.lora_attn_modules": ["q_proj"],
      "tokenizer._component_": "torchtune.models.llama3.llama3_tokenizer", "optimizer._component_": "torch.optim.AdamW",
      "dataset._component_": "torchtune.datasets.alpaca_dataset"}),
    ("accelerate", "accelerate.yaml", {"world": "num_processes"},
     {"compute_environment": "LOCAL_MACHINE", "distributed_type": "MULTI_GPU", "num_machines": 1}),
    ("Lightning", "lightning.yaml",
     {"accumulate": "trainer.accumulate_grad_batches", "clip": "trainer.gradient_clip_val", "epochs": "trainer.max_epochs",
      "micro_batch": "data.batch_size", "workers": "data.num_workers"},
     {"trainer.precision": "bf16-mixed", "trainer.accelerator": "gpu", "trainer.devices": 1}),
    ("custom", "hydra.yaml",
     {"micro_batch": "data.batch_size", "sequence": "data.max_length", "accumulate": "optim.grad_accum_steps"},
     {"defaults": ["_self_"], "data.name": "c4"}),
)
DEEPSPEED = {"micro_batch": "train_micro_batch_size_per_gpu", "accumulate": "gradient_accumulation_steps",
             "clip": "gradient_clipping", "strategy": "zero_optimization.stage"}
SCRIPTS = (
    ("transformers", "args.py", "from transformers import Trainer, TrainingArguments\n",
     "args = TrainingArguments({})\n", HF),
    ("TRL", "sft.py", "from trl import SFTConfig, SFTTrainer\n", "config = SFTConfig({})\n", TRL),
    ("Unsloth", "unsloth.py", "from unsloth import FastLanguageModel\nfrom trl import SFTConfig, SFTTrainer\n"
     'model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Llama-3.2-1B", max_seq_length=2048)\n'
     'model = FastLanguageModel.get_peft_model(model, r=16)\n',
     "trainer = SFTTrainer(model=model, args=SFTConfig({}))\n",
     {k: HF[k] for k in ("micro_batch", "accumulate", "epochs", "optimizer", "workers")}),
    ("sentence-transformers", "embed.py", "from sentence_transformers import SentenceTransformer, "
     "SentenceTransformerTrainingArguments\nmodel = SentenceTransformer(\"sentence-transformers/all-MiniLM-L6-v2\")\n",
     "args = SentenceTransformerTrainingArguments({})\n",
     {k: HF[k] for k in ("micro_batch", "epochs", "workers", "optimizer", "clip")}),
    ("Lightning", "lit.py", "import lightning as L\n", "trainer = L.Trainer(accelerator='gpu', {})\n",
     {"accumulate": "accumulate_grad_batches", "clip": "gradient_clip_val", "epochs": "max_epochs"}),
)
COMMANDS = (
    ("transformers", "python run_clm.py --output_dir out --model_name_or_path gpt2", HF),
    ("TRL", "trl sft --model_name_or_path gpt2 --dataset_name trl-lib/Capybara", TRL),
    ("Megatron-LM", "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 768 "
     "--num-attention-heads 12 --vocab-size 32000 --lr 1e-4",
     {"micro_batch": "micro-batch-size", "global_batch": "global-batch-size", "sequence": "seq-length",
      "clip": "clip-grad"}),
)


class Writer:
    """A file that is being generated: random choices, and the values of its knobs."""

    def __init__(self, rng, keys):
        self.rng = rng
        self.truth = {knob: rng.choice(VALUES[knob]) for knob in keys if rng.random() < 0.8 or knob == "micro_batch"}
        self.settings = [(keys[knob], self.written(knob, value)) for knob, value in self.truth.items()]
        rng.shuffle(self.settings)

    @staticmethod
    def written(knob, value):
        if knob == "strategy":
            return int(value[-1])
        return OPTIMIZERS[value] if knob == "optimizer" else WORDS.get(value, value)

    def comment(self, mark="#"):
        return f"  {mark} {self.rng.choice(('as on the cluster', 'was 16', 'see: notes', '80% of it'))}" \
            if self.rng.random() < 0.3 else ""

    def scalar(self, value):
        if isinstance(value, str):
            return self.rng.choice((value, f'"{value}"', f"'{value}'"))
        return json.dumps(value)


def nested(settings):
    tree = {}
    for key, value in settings:
        *above, last = key.split(".")
        at = tree
        for name in above:
            at = at.setdefault(name, {})
        at[last] = value
    return tree


def yaml_lines(w, tree, indent=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:{w.comment()}"
            yield from yaml_lines(w, value, indent + "  ")
        elif isinstance(value, list):
            yield f"{indent}{key}:"
            for item in value:
                first, *rest = yaml_lines(w, item) if isinstance(item, dict) else [w.scalar(item)]
                yield f"{indent}  - {first}"
                yield from (f"{indent}    {line}" for line in rest)
        else:
            yield f"{indent}{key}: {w.scalar(value)}{w.comment()}"
        if not indent and w.rng.random() < 0.2:
            yield w.rng.choice(("", "# ---- next", "#micro_batch_size: 99"))


def yaml_file(rng, keys, fixed):
    w = Writer(rng, keys)
    settings = w.settings + list(fixed.items())
    rng.shuffle(settings)
    return w.truth, "\n".join(yaml_lines(w, nested(settings))).rstrip("\n") + "\n"


def json_file(rng, keys):
    w = Writer(rng, keys)
    w.truth["strategy"] = w.truth.get("strategy", "zero2")
    settings = dict(w.settings) | {keys["strategy"]: int(w.truth["strategy"][-1])}
    tree = nested(list(settings.items())) | {"bf16": {"enabled": True}, "steps_per_print": 50}
    return w.truth, json.dumps(tree, indent=rng.choice((None, 2, 4))) + "\n"


def script(rng, front, call, keys):
    w = Writer(rng, keys)
    arguments = [f"{key}={value!r}" for key, value in w.settings]
    if rng.random() < 0.5:
        lines = "".join(f"    {a},{w.comment()}\n" for a in arguments)
        return w.truth, front + "\n" + call.format(f"\n{lines}")
    return w.truth, front + "\n" + call.format(", ".join(arguments))


def flags(rng, keys):
    w = Writer(rng, keys)
    words = []
    for key, value in w.settings:
        text = str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value).lower()
        words.append(f"--{key}{rng.choice((' ', '='))}{text}")
    return w.truth, words


def shell(rng, command, keys):
    truth, words = flags(rng, keys)
    head = rng.choice(("#!/bin/bash\nset -e\n", "#!/bin/bash\n#SBATCH --gpus=1\n#SBATCH --time=1:00:00\n", "# one run\n"))
    separator = rng.choice((" ", " \\\n  "))
    return truth, head + separator.join([command, *words]) + "\n"


def dockerfile(rng, command, keys):
    truth, words = flags(rng, keys)
    parts = command.split() + [part for word in words for part in word.split()]
    command = json.dumps(parts) if rng.random() < 0.5 else " ".join(parts)
    return truth, f"FROM python:3.11\nWORKDIR /work\nENV A=1\nCMD {command}\n"


def files(rng):
    """(name, dialect, truth, text) of each."""
    for dialect, name, keys, fixed in YAML:
        yield name, dialect, *yaml_file(rng, keys, fixed)
    yield "ds.json", "DeepSpeed", *json_file(rng, DEEPSPEED)
    for dialect, name, front, call, keys in SCRIPTS:
        yield name, dialect, *script(rng, front, call, keys)
    for dialect, command, keys in COMMANDS:
        yield f"{dialect.split('-')[0].lower()}.sh", dialect, *shell(rng, command, keys)
    dialect, command, keys = COMMANDS[0]
    yield "Dockerfile", dialect, *dockerfile(rng, command, keys)


def main():
    folder, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    truth = {}
    for number in range(8):
        rng = random.Random(seed * 1000 + number)
        for name, dialect, knobs, text in files(rng):
            path = folder / str(number) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            ends = "\r\n" if number % 4 == 3 and path.suffix not in (".sh", "") else "\n"
            path.write_bytes(text.replace("\n", ends).encode())
            truth[f"{number}/{name}"] = {"dialect": dialect, "knobs": {k: str(v) for k, v in knobs.items()}}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1))


if __name__ == "__main__":
    main()
