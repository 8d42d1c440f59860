"""Event-level truth per model family: real-width models cut to 2 layers, 2 steps, with Python stacks at every allocation.
usage: family_traces.py OUTDIR"""
import os, sys, json, traceback, time, gc
out = sys.argv[1]; os.makedirs(out, exist_ok=True)
import torch, transformers, peft
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModel, AutoModelForMaskedLM
transformers.logging.set_verbosity_error()
HERE = os.path.dirname(os.path.abspath(__file__)); MODELS = json.load(open(os.path.join(HERE, "models.json")))
L = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
DT = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
def small(name):
    c = dict(MODELS[name])
    for k in ("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers"):
        if k in c: c[k] = 2
    return c
CASES = []
def add(id, model, **k): CASES.append(dict(id=id, model=model, **k))
add("llama-bf16", "llama-3.2-1b", batch=2, seq=512)
add("llama-bf16-eager", "llama-3.2-1b", batch=2, seq=512, attn="eager")
add("llama-bf16-ckpt", "llama-3.2-1b", batch=2, seq=512, ckpt=True)
add("llama-bf16-ckpt-reentrant", "llama-3.2-1b", batch=2, seq=512, ckpt=True, reentrant=True)
add("llama-fp32-ampbf16", "llama-3.2-1b", batch=2, seq=512, param_dtype="fp32", amp="bf16")
add("llama-lora", "llama-3.2-1b", batch=2, seq=512, lora=dict(r=16, targets=L, dropout=0.0))
add("llama-lora-drop-amp", "llama-3.2-1b", batch=2, seq=512, lora=dict(r=16, targets=L, dropout=0.05), amp="bf16")
add("llama-lora-drop-amp-ckpt", "llama-3.2-1b", batch=2, seq=512, lora=dict(r=16, targets=L, dropout=0.05), amp="bf16", ckpt=True)
add("llama-maskpad", "llama-3.2-1b", batch=2, seq=512, mask="pad")
add("llama-foreach", "llama-3.2-1b", batch=2, seq=512, optim="adamw_foreach")
add("llama-adafactor", "llama-3.2-1b", batch=2, seq=512, optim="adafactor")
add("llama-trainer-lora-ckpt", "llama-3.2-1b", batch=2, seq=512, lora=dict(r=16, targets=L, dropout=0.05), amp="bf16", ckpt=True, loop="trainer", accum=2)
add("llama-trainer-fp32", "llama-3.2-1b", batch=2, seq=512, param_dtype="fp32", amp="bf16", loop="trainer")
add("qwen2-bf16", "qwen2.5-0.5b", batch=2, seq=512)
add("qwen3-bf16", "qwen3-0.6b", batch=2, seq=512)
add("mistral-bf16", "mistral-7b", batch=1, seq=512)
add("gemma2-bf16-eager", "gemma-2-2b", batch=1, seq=512, attn="eager")
add("phi3-bf16", "phi-3-mini", batch=1, seq=512)
add("gpt2-fp32-amp", "gpt2", batch=4, seq=512, param_dtype="fp32", amp="bf16")
add("gpt2-bf16", "gpt2", batch=4, seq=512)
add("neox-bf16", "pythia-410m", batch=2, seq=512)
add("t5-bf16", "flan-t5-base", batch=4, seq=256, tgt=128)
add("t5-bf16-ckpt", "flan-t5-base", batch=4, seq=256, tgt=128, ckpt=True)
add("bert-fp32-ampfp16", "bert-base", batch=8, seq=128, param_dtype="fp32", amp="fp16")
add("minilm-encoder", "minilm-l6", batch=32, seq=128, param_dtype="fp32", amp="fp16")
add("mixtral-bf16", "mixtral-tiny", batch=2, seq=256)
sys.argv = ["measure.py", "/dev/null", "/dev/null"]
src = open(os.path.join(HERE, "measure.py")).read().split("def child(")[0].split("HERE =")[1]
DTK = "dtype"
exec("HERE =" + src)
MODELS.update({k: small(k) for k in list(MODELS)})
for case in CASES:
    pid = os.fork()
    if pid: os.waitpid(pid, 0); continue
    try:
        torch.manual_seed(0); torch.cuda.init()
        torch.cuda.memory._record_memory_history(enabled="all", context="all", stacks="python", max_entries=2_000_000)
        case["steps"] = 2; res = {"id": case["id"], "case": case, "config": MODELS[case["model"]]}
        (trainer if case.get("loop") == "trainer" else manual)(case, res)
        torch.cuda.synchronize(); st = torch.cuda.memory_stats()
        res["peak_alloc"] = st["allocated_bytes.all.peak"]; res["peak_reserved"] = st["reserved_bytes.all.peak"]; res["torch"] = torch.__version__; res["transformers"] = transformers.__version__; res["peft"] = peft.__version__
        torch.cuda.memory._dump_snapshot(f"{out}/{case['id']}.pickle"); json.dump(res, open(f"{out}/{case['id']}.json", "w"), indent=1)
        print(case["id"], os.path.getsize(f"{out}/{case['id']}.pickle"), res["peak_alloc"], flush=True)
    except Exception: print("FAILED", case["id"]); traceback.print_exc()
    os._exit(0)
