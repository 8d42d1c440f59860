"""One rank of accelerate's FSDP2 behind a fake process group: through Accelerator and through Trainer, three
layers of real width, three steps, a Python stack on every allocation.

usage: accelerate_fsdp.py OUTDIR [NAME...]   (each case runs in a process of its own)
"""

import json
import lzma
import os
import pickle
import subprocess
import sys
import traceback

import torch
import torch.distributed as dist

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
CASES = []


def case(id, model, **k):
    CASES.append(dict(dict(id=id, model=model, layers=3, batch=2, seq=256, strategy="fsdp2", world=4, param="fp32",
                           mixed="bf16", loop="accelerate"), **k))


case("accel-llama", "llama-3.2-1b")
case("accel-llama-ckpt", "llama-3.2-1b", ckpt=True)
case("accel-llama-reentrant", "llama-3.2-1b", ckpt=True, reentrant=True)
case("accel-llama-reentrant-offload", "llama-3.2-1b", ckpt=True, reentrant=True, offload=True)
case("accel-llama-reentrant-accum", "llama-3.2-1b", ckpt=True, reentrant=True, accum=2)
case("accel-llama-fsdpckpt", "llama-3.2-1b", fsdp_ckpt=True)
case("accel-llama-bf16", "llama-3.2-1b", param="bf16")
case("accel-llama-nomixed-bf16", "llama-3.2-1b", param="bf16", mixed="no")
case("accel-llama-noreshard", "llama-3.2-1b", reshard=False)
case("accel-llama-accum", "llama-3.2-1b", accum=2)
case("accel-llama-offload", "llama-3.2-1b", offload=True)
case("accel-llama-efficient", "llama-3.2-1b", efficient=True)
case("accel-llama-clip", "llama-3.2-1b", clip=1.0)
case("accel-llama-cpu", "llama-3.2-1b", where="cpu")
case("accel-qwen7", "qwen2.5-7b", ckpt=True, layers=2)
case("accel-mistral-w8", "mistral-7b", world=8, batch=1)
case("accel-gpt2", "gpt2")
case("accel-gpt2-ckpt-w2", "gpt2", world=2, ckpt=True)
case("accel-qwen2-w3", "qwen2.5-0.5b", world=3)
case("accel-tiny-lora", "tiny-llama", lora=dict(r=8, targets="all-linear", dropout=0.05))
case("accel-gemma2", "gemma-2-2b", layers=2)
case("trainer-llama", "llama-3.2-1b", loop="trainer")
case("trainer-llama-ckpt", "llama-3.2-1b", loop="trainer", ckpt=True)
case("trainer-llama-reentrant", "llama-3.2-1b", loop="trainer", ckpt=True, reentrant=True)
case("trainer-tiny-lora-reentrant", "tiny-llama", loop="trainer", ckpt=True, reentrant=True, lora=dict(r=8, targets="all-linear", dropout=0.05))
case("trainer-llama-bf16", "llama-3.2-1b", loop="trainer", param="bf16")
case("trainer-llama-nomixed-bf16", "llama-3.2-1b", loop="trainer", param="bf16", mixed="no")
case("trainer-llama-accum", "llama-3.2-1b", loop="trainer", accum=2)
case("trainer-mistral-ckpt", "mistral-7b", loop="trainer", ckpt=True, batch=1)
case("trainer-tiny-lora-ckpt", "tiny-llama", loop="trainer", ckpt=True, lora=dict(r=8, targets="all-linear", dropout=0.05))


def config_of(c):
    cfg = dict(json.load(open(os.path.join(HERE, "..", "models.json")))[c["model"]])
    for k in ("num_hidden_layers", "n_layer"):
        if k in cfg:
            cfg[k] = c["layers"]
    return cfg


def build(c):
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM
    cfg = config_of(c)
    k = CONFIG_MAPPING[cfg.pop("model_type")](**cfg)
    k.use_cache = False
    with torch.device(c.get("where", "cuda") if c["loop"] == "accelerate" else "cpu"):
        m = AutoModelForCausalLM.from_config(k, dtype=DTYPES[c["param"]], attn_implementation="sdpa")
    if c.get("lora"):
        import peft
        m = peft.get_peft_model(m, peft.LoraConfig(r=c["lora"]["r"], lora_alpha=16, lora_dropout=c["lora"]["dropout"],
                                                   target_modules=c["lora"]["targets"], task_type="CAUSAL_LM"))
    return m.train(), k


def layer_class(m):
    b = m.base_model.model if hasattr(m, "peft_config") else m
    layers = b.transformer.h if hasattr(b, "transformer") else b.model.layers
    return type(layers[0]).__name__


def with_accelerator(c, r):
    from accelerate import Accelerator, FullyShardedDataParallelPlugin
    m, k = build(c)
    if c.get("ckpt"):
        m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": bool(c.get("reentrant"))})
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, reshard_after_forward=c.get("reshard", True), auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=[layer_class(m)], cpu_ram_efficient_loading=bool(c.get("efficient")),
        activation_checkpointing=bool(c.get("fsdp_ckpt")), cpu_offload=bool(c.get("offload")))
    a = Accelerator(mixed_precision=c["mixed"], fsdp_plugin=plugin, gradient_accumulation_steps=c.get("accum", 1))
    o = torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-5, fused=not c.get("offload"))
    m, o = a.prepare(m, o)
    r["loaded_alloc"] = torch.cuda.memory_allocated()
    for i in range(3):
        for j in range(c.get("accum", 1)):
            with a.accumulate(m):
                ids = torch.randint(5, k.vocab_size - 1, (c["batch"], c["seq"]), device="cuda")
                loss = m(input_ids=ids, labels=ids).loss
                a.backward(loss)
                if c.get("clip") and a.sync_gradients:
                    a.clip_grad_norm_(m.parameters(), c["clip"])
                o.step()
                o.zero_grad()


def with_trainer(c, r):
    from transformers import Trainer, TrainingArguments
    m, k = build(c)
    row = {n: torch.ones(c["seq"]).long() * 7 for n in ("input_ids", "attention_mask", "labels")}
    args = TrainingArguments(
        output_dir="fsdp-out", per_device_train_batch_size=c["batch"], max_steps=3,
        gradient_accumulation_steps=c.get("accum", 1), bf16=c["mixed"] == "bf16", report_to=[], save_strategy="no",
        disable_tqdm=True, gradient_checkpointing=bool(c.get("ckpt")),
        gradient_checkpointing_kwargs={"use_reentrant": bool(c.get("reentrant"))}, fsdp="full_shard auto_wrap",
        fsdp_config={"version": 2, "transformer_layer_cls_to_wrap": [layer_class(m)], "cpu_ram_efficient_loading": False,
                     "reshard_after_forward": c.get("reshard", True)})
    Trainer(model=m, args=args, train_dataset=[row] * c["batch"] * 4 * 3 * c["world"]).train()


def short(f):
    for mark in ("site-packages/", "dist-packages/", "/site/"):
        if mark in f:
            return "site-packages/" + f.split(mark, 1)[1]
    if "/python3." in f:
        return "python3." + f.split("/python3.", 1)[1]
    return "train/" + os.path.basename(f) if "/" in f else f


def shorten(x, seen):
    if id(x) in seen:
        return
    if isinstance(x, dict):
        seen.add(id(x))
        if "filename" in x:
            x["filename"] = short(x["filename"])
        for v in x.values():
            shorten(v, seen)
    elif isinstance(x, list):
        seen.add(id(x))
        for v in x:
            shorten(v, seen)


def record(out, c):
    import accelerate, transformers
    from torch.testing._internal.distributed.fake_pg import FakeStore
    transformers.logging.set_verbosity_error()
    os.environ.update(LOCAL_RANK="0", RANK="0", WORLD_SIZE=str(c["world"]), MASTER_ADDR="localhost", MASTER_PORT="29511",
                      ACCELERATE_USE_FSDP="true", FSDP_VERSION="2")
    r = dict(id=c["id"], case=c, torch=torch.__version__, transformers=transformers.__version__, accelerate=accelerate.__version__,
             config=config_of(c))
    dist.init_process_group("fake", rank=0, world_size=c["world"], store=FakeStore())
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(enabled="all", context="all", stacks="python", max_entries=2_000_000)
    try:
        (with_trainer if c["loop"] == "trainer" else with_accelerator)(c, r)
        r["status"] = "ok"
    except BaseException:
        r.update(status="error", error=traceback.format_exc()[-2500:])
    stats = torch.cuda.memory_stats()
    r.update(peak_alloc=stats["allocated_bytes.all.peak"], peak_reserved=stats["reserved_bytes.all.peak"])
    s = torch.cuda.memory._snapshot()
    s = {k: s[k] for k in ("segments", "device_traces", "allocator_settings", "external_annotations") if k in s}
    shorten(s, set())
    with lzma.open(f"{out}/{c['id']}.pickle.xz", "wb", preset=6) as f:
        pickle.dump(s, f)
    json.dump(r, open(f"{out}/{c['id']}.json", "w"), indent=1)
    print(c["id"], r["status"], r["peak_alloc"], r.get("error", "")[-1200:])
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[2] == "--one":
        record(sys.argv[1], json.loads(sys.argv[3]))
    else:
        from concurrent.futures import ThreadPoolExecutor
        chosen = [c for c in CASES if not sys.argv[2:] or c["id"] in sys.argv[2:]]

        def one(c):
            r = subprocess.run([sys.executable, __file__, sys.argv[1], "--one", json.dumps(c)], capture_output=True, text=True)
            return r.stdout[-1500:] + ("" if r.returncode == 0 else f"FAILED {c['id']}\n{r.stderr[-1500:]}\n")

        with ThreadPoolExecutor(int(os.environ.get("JOBS", "6"))) as pool:
            for o in pool.map(one, chosen):
                print(o, end="", flush=True)
