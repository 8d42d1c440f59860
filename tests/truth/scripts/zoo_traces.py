"""Records rows of simulate/zoo.json, whose peaks depend on where the driver puts segments, event by event.

usage: zoo_traces.py OUT [ID,ID...]

The program is that of simulate/zoo.py. torchaudio is imported before recording begins: it allocates a number.
"""

import json
import lzma
import os
import pickle
import sys

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification

from new_families import shortened

ROWS = {row["id"]: row for row in json.load(open(os.path.join(os.path.dirname(__file__), "../simulate/zoo.json")))}
HEADS = {"modernbert": AutoModelForMaskedLM, "deberta-v2": AutoModelForSequenceClassification}
KINDS = {"modernbert": "masked", "deberta-v2": "sequence"}


def batch_of(row, config):
    ids = torch.randint(5, config.vocab_size - 1, (row["batch"], row["seq"]), device="cuda")
    batch = {"input_ids": ids} | ({"attention_mask": torch.ones_like(ids)} if row["id"] in HEADS else {})
    is_sequence = KINDS.get(row["id"]) == "sequence"
    return batch | {"labels": torch.zeros(row["batch"], dtype=torch.long, device="cuda") if is_sequence else ids.clone()}


def train(row, config):
    with torch.device("cuda"):
        model = HEADS.get(row["id"], AutoModelForCausalLM).from_config(config, dtype=torch.bfloat16)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    loaded = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        loss = model(**batch_of(row, config)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return loaded


def record(row, out):
    torch.manual_seed(0)
    with torch.device("cuda"):
        import torchaudio  # noqa: F401
    config = CONFIG_MAPPING[row["model_type"]](**row["config"])
    config.use_cache = False
    torch.cuda.memory._record_memory_history(enabled="all", context="all", stacks="python", max_entries=2_000_000)
    loaded = train(row, config)
    stats = torch.cuda.memory_stats()
    case = {"id": row["id"], "batch": row["batch"], "seq": row["seq"], "steps": 3, "keep": "loss", "drops_batch": True,
            "mask": "ones" if row["id"] in HEADS else "none"}
    about = row["config"] | {"model_type": row["model_type"], "_kind": KINDS.get(row["id"], "causal")}
    result = {"id": row["id"], "case": case, "config": about, "loaded_alloc": loaded,
              "peak_alloc": stats["allocated_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"],
              "torch": torch.__version__, "transformers": transformers.__version__}
    with lzma.open(f"{out}/{row['id']}.pickle.xz", "wb", preset=9) as f:
        pickle.dump(shortened(torch.cuda.memory._snapshot()), f)
    with open(f"{out}/{row['id']}.json", "w") as f:
        json.dump(result, f, indent=1)
    print(row["id"], result["peak_alloc"], result["peak_reserved"], flush=True)


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    for name in sys.argv[2].split(",") if len(sys.argv) > 2 else ROWS:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        record(ROWS[name], sys.argv[1])
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
