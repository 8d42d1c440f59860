#!/usr/bin/env python3
"""Checks that the simulated card's sitecustomize.py calls its hook once, however a program comes to import torch. The torch
and the hook of this test are small modules of its own. The last line is "N passed, N failed"."""
import os
import subprocess
import sys
import tempfile

PYTHON = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src", "card", "python")
HOOK = "def watch(module): print('watched', module.__name__)\n"
TORCH = "import os\nif os.environ.pop('FAILS', None): raise OSError('not yet')\n"
PROGRAMS = {
    "an import": "import torch",
    "an import after a look whether it is installed": "import importlib.util as u; u.find_spec('torch'); u.find_spec('torch'); import torch",
    "an import of a part": "import torch.nn",
    "an import after one that failed": "import os; os.environ['FAILS'] = '1'\ntry: import torch\nexcept OSError: import torch",
}


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "torch", "nn"))
        for name, text in (("plimsoll_hook.py", HOOK), ("torch/__init__.py", TORCH), ("torch/nn/__init__.py", "")):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        env = dict(os.environ, PYTHONPATH=folder + ":" + PYTHON, PLIMSOLL_CARD="record", PYTHONDONTWRITEBYTECODE="1")
        for what, program in PROGRAMS.items():
            done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
            is_met = done.stdout == "watched torch\n" and done.returncode == 0
            failed += not is_met
            print("%s %s%s" % ("ok  " if is_met else "FAIL", what, "" if is_met else ": " + done.stdout + done.stderr))
    print("%d passed, %d failed" % (len(PROGRAMS) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
