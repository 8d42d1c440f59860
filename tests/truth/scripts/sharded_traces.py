"""Allocator snapshots (with stacks) and full-size peaks of one rank of sharded runs, behind a fake process group.
usage: sharded_traces.py OUTDIR   (packs everything into OUTDIR/sharded.tar)"""
import os, sys, json, time, lzma, pickle, traceback, tarfile, glob, io
START = time.time()
HERE = os.path.dirname(os.path.abspath(__file__)); sys.path.append(os.path.join(HERE, "site"))
os.environ.setdefault("DS_BUILD_OPS", "0"); os.environ.setdefault("DS_ACCELERATOR", "cuda"); os.environ.setdefault("DS_SKIP_CUDA_CHECK", "1"); os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch, transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
transformers.logging.set_verbosity_error()
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy, CPUOffloadPolicy
from torch.nn.parallel import DistributedDataParallel as DDP
torch.set_num_threads(4)
out = sys.argv[1]; work = os.path.join(out, "w") if len(sys.argv) < 3 else sys.argv[2]; os.makedirs(work, exist_ok=True)
MODELS = json.load(open(os.path.join(HERE, "models.json")))
DT = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16}
DEADLINE = 330
# ---- full-size rows: the case list of dist.py, then some more ----
C = []
for bv in (False, True): C.append(dict(id=f"ddp4-qwen0.5b-b2s1024-view{int(bv)}", model="qwen2.5-0.5b", strategy="ddp", world=4, bucket_view=bv, batch=2, seq=1024, param="bf16"))
C.append(dict(id="ddp4-qwen0.5b-fp32amp-b2s1024", model="qwen2.5-0.5b", strategy="ddp", world=4, batch=2, seq=1024, param="fp32", amp="bf16"))
for w in (2, 4, 8): C.append(dict(id=f"fsdp{w}-llama3b-ckpt-b2s2048", model="llama-3.2-3b", strategy="fsdp2", world=w, batch=2, seq=2048, ckpt=True, param="fp32", mp="bf16"))
C += [dict(id="fsdp8-llama8b-ckpt-b1s2048", model="llama-3.1-8b", strategy="fsdp2", world=8, batch=1, seq=2048, ckpt=True, param="fp32", mp="bf16"),
      dict(id="fsdp8-llama8b-ckpt-b1s2048-noreshard", model="llama-3.1-8b", strategy="fsdp2", world=8, batch=1, seq=2048, ckpt=True, param="fp32", mp="bf16", reshard=False),
      dict(id="fsdp4-qwen7b-purebf16-ckpt-b1s1024", model="qwen2.5-7b", strategy="fsdp2", world=4, batch=1, seq=1024, ckpt=True, param="bf16"),
      dict(id="fsdp4-qwen1.5b-b2s1024", model="qwen2.5-1.5b", strategy="fsdp2", world=4, batch=2, seq=1024, param="fp32", mp="bf16"),
      dict(id="fsdp4-qwen1.5b-ckpt-b4s2048", model="qwen2.5-1.5b", strategy="fsdp2", world=4, batch=4, seq=2048, ckpt=True, param="fp32", mp="bf16"),
      dict(id="fsdp16-llama8b-ckpt-b2s4096", model="llama-3.1-8b", strategy="fsdp2", world=16, batch=2, seq=4096, ckpt=True, param="fp32", mp="bf16"),
      dict(id="fsdp4-llama1b-b1s2048", model="llama-3.2-1b", strategy="fsdp2", world=4, batch=1, seq=2048, param="bf16"),
      dict(id="fsdp8-qwen7b-offload-ckpt-b1s1024", model="qwen2.5-7b", strategy="fsdp2", world=8, batch=1, seq=1024, ckpt=True, param="fp32", mp="bf16", offload=True)]
MORE = [dict(id="ddp8-llama1b-ckpt-b2s1024-view1", model="llama-3.2-1b", strategy="ddp", world=8, bucket_view=True, batch=2, seq=1024, ckpt=True, param="bf16"),
        dict(id="ddp2-gpt2-fp32amp-b4s1024", model="gpt2", strategy="ddp", world=2, batch=4, seq=1024, param="fp32", amp="bf16"),
        dict(id="fsdp2-qwen3-0.6b-b2s1024-noreshard", model="qwen3-0.6b", strategy="fsdp2", world=2, batch=2, seq=1024, param="fp32", mp="bf16", reshard=False),
        dict(id="fsdp4-gpt2xl-b2s1024", model="gpt2-xl", strategy="fsdp2", world=4, batch=2, seq=1024, param="fp32", mp="bf16"),
        dict(id="fsdp3-qwen0.5b-b2s1024", model="qwen2.5-0.5b", strategy="fsdp2", world=3, batch=2, seq=1024, param="bf16"),
        dict(id="fsdp4-llama1b-offload-b1s1024", model="llama-3.2-1b", strategy="fsdp2", world=4, batch=1, seq=1024, param="fp32", mp="bf16", offload=True)]
# ---- traces: a few layers of real width ----
T = []
def t(id, model, **k): T.append(dict(dict(id=id, model=model, layers=3, batch=2, seq=256), **k))
def ddp(id, model, **k): t(id, model, **dict(dict(strategy="ddp", world=4), **k))
def fs(id, model, **k): t(id, model, **dict(dict(strategy="fsdp2", world=4), **k))
def ze(id, model, **k): t(id, model, **dict(dict(strategy="zero", world=4, param="bf16"), **k))
for bv in (False, True):
    ddp(f"ddp-tiny-view{int(bv)}", "tiny-llama", param="bf16", bucket_view=bv)
    ddp(f"ddp-llama-view{int(bv)}", "llama-3.2-1b", param="bf16", bucket_view=bv)
    ddp(f"ddp-qwen2-fp32amp-view{int(bv)}", "qwen2.5-0.5b", param="fp32", amp="bf16", bucket_view=bv)
ddp("ddp-llama-ckpt-accum", "llama-3.2-1b", param="bf16", ckpt=True, accum=2)
ddp("ddp-llama-view1-accum", "llama-3.2-1b", param="bf16", bucket_view=True, accum=2)
fs("fsdp-tiny-mp", "tiny-llama", param="fp32", mp="bf16")
fs("fsdp-tiny-mp-ckpt", "tiny-llama", param="fp32", mp="bf16", ckpt=True)
fs("fsdp-llama-mp", "llama-3.2-1b", param="fp32", mp="bf16")
fs("fsdp-llama-mp-ckpt", "llama-3.2-1b", param="fp32", mp="bf16", ckpt=True)
fs("fsdp-llama-mp-ckpt-w2", "llama-3.2-1b", param="fp32", mp="bf16", ckpt=True, world=2)
fs("fsdp-llama-mp-ckpt-w8", "llama-3.2-1b", param="fp32", mp="bf16", ckpt=True, world=8)
fs("fsdp-llama-mp-noreshard", "llama-3.2-1b", param="fp32", mp="bf16", reshard=False)
fs("fsdp-llama-mp-ckpt-noreshard", "llama-3.2-1b", param="fp32", mp="bf16", ckpt=True, reshard=False)
fs("fsdp-llama-bf16", "llama-3.2-1b", param="bf16")
fs("fsdp-llama-bf16-ckpt", "llama-3.2-1b", param="bf16", ckpt=True)
fs("fsdp-llama-mp-offload", "llama-3.2-1b", param="fp32", mp="bf16", offload=True)
fs("fsdp-llama-mp-offload-ckpt", "llama-3.2-1b", param="fp32", mp="bf16", offload=True, ckpt=True)
fs("fsdp-llama-bf16-offload", "llama-3.2-1b", param="bf16", offload=True)
fs("fsdp-llama-mp-accum", "llama-3.2-1b", param="fp32", mp="bf16", accum=2)
fs("fsdp-llama-mp-reduce16", "llama-3.2-1b", param="fp32", mp="bf16", reduce="bf16")
fs("fsdp-qwen2-mp", "qwen2.5-0.5b", param="fp32", mp="bf16")
fs("fsdp-qwen2-mp-ckpt-w8", "qwen2.5-0.5b", param="fp32", mp="bf16", ckpt=True, world=8)
fs("fsdp-qwen2-bf16-w3", "qwen2.5-0.5b", param="bf16", world=3)
fs("fsdp-qwen2-mp-w3", "qwen2.5-0.5b", param="fp32", mp="bf16", world=3)
fs("fsdp-gpt2-mp", "gpt2", param="fp32", mp="bf16")
fs("fsdp-mistral-mp-ckpt", "mistral-7b", param="fp32", mp="bf16", ckpt=True, batch=1)
for s in (1, 2, 3):
    ze(f"zero{s}-tiny", "tiny-llama", stage=s)
    ze(f"zero{s}-llama", "llama-3.2-1b", stage=s)
    ze(f"zero{s}-llama-ckpt-w8", "llama-3.2-1b", stage=s, ckpt=True, world=8)
    ze(f"zero{s}-llama-offload", "llama-3.2-1b", stage=s, offload_optimizer=True)
ze("zero3-llama-offload-all", "llama-3.2-1b", stage=3, offload_optimizer=True, offload_param=True)
ze("zero3-qwen2-accum", "qwen2.5-0.5b", stage=3, accum=2)
ze("zero2-qwen2-accum", "qwen2.5-0.5b", stage=2, accum=2)

# with a padding mask; DDP with NCCL and a single rank
M = []
def m(id, model, **k): M.append(dict(dict(id=id, model=model, layers=3, batch=2, seq=200, param="bf16", mask="pad"), **k))
m("ddp-tiny-pad", "tiny-llama", strategy="ddp", world=1, bucket_view=True)
m("ddp-qwen2-fp32amp-ones", "qwen2.5-0.5b", strategy="ddp", world=1, param="fp32", amp="bf16", mask="ones")
m("ddp-gpt2-eager-pad-ckpt", "gpt2", strategy="ddp", world=1, attn="eager", ckpt=True, bucket_view=True, nostack=True)
m("fsdp-tiny-mp-pad", "tiny-llama", strategy="fsdp2", world=4, param="fp32", mp="bf16")
m("fsdp-llama-mp-pad-ckpt", "llama-3.2-1b", strategy="fsdp2", world=4, param="fp32", mp="bf16", ckpt=True)
m("fsdp-qwen2-bf16-ones", "qwen2.5-0.5b", strategy="fsdp2", world=4, mask="ones")
m("fsdp-gpt2-mp-eager-pad", "gpt2", strategy="fsdp2", world=2, param="fp32", mp="bf16", attn="eager")
m("fsdp-tiny-offload-eager-pad-ckpt", "tiny-llama", strategy="fsdp2", world=4, param="fp32", mp="bf16", attn="eager", offload=True, ckpt=True)
# with adapters, and of other families
A = dict(r=8, targets="all-linear", dropout=0.05)
m("fsdp-tiny-mp-lora", "tiny-llama", strategy="fsdp2", world=4, param="fp32", mp="bf16", mask=None, lora=A)
m("fsdp-tiny-bf16-lora-ckpt", "tiny-llama", strategy="fsdp2", world=4, mask=None, lora=dict(A, fp32_adapters=False), ckpt=True)
m("ddp-tiny-lora", "tiny-llama", strategy="ddp", world=1, bucket_view=True, mask=None, lora=A, amp="bf16")
m("fsdp-gemma2-mp", "gemma-2-2b", strategy="fsdp2", world=4, param="fp32", mp="bf16", mask=None, layers=2)
m("fsdp-phi3-mp-ckpt", "phi-3-mini", strategy="fsdp2", world=4, param="fp32", mp="bf16", mask=None, ckpt=True, layers=2)
m("fsdp-mixtral-bf16", "mixtral-tiny", strategy="fsdp2", world=4, mask=None, layers=2)
m("fsdp-neox-mp", "pythia-410m", strategy="fsdp2", world=4, param="fp32", mp="bf16", mask=None, layers=2)
m("fsdp-qwen3-mp", "qwen3-0.6b", strategy="fsdp2", world=4, param="fp32", mp="bf16", mask=None, layers=2)
m("ddp-gemma2", "gemma-2-2b", strategy="ddp", world=1, bucket_view=True, mask=None, layers=2)
m("ddp-phi3-ckpt", "phi-3-mini", strategy="ddp", world=1, mask=None, layers=2, ckpt=True, nostack=True)
m("fsdp-llama-mp-reentrant", "llama-3.2-1b", strategy="fsdp2", world=4, param="fp32", mp="bf16", mask=None, ckpt=True, reentrant=True)
m("fsdp-tiny-bf16-lora-reentrant", "tiny-llama", strategy="fsdp2", world=4, mask=None, lora=dict(A, fp32_adapters=False), ckpt=True, reentrant=True)
m("fsdp-qwen2-reentrant-noreshard", "qwen2.5-0.5b", strategy="fsdp2", world=4, mask=None, ckpt=True, reentrant=True, reshard=False)
m("ddp-llama-reentrant", "llama-3.2-1b", strategy="ddp", world=1, bucket_view=True, mask=None, ckpt=True, reentrant=True)
m("ddp-mixtral", "mixtral-tiny", strategy="ddp", world=1, mask=None, layers=2)

def config_of(c):
    cfg = dict(MODELS[c["model"]])
    if c.get("layers"):
        for k in ("num_hidden_layers", "n_layer"):
            if k in cfg: cfg[k] = c["layers"]
    return cfg
def zero(c, m):
    import deepspeed, logging
    deepspeed.utils.logger.setLevel(logging.ERROR)
    for mod in list(sys.modules.values()):
        if getattr(mod, "__name__", "").startswith("deepspeed") and hasattr(mod, "assert_ints_same_as_other_ranks"): mod.assert_ints_same_as_other_ranks = lambda *a, **k: None
    z = dict(stage=c["stage"])
    if c.get("offload_optimizer"): z["offload_optimizer"] = dict(device="cpu", pin_memory=True)
    if c.get("offload_param"): z["offload_param"] = dict(device="cpu", pin_memory=True)
    z.update(c.get("zero", {}))
    cfg = dict(train_micro_batch_size_per_gpu=c["batch"], gradient_accumulation_steps=c.get("accum", 1), bf16=dict(enabled=True), zero_optimization=z,
               zero_allow_untested_optimizer=True, zero_force_ds_cpu_optimizer=False, steps_per_print=10**9, gradient_clipping=c.get("clip", 0.0))
    o = torch.optim.AdamW(m.parameters(), lr=1e-5, fused=not c.get("offload_optimizer"))
    return deepspeed.initialize(model=m, optimizer=o, config=cfg, dist_init_required=False)[0]
def run(c, r):
    if c["strategy"] == "ddp" and c["world"] == 1: dist.init_process_group("nccl", rank=0, world_size=1, store=dist.HashStore())
    else: dist.init_process_group("fake", rank=0, world_size=c["world"], store=FakeStore())
    attn = c.get("attn", "sdpa")
    cfg = config_of(c); mt = cfg.pop("model_type"); k = CONFIG_MAPPING[mt](**cfg); k.use_cache = False; k._attn_implementation = attn
    with torch.device("cuda"): m = AutoModelForCausalLM.from_config(k, dtype=DT[c["param"]], attn_implementation=attn)
    m.train()
    if c.get("ckpt"): m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": bool(c.get("reentrant"))})
    if c.get("lora"):
        import peft
        l = c["lora"]
        m = peft.get_peft_model(m, peft.LoraConfig(r=l["r"], lora_alpha=16, lora_dropout=l["dropout"], target_modules=l["targets"]), autocast_adapter_dtype=l.get("fp32_adapters", True))
        if c.get("ckpt"): m.enable_input_require_grads()
    if c["strategy"] == "ddp": m = DDP(m, device_ids=[0], gradient_as_bucket_view=c.get("bucket_view", False))
    elif c["strategy"] == "zero": m = zero(c, m)
    else:
        kw = dict(reshard_after_forward=c.get("reshard", True))
        if c.get("mp"): kw["mp_policy"] = MixedPrecisionPolicy(param_dtype=DT[c["mp"]], reduce_dtype=DT[c.get("reduce", "fp32")])
        if c.get("offload"): kw["offload_policy"] = CPUOffloadPolicy()
        b = m.base_model.model if c.get("lora") else m
        for l in (b.transformer.h if hasattr(b, "transformer") else b.gpt_neox.layers if hasattr(b, "gpt_neox") else b.model.layers): fully_shard(l, **kw)
        fully_shard(m, **kw)
    torch.cuda.synchronize(); torch.cuda.empty_cache(); r["loaded_alloc"] = torch.cuda.memory_allocated(); r["loaded_reserved"] = torch.cuda.memory_reserved(); torch.cuda.reset_peak_memory_stats()
    if c["strategy"] == "zero": return steps_zero(c, m, k)
    ps = [p for p in m.parameters() if p.requires_grad]; o = torch.optim.AdamW(ps, lr=1e-5, fused=not c.get("offload"), foreach=None)
    for i in range(3):
        for a in range(c.get("accum", 1)):
            ids = torch.randint(5, k.vocab_size - 1, (c["batch"], c["seq"]), device="cuda")
            more = {}
            if c.get("mask"):
                mask = torch.ones_like(ids)
                if c["mask"] == "pad": mask[:, -(c["seq"] // 4):] = 0
                more = dict(attention_mask=mask)
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bool(c.get("amp"))): l = m(input_ids=ids, labels=ids, **more).loss
            l.backward()
        o.step(); o.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
def steps_zero(c, m, k):
    for i in range(3):
        for a in range(c.get("accum", 1)):
            ids = torch.randint(5, k.vocab_size - 1, (c["batch"], c["seq"]), device="cuda")
            l = m(input_ids=ids, labels=ids).loss
            m.backward(l); m.step()
    torch.cuda.synchronize()
def short(f):
    for mark in ("site-packages/", "dist-packages/", "/site/"):
        if mark in f: return "site-packages/" + f.split(mark, 1)[1]
    if "/python3." in f: return "python3." + f.split("/python3.", 1)[1]
    return "train/" + os.path.basename(f) if "/" in f else f
def shorten(x, seen):
    if isinstance(x, dict):
        if "filename" in x:
            if id(x) not in seen: seen.add(id(x)); x["filename"] = short(x["filename"])
            return
        for v in x.values(): shorten(v, seen)
    elif isinstance(x, list):
        if id(x) in seen: return
        seen.add(id(x))
        for v in x: shorten(v, seen)
def clean(path):
    s = pickle.load(open(path, "rb")); shorten(s, set())
    s = {k: s[k] for k in ("segments", "device_traces", "allocator_settings", "external_annotations") if k in s}
    with lzma.open(path + ".xz", "wb", preset=6) as f: pickle.dump(s, f)
    os.remove(path)
def one(c, trace):
    r = dict(id=c["id"], case=c, torch=torch.__version__, transformers=transformers.__version__)
    try:
        os.environ.update(LOCAL_RANK="0", RANK="0", WORLD_SIZE=str(c["world"]), MASTER_ADDR="localhost", MASTER_PORT="29511")
        torch.manual_seed(0)
        if trace:
            torch.cuda.init(); r["config"] = config_of(c)
            torch.cuda.memory._record_memory_history(enabled="all", context=None if c.get("nostack") else "all", stacks="python", max_entries=2_000_000)
        run(c, r); r["status"] = "ok"
    except BaseException: r.update(status="error", error=traceback.format_exc()[-2500:])
    st = torch.cuda.memory_stats(); r.update(peak_alloc=st["allocated_bytes.all.peak"], peak_reserved=st["reserved_bytes.all.peak"])
    if trace:
        try: p = f"{work}/{c['id']}.pickle"; torch.cuda.memory._dump_snapshot(p); clean(p)
        except BaseException: r["dump_error"] = traceback.format_exc()[-800:]
        json.dump(r, open(f"{work}/{c['id']}.json", "w"), indent=1)
    else:
        with open(f"{work}/rows.jsonl", "a") as f: f.write(json.dumps(r) + "\n")
    print(c["id"], r["status"], r.get("loaded_alloc"), r["peak_alloc"], r["peak_reserved"], r.get("error", "")[-400:], r.get("dump_error", "")[-300:], f"{time.time()-START:.0f}s", flush=True)
def all_of(cases, trace, jobs):
    live = {}
    def reap():
        p, _ = os.wait(); live.pop(p, None)
    for c in cases:
        while len(live) >= jobs: reap()
        if time.time() - START > DEADLINE: print("no time for", c["id"], flush=True); continue
        pid = os.fork()
        if pid: live[pid] = c; continue
        try: one(c, trace)
        finally: os._exit(0)
    while live: reap()
ONLY = os.environ.get("ONLY", "traces,masks,rows,more").split(",")
NAMES = os.environ.get("NAMES")
if NAMES: T, M = ([c for c in cases if c["id"] in NAMES.split(",")] for cases in (T, M))
if "traces" in ONLY: all_of(T, True, 8)
if "masks" in ONLY: all_of(M, True, 8)
if "rows" in ONLY: all_of(C, False, 3)
if "more" in ONLY: all_of(MORE, False, 3)
with tarfile.open(os.path.join(out, "sharded.tar"), "w") as f:
    for p in sorted(glob.glob(work + "/*")): f.add(p, os.path.basename(p))
import shutil; shutil.rmtree(work)
print("done", f"{time.time()-START:.0f}s", os.path.getsize(os.path.join(out, "sharded.tar")), flush=True)
