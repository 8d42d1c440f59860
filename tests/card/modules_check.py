#!/usr/bin/env python3
"""The Python modules that `plimsoll run` puts into a program, without PyTorch: whatever is odd about the
program, its modules or its machine, it runs as it does without them.
The last line is "N passed, N failed"."""
import os
import subprocess
import sys
import tempfile
import zipfile

PYTHON = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src", "card", "python")
WITHOUT_NAMES = "__version__ = '0.1'\n"  # as little as an old PyTorch, or somebody's file called torch.py, may have
# What plimsoll_hook needs, as far as nothing is on a card.
SMALL = """
import sys, types
__version__ = "2.9"


class Module:
    def __call__(self): pass
    def train(self, mode=True): return self


def part(**names):
    return types.SimpleNamespace(**names)


def clip(): pass
def save(): pass
_C = part(_current_graph_task_id=lambda: -1)
cuda = part(is_initialized=lambda: False, _lazy_call=lambda function: None)
version = part(cuda=None)
jit = part(ScriptModule=type("ScriptModule", (), {}), is_tracing=lambda: False)
serialization = part(save=save)
nn = part(Module=Module, utils=part(clip_grad_norm_=clip, clip_grad=part(clip_grad_norm_=clip)))
amp = part(GradScaler=type("GradScaler", (), {"step": lambda self: None}))
autograd = part(backward=lambda: None)
after = []
for name, names in {
    "optim": {}, "utils": {},
    "optim.optimizer": dict(register_optimizer_step_pre_hook=lambda f: None, register_optimizer_step_post_hook=after.append),
    "utils.checkpoint": dict(CheckpointFunction=type("CheckpointFunction", (), {"forward": staticmethod(lambda: None)})),
}.items():
    sys.modules["torch." + name] = module = types.ModuleType("torch." + name)
    module.__dict__.update(names)
    if "." not in name:
        setattr(sys.modules["torch"], name, module)
sys.modules["torch.utils"].checkpoint = sys.modules["torch.utils.checkpoint"]
"""
passed = failed = 0


def check(is_met, text, shown=""):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)
    if not is_met:
        print(shown)


def run(torch, program, **variables):
    """The finished process and the lines that its modules wrote; the torch that it imports is `torch`."""
    with tempfile.TemporaryDirectory() as folder:
        live = os.path.join(folder, "live")
        os.mkdir(live)
        if isinstance(torch, str):
            with open(os.path.join(folder, "torch.py"), "w") as f:
                f.write(torch)
        else:
            with zipfile.ZipFile(os.path.join(folder, "all.zip"), "w") as z:
                for name, text in torch.items():
                    z.writestr(name, text)
        path = os.pathsep.join([PYTHON, os.path.join(folder, "all.zip"), folder])
        env = dict(os.environ, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1", PLIMSOLL_LIVE=live, PLIMSOLL_OUT=live, **variables)
        done = subprocess.run([sys.executable, "-c", program], env=env, cwd=folder, capture_output=True, text=True)
        files = {name: open(os.path.join(live, name)).read() for name in sorted(os.listdir(live))} if os.path.isdir(live) else {}
        return done, files


def main():
    done, files = run(WITHOUT_NAMES, "import torch; print('ran', torch.__version__)")
    is_said = done.stderr.count("plimsoll: torch cannot be watched (AttributeError") == 1
    check(done.returncode == 0 and done.stdout == "ran 0.1\n" and is_said, "a torch that cannot be watched is imported", done.stderr)
    done, files = run(WITHOUT_NAMES, "import torch", RANK="3")
    check(done.returncode == 0 and not done.stderr, "of several ranks, the first says so", done.stderr)

    done, files = run(SMALL, "import torch; torch.after[0](object(), (), {})", RANK="", LOCAL_RANK="", WORLD_SIZE="")
    lines = "".join(text for name, text in files.items() if name.endswith(".live"))
    check(done.returncode == 0 and not done.stderr and '"step": 1' in lines and '"rank": 0' in lines, "variables of a launcher that are empty", done.stderr + str(files))
    done, files = run(SMALL, "import torch\nraise KeyError('mine')")
    record = "".join(text for name, text in files.items() if name.endswith(".json"))
    check(done.returncode == 1 and "atexit" not in done.stderr and "KeyError: 'mine'" in record, "the exception that ended the program is recorded", done.stderr + record)
    for end, status in ("os._exit(7)", 7), ("os._exit(status=7)", 7), ("sys.exit(3)", 3):
        done, files = run(SMALL, "import torch, os, shutil, sys; shutil.rmtree(os.environ['PLIMSOLL_LIVE']); %s" % end)
        check(done.returncode == status and not done.stderr, "%s when the folder is gone" % end, done.stderr)
    done, files = run(SMALL, "import torch, os; os.environ['PLIMSOLL_LIVE'] = '/dev/null/x'; torch.after[0](object(), (), {}); print('ran')")
    check(done.returncode == 0 and done.stdout == "ran\n" and not done.stderr, "a folder that cannot be written", done.stderr)
    done, files = run(SMALL, "import torch, time\ntime.time = None\ntorch.after[0](object(), (), {})\nprint('ran')")
    check(done.returncode == 0 and done.stdout == "ran\n", "a mistake after a step is not the program's", done.stderr)

    zipped = {"torch/__init__.py": "import torch.a\nname = 'torch'\n", "torch/a.py": "name = 'a'\n", "b.py": "name = 'b'\n"}
    done, files = run(zipped, "import b, torch, torch.a; print(b.name, torch.name, torch.a.name)")
    check(done.returncode == 0 and done.stdout == "b torch a\n" and ("plimsoll: torch cannot be watched (" in done.stderr or sys.version_info < (3, 10)), "a torch in a zip file, which has one loader for all modules", done.stderr)
    # pip install -e, wrapt and others put finders before Python's own.
    own = """
import importlib.machinery, sys
class Loader:
    __slots__ = ()
    def create_module(self, spec): return None
    def exec_module(self, module): module.name = "mine"
class Finder:
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, Loader()) if name == "torch" else None
sys.meta_path.insert(1, Finder())
import torch
print(torch.name)
"""
    done, files = run(WITHOUT_NAMES, own)
    check(done.returncode == 0 and done.stdout == "mine\n" and not done.stderr, "a loader that cannot be changed", done.stderr)
    done, files = run(WITHOUT_NAMES, "print(1)")
    check(done.returncode == 0 and not done.stderr, "a program without torch", done.stderr)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
