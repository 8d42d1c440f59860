"""The cases of families/ and programs/ again, with the versions of torch and transformers that are on PYTHONPATH. Nothing in
it depends on the card: with stand-ins for CUDA's libraries it needs no GPU. Cases that these versions do not have are left
out. With another torch than that of the other recordings, the names begin with both versions.

usage: plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python versions.py OUTDIR [parts of names, with commas]
"""

import glob
import json
import lzma
import os
import pickle
import sys
import traceback

import peft
import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
from transformers.utils import import_utils

transformers.logging.set_verbosity_error()
import_utils._datasets_available = False  # datasets is not of this version's time
VERSION = transformers.__version__
TORCH = torch.__version__.split("+")[0]
USUAL_TORCH = "2.11.0"
DTYPE = "dtype" if tuple(map(int, VERSION.split(".")[:2])) >= (4, 56) else "torch_dtype"
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
CLASSES = {"causal": AutoModelForCausalLM, "seq2seq": AutoModelForSeq2SeqLM, "encoder": AutoModel, "mlm": AutoModelForMaskedLM}
TRUTH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def cases():
    for folder in ("families", "programs"):
        for path in sorted(glob.glob(os.path.join(TRUTH, folder, "*.json"))):
            with open(path) as f:
                row = json.load(f)
            if not row["case"].get("load") and not row["id"].startswith("full"):
                yield row["case"], row["config"]


def build(case, about):
    keys = dict(about)
    config = CONFIG_MAPPING[keys.pop("model_type")](**{k: v for k, v in keys.items() if k != "_kind"})
    kind = about.get("_kind", "causal")
    attention = case.get("attn", "sdpa")
    config._attn_implementation = attention
    if hasattr(config, "use_cache"):
        config.use_cache = False
    dtype = {DTYPE: DTYPES[case.get("param_dtype", "bf16")]}
    with torch.device("cuda"):
        try:
            model = CLASSES[kind].from_config(config, attn_implementation=attention, **dtype)
        except ValueError:  # a class without PyTorch's attention; nothing has been allocated yet
            config._attn_implementation = case["attn"] = "eager"
            model = CLASSES[kind].from_config(config, attn_implementation="eager", **dtype)
    model.train()
    if case.get("ckpt"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": case.get("reentrant", False)})
    if case.get("lora"):
        lora = case["lora"]
        wanted = peft.LoraConfig(r=lora["r"], lora_alpha=2 * lora["r"], lora_dropout=lora["dropout"], target_modules=lora["targets"], bias="none")
        model = peft.get_peft_model(model, wanted, autocast_adapter_dtype=lora.get("fp32_adapters", True))
        if case.get("ckpt"):
            model.enable_input_require_grads()
    return model, config, kind


def batch_of(case, config, kind):
    ids = torch.randint(5, config.vocab_size - 1, (case["batch"], case["seq"]), device="cuda")
    batch = {"input_ids": ids}
    if case.get("mask") == "ones":
        batch["attention_mask"] = torch.ones_like(ids)
    if case.get("mask") == "pad":
        mask = torch.ones_like(ids)
        mask[:, -(case["seq"] // 4):] = 0
        batch["attention_mask"] = mask
    if kind in ("causal", "mlm"):
        batch["labels"] = ids.clone()
    if kind == "seq2seq":
        batch["labels"] = torch.randint(5, config.vocab_size - 1, (case["batch"], case["tgt"]), device="cuda")
    return batch


def optimizer_of(case, parameters):
    name = case.get("optim", "adamw_fused")
    if name == "adafactor":
        return transformers.Adafactor(parameters, lr=1e-5, scale_parameter=False, relative_step=False)
    return torch.optim.AdamW(parameters, lr=1e-5, **{"adamw_fused": {"fused": True}, "adamw_foreach": {"foreach": True}}[name])


def loop(case, model, config, kind):
    params = [p for p in model.parameters() if p.requires_grad]
    opt = optimizer_of(case, params)
    accum, amp = case.get("accum", 1), case.get("amp")
    scaler = torch.amp.GradScaler("cuda") if amp == "fp16" else None
    for _ in range(case["steps"]):
        for _ in range(accum):
            d = batch_of(case, config, kind)
            with torch.autocast("cuda", dtype=DTYPES[amp]) if amp else torch.enable_grad():
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


class Texts(torch.utils.data.Dataset):
    def __init__(self, case, vocabulary, kind):
        self.case, self.vocabulary, self.kind = case, vocabulary, kind

    def __len__(self):
        return self.case["batch"] * self.case.get("accum", 1) * self.case["steps"]

    def __getitem__(self, i):
        ids = torch.randint(5, self.vocabulary - 1, (self.case["seq"],))
        labels = torch.randint(5, self.vocabulary - 1, (self.case["tgt"],)) if self.kind == "seq2seq" else ids.clone()
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def train(case, model, config, kind, optimizer=None):
    from transformers import Trainer, TrainingArguments
    args = TrainingArguments(
        output_dir="trainer", per_device_train_batch_size=case["batch"], max_steps=case["steps"],
        gradient_accumulation_steps=case.get("accum", 1), bf16=case.get("amp") == "bf16", fp16=case.get("amp") == "fp16",
        gradient_checkpointing=case.get("ckpt") is True, report_to=[], save_strategy="no",
        gradient_checkpointing_kwargs={"use_reentrant": case.get("reentrant", False)} if case.get("ckpt") is True else None,
        logging_steps=1000, learning_rate=1e-5, disable_tqdm=True, **case.get("arguments", {"optim": "adamw_torch_fused"}))
    Trainer(model=model, args=args, train_dataset=Texts(case, config.vocab_size, kind), optimizers=(optimizer, None)).train()


def shortened(snapshot):
    """Files by what follows site-packages or the folder of a version."""
    for trace in snapshot["device_traces"] + [snapshot["segments"]]:
        for event in trace:
            for frames in [event] + event.get("blocks", []):
                for frame in frames.get("frames", []):
                    for end in ("site-packages/", "transformers-%s/" % VERSION, "torch-%s/" % TORCH, "/lib/python", "scripts/", "card/python/"):
                        frame["filename"] = frame["filename"].split(end)[-1]
    return snapshot


def record(case, about, out):
    torch.manual_seed(0)
    torch.cuda.init()
    name = "%s-%s" % (VERSION if TORCH == USUAL_TORCH else "torch-%s-%s" % (TORCH, VERSION), case["id"])
    context = None if case.get("nostack") else "all"
    torch.cuda.memory._record_memory_history(enabled="all", context=context, stacks="python", max_entries=2_000_000)
    model, config, kind = build(case, about)
    torch.cuda.reset_peak_memory_stats()
    (train if case.get("loop") == "trainer" else loop)(case, model, config, kind)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    result = {"id": name, "case": dict(case, transformers=VERSION, torch=TORCH, peft=peft.__version__), "config": about,
              "peak_alloc": stats["allocated_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"],
              "torch": torch.__version__, "transformers": VERSION, "peft": peft.__version__}
    with lzma.open(f"{out}/{name}.pickle.xz", "wb", preset=9) as f:
        pickle.dump(shortened(torch.cuda.memory._snapshot()), f)
    with open(f"{out}/{name}.json", "w") as f:
        json.dump(result, f, indent=1)
    print(name, result["peak_alloc"], flush=True)


def main():
    out, parts = sys.argv[1], sys.argv[2].split(",") if len(sys.argv) > 2 else [""]
    os.makedirs(out, exist_ok=True)
    for case, about in cases():
        if not any(part in case["id"] for part in parts):
            continue
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        try:
            record(case, about, out)
        except Exception:
            print("FAILED", case["id"])
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
