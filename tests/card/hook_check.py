#!/usr/bin/env python3
"""Checks that sitecustomize.py calls its hook once, however a program comes to import torch, and tells the hook library of
phases only where memory may be spilled. The torch and the hooks of this test are small modules of its own. The last line is
"N passed, N failed"."""
import os
import subprocess
import sys
import tempfile

PYTHON = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src", "card", "python")
HOOK = "def watch(module): print('watched', module.__name__)\n"
SPILL = "import os\ndef wanted(): return bool(os.environ.get('PLIMSOLL_HOOK_SPILL'))\ndef install(module): print('spills', module.__name__)\n"
TORCH = "import os\nif os.environ.pop('FAILS', None): raise OSError('not yet')\n"
PROGRAMS = {
    "an import": "import torch",
    "an import after a look whether it is installed": "import importlib.util as u; u.find_spec('torch'); u.find_spec('torch'); import torch",
    "an import of a part": "import torch.nn",
    "an import after one that failed": "import os; os.environ['FAILS'] = '1'\ntry: import torch\nexcept OSError: import torch",
}
ENVIRONMENTS = {  # what run, simulate and profile set, and what is then loaded
    "a card": ({"PLIMSOLL_CARD": "record"}, "watched torch\n"),
    "a measured program": ({"PLIMSOLL_PROFILE": "1"}, "watched torch\n"),
    "a program that is only recorded": ({"PLIMSOLL_HOOK": "record", "PLIMSOLL_HOOK_SPILL": ""}, ""),
    "a program that may spill": ({"PLIMSOLL_HOOK": "record", "PLIMSOLL_HOOK_SPILL": "1"}, "spills torch\n"),
    "one that may spill, on a card": ({"PLIMSOLL_CARD": "record", "PLIMSOLL_HOOK_SPILL": "1"}, "watched torch\nspills torch\n"),
}


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "torch", "nn"))
        for name, text in (("plimsoll_hook.py", HOOK), ("plimsoll_spill.py", SPILL), ("torch/__init__.py", TORCH), ("torch/nn/__init__.py", "")):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        cases = [(what, program, {"PLIMSOLL_CARD": "record"}, "watched torch\n") for what, program in PROGRAMS.items()]
        cases += [(what, "import torch", env, want) for what, (env, want) in ENVIRONMENTS.items()]
        for what, program, env, want in cases:
            env = dict(os.environ, PYTHONPATH=folder + ":" + PYTHON, PYTHONDONTWRITEBYTECODE="1", **env)
            done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
            is_met = done.stdout == want and done.returncode == 0
            passed, failed = passed + is_met, failed + (not is_met)
            print("%s %s%s" % ("ok  " if is_met else "FAIL", what, "" if is_met else ": " + done.stdout + done.stderr))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
