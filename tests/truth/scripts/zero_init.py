"""One rank of DeepSpeed ZeRO behind a fake process group, its model loaded by from_pretrained as transformers does
under DeepSpeed's settings (stage 3: partitioned while it is loaded): through deepspeed.initialize and through
Trainer, three layers of real width, three steps, a Python stack on every allocation.

usage: zero_init.py OUTDIR [NAME...]   (each case runs in a process of its own)
"""

import json
import logging
import lzma
import os
import pickle
import shutil
import subprocess
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "site"))
os.environ.update(DS_BUILD_OPS="0", DS_ACCELERATOR="cuda", DS_SKIP_CUDA_CHECK="1", TOKENIZERS_PARALLELISM="false")

import torch
import torch.distributed as dist

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
CASES = []


def case(id, model, **k):
    CASES.append(dict(dict(id=id, model=model, layers=3, batch=2, seq=256, strategy="zero", stage=3, world=4,
                           param="bf16", loop="engine"), **k))


LORA = dict(r=8, targets="all-linear", dropout=0.05)
case("init-tiny", "tiny-llama")
case("init-llama", "llama-3.2-1b")
case("init-llama-shards", "llama-3.2-1b", shard="200MB")
case("init-llama-ckpt-w8", nostack=True, model="llama-3.2-1b", ckpt=True, world=8)
case("init-llama-offload", "llama-3.2-1b", offload_optimizer=True)
case("init-llama-offload-all", "llama-3.2-1b", offload_optimizer=True, offload_param=True)
case("init-qwen2-accum", "qwen2.5-0.5b", accum=2)
case("init-mistral-w8", "mistral-7b", world=8, batch=1)
case("init-gpt2", "gpt2")
case("init-tiny-lora", "tiny-llama", lora=LORA)
case("init-mistral-lora-ckpt-w8", "mistral-7b", world=8, batch=1, ckpt=True, lora=LORA)
case("trainer-tiny", "tiny-llama", loop="trainer")
case("trainer-llama", "llama-3.2-1b", loop="trainer")
case("trainer-llama-fp32file", "llama-3.2-1b", loop="trainer", param="fp32")
case("trainer-llama-ckpt-accum", nostack=True, model="llama-3.2-1b", loop="trainer", ckpt=True, accum=2)
case("init-llama-reentrant", "llama-3.2-1b", ckpt=True, reentrant=True)
case("init-mistral-lora-reentrant", "mistral-7b", batch=1, layers=2, ckpt=True, reentrant=True, lora=LORA)
case("trainer-llama-reentrant-accum", "llama-3.2-1b", loop="trainer", ckpt=True, reentrant=True, accum=2)
case("trainer-llama-reentrant-offload", "llama-3.2-1b", loop="trainer", ckpt=True, reentrant=True, offload_optimizer=True, offload_param=True)
case("trainer-zero2-llama-reentrant", "llama-3.2-1b", loop="trainer", stage=2, ckpt=True, reentrant=True)
case("trainer-zero1-llama-reentrant", "llama-3.2-1b", loop="trainer", stage=1, ckpt=True, reentrant=True)
case("trainer-mistral-w8", "mistral-7b", loop="trainer", world=8, batch=1)
case("trainer-tiny-lora", "tiny-llama", loop="trainer", lora=LORA)
case("trainer-mistral-lora-ckpt-w8", nostack=True, model="mistral-7b", loop="trainer", world=8, batch=1, ckpt=True, lora=LORA)
case("trainer-zero2-tiny", "tiny-llama", loop="trainer", stage=2)
case("trainer-zero2-llama", "llama-3.2-1b", loop="trainer", stage=2)
case("trainer-zero2-tiny-lora", "tiny-llama", loop="trainer", stage=2, lora=LORA)
case("trainer-zero1-llama", "llama-3.2-1b", loop="trainer", stage=1)
FULL = dict(layers=0, seq=2048, ckpt=True, loop="trainer")
case("trainer-llama-offload-all", "llama-3.2-1b", loop="trainer", offload_optimizer=True, offload_param=True, world=1)
case("trainer-mistral-lora-offload-w1", nostack=True, model="mistral-7b", loop="trainer", world=1, batch=1, ckpt=True, lora=LORA, offload_optimizer=True, offload_param=True)
case("full-llama3b-w8", "llama-3.2-3b", **dict(FULL, world=8))
case("full-qwen7b-lora-w4", "qwen2.5-7b", **dict(FULL, lora=LORA))
case("full-llama8b-w8", "llama-3.1-8b", **dict(FULL, world=8, batch=1))
case("full-qwen1.5b-zero2-w4", "qwen2.5-1.5b", **dict(FULL, stage=2))


def config_of(c):
    cfg = dict(json.load(open(os.path.join(HERE, "models.json")))[c["model"]])
    for k in ("num_hidden_layers", "n_layer"):
        if k in cfg and c["layers"]:
            cfg[k] = c["layers"]
    return cfg


def saved(c):
    """A checkpoint with random weights, made once, before anything is recorded."""
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM
    path = f"/dev/shm/zero-{c['id']}"
    cfg = config_of(c)
    k = CONFIG_MAPPING[cfg.pop("model_type")](**cfg)
    k.use_cache = False
    m = AutoModelForCausalLM.from_config(k, dtype=DTYPES[c["param"]])
    m.save_pretrained(path, **(dict(max_shard_size=c["shard"]) if c.get("shard") else {}))
    return path


def settings(c):
    z = dict(stage=c["stage"])
    if c.get("offload_optimizer"): z["offload_optimizer"] = dict(device="cpu", pin_memory=True)
    if c.get("offload_param"): z["offload_param"] = dict(device="cpu", pin_memory=True)
    return dict(train_micro_batch_size_per_gpu=c["batch"], gradient_accumulation_steps=c.get("accum", 1),
                train_batch_size=c["batch"] * c.get("accum", 1) * c["world"], bf16=dict(enabled=True), zero_optimization=z,
                zero_allow_untested_optimizer=True, zero_force_ds_cpu_optimizer=False, steps_per_print=10**9,
                gradient_clipping=1.0 if c["loop"] == "trainer" else 0.0)


def load(c, path):
    from transformers import AutoModelForCausalLM
    m = AutoModelForCausalLM.from_pretrained(path, dtype=DTYPES[c["param"]] if c["param"] == "bf16" else None, attn_implementation="sdpa")
    if c.get("lora"):
        import peft
        m = peft.get_peft_model(m, peft.LoraConfig(r=c["lora"]["r"], lora_alpha=16, lora_dropout=c["lora"]["dropout"],
                                                   target_modules=c["lora"]["targets"], task_type="CAUSAL_LM"))
    return m.train()


def mark(r, name):
    torch.cuda.synchronize()
    r[name + "_alloc"], r[name + "_peak"] = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    r[name + "_reserved"] = torch.cuda.memory_reserved()


def with_engine(c, r, path):
    import deepspeed
    from transformers.integrations import HfDeepSpeedConfig
    cfg = settings(c)
    deepspeed.init_distributed(dist_backend="nccl", auto_mpi_discovery=False)
    keep = HfDeepSpeedConfig(cfg)
    m = load(c, path)
    mark(r, "loaded")
    if c.get("ckpt"):
        m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": bool(c.get("reentrant"))})
    o = torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-5, fused=not c.get("offload_optimizer"))
    engine = deepspeed.initialize(model=m, optimizer=o, config=cfg, dist_init_required=False)[0]
    mark(r, "made")
    for i in range(3):
        for a in range(c.get("accum", 1)):
            ids = torch.randint(5, m.config.vocab_size - 1, (c["batch"], c["seq"]), device="cuda")
            loss = engine(input_ids=ids, labels=ids).loss
            engine.backward(loss)
            engine.step()
    torch.cuda.synchronize()


def with_trainer(c, r, path):
    from transformers import Trainer, TrainerCallback, TrainingArguments
    args = TrainingArguments(
        output_dir="/tmp/zero-out", per_device_train_batch_size=c["batch"], max_steps=3,
        gradient_accumulation_steps=c.get("accum", 1), bf16=True, report_to=[], save_strategy="no", learning_rate=1e-5,
        disable_tqdm=True, gradient_checkpointing=bool(c.get("ckpt")),
        gradient_checkpointing_kwargs={"use_reentrant": bool(c.get("reentrant"))}, deepspeed=settings(c))
    m = load(c, path)
    mark(r, "loaded")

    class Marks(TrainerCallback):
        def on_train_begin(self, *a, **k): mark(r, "made")
    row = {n: torch.ones(c["seq"]).long() * 7 for n in ("input_ids", "attention_mask", "labels")}
    Trainer(model=m, args=args, train_dataset=[row] * c["batch"] * 4 * 3 * c["world"], callbacks=[Marks()]).train()


def alone():
    """What asks the other ranks and fails behind a fake group."""
    import deepspeed
    deepspeed.utils.logger.setLevel(logging.ERROR)
    for mod in list(sys.modules.values()):
        if getattr(mod, "__name__", "").startswith("deepspeed") and hasattr(mod, "assert_ints_same_as_other_ranks"):
            mod.assert_ints_same_as_other_ranks = lambda *a, **k: None


def short(f):
    for m in ("site-packages/", "dist-packages/", "/site/"):
        if m in f:
            return "site-packages/" + f.split(m, 1)[1]
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
    import accelerate, transformers, deepspeed
    from torch.testing._internal.distributed.fake_pg import FakeStore
    transformers.logging.set_verbosity_error()
    os.environ.update(LOCAL_RANK="0", RANK="0", WORLD_SIZE=str(c["world"]), MASTER_ADDR="localhost", MASTER_PORT="29511",
                      ACCELERATE_USE_DEEPSPEED="true")
    torch.set_num_threads(4)
    r = dict(id=c["id"], case=c, torch=torch.__version__, transformers=transformers.__version__,
             accelerate=accelerate.__version__, deepspeed=deepspeed.__version__, config=config_of(c))
    path = saved(c)
    dist.init_process_group("fake", rank=0, world_size=c["world"], store=FakeStore())
    torch.cuda.init()
    if c["layers"]:
        torch.cuda.memory._record_memory_history(enabled="all", context=None if c.get("nostack") else "all", stacks="python", max_entries=2_000_000)
    try:
        alone()
        (with_trainer if c["loop"] == "trainer" else with_engine)(c, r, path)
        r["status"] = "ok"
    except BaseException:
        r.update(status="error", error=traceback.format_exc()[-2500:])
    shutil.rmtree(path)
    stats = torch.cuda.memory_stats()
    r.update(peak_alloc=stats["allocated_bytes.all.peak"], peak_reserved=stats["reserved_bytes.all.peak"])
    if c["layers"]:
        s = torch.cuda.memory._snapshot()
        s = {k: s[k] for k in ("segments", "device_traces", "allocator_settings", "external_annotations") if k in s}
        shorten(s, set())
        with lzma.open(f"{out}/{c['id']}.pickle.xz", "wb", preset=6) as f:
            pickle.dump(s, f)
    json.dump(r, open(f"{out}/{c['id']}.json", "w"), indent=1)
    print(c["id"], r["status"], {k: r[k] for k in r if k.startswith(("loaded", "made", "peak"))}, r.get("error", "")[-1500:])
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
            return r.stdout[-2500:] + ("" if r.returncode == 0 else f"FAILED {c['id']}\n{r.stderr[-1500:]}\n")

        with ThreadPoolExecutor(int(os.environ.get("JOBS", "6"))) as pool:
            for o in pool.map(one, chosen):
                print(o, end="", flush=True)
