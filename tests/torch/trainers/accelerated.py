"""A manual loop with accelerate. Rank 1, or the only rank, has longer samples from step 4 on."""
import argparse

import torch
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int, default=16)
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
parser.add_argument("--steps", type=int, default=6)
args, _ = parser.parse_known_args()
accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model, optimizer = accelerator.prepare(model, optimizer)
is_last = accelerator.process_index == accelerator.num_processes - 1
for step in range(args.steps):
    length = 4096 if is_last and step >= 4 else 512
    for _ in range(args.gradient_accumulation_steps):
        with accelerator.accumulate(model):
            batch = torch.randn(args.per_device_train_batch_size, length, 512, device=accelerator.device)
            accelerator.backward(model(batch).square().mean())
            optimizer.step()
            optimizer.zero_grad()
print(f"rank {accelerator.process_index} made {args.steps} steps, batch {args.per_device_train_batch_size} x {args.gradient_accumulation_steps}", flush=True)
accelerator.end_training()
