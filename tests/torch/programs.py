#!/usr/bin/env python3
"""programs.py PLIMSOLL ENVIRONMENT: small programs as people write them, and what plimsoll simulate must say about them. The last
line is "N passed, N failed"."""
import json
import os
import subprocess
import sys
import tempfile

# The loss is a module, whose input is larger than the batch; batches of evaluation are larger than those of training.
EVALUATES = """
import torch, torch.nn as nn
model = nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 1000)).cuda()
loss, optimizer = nn.CrossEntropyLoss(), torch.optim.AdamW(model.parameters())
BATCH = 8
for step in range(10):
    ids = torch.zeros(BATCH, 16, dtype=torch.long, device="cuda")
    loss(model(ids).flatten(0, 1), ids.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        model.eval()
        model(torch.zeros(4096, 16, dtype=torch.long, device="cuda"))
        model.train()
"""
KEEPS = """
import torch, torch.nn as nn
model = nn.Linear(1024, 1024).cuda()
optimizer, kept = torch.optim.SGD(model.parameters()), []
for step in range(20):
    kept.append(model(torch.zeros(256, 1024, device="cuda")))
    kept[-1].sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
INFERS = """
import torch
with torch.no_grad():
    torch.nn.Linear(1024, 1024).cuda().eval()(torch.zeros(256, 1024, device="cuda"))
"""
ON_THE_HOST = "import torch\ntorch.zeros(1)\n"
failed = passed = 0


def check(ok, what):
    global failed, passed
    passed, failed = passed + bool(ok), failed + (not ok)
    print("%s %s" % ("ok  " if ok else "FAIL", what))


def run(text, *words):
    """The exit status of plimsoll and what it prints about the program."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-programs-") as folder:
        with open(os.path.join(folder, "train.py"), "w") as f:
            f.write(text)
        environment = dict(os.environ, XDG_STATE_HOME=folder + "/state")
        command = [program, *words, "--gpu", "8GiB", "--", python, "train.py"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        print(done.stderr, end="")
        return done.returncode, done.stdout


def simulate(text, *options):
    return run(text, "simulate", *options)


def observed(text):
    status, out = simulate(text, "--json")
    return json.loads(out)["run"]["processes"][0]["observed"]


def main():
    seen = observed(EVALUATES)
    check((seen["batch"], seen["batch_shapes"]) == ([8, 16], 1), "the batch is that of training: %s" % seen["batch"])
    check(observed(INFERS)["batch"] == [256, 1024], "a program that only evaluates has a batch too")
    status, out = simulate(EVALUATES, "--limit", "128MiB")
    check("out of memory when requesting 250 MiB in the evaluation after step 1, in" in out, "memory can run out in an evaluation")
    status, out = run(EVALUATES, "plan", "--limit", "128MiB", "--set", "micro_batch=train.py:BATCH")
    check(status == 1 and "memory ran out during evaluation" in out, "and then no micro batch helps")
    status, out = simulate(KEEPS)
    check("Leaks\nNot looked for: " in out and "Not found: duplicated models" in out, "three steps are too few to find a leak")
    check(status == 0 and "--steps 6" in out, "and the report says how many it takes")
    check("per step on an H200 (name your GPU to get its time" in " ".join(out.split()), "a size is not a card that has a time")
    status, out = simulate(KEEPS, "--steps", "8")
    check(status == 1 and "FITS SO FAR" in out and "the GPU would be full at step" in out, "a leak fills the card at some step")
    status, out = simulate(ON_THE_HOST, "--json")
    check((status, json.loads(out)["verdict"]) == (1, "unknown"), "a program that does not use the card has no verdict")
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    program = os.path.realpath(sys.argv[1])
    python = os.path.join(os.path.realpath(sys.argv[2]), "bin", "python")
    sys.exit(main())
