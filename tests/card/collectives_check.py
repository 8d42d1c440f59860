"""Checks that the ranks of a program exchange true integers on simulated cards:

    plimsoll simulate --gpu H200 --gpus 2 --steps 0 -- torchrun --nproc-per-node 2 tests/card/collectives_check.py     (or 4)

tests/torch/launchers.py does so. Every rank prints what is wrong; the exit status is 1 then."""
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

import plimsoll_values

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ranks = range(size)
everybody = sum(ranks)
failures = []


def check(name, got, want):
    got = got.tolist() if isinstance(got, torch.Tensor) else got
    if got != want:
        failures.append(name)
        print(f"rank {rank}, {name}: {got}, wanted {want}", flush=True)


def numbers(*values, dtype=torch.int64):
    return torch.tensor(values, device="cuda", dtype=dtype)


def room(count=1, dtype=torch.int64):
    return torch.empty(count, device="cuda", dtype=dtype)


torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank) if "EAGER" in os.environ else None)

# Reductions
for dtype in (torch.int64, torch.int32, torch.uint8, torch.int8):
    for operation, want in (("SUM", everybody), ("MAX", size - 1), ("MIN", 0), ("PRODUCT", 0)):
        t = numbers(rank, dtype=dtype)
        dist.all_reduce(t, getattr(dist.ReduceOp, operation))
        check(f"{operation} of {dtype}", t, [want])
t = numbers(True, rank == 1, dtype=torch.bool)
dist.all_reduce(t, dist.ReduceOp.MIN)
check("booleans", t, [True, False])
t = numbers(rank)
dist.reduce(t, 1)
check("reduce", t, [everybody if rank == 1 else rank])
t = room()
dist.reduce_scatter_tensor(t, numbers(*[10 * rank + i for i in ranks]))
check("reduce_scatter_tensor", t, [10 * everybody + size * rank])
t = room()
dist.reduce_scatter(t, [numbers(10 * rank + i) for i in ranks])
check("reduce_scatter", t, [10 * everybody + size * rank])
t = torch.arange(5, device="cuda") + rank
dist.all_reduce(t, dist.ReduceOp.MAX)
check("what is computed of it", (t > size).sum(), 3)

# Movements
t = numbers(7 * rank, rank)
dist.broadcast(t, 1)
check("broadcast", t, [7, 1])
parts = [room(2) for _ in ranks]
dist.all_gather(parts, numbers(rank, 10 * rank))
check("all_gather", torch.stack(parts), [[i, 10 * i] for i in ranks])
parts = [room(i + 1) for i in ranks]
dist.all_gather(parts, numbers(*[rank] * (rank + 1)))
check("all_gather of different sizes", [p.tolist() for p in parts], [[i] * (i + 1) for i in ranks])
t = room(size)
dist.all_gather_into_tensor(t, numbers(rank))
check("all_gather_into_tensor", t, list(ranks))
t = room(size)
dist.all_to_all_single(t, numbers(*[10 * rank + i for i in ranks]))
check("all_to_all_single", t, [10 * i + rank for i in ranks])
t = room(size * (rank + 1))
dist.all_to_all_single(t, numbers(*[rank] * sum(i + 1 for i in ranks)), [rank + 1] * size, [i + 1 for i in ranks])
check("all_to_all_single of different sizes", t, [i for i in ranks for _ in range(rank + 1)])
parts = [room() for _ in ranks]
dist.all_to_all(parts, [numbers(10 * rank + i) for i in ranks])
check("all_to_all", torch.cat(parts), [10 * i + rank for i in ranks])
parts = [room() for _ in ranks] if rank == 0 else None
dist.gather(numbers(3 * rank), parts, dst=0)
check("gather", [p.item() for p in parts or ()], [3 * i for i in ranks] if rank == 0 else [])
t = room()
dist.scatter(t, [numbers(5 + i) for i in ranks] if rank == 1 else None, src=1)
check("scatter", t, [5 + rank])
if rank == 0:
    dist.send(numbers(41, 42), 1)
if rank == 1:
    t = room(2)
    dist.recv(t, 0)
    check("recv", t, [41, 42])
t = room()
ring = [dist.P2POp(dist.irecv, t, (rank - 1) % size), dist.P2POp(dist.isend, numbers(rank), (rank + 1) % size)]
for work in dist.batch_isend_irecv(ring):
    work.wait()
check("a ring", t, [(rank - 1) % size])

# Objects; the smaller ones are resized
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank, "text": "x" * 1000 * (rank + 1)})
check("all_gather_object", [o["rank"] for o in objects], list(ranks))
objects = [{"rank": rank}, rank]
dist.broadcast_object_list(objects, 1)
check("broadcast_object_list", objects, [{"rank": 1}, 1])
objects = [None] * size if rank == 0 else None
dist.gather_object(("rank", rank), objects, 0)
check("gather_object", objects, [("rank", i) for i in ranks] if rank == 0 else None)
objects = [None]
dist.scatter_object_list(objects, [("rank", i) for i in ranks], 0)
check("scatter_object_list", objects, [("rank", rank)])

# Groups
mesh = init_device_mesh("cuda", (size // 2, 2), mesh_dim_names=("outer", "inner"))
pair = rank // 2 * 2
t = numbers(rank)
dist.all_reduce(t, group=mesh.get_group("inner"))
check("a group", t, [2 * pair + 1])
check("a functional collective", functional.all_reduce(numbers(rank), "sum", mesh.get_group("inner")), [2 * pair + 1])
check("a functional gather", functional.all_gather_tensor(numbers(rank), 0, dist.group.WORLD), list(ranks))
with dist._coalescing_manager(device=torch.device("cuda", rank)):
    a, b = numbers(rank), numbers(2 * rank)
    dist.all_reduce(a)
    dist.all_reduce(b)
check("coalesced", [a.item(), b.item()], [everybody, 2 * everybody])

# What nobody computed
t = torch.ones(2, device="cuda")
dist.all_reduce(t)
check("floats are unknown", plimsoll_values._is_known(t), False)
t = torch.zeros(1 << 20, dtype=torch.int64, device="cuda")
dist.all_reduce(t)
check("large integers are unknown", plimsoll_values._is_known(t), False)
t = torch.randn(100, device="cuda").to(torch.int64)
dist.all_reduce(t)
check("integers made of unknown floats are unknown", plimsoll_values._is_known(t), False)
norm = torch.randn(1 << 16, device="cuda").norm()
check("an unknown float is finite", bool(torch.isfinite(norm)), True)
check("and not negative", bool((norm < 0).any()), False)

dist.barrier()
dist.destroy_process_group()
sys.exit(bool(failures))
