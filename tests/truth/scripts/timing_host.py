"""Rates of the link between host and card, and what offloading costs a training step.

Copies of 1 MiB to 1 GiB, pinned and pageable, both ways, alone and both ways at once; copies into host memory
that is new; steps of one model with activations on the host and with paged optimizers, each beside the same
step without. The card has room for all of it: paged states stay on it.

usage: timing_host.py OUT.json
"""

import json
import sys
import time

import torch
import transformers
from torch.autograd.graph import save_on_cpu
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

MODEL = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "max_position_embeddings": 32768,
}
SIZES = [2**20, 2**23, 2**26, 2**28, 2**30]


def seconds_of(work, repeats=5):
    work()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return best


def copies():
    rows = []
    for size in SIZES:
        device = torch.empty(size, dtype=torch.uint8, device="cuda")
        for pinned in (True, False):
            host = torch.ones(size, dtype=torch.uint8)
            host = host.pin_memory() if pinned else host
            for way, to, source in (("h2d", device, host), ("d2h", host, device)):
                s = seconds_of(lambda: to.copy_(source, non_blocking=pinned))
                rows.append({"bytes": size, "pinned": pinned, "way": way, "seconds": s, "gb_per_s": size / s / 1e9})
    return rows


def fresh_host():
    "D2H into host memory that is allocated for it: what save_on_cpu does for every tensor, cached or not."
    rows = []
    for size in SIZES[:4]:
        device = torch.empty(size, dtype=torch.uint8, device="cuda")
        for pinned in (True, False):
            kept = []

            def work():
                packed = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
                packed.copy_(device, non_blocking=pinned)
                kept.append(packed)

            begin = time.perf_counter()
            work()
            torch.cuda.synchronize()
            first = time.perf_counter() - begin
            kept.clear()
            begin = time.perf_counter()
            work()
            torch.cuda.synchronize()
            rows.append({"bytes": size, "pinned": pinned, "first_seconds": first, "again_seconds": time.perf_counter() - begin})
            kept.clear()
    return rows


def both_ways():
    size = 2**28
    a, b = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
    x, y = (torch.ones(size, dtype=torch.uint8).pin_memory() for _ in range(2))
    streams = [torch.cuda.Stream() for _ in range(2)]

    def work():
        with torch.cuda.stream(streams[0]):
            a.copy_(x, non_blocking=True)
        with torch.cuda.stream(streams[1]):
            y.copy_(b, non_blocking=True)

    s = seconds_of(work)
    return {"bytes_each_way": size, "seconds": s, "gb_per_s_each_way": size / s / 1e9}


def build(config, dtype=torch.bfloat16):
    torch.cuda.empty_cache()
    values = dict(config)
    config = CONFIG_MAPPING[values.pop("model_type")](**values)
    config.use_cache = False
    with torch.device("cuda"):
        return AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa").train()


def timed_steps(model, opt, batch, length, offloads, steps=5):
    times, phases = [], []
    for _ in range(steps):
        torch.cuda.synchronize()
        marks = [time.perf_counter()]
        ids = torch.randint(5, 1000, (batch, length), device="cuda")
        if offloads:
            with save_on_cpu(pin_memory=offloads == "pinned"):
                loss = model(input_ids=ids, labels=ids).loss
        else:
            loss = model(input_ids=ids, labels=ids).loss
        torch.cuda.synchronize()
        marks.append(time.perf_counter())
        loss.backward()
        torch.cuda.synchronize()
        marks.append(time.perf_counter())
        opt.step()
        opt.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        marks.append(time.perf_counter())
        phases.append([b - a for a, b in zip(marks, marks[1:])])
        times.append(marks[-1] - marks[0])
    best = min(range(1, steps), key=lambda i: times[i])
    return {
        "first_seconds": times[0],
        "step_seconds": times[best],
        "forward_seconds": phases[best][0],
        "backward_seconds": phases[best][1],
        "optimizer_seconds": phases[best][2],
    }


def saved_bytes(model, batch, length):
    total = [0, 0]

    def pack(x):
        total[0] += x.numel() * x.element_size()
        total[1] += 1
        return x

    ids = torch.randint(5, 1000, (batch, length), device="cuda")
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        model(input_ids=ids, labels=ids).loss
    return {"saved_bytes": total[0], "saved_tensors": total[1]}


def activations():
    rows = []
    for batch, length in ((1, 512), (4, 1024)):
        model = build(MODEL)
        opt = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
        saved = saved_bytes(model, batch, length)
        for offloads in (None, "pinned", "pageable"):
            row = timed_steps(model, opt, batch, length, offloads, 4)
            rows.append({"batch": batch, "seq": length, "activations_on_host": offloads} | saved | row)
        del model, opt
    return rows


def optimizers():
    import bitsandbytes as bnb

    rows = []
    for name in ("AdamW8bit", "PagedAdamW8bit", "AdamW32bit", "PagedAdamW32bit", "AdamW", "fused"):
        model = build(MODEL)
        if name == "fused":
            opt = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
        elif name == "AdamW32bit":
            opt = bnb.optim.AdamW32bit(model.parameters(), lr=1e-5)
        else:
            opt = getattr(bnb.optim, name)(model.parameters(), lr=1e-5)
        rows.append({"optimizer": name, "batch": 1, "seq": 512} | timed_steps(model, opt, 1, 512, None))
        del model, opt
    return rows


def main(path):
    out = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "transformers": transformers.__version__, "model": MODEL}
    for part in (copies, fresh_host, both_ways, activations, optimizers):
        begin = time.perf_counter()
        try:
            out[part.__name__] = part()
        except Exception as e:
            out[part.__name__] = {"error": repr(e)[:500]}
        print(part.__name__, round(time.perf_counter() - begin, 1), json.dumps(out[part.__name__])[:1500], flush=True)
        with open(path, "w") as f:
            json.dump(out, f, indent=1)


main(sys.argv[1])
