"""Rates that src/core/links.c and traffic.c take from tables: copies between host and card, pinned and not,
both ways at once; Adam on the host, torch's loop and DeepSpeed's; the host's memory. Prints JSON lines.

    python3 link_rates.py [GIB]        # one GPU; 2 GiB by default
    torchrun --nproc_per_node N link_rates.py   # several: also all-reduce, all-gather, reduce-scatter
"""
import json
import os
import sys
import time

import torch

BYTES = int(float(sys.argv[1] if len(sys.argv) > 1 else 2) * 2**30)


def seconds(work, times=5):
    work()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(times):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / times


def say(what, bytes_, took, **more):
    print(json.dumps({"what": what, "bytes": bytes_, "seconds": took, "gb_per_s": bytes_ / took / 1e9, **more}))


def copies():
    card = torch.empty(BYTES, dtype=torch.uint8, device="cuda")
    for pinned in (True, False):
        host = torch.empty(BYTES, dtype=torch.uint8, pin_memory=pinned)
        kind = "pinned" if pinned else "pageable"
        say(f"to host, {kind}", BYTES, seconds(lambda: host.copy_(card, non_blocking=pinned)))
        say(f"from host, {kind}", BYTES, seconds(lambda: card.copy_(host, non_blocking=pinned)))
    out, back = torch.cuda.Stream(), torch.cuda.Stream()
    there = torch.empty(BYTES, dtype=torch.uint8, pin_memory=True)
    here = torch.empty(BYTES, dtype=torch.uint8, pin_memory=True)
    other = torch.empty_like(card)

    def both():
        with torch.cuda.stream(out):
            there.copy_(card, non_blocking=True)
        with torch.cuda.stream(back):
            other.copy_(here, non_blocking=True)

    say("both ways, pinned", BYTES, seconds(both))


def saved_on_cpu():
    x = torch.randn(64, 2**20, device="cuda", requires_grad=True)
    for pinned in (True, False):
        def step():
            with torch.autograd.graph.save_on_cpu(pin_memory=pinned):
                y = x.sin()
            y.sum().backward()
        say(f"save_on_cpu, pin_memory={pinned}", 2 * x.numel() * 4, seconds(step))


def host_adam(elements=2**28):
    parameter = torch.nn.Parameter(torch.zeros(elements))
    parameter.grad = torch.ones(elements)
    loop = torch.optim.AdamW([parameter], foreach=False, fused=False)
    took = seconds(loop.step, 3)
    say("torch AdamW on the host", 80 * elements, took, ns_per_element=took / elements * 1e9)
    try:
        from deepspeed.ops.adam import DeepSpeedCPUAdam
    except ImportError:
        return
    fast = DeepSpeedCPUAdam([parameter])
    took = seconds(fast.step, 3)
    say("DeepSpeedCPUAdam", 30 * elements, took, ns_per_element=took / elements * 1e9)


def host_memory():
    a, b = torch.zeros(2**29), torch.zeros(2**29)
    say("host memory, copy", 2 * a.numel() * 4, seconds(lambda: a.copy_(b)))


def collectives():
    import torch.distributed as dist
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    world = dist.get_world_size()
    for size in (2**20, 2**25, 2**30):
        whole = torch.zeros(size // world * world, dtype=torch.uint8, device="cuda")
        part = torch.zeros(size // world, dtype=torch.uint8, device="cuda")
        for name, work in (("all_reduce", lambda: dist.all_reduce(whole)),
                           ("all_gather", lambda: dist.all_gather_into_tensor(whole, part)),
                           ("reduce_scatter", lambda: dist.reduce_scatter_tensor(part, whole))):
            took = seconds(work)
            if dist.get_rank() == 0:
                say(name, size, took, world=world)


if "LOCAL_RANK" in os.environ:
    collectives()
else:
    copies()
    saved_on_cpu()
    host_memory()
    host_adam()
