"""Families that were added after the recordings of an H200: two layers, two steps, in the loops and with the
options of the older recordings. Nothing in it depends on the card, so it also runs where stand-ins for
CUDA's libraries take a card's place: PyTorch, transformers, the caching allocator and Python are then the
real ones, kernels do nothing, and copies to the host are zeros. The few values that programs look at are
answered by `answer_comparisons`.

usage: new_families.py OUTDIR [part of a name]
"""

import json
import lzma
import os
import pickle
import sys
import tempfile
import traceback

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # the parent forks: it must not start CUDA
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "docs"))
import peft
import torch
import transformers
from chunked_loss import use_chunked_loss
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, Trainer, TrainingArguments

transformers.logging.set_verbosity_error()
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
MODELS = {
    "llama": {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": True, "max_position_embeddings": 131072},
    "olmo2": {"model_type": "olmo2", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 100352, "max_position_embeddings": 4096, "tie_word_embeddings": False},
    "olmo2-grouped": {"model_type": "olmo2", "hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 2, "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 100352, "max_position_embeddings": 4096, "tie_word_embeddings": False},
    "granite": {"model_type": "granite", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 49155, "max_position_embeddings": 131072, "tie_word_embeddings": True, "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.015625, "logits_scaling": 8.0},
}
FP32 = {"param_dtype": "fp32", "amp": "bf16"}
LORA = {"r": 16, "targets": LINEAR, "dropout": 0.0}
LORA_AMP = {"lora": LORA | {"dropout": 0.05}, "amp": "bf16"}
VARIANTS = {
    "bf16": {},
    "bf16-ckpt": {"ckpt": True},
    "bf16-ckpt-reentrant": {"ckpt": True, "reentrant": True},
    "bf16-eager": {"attn": "eager"},
    "bf16-flash": {"sdp": "flash"},
    "pad": {"mask": "pad"},
    "eager-pad-ckpt": {"attn": "eager", "mask": "pad", "ckpt": True},
    "fp32": {"param_dtype": "fp32"},
    "fp32-ampbf16": FP32,
    "fp32-ampbf16-ckpt": FP32 | {"ckpt": True},
    "fp32-ampbf16-eager": FP32 | {"attn": "eager"},
    "lora": {"lora": LORA},
    "lora-drop-amp": LORA_AMP,
    "lora-drop-amp-ckpt": LORA_AMP | {"ckpt": True},
    "chunked": {"loss": "chunked-model", "chunk": 200},
    "load-cpu": {"load": "cpu"},
    "load-device_map": {"load": "device_map"},
    "trainer-fp32": FP32 | {"loop": "trainer"},
    "trainer-lora-ckpt": LORA_AMP | {"ckpt": True, "loop": "trainer", "accum": 2},
}
CASES = [
    {"id": f"{model}-{name}", "model": model, "batch": 2, "seq": 512, "steps": 2} | options
    for model, names in {
        "llama": ["bf16", "pad", "load-device_map", "trainer-fp32"],
        "olmo2": VARIANTS,
        "olmo2-grouped": ["bf16", "lora-drop-amp-ckpt"],
        "granite": VARIANTS,
    }.items()
    for name, options in ((n, VARIANTS[n]) for n in names)
]


def answer_comparisons(is_padded):
    """What `if tensor:` finds on a card that computes: whether a mask is all ones (masking_utils.py), whether a
    loss is NaN or infinite (trainer.py)."""
    answers = {"masking_utils.py": not is_padded, "trainer.py": False}
    on_card = torch.Tensor.__bool__

    def asked(self):
        value = on_card(self)
        return answers.get(os.path.basename(sys._getframe(1).f_code.co_filename), value)

    torch.Tensor.__bool__ = asked


def loaded(case, config, dtype):
    """A checkpoint of any weights: to the card at once, or on the host and then moved."""
    with tempfile.TemporaryDirectory() as folder:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype)
        model.to_empty(device="cpu").tie_weights()
        model.save_pretrained(folder)
        del model
        if case["load"] == "device_map":
            return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, device_map={"": 0})
        return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to("cuda")


def build(case):
    config = CONFIG_MAPPING[MODELS[case["model"]]["model_type"]](**MODELS[case["model"]])
    attention = case.get("attn", "sdpa")
    config._attn_implementation, config.use_cache = attention, False
    dtype = DTYPES[case.get("param_dtype", "bf16")]
    if case.get("load"):
        model = loaded(case, config, dtype)
    else:
        with torch.device("cuda"):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)
    model.train()
    if case.get("loss") == "chunked-model":
        use_chunked_loss(model, case["chunk"])
    if case.get("ckpt"):
        reentrant = {"use_reentrant": case.get("reentrant", False)}
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=reentrant)
    if case.get("lora"):
        lora = case["lora"]
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=lora["r"], lora_alpha=2 * lora["r"], lora_dropout=lora["dropout"], target_modules=lora["targets"]))
        if case.get("ckpt"):
            model.enable_input_require_grads()
    return model, config


def batch_of(case, config):
    ids = torch.randint(5, config.vocab_size - 1, (case["batch"], case["seq"]), device="cuda")
    batch = {"input_ids": ids}
    if case.get("mask"):
        mask = torch.ones_like(ids)
        mask[:, -(case["seq"] // 4):] = 0
        batch["attention_mask"] = mask
    batch["labels"] = ids.clone()
    return batch


def loop(case, model, config):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=True)
    accum, amp = case.get("accum", 1), case.get("amp")
    for _ in range(case["steps"]):
        for _ in range(accum):
            d = batch_of(case, config)
            with torch.autocast("cuda", dtype=DTYPES[amp]) if amp else torch.enable_grad():
                out = model(**d)
                loss = out.loss
            l = loss / accum
            l.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


class Texts(torch.utils.data.Dataset):
    def __init__(self, count, length, vocabulary):
        self.count, self.length, self.vocabulary = count, length, vocabulary

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        ids = torch.randint(5, self.vocabulary - 1, (self.length,))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def train(case, model, config):
    count = case["batch"] * case.get("accum", 1) * case["steps"]
    args = TrainingArguments(
        output_dir="trainer", per_device_train_batch_size=case["batch"], max_steps=case["steps"],
        gradient_accumulation_steps=case.get("accum", 1), bf16=case.get("amp") == "bf16",
        gradient_checkpointing=case.get("ckpt", False), optim="adamw_torch_fused", report_to=[], save_strategy="no",
        gradient_checkpointing_kwargs={"use_reentrant": False} if case.get("ckpt") else None,
        logging_steps=1000, learning_rate=1e-5, disable_tqdm=True)
    Trainer(model=model, args=args, train_dataset=Texts(count, case["seq"], config.vocab_size)).train()


def shortened(snapshot):
    """Files by what follows site-packages."""
    for trace in snapshot["device_traces"] + [snapshot["segments"]]:
        for event in trace:
            for frames in [event] + event.get("blocks", []):
                for frame in frames.get("frames", []):
                    frame["filename"] = frame["filename"].split("site-packages/")[-1].split("/lib/python")[-1].split("scripts/")[-1]
    return snapshot


def record(case, out):
    torch.manual_seed(0)
    torch.cuda.init()
    answer_comparisons(case.get("mask") == "pad")
    # torch 2.11 fails where a checkpointed loss is computed again and stacks are recorded.
    context = None if case.get("loss") else "all"
    torch.cuda.memory._record_memory_history(enabled="all", context=context, stacks="python", max_entries=2_000_000)
    if case.get("sdp") == "flash":
        torch.backends.cuda.enable_cudnn_sdp(False)
    result = {"id": case["id"], "case": case, "config": MODELS[case["model"]]}
    model, config = build(case)
    result["loaded_alloc"] = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    (train if case.get("loop") == "trainer" else loop)(case, model, config)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    result |= {"peak_alloc": stats["allocated_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"],
               "card": torch.cuda.get_device_name(), "is_simulated": "LD_PRELOAD" in os.environ,
               "torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    snapshot = shortened(torch.cuda.memory._snapshot())
    with lzma.open(f"{out}/{case['id']}.pickle.xz", "wb", preset=9) as f:
        pickle.dump(snapshot, f)
    with open(f"{out}/{case['id']}.json", "w") as f:
        json.dump(result, f, indent=1)
    print(case["id"], result["peak_alloc"], flush=True)


def main():
    out, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    os.makedirs(out, exist_ok=True)
    for case in CASES:
        if part not in case["id"]:
            continue
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        try:
            record(case, out)
        except Exception:
            print("FAILED", case["id"])
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
