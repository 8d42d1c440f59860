"""Encoders, and heads that return labels: two layers, two steps. Each case names the class that transformers loads.

usage: plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python heads.py OUTDIR [beginnings of names, with commas]
"""

import json
import lzma
import os
import pickle
import sys
import tempfile
import traceback

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # the parent forks: it must not start CUDA
import peft
import torch
import transformers
from new_families import DTYPES, shortened
from transformers import CONFIG_MAPPING, Trainer, TrainingArguments

transformers.logging.set_verbosity_error()
CLASSES = {"masked": "MaskedLM", "sequence": "SequenceClassification", "tokens": "TokenClassification",
           "answers": "QuestionAnswering", "choices": "MultipleChoice", "causal": "CausalLM"}
LLAMA = {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "pad_token_id": 0}
MODELS = {
    "bert": {"model_type": "bert", "num_hidden_layers": 2},
    "roberta": {"model_type": "roberta", "num_hidden_layers": 2, "max_position_embeddings": 514, "type_vocab_size": 1},
    "mpnet": {"model_type": "mpnet", "num_hidden_layers": 2, "max_position_embeddings": 514},
    "llama": LLAMA,
    "distilbert": {"model_type": "distilbert", "n_layers": 2},
    "electra": {"model_type": "electra", "num_hidden_layers": 2},
    "electra-base": {"model_type": "electra", "num_hidden_layers": 2, "embedding_size": 768, "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12},
    "xlm-roberta": {"model_type": "xlm-roberta", "num_hidden_layers": 2, "max_position_embeddings": 514, "type_vocab_size": 1, "vocab_size": 50002},
    "camembert": {"model_type": "camembert", "num_hidden_layers": 2, "max_position_embeddings": 514, "type_vocab_size": 1, "vocab_size": 32005},
    "modernbert": {"model_type": "modernbert", "num_hidden_layers": 4},
    "modernbert-mean": {"model_type": "modernbert", "num_hidden_layers": 2, "classifier_pooling": "mean"},
    "albert": {"model_type": "albert", "hidden_size": 768, "num_hidden_layers": 3, "num_attention_heads": 12, "intermediate_size": 3072},
    "deberta-v2": {"model_type": "deberta-v2", "num_hidden_layers": 3, "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "type_vocab_size": 0, "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": "p2c|c2p", "position_biased_input": False, "vocab_size": 20000, "legacy": True},
    "deberta-placed": {"model_type": "deberta-v2", "num_hidden_layers": 3, "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "type_vocab_size": 0, "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": ["p2c", "c2p"], "vocab_size": 20000, "legacy": True},
    "gpt2": {"model_type": "gpt2", "n_layer": 2, "pad_token_id": 0},
    "neox": {"model_type": "gpt_neox", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 16, "vocab_size": 50304, "pad_token_id": 0},
}
FP32 = {"param_dtype": "fp32", "amp": "bf16"}
PAD = {"mask": "pad"}
TRAINER = {"loop": "trainer"}
# name of a model, its heads, variants
CASES = """
bert sequence: bf16 amp pad-eager amp-lora lora trainer ckpt regression
bert tokens: bf16 amp-pad trainer
bert answers: bf16 amp trainer
bert choices: bf16 trainer
roberta sequence: bf16 amp-pad amp-lora trainer
roberta tokens: amp
roberta answers: bf16
mpnet sequence: bf16 amp
mpnet tokens: amp-trainer
llama sequence: bf16 amp amp-pad amp-lora trainer ckpt one
llama tokens: bf16 amp trainer
llama answers: amp
gpt2 sequence: bf16 amp trainer
gpt2 tokens: amp
neox sequence: bf16
neox tokens: amp
distilbert sequence: bf16 amp pad amp-lora trainer
distilbert tokens: amp-pad-eager
distilbert answers: amp
distilbert choices: bf16
distilbert masked: bf16 amp ckpt trainer
distilbert none: amp
electra sequence: bf16 amp-pad amp-lora trainer
electra tokens: amp
electra masked: bf16 amp-eager
electra none: amp
electra-base sequence: amp
xlm-roberta sequence: bf16 amp-pad
xlm-roberta masked: amp-trainer
camembert tokens: amp
modernbert masked: bf16 amp amp-pad amp-eager ckpt trainer lora short
modernbert sequence: bf16 amp-pad amp-lora trainer ckpt regression
modernbert tokens: bf16 amp-pad trainer
modernbert answers: amp
modernbert none: amp
modernbert-mean sequence: bf16 amp amp-pad trainer
albert masked: bf16 amp-pad amp-eager trainer
albert sequence: bf16 amp-pad amp-lora trainer
albert tokens: amp
albert answers: amp
albert choices: bf16
albert none: amp
deberta-v2 masked: bf16 amp ckpt trainer
deberta-v2 sequence: bf16 amp amp-pad amp-lora trainer ckpt regression amp-one
deberta-v2 tokens: amp-pad
deberta-v2 answers: amp
deberta-v2 choices: bf16
deberta-v2 none: amp
deberta-placed masked: amp-pad trainer
deberta-placed sequence: bf16 amp ckpt
"""
OPTIONS = {"bf16": {}, "amp": FP32, "pad": PAD, "eager": {"attn": "eager"}, "ckpt": FP32 | {"ckpt": True}, "one": {"batch": 1}, "short": {"seq": 48},
           "lora": {"lora": {"r": 8, "dropout": 0.1}}, "trainer": FP32 | TRAINER, "regression": FP32 | {"labels": 1}, "fp32": {"param_dtype": "fp32"}}


def cases():
    for line in CASES.strip().split("\n"):
        about, variants = line.split(": ")
        model, head = about.split(" ")
        for variant in variants.split(" "):
            case = {"id": f"{model}-{head}-{variant}", "model": model, "batch": 4, "seq": 128, "steps": 2, "mask": "ones"}
            for option in variant.split("-"):
                case |= OPTIONS[option]
            yield case | {"head": head}


def targets_of(model):
    usual = peft.utils.constants.TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
    return usual.get(model["model_type"], ["query", "value"] if model["model_type"] == "albert" else ["Wqkv", "Wo"])  # peft has none for these


def adapted(case, model):
    tasks = {"sequence": "SEQ_CLS", "tokens": "TOKEN_CLS", "answers": "QUESTION_ANS"}
    lora = case["lora"]
    lora["targets"] = targets_of(MODELS[case["model"]])
    wanted = peft.LoraConfig(r=lora["r"], lora_alpha=16, lora_dropout=lora["dropout"], target_modules=lora["targets"],
                             task_type=tasks.get(case["head"]))
    lora["saves_head"] = case["head"] in tasks
    return peft.get_peft_model(model, wanted)


def build(case):
    about = MODELS[case["model"]]
    config = CONFIG_MAPPING[about["model_type"]](**about)
    config.num_labels = case.get("labels", 3 if case["head"] in ("sequence", "tokens") else 2)
    attention, dtype = case.get("attn", "sdpa"), DTYPES[case.get("param_dtype", "bf16")]
    auto = getattr(transformers, "AutoModelFor" + CLASSES[case["head"]]) if case["head"] != "none" else transformers.AutoModel
    with torch.device("cuda"):
        try:
            model = auto.from_config(config, dtype=dtype, attn_implementation=attention)
        except ValueError:  # a class without PyTorch's attention; nothing has been allocated yet
            case["attn"] = "eager"
            model = auto.from_config(config, dtype=dtype, attn_implementation="eager")
    config.use_cache = False
    model.config.use_cache = False
    model.train()
    if case.get("ckpt"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return (adapted(case, model) if case.get("lora") else model), config


def labels_of(case, config, rows, device):
    if case["head"] == "answers":
        return {k: torch.ones(rows, dtype=torch.long, device=device) for k in ("start_positions", "end_positions")}
    shape = (rows, case["seq"]) if case["head"] in ("tokens", "masked", "causal") else (rows,)
    dtype = torch.float32 if config.num_labels == 1 else torch.long
    return {"labels": torch.zeros(shape, dtype=dtype, device=device)}


def batch_of(case, config):
    shape = (case["batch"], 4, case["seq"]) if case["head"] == "choices" else (case["batch"], case["seq"])
    ids = torch.randint(5, config.vocab_size - 1, shape, device="cuda")
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if case["mask"] == "pad":
        batch["attention_mask"][:, -(case["seq"] // 4):] = 0
    return batch | ({} if case["head"] == "none" else labels_of(case, config, case["batch"], "cuda"))


def loop(case, model, config):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=True)
    amp = case.get("amp")
    for _ in range(case["steps"]):
        d = batch_of(case, config)
        with torch.autocast("cuda", dtype=DTYPES[amp]) if amp else torch.enable_grad():
            out = model(**d)
            loss = out.last_hidden_state.float().pow(2).mean() if case["head"] == "none" else out.loss
        l = loss / 1
        l.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def train(case, model, config):
    ids = torch.ones((4, case["seq"]) if case["head"] == "choices" else (case["seq"],)).long() * 7
    row = {"input_ids": ids, "attention_mask": torch.ones_like(ids)} | {k: v[0] for k, v in labels_of(case, config, 1, "cpu").items()}
    args = TrainingArguments(
        output_dir="trainer", per_device_train_batch_size=case["batch"], max_steps=case["steps"], bf16=case.get("amp") == "bf16",
        optim="adamw_torch_fused", report_to=[], save_strategy="no", logging_steps=1000, learning_rate=1e-5, disable_tqdm=True)
    Trainer(model=model, args=args, train_dataset=[row] * case["batch"] * case["steps"]).train()


def record(case, out):
    torch.manual_seed(0)
    torch.cuda.init()
    # torch 2.11 fails where layers with dropout are computed again and stacks are recorded.
    context = None if case.get("ckpt") else "all"
    torch.cuda.memory._record_memory_history(enabled="all", context=context, stacks="python", max_entries=2_000_000)
    model, config = build(case)
    about = MODELS[case["model"]] | {"num_labels": config.num_labels, "_kind": case["head"]}
    result = {"id": case["id"], "case": case, "config": about, "loaded_alloc": torch.cuda.memory_allocated()}
    torch.cuda.reset_peak_memory_stats()
    (train if case.get("loop") == "trainer" else loop)(case, model, config)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    result |= {"peak_alloc": stats["allocated_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"],
               "torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    with lzma.open(f"{out}/{case['id']}.pickle.xz", "wb", preset=9) as f:
        pickle.dump(shortened(torch.cuda.memory._snapshot()), f)
    with open(f"{out}/{case['id']}.json", "w") as f:
        json.dump(result, f, indent=1)
    print(case["id"], result["peak_alloc"], flush=True)


def main():
    out, part = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    os.makedirs(out, exist_ok=True)
    os.chdir(tempfile.mkdtemp())
    for case in cases():
        if not case["id"].startswith(tuple(part.split(","))):
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
