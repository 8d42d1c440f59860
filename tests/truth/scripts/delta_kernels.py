"""The gated delta rule by flash-linear-attention (FLA) and causal-conv1d, in the loops and with the options of new_families.py,
on a simulated H200. The packages' Python code, which makes all of their allocations, is real; their kernels are not run.

usage: PYTHONPATH=FOLDER plimsoll simulate --gpu h200 --steps 0 --writable OUTDIR -- python delta_kernels.py OUTDIR PACKAGES [part of a name]
FOLDER has fla-core and flash-linear-attention 0.4.1, einops, and the Python files of causal-conv1d 1.6.1, whose extension is not needed.
PACKAGES is what is installed: fla, causal-conv1d, or both with a comma. With fla, there are two more words:
fla-conv1d: FLA's convolution and the cast of the decay, as in Axolotl's code for packed samples (monkeypatch/models/qwen3_5/modeling.py,
qwen3_next/modeling.py), but without the offsets of samples; norm: FLA's norm, as transformers used it up to 5.14; loaded from a checkpoint, so that no frequencies of rotary positions, which
were computed in another order, are computed on the card.
"""

import sys
import types

import triton.runtime.jit

PACKAGES = sys.argv[2].split(",")


def causal_conv1d_bwd(x, weight, bias, gradient, *rest):
    """csrc/causal_conv1d.cpp: a gradient in another layout than its input is copied."""
    has_channels_last = x.stride(1) == 1 and x.stride(2) > 1
    (gradient.transpose(1, 2) if has_channels_last else gradient).contiguous()


def replace_kernels():
    triton.runtime.jit.KernelInterface.__getitem__ = lambda kernel, grid: lambda *args, **options: None
    extension = types.ModuleType("causal_conv1d_cuda")
    extension.causal_conv1d_fwd = lambda *args: None
    extension.causal_conv1d_bwd = causal_conv1d_bwd
    sys.modules["causal_conv1d_cuda"] = extension
    for package, module in (("fla", "fla"), ("causal-conv1d", "causal_conv1d")):
        if package not in PACKAGES:
            sys.modules[module] = None


def axolotl_conv1d(x, weight, bias, activation):
    from fla.modules.convolution import causal_conv1d
    return causal_conv1d(x=x.transpose(1, 2), weight=weight, bias=bias, activation=activation)[0].transpose(1, 2)


def with_narrow_decay(rule):
    return lambda query, key, value, g, **options: rule(query, key, value, g=g.to(dtype=query.dtype), **options)


def fused_norm(width, eps):
    from fla.modules import FusedRMSNormGated
    return FusedRMSNormGated(width, eps=eps, activation="silu")


replace_kernels()
if "fla-conv1d" in PACKAGES:
    sys.modules["causal_conv1d"] = types.SimpleNamespace(causal_conv1d_fn=axolotl_conv1d)
import new_families
import torch
from new_families import EXTRA, VARIANTS


def replace_modules():
    """Imports FLA, which starts CUDA: only in a fork."""
    from transformers.models.qwen3_5 import modeling_qwen3_5 as dense
    from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as mixture
    from transformers.models.qwen3_next import modeling_qwen3_next as joined
    if "fla-conv1d" in PACKAGES:
        dense.torch_chunk_gated_delta_rule = with_narrow_decay(dense.torch_chunk_gated_delta_rule)
        mixture.torch_chunk_gated_delta_rule = with_narrow_decay(mixture.torch_chunk_gated_delta_rule)
    if "norm" in PACKAGES:
        dense.Qwen3_5RMSNormGated = mixture.Qwen3_5MoeRMSNormGated = joined.Qwen3NextRMSNormGated = fused_norm


def record(case, out, recorded=new_families.record):
    replace_modules()
    recorded(case, out)


NAMES = {
    "qwen3_5_text": ["bf16", "bf16-ckpt", "bf16-ckpt-reentrant", "pad", "fp32", "fp32-ampbf16", "lora-drop-amp-ckpt", "load-device_map", "trainer-fp32", "trainer-lora-ckpt", "whole-chunks"],
    "qwen3_5_text-even": ["bf16", "fp32-ampbf16"],
    "qwen3_5_moe_text": ["bf16", "bf16-ckpt"],
    "qwen3_next": ["bf16", "bf16-ckpt", "fp32-ampbf16", "lora-mixers-drop-amp-ckpt"],
}
SOME = ["bf16", "bf16-ckpt", "pad", "fp32-ampbf16", "lora-drop-amp-ckpt", "lora-mixers-drop-amp-ckpt"]
new_families.MODELS["qwen3_5_text-even"] = new_families.MODELS["qwen3_5_text"] | {"linear_num_key_heads": 8}  # no key head is repeated
WORD = "-".join(package.replace("fla-conv1d", "flaconv").replace("causal-conv1d", "conv") for package in PACKAGES)
CASES = [
    {"id": f"{model}-{WORD}-{name}", "model": model, "batch": 2, "seq": 200, "steps": 2, "packages": ",".join(p for p in PACKAGES if p != "norm")}
    | (VARIANTS | EXTRA)[name]
    | ({"transformers": "5.14", "load": "device_map"} if "norm" in PACKAGES else {})
    for model, names in NAMES.items() for name in names
    if name in SOME or PACKAGES == ["fla", "causal-conv1d"]
]

if __name__ == "__main__":
    new_families.CASES, new_families.record = CASES, record
    sys.argv[2:3] = []
    new_families.main()
