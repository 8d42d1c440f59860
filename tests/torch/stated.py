#!/usr/bin/env python3
"""stated.py PLIMSOLL ENVIRONMENT: what the report of `plimsoll simulate` says about values that were not computed and sizes
that are not known, and in which direction the figures err.

The last line is "N passed, N failed"."""
import json
import os
import subprocess
import sys
import tempfile

SCALED = """
import sys
import torch

model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda", enabled=sys.argv[1] == "on")
for _ in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.randn(8, 256, device="cuda")).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
RECURRENT = """
import torch

model = torch.nn.LSTM(64, 64, num_layers=2, batch_first=True, dropout=0.1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(4, 16, 64, device="cuda"))[0].sum().backward()
optimizer.step()
"""
passed = failed = 0


def check(is_met, text):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)


def simulate(folder, script, *words):
    plimsoll, python = os.path.abspath(sys.argv[1]), os.path.join(sys.argv[2], "bin", "python")
    path = os.path.join(folder, "program.py")
    with open(path, "w") as f:
        f.write(script)
    command = [plimsoll, "simulate", "--gpu", "H200", *[w for w in words if w == "--json"], "--", python, path]
    done = subprocess.run(command + [w for w in words if w != "--json"], capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-2000:])
    return done.stdout


def main():
    with tempfile.TemporaryDirectory(prefix="plimsoll-stated-") as folder:
        notes = {word: json.loads(simulate(folder, SCALED, word, "--json"))["notes"] for word in ("on", "off")}
        found = [n["message"] for n in notes["on"] if n["code"] == "assumed.no_overflow"]
        check(len(found) == 1 and "the real peak may be lower" in found[0], "a gradient scaler is told that nothing overflows: %s" % found)
        check(not [n for n in notes["off"] if n["code"] == "assumed.no_overflow"], "one that is turned off is not mentioned")
        text = " ".join(simulate(folder, RECURRENT).split())
        for name in "buffers for recurrent layers", "states of cuDNN's dropout":
            check(name in text and "needs more memory on a real GPU than shown here" in text, "the %s are taken as 0" % name)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
