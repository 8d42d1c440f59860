"""Options of the functions, written by tools/python_options.py. `plimsoll help estimate` says what they mean."""

from __future__ import annotations

import os
from typing import Any, Literal, Mapping, Sequence, TypedDict, Union


class EstimateOptions(TypedDict, total=False):
    batch: int
    seq: int
    lengths: Union[str, "os.PathLike[str]"]
    head: Literal["default", "causal", "masked", "none", "sequence", "tokens", "answers", "choices"]
    labels: int
    target_seq: int
    dtype: Literal["auto", "bf16", "fp16", "fp32"]
    amp: Literal["none", "bf16", "fp16"]
    lora_rank: int
    lora_alpha: float
    lora_dropout: float
    lora_targets: Union[str, int]
    lora_save: Union[str, int]
    lora_layers: Union[str, int]
    lora_exclude: Union[str, int]
    lora_bias: Literal["none", "lora_only", "all"]
    dora: bool
    train: Union[str, int]
    train_by: Literal["loop", "inputs", "llama-factory"]
    lora_dtype: Literal["fp32", "bf16", "bf16-cast"]
    checkpoint: bool
    reentrant: bool
    attention: Literal["sdpa", "eager", "flash"]
    mask: Literal["none", "ones", "pad", "longest", "packed"]
    optimizer: Union[str, int]
    projection_rank: int
    projected: Union[str, int]
    accumulate: int
    in_backward: bool
    no_clip: bool
    neftune: bool
    loss: Literal["full", "chunked", "fused", "chunked-loop", "contrastive", "eighths", "eighths-listed"]
    loss_chunk: int
    columns: int
    cached_batch: int
    pooling: Literal["mean", "cls", "last"]
    method: Literal["sft", "dpo", "dpo-torchtune", "dpo-llamafactory", "orpo-llamafactory", "simpo-llamafactory", "orpo", "cpo", "simpo", "kto", "reward", "prm"]
    teacher: Union[str, int]
    reference: Literal["auto", "own", "adapter", "precomputed"]
    answer_seq: int
    torchtune: bool
    rope_tables: Union[str, int]
    liger: bool
    weights: Literal["plain", "nf4", "nf4-double", "int8"]
    qat: Union[str, int]
    prepare: Literal["default", "peft", "none", "axolotl"]
    offload: Literal["none", "activations", "checkpoints", "optimizer", "parameters"]
    offload_with: Literal["save_on_cpu", "trl", "trl-inline", "torchtune", "torchtune-inline", "axolotl", "axolotl-inline", "hidden-states"]
    strategy: Literal["none", "ddp", "fsdp2", "zero1", "zero2", "zero3"]
    world: int
    nodes: int
    link: Literal["default", "nvlink", "pcie"]
    network: float
    no_reshard: bool
    reduce_dtype: Literal["fp32", "bf16"]
    bucket_views: bool
    delete_outputs: bool
    loop: Literal["manual", "trainer", "bare", "loss-only"]
    load: Literal["pretrained", "device-map", "init", "sharded"]
    steps: int
    versions: Union[str, int]
    packages: Union[str, int]
    alloc_conf: Union[str, int]
    gpu: Union[int, str]
    limit: Union[int, str]
    explain: bool


class PlanOptions(TypedDict, total=False):
    effective_batch: Union[str, int]
    fix: Union[str, Sequence[str]]
    try_: Union[str, Sequence[str]]
    allow: Union[str, Sequence[str]]
    margin: Union[str, int]
    contrastive: bool
    batch_norm: bool
    samples: int
    epochs: float
    price: float
    set: Union[str, Sequence[str]]
    command: Union[str, int]
    batch: int
    seq: int
    lengths: Union[str, "os.PathLike[str]"]
    head: Literal["default", "causal", "masked", "none", "sequence", "tokens", "answers", "choices"]
    labels: int
    target_seq: int
    dtype: Literal["auto", "bf16", "fp16", "fp32"]
    amp: Literal["none", "bf16", "fp16"]
    lora_rank: int
    lora_alpha: float
    lora_dropout: float
    lora_targets: Union[str, int]
    lora_save: Union[str, int]
    lora_layers: Union[str, int]
    lora_exclude: Union[str, int]
    lora_bias: Literal["none", "lora_only", "all"]
    dora: bool
    train: Union[str, int]
    train_by: Literal["loop", "inputs", "llama-factory"]
    lora_dtype: Literal["fp32", "bf16", "bf16-cast"]
    checkpoint: bool
    reentrant: bool
    attention: Literal["sdpa", "eager", "flash"]
    mask: Literal["none", "ones", "pad", "longest", "packed"]
    optimizer: Union[str, int]
    projection_rank: int
    projected: Union[str, int]
    accumulate: int
    in_backward: bool
    no_clip: bool
    neftune: bool
    loss: Literal["full", "chunked", "fused", "chunked-loop", "contrastive", "eighths", "eighths-listed"]
    loss_chunk: int
    columns: int
    cached_batch: int
    pooling: Literal["mean", "cls", "last"]
    method: Literal["sft", "dpo", "dpo-torchtune", "dpo-llamafactory", "orpo-llamafactory", "simpo-llamafactory", "orpo", "cpo", "simpo", "kto", "reward", "prm"]
    teacher: Union[str, int]
    reference: Literal["auto", "own", "adapter", "precomputed"]
    answer_seq: int
    torchtune: bool
    rope_tables: Union[str, int]
    liger: bool
    weights: Literal["plain", "nf4", "nf4-double", "int8"]
    qat: Union[str, int]
    prepare: Literal["default", "peft", "none", "axolotl"]
    offload: Literal["none", "activations", "checkpoints", "optimizer", "parameters"]
    offload_with: Literal["save_on_cpu", "trl", "trl-inline", "torchtune", "torchtune-inline", "axolotl", "axolotl-inline", "hidden-states"]
    strategy: Literal["none", "ddp", "fsdp2", "zero1", "zero2", "zero3"]
    world: int
    nodes: int
    link: Literal["default", "nvlink", "pcie"]
    network: float
    no_reshard: bool
    reduce_dtype: Literal["fp32", "bf16"]
    bucket_views: bool
    delete_outputs: bool
    loop: Literal["manual", "trainer", "bare", "loss-only"]
    load: Literal["pretrained", "device-map", "init", "sharded"]
    steps: int
    versions: Union[str, int]
    packages: Union[str, int]
    alloc_conf: Union[str, int]
    gpu: Union[int, str]
    limit: Union[int, str]


class ReplayOptions(TypedDict, total=False):
    alloc_conf: Union[str, int]
    limit: Union[int, str]
    torch: Union[str, int]
    device: int
    tune: bool
    top: int
