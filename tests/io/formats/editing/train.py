#!/usr/bin/env python3
# A fine-tuning script as people write them.
"""LoRA fine-tuning of a 7B model on one card."""
import argparse
import os
from dataclasses import dataclass, field

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:128"
os.environ.setdefault('TOKENIZERS_PARALLELISM', 'false')

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

# ---- constants ----
MAX_SEQ_LENGTH = 2048  # tokens
SEED, WORKERS = 42, 4
LEARNING_RATE: float = 2e-4
BUFFER = 1_000_000
PAGE = 0xFF
WARMUP = .03
EFFECTIVE = 5 * 8
NAME = f"run-{MAX_SEQ_LENGTH}"
PROMPT = (
    "Translate the sentence "  # the task
    'into its graph.'
)
PATTERN = r"\d+"
FAST = torch.cuda.is_available()
if FAST:
    MAX_SEQ_LENGTH = 4096

TRAINING_CONFIG = {
    # What fits on a card of 24 GB.
    "per_device_train_batch_size": 2,     # was 4
    "gradient_accumulation_steps": 8,
    'lr': LEARNING_RATE,
    "optimizer": {"name": "adamw_8bit", "betas": (0.9, 0.999), "eps": 1e-8},
    "logging.steps": 10,
    "fp16": not torch.cuda.is_bf16_supported(),
}

LORA = dict(r=16, lora_alpha=32, bias="none")


@dataclass
class ModelArguments:
    """What to load."""

    name: str = "org/model-7b"
    use_flash: bool = True
    dropout: float = field(default=0.1, metadata={"help": "of the adapters"})
    rank: int = field(metadata={"help": "no default"})
    tags: list = field(default_factory=list)
    alpha: int = 32
    scale = alpha


class Config:
    batch_size = 4
    half = batch_size

    class Data:
        workers = 8

    def __init__(self):
        self.steps = 10
        batch_size = 3
        LoraConfig(r=batch_size)


def parse():
    parser = argparse.ArgumentParser(description="training")
    parser.add_argument("--batch-size", "-b", type=int, default=4, help="per card")
    parser.add_argument("-l", "--lr", type=float)
    parser.add_argument(
        "--bf16",
        action="store_true",  # off by default
    )
    parser.add_argument("--no-eval", dest="evaluate", action="store_false")
    parser.add_argument("corpus")
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def main(args, epochs=3):
    config = Config()
    model = AutoModelForCausalLM.from_pretrained(
        "org/model-7b",
        torch_dtype=torch.bfloat16,
        max_memory={0: "20GB", "cpu": "30GB"},
        device_map="auto")
    model.gradient_checkpointing_enable()
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"]))
    training = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=config.batch_size,
        gradient_accumulation_steps=TRAINING_CONFIG["gradient_accumulation_steps"],
        learning_rate=TRAINING_CONFIG["lr"],
        num_train_epochs=epochs,
        max_steps=100 if args.bf16 else 200,
        bf16=args.bf16,
        optim="paged_adamw_8bit",
        weight_decay=LORA.get("weight_decay", 0.01),
        save_total_limit=ModelArguments.alpha  # by habit
    )
    second = TrainingArguments("other", bf16=True, **TRAINING_CONFIG)
    Trainer(model=model, args=training, callbacks=[lambda a, b=1: a]).train()


if __name__ == "__main__":
    DEBUG = False
    main(parse())
