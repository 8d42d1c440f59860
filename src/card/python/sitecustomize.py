"""Python loads this module when it starts, because `plimsoll simulate`, `plimsoll profile` and `plimsoll run` put this folder on
PYTHONPATH. When the program imports torch, plimsoll_hook begins to watch it."""
import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _run_hidden_sitecustomize():
    """Runs the sitecustomize that Python would have loaded instead of this one."""
    path = [p for p in sys.path if os.path.abspath(p or ".") != _here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _watch(torch):
    import plimsoll_hook

    plimsoll_hook.watch(torch)


if os.environ.get("PLIMSOLL_WORLD"):
    import plimsoll_world

    plimsoll_world.set_environment()
if any(os.environ.get(name) for name in ("PLIMSOLL_CARD", "PLIMSOLL_PROFILE", "PLIMSOLL_LIVE")):
    import plimsoll_imports

    plimsoll_imports.after("torch", _watch)
_run_hidden_sitecustomize()
