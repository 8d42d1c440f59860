"""Training from preferences with TRL's trainers: DPO, reward models, KTO, ORPO, CPO. Two layers, two steps.
The recordings *-full-* were made with TRL 1.9 on PYTHONPATH, which holds all logits.

The recordings *-factory-* are of LLaMA-Factory's own trainer (July 2026) with TRL 0.24, both on PYTHONPATH.

usage: plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python preferences.py OUTDIR [part of a name]
"""

import importlib
import json
import lzma
import os
import pickle
import sys
import tempfile
import traceback
import uuid

import datasets.fingerprint
import peft
import torch
import transformers
import trl
import versions
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoModelForTokenClassification, PreTrainedTokenizerFast

datasets.fingerprint.Hasher.hash = classmethod(lambda c, v: uuid.uuid4().hex)
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LLAMA = {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4}
MODELS = {
    "llama": LLAMA | {"vocab_size": 32016, "tie_word_embeddings": False},
    "tied": LLAMA | {"vocab_size": 70016, "tie_word_embeddings": True},
    "qwen2": {"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 2, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 33024, "tie_word_embeddings": True},
    "mistral": {"model_type": "mistral", "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32768, "sliding_window": None},
    "gemma2": {"model_type": "gemma2", "hidden_size": 1152, "intermediate_size": 4608, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 32064, "tie_word_embeddings": True},
}
LORA = {"lora": {"r": 8, "dropout": 0.05, "targets": LINEAR}}
FP32 = {"param_dtype": "fp32"}
PLAIN = {"ckpt": False}
NOAMP = {"ckpt": False, "amp": None}
REWARD, KTO, ORPO, CPO = {"method": "reward"}, {"method": "kto"}, {"method": "orpo"}, {"method": "cpo"}
# Process reward models; TRL has no trainer for them since 1.14.
PRM = {"method": "prm"}
SIMPO = {"method": "simpo", "keys": {"loss_type": "simpo", "cpo_alpha": 0.0}}
FACTORY = {"method": "dpo-llamafactory", "reentrant": True}
# The head of a classification model, which peft otherwise leaves as it is.
SCORED = {"lora": {"r": 8, "dropout": 0.05, "targets": LINEAR, "saved": ["score"]}}
# The trainers cast what is trained of a quantised model to bf16 (dpo_trainer.py, _is_quantized_model); ORPOTrainer does not.
NF4 = {"weights": "nf4-double", "load": "device_map", "prepare": False, "lora": {"r": 8, "dropout": 0.05, "targets": LINEAR, "casts": "bf16"}}
OFFLOAD = {"keys": {"activation_offloading": True}}
UNEVEN = {"chosen": 96, "rejected": 60}
# Tokens of prompt and answers; an answer gets a last token of its own.
BASE = {"batch": 2, "prompt": 160, "chosen": 95, "rejected": 95, "steps": 2, "ckpt": True, "amp": "bf16"}
CASES = {
    "dpo-llama": ("llama", {}),
    "dpo-llama-plain": ("llama", PLAIN),
    "dpo-llama-fp32": ("llama", FP32 | PLAIN),
    "dpo-llama-noamp": ("llama", PLAIN | {"amp": None}),
    "dpo-llama-uneven": ("llama", UNEVEN | PLAIN),
    "dpo-llama-accum": ("llama", {"accum": 2}),
    "dpo-llama-b1": ("llama", {"batch": 1} | PLAIN),
    "dpo-llama-pre": ("llama", {"reference": "precomputed"} | PLAIN),
    "dpo-llama-long": ("llama", {"batch": 12, "prompt": 100, "chosen": 299, "rejected": 299} | PLAIN),
    "dpo-llama-lora": ("llama", LORA),
    "dpo-llama-lora-plain": ("llama", LORA | PLAIN),
    "dpo-llama-lora-uneven": ("llama", LORA | UNEVEN),
    "dpo-llama-lora-pre": ("llama", LORA | PLAIN | {"reference": "precomputed"}),
    "dpo-llama-lora-fp32": ("llama", LORA | FP32),
    "dpo-tied": ("tied", {}),
    "dpo-tied-lora-accum": ("tied", LORA | {"accum": 2}),
    "dpo-qwen2": ("qwen2", {}),
    "dpo-qwen2-lora": ("qwen2", LORA),
    "dpo-mistral-lora": ("mistral", LORA),
    "dpo-gemma2": ("gemma2", PLAIN),
    "dpo-gemma2-lora": ("gemma2", LORA),
    "reward-llama": ("llama", REWARD),
    "reward-llama-plain": ("llama", REWARD | PLAIN),
    "reward-llama-uneven": ("llama", REWARD | UNEVEN),
    "reward-llama-fp32": ("llama", REWARD | FP32 | PLAIN),
    "reward-llama-noamp": ("llama", REWARD | NOAMP),
    "reward-llama-accum": ("llama", REWARD | {"accum": 2}),
    "reward-llama-centred": ("llama", REWARD | PLAIN | {"keys": {"center_rewards_coefficient": 0.01}}),
    "reward-llama-lora": ("llama", REWARD | LORA),
    "reward-llama-lora-saved": ("llama", REWARD | SCORED),
    "reward-qwen2": ("qwen2", REWARD),
    "reward-gemma2-lora": ("gemma2", REWARD | SCORED),
    "kto-llama": ("llama", KTO),
    "kto-llama-plain": ("llama", KTO | PLAIN),
    "kto-llama-noamp": ("llama", KTO | NOAMP),
    "kto-llama-fp32": ("llama", KTO | FP32 | PLAIN),
    "kto-llama-accum": ("llama", KTO | {"accum": 2}),
    "kto-llama-b4": ("llama", KTO | PLAIN | {"batch": 4}),
    "kto-llama-pre": ("llama", KTO | PLAIN | {"reference": "precomputed"}),
    "kto-llama-apo": ("llama", KTO | PLAIN | {"keys": {"loss_type": "apo_zero_unpaired"}}),
    "kto-llama-lora": ("llama", KTO | LORA),
    "kto-llama-lora-plain": ("llama", KTO | LORA | PLAIN),
    "kto-llama-lora-accum": ("llama", KTO | LORA | {"accum": 2}),
    "kto-llama-lora-pre": ("llama", KTO | LORA | {"reference": "precomputed"}),
    "kto-qwen2-lora": ("qwen2", KTO | LORA | PLAIN),
    "orpo-llama": ("llama", ORPO),
    "orpo-llama-plain": ("llama", ORPO | PLAIN),
    "orpo-llama-uneven": ("llama", ORPO | UNEVEN | PLAIN),
    "orpo-llama-fp32": ("llama", ORPO | FP32 | PLAIN),
    "orpo-llama-noamp": ("llama", ORPO | NOAMP),
    "orpo-llama-accum": ("llama", ORPO | {"accum": 2}),
    "orpo-llama-b1": ("llama", ORPO | PLAIN | {"batch": 1}),
    "orpo-llama-lora": ("llama", ORPO | LORA),
    "orpo-qwen2-lora": ("qwen2", ORPO | LORA | PLAIN),
    "orpo-gemma2": ("gemma2", ORPO | PLAIN),
    "cpo-llama": ("llama", CPO),
    "cpo-llama-plain": ("llama", CPO | PLAIN),
    "cpo-llama-uneven": ("llama", CPO | UNEVEN | PLAIN),
    "cpo-llama-noamp": ("llama", CPO | NOAMP),
    "cpo-llama-lora": ("llama", CPO | LORA),
    "dpo-llama-offload": ("llama", OFFLOAD),
    "dpo-llama-plain-offload": ("llama", OFFLOAD | PLAIN),
    "dpo-llama-lora-offload": ("llama", OFFLOAD | LORA),
    "reward-llama-offload": ("llama", OFFLOAD | REWARD),
    "reward-llama-lora-offload": ("llama", OFFLOAD | REWARD | LORA),
    "prm-llama": ("llama", PRM),
    "prm-llama-plain": ("llama", PRM | PLAIN),
    "prm-llama-fp32": ("llama", PRM | FP32 | PLAIN),
    "prm-qwen2-lora": ("qwen2", PRM | LORA),
    "simpo-llama": ("llama", SIMPO),
    "simpo-llama-plain": ("llama", SIMPO | PLAIN),
    "simpo-llama-lora": ("llama", SIMPO | LORA),
    "dpo-llama-nf4": ("llama", NF4),
    "dpo-llama-nf4-plain": ("llama", NF4 | PLAIN),
    "dpo-qwen2-nf4": ("qwen2", NF4 | {"accum": 2}),
    "kto-llama-nf4": ("llama", KTO | NF4),
    "reward-llama-nf4": ("llama", REWARD | NF4),
    "dpo-factory-llama": ("llama", FACTORY),
    "dpo-factory-llama-plain": ("llama", FACTORY | PLAIN),
    "dpo-factory-llama-fp32": ("llama", FACTORY | FP32 | PLAIN),
    "dpo-factory-llama-accum": ("llama", FACTORY | {"accum": 2}),
    "dpo-factory-llama-lora": ("llama", FACTORY | LORA),
    "dpo-factory-llama-lora-plain": ("llama", FACTORY | LORA | PLAIN),
    "dpo-factory-tied-lora-accum": ("tied", FACTORY | LORA | {"accum": 2}),
    "dpo-factory-qwen2-lora": ("qwen2", FACTORY | LORA | {"batch": 1}),
    "orpo-factory-llama-lora": ("llama", FACTORY | LORA | {"method": "orpo-llamafactory"}),
    "orpo-factory-llama-plain": ("llama", FACTORY | PLAIN | {"method": "orpo-llamafactory"}),
    "simpo-factory-llama-lora": ("llama", FACTORY | LORA | {"method": "simpo-llamafactory"}),
}


def tokenizer():
    words = {f"w{i}": i for i in range(32000)} | {"<unk>": 32000, "<pad>": 32001, "</s>": 32002}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", pad_token="<pad>", eos_token="</s>", padding_side="left")


def text(length, seed):
    return " ".join(f"w{(seed * 7919 + j * 31) % 32000}" for j in range(length))


def build(case, about, kind=AutoModelForCausalLM, **keys):
    keys = dict(about) | keys
    config = CONFIG_MAPPING[keys.pop("model_type")](pad_token_id=32001, **keys)
    if case.get("weights"):
        return quantised(case, kind, config)
    with torch.device("cuda"):
        return kind.from_config(config, dtype=versions.DTYPES[case.get("param_dtype", "bf16")])


def quantised(case, kind, config):
    """bitsandbytes' 4-bit weights; bitsandbytes must be on PYTHONPATH. It initialises CUDA, so that each case needs
    a process of its own: give its whole name."""
    how = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16, bnb_4bit_use_double_quant=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.cuda.memory._record_memory_history(enabled=None)
        kind.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
        start_recording(case)
        return kind.from_pretrained(folder, dtype=torch.bfloat16, device_map={"": 0}, quantization_config=how)


def start_recording(case):
    context = None if case["ckpt"] else "all"
    torch.cuda.memory._record_memory_history(enabled="all", context=context, stacks="python", max_entries=2_000_000)


def pairs(features):
    both = [f[key] for key in ("chosen", "rejected") for f in features]
    ids = torch.tensor(both)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


# Checkpoints as LLaMA-Factory's model/model_utils/checkpointing.py turns them on.
def factory_trainer(case, about, keys, adapters):
    from types import SimpleNamespace

    checks = importlib.import_module("trl.import_utils")
    for name, value in list(vars(checks).items()):  # TRL 0.24 takes transformers 5's pairs of availability and version for true
        if name.endswith("_available") and isinstance(value, tuple):
            setattr(checks, name, value[0])
    from llamafactory.model.model_utils.checkpointing import prepare_model_for_training
    from llamafactory.train.dpo.trainer import CustomDPOTrainer
    loss = {"dpo": "sigmoid"}.get(case["method"].split("-")[0], case["method"].split("-")[0])
    about_model = SimpleNamespace(upcast_layernorm=False, disable_gradient_checkpointing=not case["ckpt"], use_reentrant_gc=True, use_unsloth_gc=False, use_kt=False,
                                  upcast_lmhead_output=False)
    about_tuning = SimpleNamespace(pref_beta=0.1, pref_loss=loss, pref_ftx=0.0, pref_bco_weight=0.0, dpo_label_smoothing=0.0, simpo_gamma=0.5, ld_alpha=None,
                                   use_badam=False, use_ref_model=loss not in ("orpo", "simpo"), disable_shuffling=True, use_galore=False, use_apollo=False,
                                   loraplus_lr_ratio=None, use_adam_mini=False, use_muon=False)
    length, count = case["prompt"] + case["chosen"] + 1, case["batch"] * case.get("accum", 1) * case["steps"]
    rows = [{key: [(i * 7919 + j) % 32000 for j in range(length)] for key in ("chosen", "rejected")} for i in range(count)]
    model = build(case, about)
    prepare_model_for_training(model, about_model)
    model = peft.get_peft_model(model, adapters) if adapters else model
    reference = build(case, about) if about_tuning.use_ref_model and not adapters else None
    keys = keys | {"gradient_checkpointing": False, "remove_unused_columns": False}
    return CustomDPOTrainer(model=model, ref_model=reference, finetuning_args=about_tuning, processor=None, args=transformers.Seq2SeqTrainingArguments(**keys),
                            train_dataset=Dataset.from_list(rows), data_collator=pairs, tokenizer=tokenizer())


def trainer_of(case, about, folder):
    method, count = case.get("method", "dpo"), case["batch"] * case.get("accum", 1) * case["steps"]
    keys = dict(
        output_dir=folder, per_device_train_batch_size=case["batch"], max_steps=case["steps"], gradient_accumulation_steps=case.get("accum", 1),
        bf16=case["amp"] == "bf16", gradient_checkpointing=case["ckpt"], report_to=[], save_strategy="no", logging_steps=1000, learning_rate=1e-5,
        disable_tqdm=True, optim="adamw_torch_fused")
    rows = {"prompt": [text(case["prompt"], j) for j in range(count)], "chosen": [" " + text(case["chosen"], j + 1) for j in range(count)],
            "rejected": [" " + text(case["rejected"], j + 2) for j in range(count)]}
    keys |= case.get("keys", {})
    wanted = case.get("lora")
    adapters = peft.LoraConfig(r=wanted["r"], lora_alpha=16, lora_dropout=wanted["dropout"], target_modules=wanted["targets"], modules_to_save=wanted.get("saved"),
                               task_type={"reward": "SEQ_CLS", "prm": "TOKEN_CLS"}.get(method, "CAUSAL_LM")) if wanted else None
    if method.endswith("-llamafactory"):
        return factory_trainer(case, about, keys, adapters)
    common = dict(processing_class=tokenizer(), peft_config=adapters)
    if method == "dpo":
        keys["precompute_ref_log_probs"] = case.get("reference") == "precomputed"
        model = build(case, about)
        needs_reference = not wanted and not keys["precompute_ref_log_probs"]
        reference = build(case, about) if needs_reference else None
        return trl.DPOTrainer(model=model, ref_model=reference, args=trl.DPOConfig(**keys), train_dataset=Dataset.from_dict(rows), **common)
    if method == "reward":
        rows.pop("prompt")
        model = build(case, about, AutoModelForSequenceClassification, num_labels=1)
        return trl.RewardTrainer(model=model, args=trl.RewardConfig(**keys), train_dataset=Dataset.from_dict(rows), **common)
    if method == "kto":
        rows = {"prompt": rows["prompt"], "completion": rows["chosen"], "label": [j % 2 == 0 for j in range(count)]}
        keys["precompute_ref_log_probs"] = case.get("reference") == "precomputed"
        model = build(case, about)
        needs_reference = not wanted and not keys["precompute_ref_log_probs"]
        reference = build(case, about) if needs_reference else None
        return trl.KTOTrainer(model=model, ref_model=reference, args=trl.KTOConfig(**keys), train_dataset=Dataset.from_dict(rows), **common)
    if method == "prm":
        from trl.experimental.prm import PRMConfig, PRMTrainer
        steps = [[text(case["chosen"] // 3, j + k) for k in range(3)] for j in range(count)]
        rows = {"prompt": rows["prompt"], "completions": steps, "labels": [[True, True, False]] * count}
        model = build(case, about, AutoModelForTokenClassification, num_labels=2)
        return PRMTrainer(model=model, args=PRMConfig(**keys), train_dataset=Dataset.from_dict(rows), **common)
    if method == "orpo":
        from trl.experimental.orpo import ORPOConfig, ORPOTrainer
        return ORPOTrainer(model=build(case, about), args=ORPOConfig(**keys), train_dataset=Dataset.from_dict(rows), **common)
    from trl.experimental.cpo import CPOConfig, CPOTrainer
    return CPOTrainer(model=build(case, about), args=CPOConfig(**keys), train_dataset=Dataset.from_dict(rows), **common)


def record(name, case, about, out):
    torch.manual_seed(0)
    torch.cuda.init()
    start_recording(case)
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(case, about, folder)
        torch.cuda.reset_peak_memory_stats()
        trainer.train()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    if tuple(map(int, trl.__version__.split(".")[:2])) < (1, 15) and "factory" not in name:
        name, case = name.replace("-", "-full-", 1), case | {"loss": "full"}
    result = {"id": name, "case": case, "config": about, "peak_alloc": stats["allocated_bytes.all.peak"],
              "peak_reserved": stats["reserved_bytes.all.peak"], "torch": torch.__version__, "transformers": transformers.__version__,
              "peft": peft.__version__, "trl": trl.__version__}
    with lzma.open(f"{out}/{name}.pickle.xz", "wb", preset=9) as f:
        pickle.dump(versions.shortened(torch.cuda.memory._snapshot()), f)
    with open(f"{out}/{name}.json", "w") as f:
        json.dump(result, f, indent=1)
    print(name, result["peak_alloc"], flush=True)


def main():
    out, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    os.makedirs(out, exist_ok=True)
    for name, (model, options) in CASES.items():
        if part not in name:
            continue
        child = 0 if part == name else os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        try:
            record(name, BASE | options, MODELS[model], out)
        except Exception:
            print("FAILED", name)
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
