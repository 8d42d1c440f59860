"""T5, GPT-2 and GPT-NeoX with masks, eager attention, adapters, checkpoints and through Trainer: two
layers at real width, two steps. Kept of each event: what, where, how much, and the inner frames.

usage: decoders.py OUTDIR
"""

import lzma
import os
import pickle
import sys

import peft
import torch
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    Trainer,
    TrainingArguments,
)

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
T5 = {
    "model_type": "t5",
    "d_model": 768,
    "d_ff": 2048,
    "d_kv": 64,
    "num_heads": 12,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "vocab_size": 32128,
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
    "decoder_start_token_id": 0,
}
T5_FIRST = {k: v for k, v in T5.items() if k != "tie_word_embeddings"} | {
    "feed_forward_proj": "relu"
}
GPT2 = {"model_type": "gpt2", "n_layer": 2}
NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "vocab_size": 50304,
    "max_position_embeddings": 2048,
}
AMP = {"param_dtype": "fp32", "amp": "bf16"}
CKPT = {"ckpt": True}
EAGER = {"attn": "eager"}
PAD = {"mask": "pad"}
TRAINER = {"loop": "trainer", "amp": "bf16"}


def lora(targets, dropout=0.0):
    return {"lora": {"r": 8, "targets": targets, "dropout": dropout}}


CASES = [
    ("t5-b8s250", T5, {"batch": 8, "seq": 250, "tgt": 100}),
    ("t5-ckpt-s250", T5, {"seq": 250, "tgt": 100} | CKPT),
    ("t5-b1", T5, {"batch": 1}),
    ("t5-ckpt-b1", T5, {"batch": 1} | CKPT),
    ("t5-eager", T5, EAGER),
    ("t5-eager-pad", T5, EAGER | PAD),
    ("t5-pad", T5, PAD),
    ("t5-ones", T5, {"mask": "ones"}),
    ("t5-amp", T5, AMP),
    ("t5-amp-ckpt", T5, AMP | CKPT),
    ("t5-eager-amp", T5, EAGER | AMP),
    ("t5-relu", T5_FIRST, {}),
    ("t5-relu-amp", T5_FIRST, AMP),
    ("t5-reentrant", T5, {"reentrant": True} | CKPT),
    ("t5-fp32", T5, {"param_dtype": "fp32"}),
    ("t5-pad-ckpt", T5, PAD | CKPT),
    ("t5-flash", T5, {"sdp": "flash"}),
    ("t5-trainer", T5, TRAINER | AMP),
    ("t5-trainer-bf16", T5, TRAINER),
    ("t5-lora", T5, lora(["q", "v", "wi_0", "wo"], 0.05) | AMP),
    ("t5-lora-ckpt", T5, lora("all-linear") | CKPT),
    ("gpt2-eager", GPT2, EAGER),
    ("gpt2-eager-amp", GPT2, EAGER | AMP),
    ("gpt2-eager-ckpt", GPT2, EAGER | CKPT),
    ("gpt2-eager-pad", GPT2, EAGER | PAD),
    ("gpt2-pad", GPT2, PAD),
    ("gpt2-trainer", GPT2, TRAINER | AMP),
    ("gpt2-lora", GPT2, lora(["c_attn", "c_proj"], 0.05) | AMP),
    ("gpt2-lora-ckpt", GPT2, lora("all-linear") | CKPT),
    ("neox-eager", NEOX, EAGER),
    ("neox-pad", NEOX, PAD),
    ("neox-lora", NEOX, lora("all-linear", 0.05)),
]
DEFAULTS = {"batch": 2, "seq": 128, "tgt": 64, "param_dtype": "bf16"}


def build(config, case):
    kind = config["model_type"]
    config = CONFIG_MAPPING[kind](**{k: v for k, v in config.items() if k != "model_type"})
    config.use_cache = False
    auto = AutoModelForSeq2SeqLM if kind == "t5" else AutoModelForCausalLM
    with torch.device("cuda"):
        model = auto.from_config(
            config,
            dtype=DTYPES[case["param_dtype"]],
            attn_implementation=case.get("attn", "sdpa"),
        ).train()
    if case.get("ckpt"):
        model.gradient_checkpointing_enable({"use_reentrant": bool(case.get("reentrant"))})
    if "lora" in case:
        adapters = peft.LoraConfig(
            r=case["lora"]["r"],
            lora_dropout=case["lora"]["dropout"],
            target_modules=case["lora"]["targets"],
        )
        model = peft.get_peft_model(model, adapters)
        if case.get("ckpt"):
            model.enable_input_require_grads()
    return model, config.vocab_size, case["tgt"] if kind == "t5" else case["seq"]


def random_ids(vocabulary, *shape, device="cuda"):
    return torch.randint(5, vocabulary - 1, shape, device=device)


def make_batch(case, vocabulary, target):
    ids = random_ids(vocabulary, case["batch"], case["seq"])
    inputs = {"input_ids": ids}
    if "mask" in case:
        inputs["attention_mask"] = torch.ones_like(ids)
        if case["mask"] == "pad":
            inputs["attention_mask"][:, -(case["seq"] // 4) :] = 0
    inputs["labels"] = random_ids(vocabulary, case["batch"], target)
    return inputs


def train_with_trainer(model, case, vocabulary, target):
    ids = random_ids(vocabulary, case["seq"], device="cpu")
    labels = random_ids(vocabulary, target, device="cpu")
    row = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    args = TrainingArguments(
        output_dir="trainer",
        per_device_train_batch_size=case["batch"],
        max_steps=2,
        bf16=True,
        optim="adamw_torch_fused",
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    Trainer(model=model, args=args, train_dataset=[row] * case["batch"] * 2).train()


def train(model, case, vocabulary, target):
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, fused=True)
    for _ in range(2):
        d = make_batch(case, vocabulary, target)
        with torch.autocast("cuda", DTYPES["bf16"]) if "amp" in case else torch.enable_grad():
            out = model(**d)
            loss = out.loss
        l = loss / 1
        l.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)


def record(folder, name, config, case):
    torch.backends.cuda.enable_cudnn_sdp("sdp" not in case)
    # A stack taken while a checkpoint stops its recomputation loses the exception.
    context = None if case.get("ckpt") else "all"
    torch.cuda.memory._record_memory_history(context=context, stacks="python", max_entries=2000000)
    model, vocabulary, target = build(config, case)
    run = train_with_trainer if case.get("loop") else train
    run(model, case, vocabulary, target)
    fields = ("action", "addr", "size", "stream")
    events = [
        {k: e[k] for k in fields} | {"frames": e.get("frames", [])[:6]}
        for e in torch.cuda.memory._snapshot()["device_traces"][0]
    ]
    with lzma.open(f"{folder}/{name}.pickle.xz", "w", preset=9) as f:
        pickle.dump({"segments": [], "device_traces": [events]}, f)
    print(name, len(events))


for name, config, case in CASES:
    pid = os.fork()  # each in a fresh process
    if pid:
        os.waitpid(pid, 0)
        continue
    record(sys.argv[1], name, config, DEFAULTS | case)
    sys.stdout.flush()
    os._exit(0)
