"""DeepSpeed's engine with ZeRO 2 or 3. Rank 1 has longer samples from step 4 on."""
import argparse

import deepspeed
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--stage", type=int, default=2)
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--local_rank", type=int, default=0)
args, _ = parser.parse_known_args()
deepspeed.init_distributed()
config = {
    "train_micro_batch_size_per_gpu": 16,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
    "zero_optimization": {"stage": args.stage},
}
with deepspeed.zero.Init(config_dict_or_path=config, enabled=args.stage == 3):
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])
engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]
rank = torch.distributed.get_rank()
for step in range(args.steps):
    length = 16384 if rank == 1 and step >= 4 else 512
    loss = engine(torch.randn(16, length, 512, device=engine.device, dtype=torch.bfloat16)).float().square().mean()
    engine.backward(loss)
    engine.step()
print(f"rank {rank} made {args.steps} steps", flush=True)
torch.distributed.destroy_process_group()
