"""Workspaces that cuDNN asks for: the plan that PyTorch executes, for convolutions of known models and for random ones.

convolutions.py record OUT.jsonl     measures them on a GPU
convolutions.py header IN.jsonl.xz   prints src/card/stand_ins/recorded_convolutions.h

Recorded on an H200 with torch 2.11 and cuDNN 9.19.0. A second recording had 172 convolutions of the first one, and all of them
were equal."""
import collections
import json
import lzma
import random
import sys

BLOCKS = (  # of ResNet-50: channels, outputs, size, kernel, stride
    (64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (256, 64, 56, 1, 1), (256, 128, 56, 1, 1), (128, 128, 56, 3, 2),
    (128, 512, 28, 1, 1), (256, 512, 56, 1, 2), (512, 128, 28, 1, 1), (128, 128, 28, 3, 1), (512, 256, 28, 1, 1),
    (256, 256, 28, 3, 2), (256, 1024, 14, 1, 1), (512, 1024, 28, 1, 2), (1024, 256, 14, 1, 1), (256, 256, 14, 3, 1),
    (1024, 512, 14, 1, 1), (512, 512, 14, 3, 2), (512, 2048, 7, 1, 1), (1024, 2048, 14, 1, 2), (2048, 512, 7, 1, 1), (512, 512, 7, 3, 1))
UNET = ((320, 320, 64), (320, 640, 32), (640, 640, 32), (640, 1280, 16), (1280, 1280, 16), (1280, 1280, 8), (2560, 1280, 8),
        (4, 320, 64), (320, 4, 64), (128, 128, 256), (512, 512, 64), (3, 128, 256), (128, 3, 256))
AUDIO = ((80, 768, 3000, 3, 1), (768, 768, 3000, 3, 2), (128, 1280, 3000, 3, 1), (1280, 1280, 3000, 3, 2), (1, 512, 16000, 10, 5),
         (512, 512, 3199, 3, 2), (512, 512, 1599, 2, 2))  # channels, outputs, length, kernel, stride


def square(n, c, size, k, kernel, stride, padding, groups=1):
    return dict(input=[n, c, size, size], weight=[k, c // groups, kernel, kernel], stride=stride, padding=[padding] * 2, dilation=1, groups=groups)


def line(n, c, length, k, kernel, stride, padding, groups=1):
    return dict(input=[n, c, 1, length], weight=[k, c // groups, 1, kernel], stride=stride, padding=[0, padding], dilation=1, groups=groups)


def models():
    for n in (1, 2, 3, 4, 8, 13, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512):
        yield square(n, 3, 224, 64, 7, 2, 3)
        for c, k, size, kernel, stride in BLOCKS:
            yield square(n, c, size, k, kernel, stride, kernel // 2)
    for n in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        for k, patch in ((768, 16), (1024, 14), (384, 16), (1280, 14), (128, 4), (96, 4)):
            yield square(n, 3, 224, k, patch, patch, 0)
        for c, size in ((96, 56), (128, 56), (256, 28), (512, 14), (1024, 7)):
            yield square(n, c, size, c, 7, 1, 3, c)
        for c, size in ((128, 56), (256, 28), (512, 14)):
            yield square(n, c, size, 2 * c, 2, 2, 0)
        for c, size in ((32, 112), (96, 112), (144, 56), (240, 28), (672, 14)):
            yield square(n, c, size, c, 3, 1, 1, c)
            yield square(n, c, size, c, 5, 2, 2, c)
    for n in (1, 2, 4):
        for c, k, size in UNET:
            yield square(n, c, size, k, 3, 1, 1)
            yield square(n, c, size, k, 1, 1, 0)
    for n in (1, 2, 4, 8):
        for c, k, length, kernel, stride in AUDIO:
            yield line(n, c, length, k, kernel, stride, kernel // 2)
        yield line(n, 768, 499, 768, 128, 1, 64, 16)
        for c in (1536, 2048, 5120):
            yield line(n, c, 512, c, 4, 1, 3, c)


def others(count):
    pick = random.choice
    for _ in range(count):
        kernel, size, groups = pick((1, 2, 3, 4, 5, 7)), pick((7, 9, 13, 16, 28, 31, 40, 64)), pick((1, 1, 1, 1, 2, 4))
        c, k = pick((1, 3, 5, 7, 8, 12, 16, 24, 30, 33, 48, 64, 100, 160)), pick((1, 2, 6, 8, 10, 16, 20, 32, 50, 64, 96, 120, 256))
        yield square(pick((1, 2, 3, 5, 8, 17)), c, size, k, kernel, pick((1, 1, 2, 3)), pick((0, kernel // 2)), 1 if c % groups or k % groups else groups)


def workspace(torch, run, result):
    """The bytes that a call allocates beside its result."""
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=10000)
    run()
    torch.cuda.synchronize()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    sizes = [e["size"] for e in events if e["action"] == "alloc"]
    sizes.remove(result.numel() * result.element_size())
    assert len(sizes) <= 1, sizes
    return sum(sizes)


def measure(torch, q, dtype, channels_last):
    form = torch.channels_last if channels_last else torch.contiguous_format
    x = torch.zeros(q["input"], device="cuda", dtype=getattr(torch, dtype)).to(memory_format=form)
    w = torch.zeros(q["weight"], device="cuda", dtype=getattr(torch, dtype)).to(memory_format=form)
    rest = [q["stride"]] * 2, q["padding"], [q["dilation"]] * 2, False, [0, 0], q["groups"]
    forward = lambda: torch.ops.aten.convolution(x, w, None, *rest)
    y = forward()
    dy = torch.zeros_like(y)
    backward = lambda mask: torch.ops.aten.convolution_backward(dy, x, w, None, *rest, mask)
    return [workspace(torch, forward, y), workspace(torch, lambda: backward([True, False, False]), x),
            workspace(torch, lambda: backward([False, True, False]), w)]


def record(path):
    import torch
    torch.zeros(1, device="cuda")
    random.seed(0)
    cases = list(models()) + list(others(160))
    with open(path, "w") as f:
        for channels_last in (False, True):
            for dtype in ("half", "bfloat16", "float"):
                for q in cases:
                    found = measure(torch, q, dtype, channels_last)
                    f.write(json.dumps(dict(dtype=dtype, channels_last=channels_last, **q, workspace=found)) + "\n")
                    torch.cuda.empty_cache()


def header(path):
    """Models only: nobody's program has the random ones, which were measured in few forms each."""
    with lzma.open(path, "rt") as f:
        rows = [json.loads(text) for text in f]
    shape = lambda r: json.dumps([r["input"][1:], r["weight"], r["stride"], r["padding"], r["dilation"], r["groups"]])
    forms = collections.Counter(map(shape, rows))
    print("// Written by tests/truth/scripts/convolutions.py from tests/truth/convolutions.jsonl.xz: workspaces that cuDNN 9.19.0 asked")
    print("// for on an H200, for the convolutions of ResNet-50, ViT, ConvNeXt, EfficientNet, the U-Net and the decoder of Stable")
    print("// Diffusion, Whisper, wav2vec 2.0 and Mamba.")
    print("//")
    print("// Type, whether channels come last, batch, channels, height, width, outputs, kernel's height and width, stride, padding of")
    print("// height and width, groups; bytes of the forward pass, of the input's gradient and of the weights' gradient.")
    for r in rows:
        if forms[shape(r)] < 6 or r["dilation"] != 1:
            continue
        key = [{"float": 0, "half": 2, "bfloat16": 9}[r["dtype"]], int(r["channels_last"]), *r["input"], r["weight"][0], *r["weight"][2:],
               r["stride"], *r["padding"], r["groups"]]
        print("RECORDED(%s)" % ", ".join(map(str, key + r["workspace"])))


if __name__ == "__main__":
    {"record": record, "header": header}[sys.argv[1]](sys.argv[2])
