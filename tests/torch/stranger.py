#!/usr/bin/env python3
"""stranger.py PLIMSOLL ENVIRONMENT: what a program may do with PyTorch works in `plimsoll run` as it does without: saving and
pickling models, TorchScript, torch.compile, data loaders of every kind. On a simulated card, with tensors on the CPU.
The last line is "N passed, N failed"."""
import os
import subprocess
import sys
import tempfile

PROGRAM = """
import random, sys, warnings
before = random.getstate(), sys.stdout, sys.excepthook, len(warnings.filters)
import copy, inspect, io, pickle
import torch


def attempt(text, function):
    try:
        is_met = function() is not False
    except Exception as error:
        is_met, text = False, "%s: %s: %s" % (text, type(error).__name__, str(error).split(chr(10))[0][:200])
    print("CHECK %s %s" % ("ok" if is_met else "FAIL", text), flush=True)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.ones(4) * i


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    return b"plimsoll" not in file.getvalue()


def loaded(**options):
    return len(list(torch.utils.data.DataLoader(Data(), batch_size=2, **options))) == 4


def compiled(function, **options):
    return torch.compile(function, backend="eager", **options)


def steps(net, optimizer, x, step):
    for _ in range(3):
        net(x).sum().backward()
        step()


def main():
    attempt("random numbers and standard output are as before", lambda: (random.getstate(), sys.stdout) == before[:2])
    attempt("the excepthook is wrapped and not replaced", lambda: inspect.unwrap(sys.excepthook) is before[2])
    net, x = Net(), torch.ones(2, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(x)
    for when in "before", "after":
        attempt("a pickled model names no module of plimsoll, %s the first step" % when, lambda: b"plimsoll" not in pickle.dumps(net))
        attempt("nor does a saved one", lambda: saved(net))
        attempt("a copy", lambda: torch.equal(copy.deepcopy(net)(x), net(x)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attempt("torch.jit.script", lambda: torch.equal(torch.jit.script(net)(x), net(x)))
        with warnings.catch_warnings():
            warnings.simplefilter("error", torch.jit.TracerWarning)
            warnings.simplefilter("ignore", FutureWarning)
            attempt("torch.jit.trace", lambda: torch.equal(torch.jit.trace(net, x)(x), net(x)))
        attempt("torch.fx", lambda: torch.equal(torch.fx.symbolic_trace(net)(x), net(x)))
        attempt("torch.export", lambda: torch.export.export(net, (x,)) is not None)
        attempt("torch.compile of a model without graph breaks", lambda: compiled(Net(), fullgraph=True)(x) is not None)
        attempt("of a model that was called before", lambda: compiled(net, fullgraph=True)(x) is not None)
        attempt("of a function that calls a model", lambda: compiled(lambda y: net(y).sum(), fullgraph=True)(x) is not None)
        attempt("a data loader without workers", lambda: loaded())
        attempt("with forked workers", lambda: loaded(num_workers=2))
        attempt("with spawned workers", lambda: loaded(num_workers=1, multiprocessing_context="spawn"))
        steps(net, optimizer, x, optimizer.step)  # 3 steps, twice
    torch.zeros(1, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # such as those about code that torch.compile cannot read
        attempt("a compiled step of the optimizer", lambda: steps(net, optimizer, x, compiled(lambda: optimizer.step())))  # 3 more
    for name in "save", "autograd.backward", "nn.utils.clip_grad_norm_", "nn.Module.train":
        function = eval("torch." + name)
        attempt("torch.%s can be pickled" % name, lambda: pickle.loads(pickle.dumps(function)) is function)
        attempt("and has its parameters", lambda: "args" not in inspect.signature(function).parameters)
    torch.save(net, sys.argv[1])


if __name__ == "__main__":
    main()
"""


def run(options):
    """The lines of its checks."""
    plimsoll, python = os.path.abspath(sys.argv[1]), os.path.join(sys.argv[2], "bin", "python")
    with tempfile.TemporaryDirectory(prefix="plimsoll-stranger-") as folder:
        path = os.path.join(folder, "train.py")
        with open(path, "w") as f:
            f.write(PROGRAM)
        inner = [plimsoll, "run", "--no-check", "--retries", "0", *options, "--", python, path, os.path.join(folder, "net.pt")]
        outer = [plimsoll, "simulate", "--gpu", "4090", "--steps", "0", "--writable", folder, "-v", "--"]
        env = dict(os.environ, XDG_STATE_HOME=os.path.join(folder, "state"))
        said = subprocess.run(outer + inner, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr
    checks = [line.split(" ", 1)[1] for line in said.splitlines() if line.startswith("CHECK ")]
    for is_met, text in ("plimsoll: finished after 9 optimizer steps" in said, "steps are counted, compiled ones too"), (len(checks) >= 36, "the program ran to its end"):
        checks.append("%s %s" % ("ok" if is_met else "FAIL", text))
    if any(line.startswith("FAIL") for line in checks):
        print(said[-6000:])
    return checks


def main():
    checks = run([]) + run(["--spill"])
    for line in checks:
        print("%-4s %s" % tuple(line.split(" ", 1)))
    failed = sum(line.startswith("FAIL") for line in checks)
    print("%d passed, %d failed" % (len(checks) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
