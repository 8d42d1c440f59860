"""A manual loop under DistributedDataParallel, for torchrun. Rank 1 has longer samples from step 4 on, so it needs the most
memory. --leak R: rank R keeps a tensor of each step."""
import argparse
import os
import time

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int, default=16)
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
parser.add_argument("--length", type=int, default=512)
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--leak", type=int, default=-1)
parser.add_argument("--resume")
args, _ = parser.parse_known_args()
rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl")
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
begin = 0
if args.resume:
    saved = torch.load(args.resume)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    begin = saved["step"]
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local])
kept = []
for step in range(begin, args.steps):
    length = args.length * 8 if rank == 1 and step >= 4 else args.length
    for _ in range(args.gradient_accumulation_steps):
        model(torch.randn(args.per_device_train_batch_size, length, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == args.leak:
        kept.append(torch.zeros(1 << 20, device="cuda"))
    if args.leak >= 0:
        time.sleep(0.3)
    if rank == 0 and step == 2:
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, "last.pt")
print(f"rank {rank} made {args.steps - begin} steps, batch {args.per_device_train_batch_size} x {args.gradient_accumulation_steps}", flush=True)
dist.destroy_process_group()
