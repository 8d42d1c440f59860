"""Settings as variables of functions, and models by their first argument."""
import argparse

from sentence_transformers import SentenceTransformer
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

MODEL_NAME = 'org/base-7b'


def train():
    batch_size = 4  # per GPU
    lr: float = 2e-4
    use_bf16, seed = True, 7
    name = "org/" + "model"
    steps = 10
    steps += 1
    for warmup in (1, 2):
        patience = 3
    model = AutoModelForCausalLM.from_pretrained(MODEL_NAME, device_map={"": 0})
    tokenizer = AutoTokenizer.from_pretrained("org/other")

    def inner():
        nonlocal lr
        lr = 1e-4
        depth = (2)
        return depth

    return Trainer(model, lr=lr, batch_size=batch_size, seed=seed)


def evaluate(max_length=128):
    batch_size = 8
    teacher = LlamaForCausalLM.from_pretrained(
        "org/teacher-13b",  # larger
        dtype="auto")
    return SentenceTransformer('org/encoder', trust_remote_code=True)


class Run:
    rank = 8

    def start(self):
        rank = 16
        label = 'run'
        return rank


def train():
    batch_size = 16


if __name__ == "__main__":
    train()
