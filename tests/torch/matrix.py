#!/usr/bin/env python3
"""matrix.py PLIMSOLL [--record PAGE] [TORCH...]: runs small training programs on a simulated card with every supported version
of PyTorch and Python, each with the transformers and peft of its time.

Each row has a virtual environment in the user's cache folder, 1 to 5 GB, made once. All but one have torch's wheel without
NVIDIA's packages. A row is skipped where its Python is not installed or its packages cannot be downloaded.
The last line is "N passed, N failed, N skipped". With --record the table is written to the marked part of PAGE, where rows of
other versions than TORCH... stay as they are."""
import argparse
import collections
import glob
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.join(ROOT, "tests", "fixtures", "simulate")
sys.path.insert(0, os.path.join(ROOT, "bench"))
from compare import machine, record  # noqa: E402

Row = collections.namedtuple("Row", "torch python transformers peft accelerate others nvidia", defaults=("", False))
ROWS = [
    Row("2.4.1", "3.9", "4.44.2", "0.12.0", "0.33.0", "numpy<2"),
    Row("2.6.0", "3.10", "4.48.3", "0.14.0", "1.3.0"),
    Row("2.7.1", "3.11", "4.52.4", "0.15.2", "1.7.0"),
    Row("2.9.1", "3.12", "4.57.6", "0.18.1", "1.12.0"),
    Row("2.11.0", "3.11", "5.17.0", "0.21.0", "1.15.0"),
    Row("2.11.0", "3.11", "5.17.0", "0.21.0", "1.15.0", nvidia=True),
    Row("2.13.0", "3.13", "5.20.2", "0.21.0", "1.15.0"),
    Row("2.15.0", "3.14", "5.22.2", "0.21.2", "1.15.0"),
]
NEEDS = "filelock typing-extensions sympy networkx jinja2 fsspec numpy setuptools psutil pyyaml"  # of torch, without NVIDIA's
NEAR = 0.02  # how far the peaks of PyTorch's own model may be from each other: torch 2.15 keeps no workspaces of cuBLAS (16 MiB)
RUNS = [  # name, program and arguments, settings of the allocator
    ("values", "../../card/values_check.py", ""),
    ("padded", "padded_lora.py", ""),
    ("full", "padded_lora.py full", ""),
    ("plain", "adamw.py", ""),
    ("expandable", "adamw.py", "expandable_segments:True"),
]


class Skipped(Exception):
    pass


# ---- environments -------------------------------------------------------------------------------------------


def python_of(version):
    """The interpreter: on PATH, or one that pyenv or uv installed."""
    home = os.path.expanduser("~")
    found = [shutil.which("python" + version) or ""]
    found += glob.glob(os.path.join(os.environ.get("PYENV_ROOT", home + "/.pyenv"), "versions", version + ".*", "bin", "python"))
    found += glob.glob(os.path.join(home, ".local/share/uv/python/cpython-" + version + ".*", "bin", "python" + version))
    for path in found:
        if path and subprocess.run([path, "-c", "import venv"], capture_output=True).returncode == 0:
            return path
    raise Skipped("Python %s is not installed" % version)


def environment(row):
    """The row's folder; makes it if it is not there."""
    torch = ["torch==" + row.torch]
    alone = ["peft==" + row.peft, "accelerate==" + row.accelerate]  # these ask for torch
    resolved = NEEDS.split() + ["transformers==" + row.transformers] + row.others.split() + (torch if row.nvidia else [])
    alone += [] if row.nvidia else torch
    key = hashlib.sha256(" ".join([row.python] + resolved + alone).encode()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "plimsoll", "matrix-%s%s-%s" % (row.torch, "-nvidia" if row.nvidia else "", key))
    if os.path.exists(os.path.join(folder, "complete")):
        return folder
    python = python_of(row.python)
    print("installing torch %s for Python %s" % (row.torch, row.python), flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", os.path.join(folder, "bin", "python"), "--disable-pip-version-check"]
    pip += ["--quiet", "--no-input", "install", "--no-cache-dir", "--no-compile"]  # the first runs compile what they import
    for packages in (resolved, ["--no-deps"] + alone):
        done = subprocess.run(pip + packages, capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(folder)
            raise Skipped("the packages cannot be installed: " + (done.stderr.strip().splitlines() or ["?"])[-1])
    open(os.path.join(folder, "complete"), "w").close()
    return folder


# ---- runs ---------------------------------------------------------------------------------------------------


def simulate(plimsoll, place, words, settings, folder):
    """The report of one run, or None; what was printed beside it; and the processor time."""
    env = dict(os.environ, PYTHONPATH=folder)  # has a sitecustomize of its own, which must be loaded too
    for name in "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF":
        env.pop(name, None)
    if settings:
        env["PYTORCH_CUDA_ALLOC_CONF"] = settings
    program, *arguments = words.split()
    command = [plimsoll, "simulate", "--gpu", "4090", "--json", "--writable", place, "--", os.path.join(place, "bin", "python")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command + [os.path.join(PROGRAMS, program), *arguments], env=env, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout) if done.stdout.startswith("{") else None, done.stderr, seconds


LOADED = "the sitecustomize of the environment was loaded"


def faults(name, report):
    """What is wrong with a run, in words."""
    if report is None:
        return ["there is no report"]
    run, wrong = report["run"], []
    if report["verdict"] != "fits" or not run["processes"]:
        return ["the program failed; its output is in " + str(run["log"])]
    process = run["processes"][0]
    with open(run["log"], errors="replace") as f:
        if LOADED not in f.read():
            wrong.append("the environment's own sitecustomize was not loaded")
    if not process["has_values"]:
        wrong.append("integers are not kept true")
    if name == "values":
        return wrong
    wrong += ["%s:%d looked at unknown integers" % (x["file"], x["line"]) for x in process["looked_at"] if "float" not in x["type"]]
    if not run["replay"] or not run["replay"]["exact"]:
        wrong.append("the memory history cannot be replayed exactly")
    is_expandable = run["replay"] and all(s["expandable"] for s in run["replay"]["fragmentation"]["segments"])
    if bool(is_expandable) != (name == "expandable"):
        wrong.append("expandable segments are %s" % ("on" if is_expandable else "off"))
    wrong += ["%s is not modelled" % f["function"] for f in run["unmodelled"]]
    return wrong + unobserved(name, run)


def unobserved(name, run):
    """Facts that the report has to state, and that it states otherwise."""
    is_lora = name in ("padded", "full")
    facts = {"optimizer": "AdamW", "accumulation": 1, "strategy": "none", "autocast": "none" if is_lora else "bfloat16"}
    facts["batch"] = [4, 1024] if is_lora else [8, 512]
    facts.update({"model": "LlamaForCausalLM", "attention": "sdpa", "adapters": "LORA", "adapter_rank": 8} if is_lora else {})
    seen = dict(run["processes"][0]["observed"])
    wrong = ["observed %s: %s instead of %s" % (k, seen.get(k), v) for k, v in facts.items() if seen.get(k) != v]
    if run["steps"] != (1 if is_lora else 2):
        wrong.append("%d optimizer steps were counted" % run["steps"])
    return wrong


def peaks(report):
    process = report["run"]["processes"][0]
    return process["peak_allocated_bytes"], process["peak_reserved_bytes"]


def measure(plimsoll, row, folder):
    """Runs all programs of a row. Returns what is wrong, the peaks by run, and over all runs the most processor time, the most
    host memory and the versions."""
    place = environment(row)
    wrong, found, seconds, host, versions = [], {}, 0.0, 0, {}
    for name, words, settings in RUNS:
        report, said, took = simulate(plimsoll, place, words, settings, folder)
        faulty = faults(name, report)
        wrong += ["%s: %s" % (name, text) for text in faulty]
        if faulty:
            print(said[-2000:])
        if not report or not report["run"]["processes"]:
            continue
        process = report["run"]["processes"][0]
        found[name] = peaks(report)
        seconds = max(seconds, took)
        host = max(host, process["host_bytes"])
        versions = dict(versions, **process["versions"])
    if "padded" in found and "full" in found and found["padded"] <= found["full"]:
        wrong.append("padded: the mask was not looked at")
    return wrong, found, seconds, host, versions


# ---- the table ----------------------------------------------------------------------------------------------

HEAD = "| torch | CUDA | Python | transformers, peft | result | LoRA, padded | LoRA, not padded | plain | plain, expandable segments | most processor time | most host memory |"


def cells(peak):
    return "%.1f / %.1f MiB" % tuple(b / (1 << 20) for b in peak) if peak else "-"


def line(row, result, found=None, seconds=0.0, host=0, versions=None):
    found, versions = found or {}, versions or {}
    cuda = versions.get("torch", "").partition("+cu")[2]  # of 2.11.0+cu130
    torch = row.torch + (", with NVIDIA's packages" if row.nvidia else "")
    texts = [torch, "%s.%s" % (cuda[:-1], cuda[-1]) if cuda else "-", versions.get("python", row.python), "%s, %s" % (row.transformers, row.peft), result]
    texts += [cells(found.get(name)) for name, _, _ in RUNS[1:]]
    texts += ["%.1f s" % seconds if seconds else "-", "%.2f GiB" % (host / (1 << 30)) if host else "-"]
    return "| %s |" % " | ".join(texts)


def recorded(page):
    """The lines of the page's table, by their first cell."""
    with open(page) as f:
        part = f.read().split("<!-- matrix:")[1]
    return {text.split(" | ")[0]: text for text in part.splitlines() if text.startswith("| ")}


def compare(row, found, others):
    """The model of PyTorch alone needs about as much with every version, and NVIDIA's packages change nothing."""
    wrong = []
    if row.nvidia and others and found != others[-1]:
        wrong.append("the peaks are others than without NVIDIA's packages")
    for name in "plain", "expandable":
        if others and name in found and name in others[0]:
            off = max(abs(a / b - 1) for a, b in zip(found[name], others[0][name]))
            wrong += ["%s: %.1f %% off the first row" % (name, 100 * off)] if off > NEAR else []
    return wrong


def table(plimsoll, rows, counts):
    """Measures the rows. Returns their lines by first cell; counts passed, failed and skipped rows."""
    lines, others = {}, []
    with tempfile.TemporaryDirectory(prefix="plimsoll-matrix-") as folder:
        with open(os.path.join(folder, "sitecustomize.py"), "w") as f:
            f.write("print(%r)\n" % LOADED)
        for row in rows:
            try:
                wrong, found, *rest = measure(plimsoll, row, folder)
                wrong += compare(row, found, others)
                others.append(found)
                text = line(row, "; ".join(wrong) or "ok", found, *rest)
                counts[bool(wrong)] += 1
            except Skipped as reason:
                text = line(row, "skipped: %s" % reason)
                counts[2] += 1
            lines[text.split(" | ")[0]] = text
            print(text, flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plimsoll")
    parser.add_argument("versions", nargs="*", metavar="TORCH")
    parser.add_argument("--record", metavar="PAGE")
    args = parser.parse_intermixed_args()
    rows, counts = [r for r in ROWS if not args.versions or r.torch in args.versions], [0, 0, 0]
    lines = table(os.path.abspath(args.plimsoll), rows, counts)
    if args.record:
        lines = dict(recorded(args.record), **lines)
        known = [lines[key] for key in (line(r, "").split(" | ")[0] for r in ROWS) if key in lines]
        text = "\n".join([HEAD, "|---" * HEAD.count(" |") + "|"] + known)
        record(args.record, "matrix", "%s, %s, `make matrix`:\n\n%s" % (machine(), time.strftime("%Y-%m-%d"), text), "matrix")
    print("%d passed, %d failed, %d skipped" % tuple(counts))
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
