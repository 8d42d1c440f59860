#!/usr/bin/env python3
"""Checks that the simulated card's sitecustomize.py calls its hook once, however a program comes to import torch, and that the
chunked loss is put into transformers if it is wanted. The modules of this test are small ones of its own. The last line is
"N passed, N failed"."""
import os
import subprocess
import sys
import tempfile

PYTHON = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src", "card", "python")
HOOK = "def watch(module): print('watched', module.__name__)\n"
CHUNKED = "def wrap(module): print('wrapped', module.__name__)\n"
TORCH = "import os\nif os.environ.pop('FAILS', None): raise OSError('not yet')\n"
PROGRAMS = {
    "an import": "import torch",
    "an import after a look whether it is installed": "import importlib.util as u; u.find_spec('torch'); u.find_spec('torch'); import torch",
    "an import of a part": "import torch.nn",
    "an import after one that failed": "import os; os.environ['FAILS'] = '1'\ntry: import torch\nexcept OSError: import torch",
}
WATCHED = "watched torch\n"
CASES = [(what, program, {"PLIMSOLL_CARD": "record"}, WATCHED) for what, program in PROGRAMS.items()] + [
    ("a program of run", "import torch", {"PLIMSOLL_RUN": "1"}, WATCHED),
    ("a program of nobody", "import torch", {}, ""),
    ("the chunked loss", "import transformers.modeling_utils", {"PLIMSOLL_RUN": "1", "PLIMSOLL_CHUNKED_LOSS": "512"}, WATCHED + "wrapped transformers.modeling_utils\n"),
    ("no chunked loss", "import transformers.modeling_utils", {"PLIMSOLL_RUN": "1"}, WATCHED),
]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "torch", "nn"))
        os.makedirs(os.path.join(folder, "transformers"))
        for name, text in (
            ("plimsoll_hook.py", HOOK),
            ("plimsoll_chunked.py", CHUNKED),
            ("torch/__init__.py", TORCH),
            ("torch/nn/__init__.py", ""),
            ("transformers/__init__.py", ""),
            ("transformers/modeling_utils.py", "import torch\n"),
        ):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        env = {k: v for k, v in os.environ.items() if not k.startswith("PLIMSOLL_")}
        env.update(PYTHONPATH=folder + ":" + PYTHON, PYTHONDONTWRITEBYTECODE="1")
        for what, program, variables, expected in CASES:
            done = subprocess.run([sys.executable, "-c", program], env=dict(env, **variables), capture_output=True, text=True)
            is_met = done.stdout == expected and done.returncode == 0
            failed += not is_met
            print("%s %s%s" % ("ok  " if is_met else "FAIL", what, "" if is_met else ": " + done.stdout + done.stderr))
    print("%d passed, %d failed" % (len(CASES) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
