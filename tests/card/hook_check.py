#!/usr/bin/env python3
"""Checks that the simulated card's sitecustomize.py calls its hook once, however a program comes to import torch, and that the
real hook does without the simulated card; that the chunked loss is put into transformers if it is wanted. The torch of this test, and the hook that only counts, are small modules of its
own. The last line is "N passed, N failed"."""
import os
import subprocess
import sys
import tempfile

PYTHON = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src", "card", "python")
HOOK = "def watch(module): print('watched', module.__name__)\n"
SPILL = "import os\ndef wanted(): return bool(os.environ.get('PLIMSOLL_HOOK_SPILL'))\ndef install(module): print('spills', module.__name__)\n"
CHUNKED = "def wrap(module): print('wrapped', module.__name__)\n"
TORCH = "import os\nif os.environ.pop('FAILS', None): raise OSError('not yet')\n"
PROGRAMS = {
    "an import": "import torch",
    "an import after a look whether it is installed": "import importlib.util as u; u.find_spec('torch'); u.find_spec('torch'); import torch",
    "an import of a part": "import torch.nn",
    "an import after one that failed": "import os; os.environ['FAILS'] = '1'\ntry: import torch\nexcept OSError: import torch",
}
# What `profile` does on a real card, where the functions of the simulated one are not there.
REAL_CARD = """
import json, os, sys, types
import plimsoll_hook as hook

hook._torch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: False), version=types.SimpleNamespace(cuda="13.0"))
print(hook._before_backward(lambda: "passed")())
hook._write()
print(len(os.listdir(".")), json.load(open("%d.json" % os.getpid()))["world"])
with open("program.py", "w") as f:
    f.write("def call(f): f()\\n")
sys.path.append(".")
import program

try:
    program.call(hook._before_backward(None))  # fails in the hook's own frame
except TypeError as error:
    sys.last_value = error
print(os.path.basename(hook._failure()["file"]))
"""


def report(what, done, wanted):
    is_met = done.stdout == wanted and done.returncode == 0
    print("%s %s%s" % ("ok  " if is_met else "FAIL", what, "" if is_met else ": " + done.stdout + done.stderr))
    return is_met
ENVIRONMENTS = {  # what run, simulate and profile set, and what is then loaded
    "a card": ({"PLIMSOLL_CARD": "record"}, "watched torch\n"),
    "a measured program": ({"PLIMSOLL_PROFILE": "1"}, "watched torch\n"),
    "a program that is only recorded": ({"PLIMSOLL_HOOK": "record", "PLIMSOLL_HOOK_SPILL": ""}, ""),
    "a program that may spill": ({"PLIMSOLL_HOOK": "record", "PLIMSOLL_HOOK_SPILL": "1"}, "spills torch\n"),
    "one that may spill, on a card": ({"PLIMSOLL_CARD": "record", "PLIMSOLL_HOOK_SPILL": "1"}, "watched torch\nspills torch\n"),
    "a program of run": ({"PLIMSOLL_LIVE": "folder"}, "watched torch\n"),
    "a program of nobody": ({}, ""),
}


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "torch", "nn"))
        os.makedirs(os.path.join(folder, "transformers"))
        for name, text in (("plimsoll_hook.py", HOOK), ("plimsoll_spill.py", SPILL), ("plimsoll_chunked.py", CHUNKED), ("torch/__init__.py", TORCH), ("torch/nn/__init__.py", ""), ("transformers/__init__.py", ""), ("transformers/modeling_utils.py", "import torch\n")):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        cases = [(what, program, {"PLIMSOLL_CARD": "record"}, "watched torch\n") for what, program in PROGRAMS.items()]
        cases += [(what, "import torch", env, want) for what, (env, want) in ENVIRONMENTS.items()]
        chunked = {"PLIMSOLL_LIVE": "folder", "PLIMSOLL_CHUNKED_LOSS": "512"}
        cases += [("the chunked loss", "import transformers.modeling_utils", chunked, "watched torch\nwrapped transformers.modeling_utils\n")]
        for what, program, env, want in cases:
            clean = {k: v for k, v in os.environ.items() if not k.startswith("PLIMSOLL_")}
            env = dict(clean, PYTHONPATH=folder + ":" + PYTHON, PYTHONDONTWRITEBYTECODE="1", **env)
            done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
            failed += not report(what, done, want)
        out = os.path.join(folder, "out")
        os.makedirs(out)
        env = dict(os.environ, PYTHONPATH=PYTHON, PLIMSOLL_PROFILE="1", PLIMSOLL_OUT=out, PYTHONDONTWRITEBYTECODE="1", RANK="", WORLD_SIZE="4")
        env.pop("PLIMSOLL_CARD", None)
        done = subprocess.run([sys.executable, "-c", REAL_CARD], env=env, capture_output=True, text=True, cwd=out)
        failed += not report("the hook on a real card", done, "passed\n1 4\nprogram.py\n")
    print("%d passed, %d failed" % (len(cases) + 1 - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
