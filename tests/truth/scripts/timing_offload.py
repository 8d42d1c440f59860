"""Step times with parts of a training on the host: DeepSpeed's ZeRO 2 and 3 and FSDP2, each beside the same training
without, and the rates of copies to the host and inside it.

One process per case, alone on the card, with a real NCCL group of one rank. A step is forward, backward and update with
a wait for the card between them; the first two of up to eight warm up, and `step_seconds` is the median of the others.
Needs torch, transformers, peft, deepspeed (and a compiler for its Adam), and models.json beside it.

usage: timing_offload.py OUT.json [NAME...]
"""

import json
import os
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
LORA = {"r": 128, "targets": "all-linear", "dropout": 0.0}
STEPS, WARM_UP, MOST_SECONDS = 8, 2, 30
CASES = {}


def case(name, model, **more):
    c = {"model": model, "batch": 1, "seq": 2048, "ckpt": True} | more
    if "strategy" in c:
        c["world"] = 1
        if "lora" in c:
            c["lora"] = c["lora"] | {"fp32_adapters": False}
    CASES[name] = c


def zero(stage, *offloaded):
    return {"strategy": "zero", "stage": stage} | {f"offload_{x}": True for x in offloaded}


FSDP = {"strategy": "fsdp2", "offload": True, "clip": 1.0}
SMALL, LARGE = {"model": "qwen2.5-1.5b", "batch": 2}, {"model": "qwen2.5-7b", "lora": LORA}
case("plain-7b-lora-b1", **LARGE)
case("fsdp2-all-7b-lora-b1", **LARGE, **FSDP)
case("z3-7b-lora-b1", **LARGE, **zero(3))
case("z3-all-7b-lora-b1", **LARGE, **zero(3, "optimizer", "param"))
case("z3-all-7b-lora-b4", **LARGE, **zero(3, "optimizer", "param"), batch=4)
case("plain-1.5b-b2", **SMALL)
case("fsdp2-all-1.5b-b2", **SMALL, **FSDP)
case("z2-1.5b-b2", **SMALL, **zero(2))
case("z2-opt-1.5b-b2", **SMALL, **zero(2, "optimizer"))
case("z2-opt-1.5b-b2-torchadam", **SMALL, **zero(2, "optimizer"), torch_adam=True)
case("z3-1.5b-b2", **SMALL, **zero(3))
case("z3-opt-1.5b-b2", **SMALL, **zero(3, "optimizer"))
case("z3-all-1.5b-b2", **SMALL, **zero(3, "optimizer", "param"))
case("z3-all-1.5b-b2-a4", **SMALL, **zero(3, "optimizer", "param"), accum=4)
case("z3-all-0.5b-b4", "qwen2.5-0.5b", **zero(3, "optimizer", "param"), batch=4)


# ---- links ----------------------------------------------------------------------------------------


def best_of(rounds, work, wait):
    best = float("inf")
    for _ in range(rounds):
        wait()
        begin = time.perf_counter()
        work()
        wait()
        best = min(best, time.perf_counter() - begin)
    return best


def links():
    import torch

    size, rates = 1 << 30, {}
    device = torch.empty(size, dtype=torch.uint8, device="cuda")
    for name in ("pinned", "pageable"):
        host = torch.ones(size, dtype=torch.uint8)
        host = host.pin_memory() if name == "pinned" else host
        for way, to, source in (("h2d", device, host), ("d2h", host, device)):
            seconds = best_of(5, lambda: to.copy_(source, non_blocking=True), torch.cuda.synchronize)
            rates[f"{way}_{name}_gbs"] = size / seconds / 1e9
    x, y = torch.ones(size // 4), torch.ones(size // 4)
    for threads in (1, 4, 8, 16):
        torch.set_num_threads(threads)
        rates[f"host_copy_{threads}_gbs"] = 2 * size / best_of(4, lambda: x.copy_(y), lambda: None) / 1e9
    return rates


# ---- steps ----------------------------------------------------------------------------------------


def build(c):
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    with open(os.path.join(HERE, "models.json")) as f:
        values = dict(json.load(f)[c["model"]])
    config = CONFIG_MAPPING[values.pop("model_type")](**values)
    config.use_cache = False
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    if "lora" in c:
        import peft

        lora = peft.LoraConfig(
            r=c["lora"]["r"], lora_alpha=16, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        model = peft.get_peft_model(model, lora)
        if "strategy" in c:
            model = model.to(torch.bfloat16)
    model.train()
    if c["ckpt"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if "lora" in c:
            model.enable_input_require_grads()
    return model


def timed(work):
    import torch

    begin = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return time.perf_counter() - begin, result


def engine_step(c, model):
    import deepspeed
    import torch

    z = {"stage": c["stage"]}
    for what in ("optimizer", "param"):
        if c.get(f"offload_{what}"):
            z[f"offload_{what}"] = {"device": "cpu", "pin_memory": True}
    config = {
        "train_micro_batch_size_per_gpu": c["batch"],
        "gradient_accumulation_steps": c.get("accum", 1),
        "bf16": {"enabled": True},
        "zero_optimization": z,
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 10**9,
        "gradient_clipping": 1.0,
    }
    trained = [p for p in model.parameters() if p.requires_grad]
    if c.get("offload_optimizer") and not c.get("torch_adam"):
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        optimizer = DeepSpeedCPUAdam(trained, lr=1e-5)
    else:
        config["zero_force_ds_cpu_optimizer"] = False
        optimizer = torch.optim.AdamW(trained, lr=1e-5, **({} if c.get("offload_optimizer") else {"fused": True}))
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=config, dist_init_required=False)[0]

    def step(ids):
        forward = backward = update = 0.0
        for _ in range(c.get("accum", 1)):
            seconds, loss = timed(lambda: engine(input_ids=ids, labels=ids).loss)
            forward += seconds
            backward += timed(lambda: engine.backward(loss))[0]
            del loss
            update = timed(engine.step)[0]
        return forward, backward, update

    return step


def plain_step(c, model):
    import torch

    if c.get("strategy") == "fsdp2":
        from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

        base = model.get_base_model() if "lora" in c else model
        for layer in base.model.layers:
            fully_shard(layer, offload_policy=CPUOffloadPolicy())
        fully_shard(model, offload_policy=CPUOffloadPolicy())
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, **({} if "strategy" in c else {"fused": True}))

    def update():
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    def step(ids):
        forward, loss = timed(lambda: model(input_ids=ids, labels=ids).loss)
        backward = timed(loss.backward)[0]
        del loss
        return forward, backward, timed(update)[0]

    return step


def measure(c):
    import torch
    import torch.distributed as dist

    os.environ.update(LOCAL_RANK="0", RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="29511")
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=0, world_size=1)
    model = build(c)
    ids = torch.randint(5, model.config.vocab_size - 1, (c["batch"], c["seq"]), device="cuda")
    step = engine_step(c, model) if c.get("strategy") == "zero" else plain_step(c, model)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    phases, begin = [], time.time()
    while len(phases) < STEPS and (len(phases) < 4 or time.time() - begin < MOST_SECONDS):
        phases.append([round(x, 4) for x in step(ids)])
    steps = sorted(sum(x) for x in phases[WARM_UP:])
    return {
        "step_seconds": round(steps[len(steps) // 2], 4),
        "phases": phases,
        "peak_allocated": torch.cuda.max_memory_allocated(),
        "peak_reserved": torch.cuda.max_memory_reserved(),
    }


def run_one(name):
    row = {"id": name} | ({"case": CASES[name]} if name in CASES else {})
    try:
        row |= {"status": "ok"} | (measure(CASES[name]) if name in CASES else {"links": links()})
    except BaseException:
        row |= {"status": "error", "error": traceback.format_exc()[-1500:]}
    print("ROW" + json.dumps(row), flush=True)
    os._exit(0)  # NCCL and DeepSpeed have threads that would not end


def main(path, *names):
    out = {"rows": []}
    for name in names or ["links", *CASES]:
        p = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True)
        row = json.loads(next((x[3:] for x in p.stdout.splitlines() if x.startswith("ROW")), "{}"))
        if "links" in row:
            out["links"] = row["links"]
        else:
            out["rows"].append(row or {"id": name, "status": "error", "error": p.stderr[-1500:]})
        print(name, row.get("step_seconds", row), flush=True)
        with open(path, "w") as f:
            json.dump(out, f, indent=1)


if sys.argv[1] == "--one":
    run_one(sys.argv[2])
main(*sys.argv[1:])
