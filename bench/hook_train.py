"""Trains a transformer on random numbers, for bench/hook.py. The last line of its output is JSON: seconds of each step, what
PyTorch sees of the card, its peaks, the last loss, and the error that ended it."""
import json
import sys
import time

import torch

SIZES = {  # layers, width, sequences, their length; weights of 3.0 GiB and 0.1 GiB
    "full": (16, 2048, 8, 1024),
    "quick": (8, 512, 2, 256),
}


def step(model, optimizer, batch):
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    return loss


def cost_of_malloc(times):
    """Seconds of a cudaMalloc and its cudaFree."""
    begin = time.perf_counter()
    for _ in range(times):
        torch.empty(2 << 20, dtype=torch.uint8, device="cuda")
        torch.cuda.empty_cache()
    return (time.perf_counter() - begin) / times


def main(size, steps):
    layers, width, sequences, length = SIZES[size]
    torch.manual_seed(1)
    said = {"sees": [*torch.cuda.mem_get_info(), torch.cuda.get_device_properties(0).total_memory], "seconds": [], "error": None}
    torch.empty(1, device="cuda")
    said["malloc_seconds"] = cost_of_malloc(200)
    try:
        with torch.device("cuda"):
            layer = lambda: torch.nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            model = torch.nn.Sequential(*(layer() for _ in range(layers)))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        batch = torch.randn(sequences, length, width, device="cuda")
        for _ in range(steps):
            begin = time.perf_counter()
            loss = step(model, optimizer, batch)
            said["seconds"].append(time.perf_counter() - begin)
        said["loss"] = float(loss.detach())
    except torch.cuda.OutOfMemoryError as error:
        said["error"] = str(error)
    said.update(peak_reserved_bytes=torch.cuda.max_memory_reserved(), retries=torch.cuda.memory_stats()["num_alloc_retries"])
    print(json.dumps(said))


main(sys.argv[1], int(sys.argv[2]))
