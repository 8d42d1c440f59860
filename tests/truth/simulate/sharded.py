"""Peaks of the recorded sharded programs (sharded.json, sharded_more.json, sharded_ddp.json, sharded/, zero_init/), with one
real process for each rank.

usage: torchrun --nproc-per-node N sharded.py CASES.json OUT.jsonl

The recordings come from rank 0 behind a fake process group (../scripts/dist.py, sharded_traces.py, zero_init.py), so the
programs are the same but for the group: here it is NCCL's. Each case runs in a forked process, so that allocator and CUDA
start fresh; the ranks of a case find each other through a file. Every rank writes a line."""
import ctypes
import json
import logging
import os
import shutil
import sys
import traceback

os.environ.update(DS_BUILD_OPS="0", DS_ACCELERATOR="cuda", DS_SKIP_CUDA_CHECK="1", TOKENIZERS_PARALLELISM="false")

import torch
import torch.distributed as dist
import transformers
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16}
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STEPS = 3


def config_of(c):
    with open(os.path.join(HERE, "..", "models.json")) as f:
        fields = dict(json.load(f)[c["model"]])
    for name in ("num_hidden_layers", "n_layer"):
        if name in fields and c.get("layers"):
            fields[name] = c["layers"]
    config = CONFIG_MAPPING[fields.pop("model_type")](**fields)
    config.use_cache = False
    config._attn_implementation = c.get("attn", "sdpa")
    return config


def adapted(c, model):
    import peft

    lora = c["lora"]
    more = {"task_type": "CAUSAL_LM"} if "loop" in c else {}
    config = peft.LoraConfig(r=lora["r"], lora_alpha=16, lora_dropout=lora["dropout"], target_modules=lora["targets"], **more)
    return peft.get_peft_model(model, config, autocast_adapter_dtype=lora.get("fp32_adapters", True))


def ids_of(c, vocabulary):
    return torch.randint(5, vocabulary - 1, (c["batch"], c["seq"]), device="cuda")


# ---- a model made on the card ----------------------------------------------------------------------------------


def shard(c, model):
    options = {"reshard_after_forward": c.get("reshard", True)}
    if c.get("mp"):
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=DTYPES[c["mp"]], reduce_dtype=DTYPES[c.get("reduce", "fp32")])
    if c.get("offload"):
        options["offload_policy"] = CPUOffloadPolicy()
    base = model.base_model.model if c.get("lora") else model
    if hasattr(base, "transformer"):
        layers = base.transformer.h
    else:
        layers = base.gpt_neox.layers if hasattr(base, "gpt_neox") else base.model.layers
    for layer in layers:
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def settings(c):
    """DeepSpeed's."""
    zero = {"stage": c["stage"]}
    for name in ("offload_optimizer", "offload_param"):
        if c.get(name):
            zero[name] = {"device": "cpu", "pin_memory": True}
    return {
        "train_micro_batch_size_per_gpu": c["batch"],
        "gradient_accumulation_steps": c.get("accum", 1),
        "train_batch_size": c["batch"] * c.get("accum", 1) * WORLD,
        "bf16": {"enabled": True},
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
        "gradient_clipping": 1.0 if c.get("loop") == "trainer" else 0.0,
    }


def engine_of(c, model):
    import deepspeed

    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=not c.get("offload_optimizer"))
    return deepspeed.initialize(model=model, optimizer=optimizer, config=settings(c), dist_init_required=False)[0]


def step_engine(c, engine, vocabulary):
    for _ in range(STEPS * c.get("accum", 1)):
        ids = ids_of(c, vocabulary)
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()


def mask_of(c, ids):
    mask = torch.ones_like(ids)
    if c["mask"] == "pad":
        mask[:, -(c["seq"] // 4) :] = 0
    return {"attention_mask": mask}


class Watchdog:
    """When PyTorch's watchdog sees the first bucket of DDP reduced, so that NCCL's next call frees it: a race on a real card,
    which the simulated card decides in favour of the second backward pass. c["freed"] is the outcome in the recording, if
    it is another: "forward", before the second forward pass, or the number of the backward pass."""

    def __init__(self, c):
        self.freed, self.passes = c.get("freed", 2), 0
        self.backward = torch.autograd.backward
        if isinstance(self.freed, int) and self.freed > 2:
            torch.autograd.backward = self.backward.__wrapped__  # the simulated card does not notice this one

    def before_backward(self):
        self.passes += 1
        if self.passes == self.freed:
            torch.autograd.backward = self.backward

    def after_step(self):
        if self.passes == 1 and self.freed == "forward":
            ctypes.CDLL(None).plimsoll_card_backward()


def step_model(c, model, vocabulary):
    watchdog = Watchdog(c)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=not c.get("offload"), foreach=None)
    for _ in range(STEPS):
        for _ in range(c.get("accum", 1)):
            ids = ids_of(c, vocabulary)
            more = mask_of(c, ids) if c.get("mask") else {}
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bool(c.get("amp"))):
                loss = model(input_ids=ids, labels=ids, **more).loss
            watchdog.before_backward()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        watchdog.after_step()


def made(c, r, path):
    config = config_of(c)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=DTYPES[c["param"]], attn_implementation=c.get("attn", "sdpa"))
    model.train()
    if c.get("ckpt"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if c.get("lora"):
        model = adapted(c, model)
        if c.get("ckpt"):
            model.enable_input_require_grads()
    if c["strategy"] == "ddp":
        model = DistributedDataParallel(model, device_ids=[RANK], gradient_as_bucket_view=c.get("bucket_view", False))
    else:
        model = engine_of(c, model) if c["strategy"] == "zero" else shard(c, model)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    r["loaded_alloc"] = torch.cuda.memory_allocated()
    (step_engine if c["strategy"] == "zero" else step_model)(c, model, config.vocab_size)


# ---- a model from a checkpoint ---------------------------------------------------------------------------------


def saved(c, path):
    """A checkpoint; what is in it does not matter."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config_of(c), dtype=DTYPES[c["param"]])
    model.to_empty(device="cpu").tie_weights()
    model.save_pretrained(path, **({"max_shard_size": c["shard"]} if c.get("shard") else {}))


def load(c, path):
    dtype = DTYPES[c["param"]] if c["param"] == "bf16" else None
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="sdpa")
    return (adapted(c, model) if c.get("lora") else model).train()


def with_engine(c, r, path):
    import deepspeed
    from transformers.integrations import HfDeepSpeedConfig

    deepspeed.init_distributed(dist_backend="nccl", auto_mpi_discovery=False)
    keep = HfDeepSpeedConfig(settings(c))  # from_pretrained looks at it while it lives
    model = load(c, path)
    if c.get("ckpt"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    step_engine(c, engine_of(c, model), model.config.vocab_size)
    del keep


def with_trainer(c, r, path):
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir=path + "-out",
        per_device_train_batch_size=c["batch"],
        max_steps=STEPS,
        gradient_accumulation_steps=c.get("accum", 1),
        bf16=True,
        report_to=[],
        save_strategy="no",
        learning_rate=1e-5,
        disable_tqdm=True,
        gradient_checkpointing=bool(c.get("ckpt")),
        deepspeed=settings(c),
    )
    model = load(c, path)
    row = {name: torch.ones(c["seq"]).long() * 7 for name in ("input_ids", "attention_mask", "labels")}
    Trainer(model=model, args=arguments, train_dataset=[row] * c["batch"] * 4 * 3 * WORLD).train()


# ---- all cases -------------------------------------------------------------------------------------------------


def without_barriers():
    """NCCL keeps the tensor of a barrier, 512 bytes, which the fake group of the recordings does not have."""
    dist.barrier = lambda *args, **kwargs: None


def run(c, r, folder):
    store = dist.FileStore(os.path.join(folder, c["id"] + ".store"), WORLD)
    path = os.path.join(folder, c["id"])
    if "loop" in c:
        os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
        if RANK == 0:
            saved(c, path)
            store.set("saved", "")
        store.wait(["saved"])
    torch.cuda.set_device(RANK)
    torch.manual_seed(0)
    dist.init_process_group("nccl", rank=RANK, world_size=WORLD, store=store)
    if c["strategy"] == "zero":
        without_barriers()
    {None: made, "engine": with_engine, "trainer": with_trainer}[c.get("loop")](c, r, path)
    torch.cuda.synchronize()


def record(c, out):
    r = {"id": c["id"], "rank": RANK}
    try:
        run(c, r, os.path.dirname(out))
        r["status"] = "ok"
    except BaseException:
        r.update(status="error", error=traceback.format_exc()[-2500:])
    stats = torch.cuda.memory_stats()
    r.update(peak_alloc=stats["allocated_bytes.all.peak"], peak_reserved=stats["reserved_bytes.all.peak"])
    with open(out, "a") as f:
        f.write(json.dumps(r) + "\n")


def main():
    transformers.logging.set_verbosity_error()
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    with open(sys.argv[1]) as f:
        cases = json.load(f)
    for c in cases:
        child = os.fork()
        if not child:
            record(c, os.path.abspath(sys.argv[2]))
            os._exit(0)
        os.waitpid(child, 0)
        shutil.rmtree(os.path.join(os.path.dirname(os.path.abspath(sys.argv[2])), c["id"]), ignore_errors=True)


main()
