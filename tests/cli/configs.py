#!/usr/bin/env python3
"""configs.py PLIMSOLL FOLDER: what `plimsoll plan` makes of the real configuration files in FOLDER.

One test per file, with and without --world 8: a plan of what the file says, or a refusal with the reason below.
Each reason and each recipe was compared with the file by hand. What is not settled by the number of GPUs is
refused in the same words with and without it.
"""
import json
import pathlib
import subprocess
import sys

LAUNCHES = "it says how a run is started, not what is trained"
ASKS = "the files do not set the number of GPUs, but they shard the model with "


def unfollowed(model, family):
    return f"{model} is of a family that is not followed: {family}"


REFUSED = {
    "accelerate__config_yaml_templates__deepspeed.yaml": LAUNCHES,
    "accelerate__config_yaml_templates__fp8.yaml": LAUNCHES,
    "accelerate__config_yaml_templates__multi_gpu.yaml": LAUNCHES,
    "accelerate__config_yaml_templates__single_accelerator.yaml": LAUNCHES,
    "axolotl__archived__dbrx__16bit-lora.yaml": unfollowed("LnL-AI/dbrx-base-converted-v2", "dbrx"),
    "axolotl__archived__mpt-7b__config.yml": unfollowed("mosaicml/mpt-7b", "mpt"),
    "axolotl__archived__stablelm-2__1.6b__fft.yml": unfollowed("stabilityai/stablelm-2-1_6b", "stablelm"),
    "axolotl__deepseek-v2__fft-fsdp-16b.yaml": unfollowed("deepseek-ai/DeepSeek-V2-Lite", "deepseek_v2"),
    "axolotl__distributed-parallel__qwen3-8b-fsdp-tp-cp.yaml":
        "tensor parallel is not modelled (tensor_parallel_size)",
    "axolotl__ebft__llama-3b-ebft-strided-fft.yaml":
        "this training is not modelled (rl ebft): it is no supervised training",
    "axolotl__gpt-oss__gpt-oss-120b-fft-fsdp2-offload.yaml":
        unfollowed("axolotl-ai-co/gpt-oss-120b-dequantized", "gpt_oss"),
    "axolotl__llama-3__qlora-fsdp-70b.yaml":
        "quantised weights (nf4-double) sharded by fsdp are not supported yet",
    "axolotl__llama-4__do-no-use-fa2__maverick-qlora-fsdp1.yaml":
        unfollowed("axolotl-quants/Llama-4-Maverick-17B-128E-Linearized-bnb-nf4-bf16", "llama4"),
    "axolotl__mistral-small__mistral-small-3.1-24B-lora.yml":
        unfollowed("mistralai/Mistral-Small-3.1-24B-Instruct-2503", "mistral3"),
    "axolotl__nemotron-h__nano-30b-a3b-qlora-cp.yaml":
        unfollowed("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron_h"),
    "axolotl__pixtral__lora-12b.yml": unfollowed("mistral-community/pixtral-12b", "llava"),
    "axolotl__qat_nvfp4__Math-Gemma3-12B_baseline.yml": unfollowed("google/gemma-3-12b-it", "gemma3"),
    "axolotl__qwen3-next__qwen3-next-80b-a3b-nvfp4-lora.yaml":
        unfollowed("nvidia/Qwen3-Next-80B-A3B-Instruct-NVFP4", "qwen3_next"),
    "llama-factory__accelerate__fsdp2_config.yaml": LAUNCHES,
    "llama-factory__deepspeed__ds_z2_config.json": LAUNCHES,
    "llama-factory__deepspeed__ds_z2_offload_config.json": LAUNCHES,
    "llama-factory__deepspeed__ds_z3_offload_config.json": LAUNCHES,
    "llama-factory__extras__llama_pro__llama3_freeze_sft.yaml": 'no model is called "models/llama3-8b-pro"',
    "llama-factory__ktransformers__accelerate__fsdp2_kt_int8.yaml": LAUNCHES,
    "llama-factory__megatron__qwen3_moe_full.yaml":
        unfollowed("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3_moe"),
    "llama-factory__v1__train_full__train_full_ulysses_cp.yaml": "context parallel is not modelled (cp_size)",
    "torchtune__gemma__2B_full.yaml": unfollowed("gemma-2b", "gemma"),
    "torchtune__llama3_2__evaluation.yaml": "it has no optimizer: it does not train",
}

# Refused on one side only: the GPUs are needed, or are too many.
WITHOUT_WORLD = {
    "llama-factory__megatron_bridge__llama3_sft.yaml": ASKS + "zero1",
    "llama-factory__v1__train_batching_strategy__train_full_fsdp2_batching_normal.yaml": ASKS + "fsdp2",
    "llama-factory__v1__train_lora__train_lora_sft.yaml": ASKS + "fsdp2",
}
WITH_WORLD = {
    "torchtune__llama3__8B_qlora_single_device.yaml": "sharded quantised weights are not supported yet",
}

# Of those that are planned: the model, and what the file says of a run on 8 GPUs, or on one where 8 are refused.
# batch, accumulation, tokens, rank of adapters, type of parameters, autocast, checkpointing, optimizer, sharing
PLANNED = {
    "llama-factory__megatron_bridge__llama3_sft.yaml":
        ("meta-llama/Llama-3.2-1B-Instruct", 1, 1, 2048, 8, "bf16", "bf16", False, "adamw", "zero1"),
    "llama-factory__train_lora__qwen3_lora_sft.yaml":
        ("Qwen/Qwen3-4B-Instruct-2507", 1, 8, 2048, 8, "bf16", "bf16", "reentrant", "adamw", "ddp"),
    "llama-factory__v1__train_batching_strategy__train_full_fsdp2_batching_normal.yaml":
        ("Qwen/Qwen3-0.6B", 2, 1, 2048, 0, "fp32", "bf16", True, "adamw-foreach", "fsdp2"),
    "llama-factory__v1__train_lora__train_lora_sft.yaml":
        ("Qwen/Qwen3-4B", 1, 1, 2048, 16, "bf16", "bf16", True, "adamw-foreach", "fsdp2"),
    "torchtune__gemma2__2B_lora.yaml": ("gemma2-2b", 4, 1, 2048, 64, "bf16", "none", True, "adamw", "fsdp2"),
    "torchtune__gemma2__9B_full.yaml": ("gemma2-9b", 1, 1, 2048, 0, "bf16", "none", True, "adamw", "fsdp2"),
    "torchtune__llama2__1B_qat_single_device.yaml":
        ("model_type=llama vocab_size=32000 num_hidden_layers=22 num_attention_heads=32 num_key_value_heads=4 "
         "hidden_size=2048 max_position_embeddings=2048 intermediate_size=5632 tie_word_embeddings=0",
         1, 1, 2048, 0, "bf16", "none", True, "paged-adamw", "fsdp2"),
    "torchtune__llama3_1__8B_full.yaml":
        ("llama3.1-8b", 2, 1, 2048, 0, "bf16", "none", True, "adamw", "fsdp2"),
    "torchtune__llama3_2__3B_qat_lora.yaml":
        ("llama3.2-3b", 4, 8, 2048, 64, "bf16", "none", False, "adamw", "fsdp2"),
    "torchtune__llama3__8B_qlora_single_device.yaml":
        ("llama3-8b", 2, 8, 2048, 8, "bf16", "none", True, "adamw", "none"),
    "torchtune__qwen2_5__0.5B_lora_single_device.yaml":
        ("qwen2.5-0.5b", 2, 8, 2048, 32, "bf16", "none", False, "adamw", "fsdp2"),
    "torchtune__qwen3__1.7B_full.yaml":
        ("qwen3-1.7b-instruct", 2, 1, 2048, 0, "bf16", "none", False, "adamw", "fsdp2"),
}
SETTINGS = ("micro_batch", "accumulate", "sequence", "lora_rank", "dtype", "precision", "checkpoint", "optimizer",
            "strategy")


def plan(program, path, *options):
    run = subprocess.run([program, "plan", str(path), "--gpu", "80GiB", *options], capture_output=True, text=True)
    first = run.stderr.split("\n")[0].removeprefix("error: ")
    return run.returncode, first, run.stdout


def recipe(document):
    """What was read: the planned settings, with the changes taken back."""
    now = dict(document["chosen"])
    now.update({change["knob"]: change["from"] for change in document["changes"]})
    return (document["model"], *(now[name] for name in SETTINGS))


def refusal(program, path, expected, *options):
    code, first, _ = plan(program, path, *options)
    if expected is None:
        return None if code in (0, 1) else f"refused: {first}"
    if code != 2 or first != expected:
        return f"not refused as expected (exit {code}): {first}"
    return None


def wrong(program, path):
    name = path.name
    expected = REFUSED.get(name)
    if expected is None and name not in PLANNED:
        return "nothing is known of this file here"
    found = refusal(program, path, expected or WITHOUT_WORLD.get(name))
    found = found or refusal(program, path, expected or WITH_WORLD.get(name), "--world", "8")
    if found or expected:
        return found
    options = ["--json"] if name in WITH_WORLD else ["--json", "--world", "8"]
    read = recipe(json.loads(plan(program, path, *options)[2]))
    return None if read == PLANNED[name] else f"read as {read}"


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if not folder.is_dir():
        print("skipped: there is no", folder)
        print("0 passed, 0 failed, 1 skipped")
        return 0
    passed = failed = 0
    for path in sorted(folder.glob("*__*")):
        why = wrong(program, path)
        print(f"{'FAIL' if why else 'ok  '} plan {path.name}{': ' + why if why else ''}")
        passed, failed = passed + (not why), failed + bool(why)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
