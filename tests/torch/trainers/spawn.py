"""Two ranks that torch.multiprocessing starts: no variable of the environment names their ranks. Rank 1 has longer samples."""
import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
parser.add_argument("--steps", type=int, default=6)
args, _ = parser.parse_known_args()


def train(rank, world):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{os.getcwd()}/meeting-{os.getppid()}", rank=rank, world_size=world)
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(args.steps):
        length = 4096 if rank == 1 and step >= 4 else 512
        for _ in range(args.gradient_accumulation_steps):
            model(torch.randn(args.batch_size, length, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"rank {rank} made {args.steps} steps, batch {args.batch_size} x {args.gradient_accumulation_steps}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, args=(2,), nprocs=2)
