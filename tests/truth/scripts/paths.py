"""Training loops that the other recordings leave out: masks in the shortest loop, flash-attn's own package,
adapters on stacked experts, masks with a chunked loss, paged Lion, 4 bits in more families. Two layers, two steps; kept of each event: what, where, how much, and the inner frames.

flash-attn was built from its sources (2.8.3) with kernels that only write zeros: all its memory is taken by
its Python and its C++ interface (flash_api.cpp), which are the package's own, so the events are the package's.

usage: paths.py OUTDIR [part of a name]   (writes OUTDIR/paths.tar)
"""

import json
import lzma
import os
import pickle
import re
import shutil
import sys
import tarfile
import time
import traceback

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # the parent forks: it must not start CUDA
import torch
import transformers
from transformers import (
    CONFIG_MAPPING,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    BitsAndBytesConfig,
)

transformers.logging.set_verbosity_error()
HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = json.load(open(os.path.join(HERE, "models.json")))
MODELS |= {
    "roberta": {"_kind": "mlm", "model_type": "roberta", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 12, "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1},
    "mpnet-mlm": {"_kind": "mlm", "model_type": "mpnet", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 12, "vocab_size": 30527},
    "window": {"model_type": "mistral", "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 8000, "tie_word_embeddings": False, "sliding_window": 96, "max_position_embeddings": 4096},
    "gemma-window": {"model_type": "gemma2", "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 8000, "max_position_embeddings": 4096, "sliding_window": 96},
    "llama-80": {"model_type": "llama", "hidden_size": 640, "intermediate_size": 1376, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 8000, "tie_word_embeddings": False, "max_position_embeddings": 4096},
    "experts": {"model_type": "mixtral", "hidden_size": 512, "intermediate_size": 768, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "num_local_experts": 6, "num_experts_per_tok": 2, "vocab_size": 8000, "sliding_window": None},
}
AUTO = {"causal": AutoModelForCausalLM, "seq2seq": AutoModelForSeq2SeqLM, "encoder": AutoModel, "mlm": AutoModelForMaskedLM}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
LLAMA, QWEN = "llama-3.2-1b", "qwen2.5-0.5b"
L = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CASES = []


def add(id, model, **k):
    CASES.append({"id": id, "model": model, "batch": 2, "seq": 200, "loop": "bare", "steps": 2} | k)


AMP = {"param_dtype": "fp32", "amp": "bf16"}
LORA = {"lora": {"r": 16, "targets": L, "dropout": 0.05}, "amp": "bf16"}
EAGER, CKPT = {"attn": "eager"}, {"ckpt": True}
PAD, ONES = {"mask": "pad"}, {"mask": "ones"}

add("bare-llama", LLAMA)
add("bare-llama-ones", LLAMA, **ONES)
add("bare-llama-pad", LLAMA, **PAD)
add("bare-llama-pad-b1", LLAMA, batch=1, **PAD)
add("bare-llama-pad-accum", "tiny-llama", accum=2, **PAD)
add("bare-llama-pad-ckpt", LLAMA, **PAD, **CKPT)
add("bare-llama-pad-reentrant", "tiny-llama", reentrant=True, **PAD, **CKPT)
add("bare-llama-eager-pad", "tiny-llama", **EAGER, **PAD)
add("bare-llama-eager-ones-ckpt", "tiny-llama", **EAGER, **ONES, **CKPT)
add("bare-llama-pad-lora-ckpt", "tiny-llama", **PAD, **LORA, **CKPT)
add("bare-llama-pad-fp16", "tiny-llama", param_dtype="fp32", amp="fp16", **PAD)
add("bare-llama-pad-fp32", "tiny-llama", param_dtype="fp32", **PAD)
add("bare-window-pad", "window", **PAD)
add("bare-window-ones", "window", **ONES)
add("bare-window-eager-pad-ckpt", "window", **EAGER, **PAD, **CKPT)
add("bare-qwen2-pad-amp", QWEN, **PAD, **AMP)
add("bare-qwen2-ones-ckpt", QWEN, **ONES, **CKPT)
add("bare-qwen3-pad-ckpt", "qwen3-0.6b", **PAD, **CKPT)
add("bare-qwen3-eager-ones", "qwen3-0.6b", **EAGER, **ONES)
add("bare-gemma2-pad", "gemma-window", **PAD)
add("bare-gemma2-eager-ones", "gemma-window", **EAGER, **ONES)
add("bare-gemma2-eager-pad-ckpt", "gemma-window", **EAGER, **PAD, **CKPT)
add("bare-phi3-pad-ckpt", "phi-3-mini", seq=128, **PAD, **CKPT)
add("bare-phi3-ones", "phi-3-mini", seq=128, **ONES)
add("bare-gpt2-pad", "gpt2", **PAD)
add("bare-gpt2-ones-amp", "gpt2", **ONES, **AMP)
add("bare-gpt2-eager-pad-ckpt", "gpt2", **EAGER, **PAD, **CKPT)
add("bare-neox-pad-ckpt", "pythia-410m", **PAD, **CKPT)
add("bare-neox-eager-ones", "pythia-410m", **EAGER, **ONES)
add("bare-mixtral-pad", "experts", **PAD)
add("bare-mixtral-eager-ones-ckpt", "experts", **EAGER, **ONES, **CKPT)
add("bare-t5-pad", "flan-t5-base", **PAD)
add("bare-t5-ones-tgt", "flan-t5-base", tgt=72, **ONES)
add("bare-t5-eager-pad-ckpt", "flan-t5-base", tgt=72, **EAGER, **PAD, **CKPT)
add("bare-bert-pad-amp", "bert-base", **PAD, **AMP)
add("bare-bert-eager-ones-ckpt", "bert-base", **EAGER, **ONES, **CKPT)
add("bare-roberta-pad-ckpt", "roberta", **PAD, **CKPT)
add("bare-mpnet-eager-pad", "mpnet-mlm", **EAGER, **PAD)

FLASH = {"attn": "flash_attention_2"}
MANUAL = {"loop": "manual"}
for id, model, k in [
    ("llama", LLAMA, MANUAL),
    ("llama-ones", "tiny-llama", MANUAL | ONES),
    ("llama-pad", LLAMA, MANUAL | PAD),
    ("llama-pad-ckpt", "tiny-llama", MANUAL | PAD | CKPT),
    ("llama-reentrant", "tiny-llama", MANUAL | CKPT | {"reentrant": True}),
    ("llama-b1", "tiny-llama", MANUAL | {"batch": 1}),
    ("llama-b1-pad", "tiny-llama", MANUAL | PAD | {"batch": 1}),
    ("llama-80", "llama-80", MANUAL | PAD),
    ("llama-80-short", "llama-80", MANUAL | {"seq": 77}),
    ("llama-amp", "tiny-llama", MANUAL | AMP),
    ("llama-amp-pad", "tiny-llama", MANUAL | AMP | PAD),
    ("llama-lora-ckpt", "tiny-llama", MANUAL | LORA | CKPT),
    ("llama-trainer", "tiny-llama", {"loop": "trainer"} | AMP),
    ("llama-bare-pad", "tiny-llama", PAD),
    ("llama-split", "tiny-llama", MANUAL | {"batch": 1, "seq": 1024}),
    ("llama-pad-long", "tiny-llama", MANUAL | PAD | {"batch": 4, "seq": 2048}),
    ("llama-pad-reentrant", "tiny-llama", MANUAL | PAD | CKPT | {"reentrant": True}),
    ("qwen3-split", "qwen3-0.6b", MANUAL | {"batch": 1, "seq": 700}),
    ("bert-pad-ckpt", "bert-base", MANUAL | PAD | CKPT | AMP),
    ("phi3-pad", "phi-3-mini", MANUAL | PAD | {"seq": 128}),
    ("gemma2-trainer", "gemma-window", {"loop": "trainer"} | AMP),
    ("window", "window", MANUAL),
    ("window-pad", "window", MANUAL | PAD),
    ("qwen2", QWEN, MANUAL),
    ("qwen3-pad", "qwen3-0.6b", MANUAL | PAD),
    ("gemma2", "gemma-window", MANUAL),
    ("gemma2-wide-pad", "gemma-2-2b", MANUAL | PAD | {"batch": 1}),
    ("phi3", "phi-3-mini", MANUAL | {"seq": 128}),
    ("gpt2", "gpt2", MANUAL),
    ("gpt2-pad", "gpt2", MANUAL | PAD),
    ("gpt2-amp-ckpt", "gpt2", MANUAL | AMP | CKPT),
    ("neox", "pythia-410m", MANUAL),
    ("neox-pad", "pythia-410m", MANUAL | PAD),
    ("mixtral", "experts", MANUAL),
    ("bert-amp", "bert-base", MANUAL | AMP),
    ("bert-pad", "bert-base", MANUAL | PAD),
    ("roberta-amp-pad", "roberta", MANUAL | AMP | PAD),
    ("minilm-pad", "minilm-l6", MANUAL | PAD | {"param_dtype": "fp32", "amp": "fp16"}),
]:
    add("flash-" + id, model, **(k | FLASH))

ALL = {"lora": {"r": 8, "targets": "all-linear", "dropout": 0.0}}
add("experts-lora", "experts", **(MANUAL | ALL))
add("experts-lora-amp", "experts", **(MANUAL | ALL | {"amp": "bf16"}))
add("experts-lora-fp32-amp", "experts", **(MANUAL | ALL | AMP))
add("experts-lora-ckpt", "experts", **(MANUAL | ALL | CKPT | {"amp": "bf16"}))
add("experts-lora-reentrant", "experts", **(MANUAL | ALL | CKPT | {"amp": "bf16", "reentrant": True}))
add("experts-lora-bf16", "experts", **(MANUAL | {"lora": ALL["lora"] | {"fp32_adapters": False}}))
add("experts-lora-trainer-ckpt", "experts", **(ALL | CKPT | {"amp": "bf16", "loop": "trainer"}))
add("experts-lora-b1", "experts", batch=1, accum=2, **(MANUAL | ALL | {"amp": "bf16"}))
add("experts-lora-dropout", "experts", **(MANUAL | {"lora": ALL["lora"] | {"dropout": 0.05}}))
add("experts-attention-dropout", "experts", **(MANUAL | {"lora": {"r": 8, "targets": L[:4], "dropout": 0.05}}))
add("experts-device_map", "experts", load="device_map", **MANUAL)

CHUNKED = {"loop": "chunked", "loss": "chunked", "chunk": 96}
add("chunked-llama-pad", "tiny-llama", **(CHUNKED | PAD))
add("chunked-llama-ones-amp", "tiny-llama", **(CHUNKED | ONES | AMP))
add("chunked-llama-pad-lora-ckpt", "tiny-llama", accum=2, **(CHUNKED | PAD | LORA | CKPT))
add("chunked-gpt2-eager-pad", "gpt2", **(CHUNKED | PAD | EAGER))
add("chunked-qwen2-pad", QWEN, **(CHUNKED | PAD))
add("lion-paged", "tiny-llama", optim="paged_lion_32bit", **MANUAL)
add("lion-paged-8bit", "tiny-llama", optim="paged_lion_8bit", **MANUAL)
add("lion-paged-8bit-lora-ckpt", "tiny-llama", optim="paged_lion_8bit", **(MANUAL | LORA | CKPT))
NF4 = MANUAL | {"weights": "nf4-double", "amp": "bf16"}
ALL8 = {"lora": {"r": 8, "targets": "all-linear", "dropout": 0.05}}
add("nf4-gemma2-ckpt", "gemma-window", **(NF4 | ALL8 | CKPT))
add("nf4-gemma2-prep", "gemma-window", prepare=True, **(NF4 | ALL8))
add("nf4-neox-ckpt", "pythia-410m", **(NF4 | ALL8 | CKPT))
add("nf4-neox-prep", "pythia-410m", prepare=True, **(NF4 | ALL8))
add("nf4-gpt2-ckpt", "gpt2", **(NF4 | {"lora": {"r": 8, "targets": ["c_attn"], "dropout": 0.05}} | CKPT))
add("nf4-mixtral-ckpt", "experts", **(NF4 | {"lora": {"r": 8, "targets": L[:4], "dropout": 0.05}} | CKPT))
add("nf4-mistral-prep-ckpt", "window", prepare=True, **(NF4 | ALL8 | CKPT))


def small(config):
    layers = ("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers")
    return {k: 2 if k in layers else v for k, v in config.items()}


def folder_of(case):
    return f"/tmp/checkpoints/{case['model']}"


def save(case):
    if os.path.exists(folder_of(case) + "/config.json"):
        return
    config = small(MODELS[case["model"]])
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[config.pop("model_type")](**config), dtype=torch.bfloat16)
    model.save_pretrained(folder_of(case))


def make(case):
    config = small(MODELS[case["model"]])
    kind = config.pop("_kind", "causal")
    config = CONFIG_MAPPING[config.pop("model_type")](**config)
    config.use_cache = False
    dtype, attention = DTYPES[case.get("param_dtype", "bf16")], case.get("attn", "sdpa")
    if "weights" in case or "load" in case:
        nf4 = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16)
        q = {"quantization_config": nf4} if "weights" in case else {}
        return kind, AutoModelForCausalLM.from_pretrained(folder_of(case), dtype=dtype, device_map={"": 0}, attn_implementation=attention, **q)
    with torch.device("cuda"):
        return kind, AUTO[kind].from_config(config, dtype=dtype, attn_implementation=attention)


def build(case):
    import peft

    kind, model = make(case)
    model.config.use_cache = False
    model.train()
    how = {"use_reentrant": bool(case.get("reentrant"))}
    if case.get("prepare"):
        model = peft.prepare_model_for_kbit_training(model, bool(case.get("ckpt")), how)
    elif case.get("ckpt"):
        model.gradient_checkpointing_enable(how)
    if "lora" in case:
        l = case["lora"]
        adapters = peft.LoraConfig(r=l["r"], lora_alpha=2 * l["r"], lora_dropout=l["dropout"], target_modules=l["targets"])
        model = peft.get_peft_model(model, adapters, autocast_adapter_dtype=l.get("fp32_adapters", True))
        if case.get("ckpt"):
            model.enable_input_require_grads()
    return model, kind


def ids_like(case, model, length):
    return torch.randint(5, model.config.vocab_size - 1, (case["batch"], length), device="cuda")


def mask_of(case, ids):
    mask = torch.ones_like(ids)
    if case["mask"] == "pad":
        mask[:, -(case["seq"] // 4) :] = 0
    return mask


def autocast(case):
    return torch.autocast("cuda", DTYPES[case["amp"]]) if "amp" in case else torch.enable_grad()


def optimizer(case, params):
    if "optim" not in case:
        return torch.optim.AdamW(params, lr=1e-5, fused=True)
    import bitsandbytes as bnb

    return {"paged_lion_32bit": bnb.optim.PagedLion32bit, "paged_lion_8bit": bnb.optim.PagedLion8bit}[case["optim"]](params, lr=1e-5)


def train_barely(case, model, kind):
    params = [p for p in model.parameters() if p.requires_grad]
    opt = optimizer(case, params)
    scaler = torch.amp.GradScaler("cuda") if case.get("amp") == "fp16" else None
    for _ in range(case["steps"]):
        for _ in range(case.get("accum", 1)):
            ids = ids_like(case, model, case["seq"])
            more = {}
            if "mask" in case:
                mask = mask_of(case, ids)
                more = {"attention_mask": mask}
            if "tgt" in case:
                targets = ids_like(case, model, case["tgt"])
            with autocast(case):
                loss = model(input_ids=ids, labels=targets if "tgt" in case else ids, **more).loss
            (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.step(opt)
            scaler.update()
        else:
            opt.step()
        opt.zero_grad(set_to_none=True)


def batch_of(case, model, kind):
    ids = ids_like(case, model, case["seq"])
    d = {"input_ids": ids}
    if "mask" in case:
        d["attention_mask"] = mask_of(case, ids)
    if kind != "encoder":
        d["labels"] = ids.clone()
    return d


def train(case, model, kind):
    params = [p for p in model.parameters() if p.requires_grad]
    opt = optimizer(case, params)
    scaler = torch.amp.GradScaler("cuda") if case.get("amp") == "fp16" else None
    accum = case.get("accum", 1)
    for _ in range(case["steps"]):
        for _ in range(accum):
            d = batch_of(case, model, kind)
            with autocast(case):
                out = model(**d)
                loss = out.last_hidden_state.float().pow(2).mean() if kind == "encoder" else out.loss
            l = loss / accum
            (scaler.scale(l) if scaler else l).backward()
        if scaler:
            scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        if scaler:
            scaler.step(opt)
            scaler.update()
        else:
            opt.step()
        opt.zero_grad(set_to_none=True)


def cross_entropy(hidden, weight, labels):
    return torch.nn.functional.cross_entropy((hidden @ weight.t()).float(), labels, reduction="sum")


def train_in_chunks(case, model, kind):
    from torch.utils.checkpoint import checkpoint

    base = model.base_model.model if "lora" in case else model
    inner, width = base.base_model, model.config.hidden_size
    params = [p for p in model.parameters() if p.requires_grad]
    opt = optimizer(case, params)
    accum, chunk = case.get("accum", 1), case["chunk"]
    for _ in range(case["steps"]):
        for _ in range(accum):
            ids = ids_like(case, model, case["seq"])
            mask = mask_of(case, ids)
            with autocast(case):
                h = inner(input_ids=ids, attention_mask=mask).last_hidden_state[:, :-1].reshape(-1, width)
                y = ids[:, 1:].reshape(-1)
                loss = 0
                for j in range(0, h.shape[0], chunk):
                    loss = loss + checkpoint(cross_entropy, h[j : j + chunk], base.lm_head.weight, y[j : j + chunk], use_reentrant=False)
            (loss / y.numel() / accum).backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)


def train_with_trainer(case, model, kind):
    from transformers import Trainer, TrainingArguments

    ids = torch.randint(5, model.config.vocab_size - 1, (case["seq"],))
    row = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}
    how = {"use_reentrant": bool(case.get("reentrant"))}
    args = TrainingArguments(
        output_dir="/tmp/trainer",
        per_device_train_batch_size=case["batch"],
        max_steps=case["steps"],
        bf16="amp" in case,
        gradient_checkpointing=bool(case.get("ckpt")),
        gradient_checkpointing_kwargs=how if case.get("ckpt") else None,
        optim="adamw_torch_fused",
        learning_rate=1e-5,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    Trainer(model=model, args=args, train_dataset=[row] * case["batch"] * case["steps"]).train()


LOOPS = {"bare": train_barely, "manual": train, "chunked": train_in_chunks, "trainer": train_with_trainer}


def shorten(name):
    for mark in ("site-packages/", "/site/"):
        if mark in name:
            return "site-packages/" + name.split(mark, 1)[1]
    m = re.match(r".*/lib/(python3\.\d+/.*)", name)
    return m.group(1) if m else "train/" + os.path.basename(name) if "/" in name else name


def events_of(snapshot):
    fields = ("action", "addr", "size", "stream")
    for e in snapshot["device_traces"][0]:
        frames = e.get("frames", [])[:6]
        yield {k: e[k] for k in fields} | {"frames": [f | {"filename": shorten(f["filename"])} for f in frames]}


def record(folder, case):
    import peft

    result = {"id": case["id"], "case": case, "config": small(MODELS[case["model"]])}
    torch.manual_seed(0)
    torch.cuda.init()
    # A stack taken while a checkpoint stops its recomputation loses the exception.
    context = None if case.get("ckpt") or "loss" in case else "all"
    torch.cuda.memory._record_memory_history(context=context, stacks="python", max_entries=2000000)
    model, kind = build(case)
    LOOPS[case["loop"]](case, model, kind)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    result |= {"peak_alloc": stats["allocated_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"]}
    result |= {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    events = list(events_of(torch.cuda.memory._snapshot()))
    with lzma.open(f"{folder}/{case['id']}.pickle.xz", "w", preset=9) as f:
        pickle.dump({"segments": [], "device_traces": [events]}, f)
    with open(f"{folder}/{case['id']}.json", "w") as f:
        json.dump(result, f, indent=1)
    print(case["id"], len(events), result["peak_alloc"], flush=True)


def in_child(work):
    pid = os.fork()
    if pid:
        return pid
    try:
        torch.set_num_threads(2)
        work()
    except BaseException:
        print("FAILED", traceback.format_exc()[-1500:], flush=True)
    os._exit(0)


def main(out, wanted, jobs):
    folder = "/tmp/paths"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    chosen = [c for c in CASES if any(w in c["id"] for w in wanted)]
    for c in chosen:
        if "weights" in c or "load" in c:
            os.waitpid(in_child(lambda: save(c)), 0)
    running = set()
    for c in chosen:
        while len(running) >= jobs:
            running.discard(os.wait()[0])
        running.add(in_child(lambda: record(folder, c)))
    while running:
        running.discard(os.wait()[0])
    with tarfile.open(f"{out}/paths.tar", "w") as f:
        f.add(folder, "paths")


start = time.time()
main(sys.argv[1], sys.argv[2:] or [""], int(os.environ.get("JOBS", "8")))
print("seconds", round(time.time() - start, 1))
