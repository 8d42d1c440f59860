"""Trains adapters on a 7B model with transformers' Trainer, for bench/simulate.py."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

TARGETS = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj".split()
LENGTH, VOCABULARY = 2048, 150000


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.randint(5, VOCABULARY, (LENGTH,))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def main():
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B-Instruct", dtype=torch.bfloat16)
    model = get_peft_model(model, LoraConfig(r=128, lora_alpha=256, lora_dropout=0.05, target_modules=TARGETS, task_type="CAUSAL_LM"))
    arguments = TrainingArguments(
        sys.argv[1], per_device_train_batch_size=2, bf16=True, gradient_checkpointing=True, max_steps=10, report_to="none", logging_steps=1
    )
    Trainer(model=model, args=arguments, train_dataset=Rows()).train()


main()
