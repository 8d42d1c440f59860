#!/usr/bin/env python3
"""watched.py PLIMSOLL ENVIRONMENT|PYTHON --real: `plimsoll watch` beside a training of real PyTorch that runs under `plimsoll run`
on a simulated card, or with --real on the GPU of this machine, and leaks. What watch shows is compared with what the program knows about itself, its forecast with that of run and with
the step at which memory does run out.
The last line is "N passed, N failed"."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

MIB = 1 << 20
LEAK_MIB = 16
MOST_SECONDS = 300
# Waits at step 30 until it has been looked at, and then goes on until memory runs out.
PROGRAM = """
import json, os, time
import torch

model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
kept = []
for step in range(1, 1000):
    model(torch.ones(64, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.zeros(%d << 18, device="cuda"))
    time.sleep(0.3)
    if step == 30:
        with open("knows.part", "w") as f:
            json.dump({"peak": torch.cuda.max_memory_allocated(), "allocated": torch.cuda.memory_allocated()}, f)
        os.rename("knows.part", "knows")
        while not os.path.exists("seen"):
            time.sleep(0.1)
""" % LEAK_MIB
passed = failed = 0


def check(is_met, text, shown=""):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)
    if not is_met:
        print(str(shown)[-3000:])


def until(condition):
    end = time.monotonic() + MOST_SECONDS
    while time.monotonic() < end and not condition():
        time.sleep(0.1)


# ---- in the sandbox ---------------------------------------------------------------------------------


def watch(plimsoll, *words):
    done = subprocess.run([plimsoll, "watch"] + list(words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return {"status": done.returncode, "said": done.stdout}


def prometheus(plimsoll):
    server = subprocess.Popen([plimsoll, "watch", "--prometheus"], stdout=subprocess.PIPE, text=True)
    address = re.search(r"http://\S+/metrics", server.stdout.readline())[0]
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=MOST_SECONDS) as answer:
        said = answer.read().decode()
    server.kill()
    server.communicate()
    return said


def look(plimsoll, python, options):
    """Starts the training, looks at it, and writes what was seen to `seen`."""
    with open("errors", "w") as errors:
        run = subprocess.Popen([plimsoll, "run", "--no-check", "--retries", "0", *options, "--", python, "train.py"], stdout=subprocess.DEVNULL, stderr=errors)
        until(lambda: os.path.exists("knows") and "full at about step" in open("errors").read() or run.poll() is not None)
        seen = {"once": watch(plimsoll, "--once"), "json": watch(plimsoll, "--json", "--once"), "prometheus": prometheus(plimsoll)}
        with open("seen.part", "w") as f:
            json.dump(seen, f)
        os.rename("seen.part", "seen")
        run.wait()


# ---- the tests --------------------------------------------------------------------------------------


def compare(seen, knows, said, card):
    sample = json.loads(seen["json"]["said"])
    check(len(sample["runs"]) == 1 and len(sample["runs"][0]["ranks"]) == 1, "watch finds the run and its process", sample)
    rank = sample["runs"][0]["ranks"][0]
    check(rank["step"] >= 29 and rank["step"] <= 30, "the step", rank)
    check(abs(rank["peak_bytes"] - knows["peak"]) <= LEAK_MIB * MIB, "the peak is that of the program", (rank, knows))
    check(rank["headroom_bytes"] == rank["limit_bytes"] - rank["peak_bytes"], "the headroom is what is left", rank)
    check(rank["trend"]["kind"] == "creeping" and abs(rank["trend"]["bytes_per_step"] - LEAK_MIB * MIB) < MIB / 100, "the leak", rank)
    full = rank["trend"]["full_step"]
    forecast = re.search(r"memory grows by 16.0 MiB per step; full at about step (\d+)", said)
    check(forecast and abs(int(forecast[1]) - full) <= 1, "run forecasts the same step", (full, said))
    made = re.search(r"out of memory after (\d+) optimizer steps", said)
    check(made and abs(int(made[1]) + 1 - full) <= 1, "memory runs out at that step", (full, said))
    text = seen["once"]["said"]
    check("WARNING run " in text and "full at about step %d" % full in text and "progress  step %d" % rank["step"] in text, "the text says the same", text)
    series = dict(re.findall(r"^plimsoll_run_(\w+)\{.*\} (\S+)$", seen["prometheus"], re.M))
    check(int(float(series.get("full_step", 0))) == full and int(float(series.get("step", 0))) == rank["step"], "and so does the endpoint", seen["prometheus"])
    check(sample["cards"] and card in sample["cards"][0]["name"], "the card is shown", sample["cards"])


def main():
    plimsoll, is_real = os.path.abspath(sys.argv[1]), "--real" in sys.argv[3:]
    python = shutil.which(sys.argv[2]) if is_real else os.path.join(sys.argv[2], "bin", "python")
    if "look" in sys.argv[3:]:
        return look(plimsoll, python, ["--cap", "1500MiB"] if is_real else [])
    with tempfile.TemporaryDirectory(prefix="plimsoll-watched-") as folder:
        with open(os.path.join(folder, "train.py"), "w") as f:
            f.write(PROGRAM)
        outer = [plimsoll, "simulate", "--gpu", "4090", "--limit", "1500MiB", "--steps", "0", "--writable", folder, "-v", "--"]
        inner = [sys.executable, os.path.abspath(__file__), plimsoll, *sys.argv[2:], "look"]
        env = dict(os.environ, XDG_STATE_HOME=os.path.join(folder, "state"))
        done = subprocess.run(inner if is_real else outer + inner, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            seen, knows = (json.load(open(os.path.join(folder, name))) for name in ("seen", "knows"))
            if is_real:
                print(seen["once"]["said"], open(os.path.join(folder, "errors")).read(), sep="\n")
            compare(seen, knows, open(os.path.join(folder, "errors")).read(), "" if is_real else "4090")
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            check(False, "watch beside a run: %r" % error, done.stdout)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
