"""Checks that PyTorch sees true integers on a simulated card. Needs PyTorch and the card: the preloaded libraries of
build/release/card, $PLIMSOLL_CARD, and src/card/python on PYTHONPATH. Prints what is wrong; the last line is "N passed, N failed"."""
import sys

import torch

import plimsoll_values

checks, failures = [], []


def check(name, got, want):
    checks.append(name)
    got = got.tolist() if isinstance(got, torch.Tensor) else got
    if got != want:
        failures.append(name)
        print(f"{name}: {got}, wanted {want}")


def near(name, got, want):
    check(name, abs(got - want) < 1e-5 * want, True)


x = torch.tensor([1, 1, 2, 5, 5, 5, 7], device="cuda")

# Sizes that depend on values
check("nonzero", torch.nonzero(x > 2), [[3], [4], [5], [6]])
check("mask", x[x > 2], [5, 5, 5, 7])
check("unique", torch.unique(x), [1, 2, 5, 7])
values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
check("inverse", inverse, [0, 0, 1, 2, 2, 2, 3])
check("counts", counts, [2, 1, 3, 1])
check("consecutive", torch.unique_consecutive(x, return_counts=True)[1], [2, 1, 3, 1])
check("rows", torch.unique(torch.stack([x, x]), dim=0), [[1, 1, 2, 5, 5, 5, 7]])

# Counts of integers, for which the CPU has no operator, and small floats
check("histogram of integers", torch.histc(x, bins=8, min=0, max=7), [0, 2, 1, 0, 0, 3, 0, 1])
check("histogram of floats", torch.histc(x.float(), bins=8, min=0, max=7), [0, 2, 1, 0, 0, 3, 0, 1])
check("counts of integers", torch.bincount(x), [0, 2, 1, 0, 0, 3, 0, 1])
near("deviation", x.float().std().item(), 2.360387)
near("norm", x.float().norm().item(), 11.401754)
near("root", x.float().sqrt().sum().item(), 12.768275)

# What is unknown: as many elements as there can be, and noted
unknown = torch.randn(4, 8, device="cuda")
check("size of an unknown result", len(torch.where(unknown > 0)[0]), 32)
check("rows of an unknown table", len(torch.unique(unknown, dim=0)), 4)
check("an empty result", torch.nonzero(x[:0]).shape[0], 0)
check("it is noted", any(file == __file__ for file, line in plimsoll_values.looked_at), True)

# Inference mode, in which Lightning validates: its tensors have no versions
with torch.inference_mode():
    inside = torch.arange(4, device="cuda")
    check("a range in inference mode", inside.sum().item(), 6)
    inside += 1
    check("changed in place", inside, [1, 2, 3, 4])
    check("of numbers", torch.tensor([1, 2, 3], device="cuda").sum().item(), 6)
    check("from outside", (x + 1).max().item(), 8)
    inside.copy_(torch.randn(4, device="cuda"))
    check("forgotten", plimsoll_values._is_known(inside), False)
check("from inside", torch.nonzero(x > 2).shape[0], 4)


# The same in a backward pass
def grad_of(function, size):
    leaf = torch.randn(size, device="cuda", requires_grad=True)
    function(leaf).sum().backward()
    return list(leaf.grad.shape)


is_large = x > 2
check("gradient of a mask", grad_of(lambda leaf: leaf[is_large], 7), [7])
check("gradient of values in places", grad_of(lambda leaf: torch.zeros(7, device="cuda").masked_scatter(is_large, leaf), 4), [4])

# A router: every expert of a token is another one, and all tokens are distributed, unevenly
experts = torch.randn(2000, 8, device="cuda").softmax(-1).topk(2)[1]
check("two experts", (experts[:, 0] != experts[:, 1]).all().item(), True)
shares = torch.bincount(experts.flatten(), minlength=8).sort(descending=True)[0].tolist()
check("all are distributed", sum(shares), 4000)
check("unevenly", shares[0] > 2 * 500 and shares[7] > 0, True)
check("the router is noted", [v[1:] for v in plimsoll_values.routed.values()], [[8, 2]])
tokens = torch.randn(2, 32000, device="cuda").topk(4)[1]
check("a vocabulary is no router", len(plimsoll_values.routed), 1)
keys = torch.randn(2, 16, 512, device="cuda").topk(256)[1]
check("sparse attention is no router", len(plimsoll_values.routed), 1)

integers = [place for place, (_, kind, _) in plimsoll_values.looked_at.items() if kind.startswith("int")]
check("no integer is unknown", integers, [])

print("%d passed, %d failed" % (len(checks) - len(failures), len(failures)))
sys.exit(bool(failures))
