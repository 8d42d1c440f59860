"""Loaded by Python at its start, because `plimsoll simulate` and `plimsoll profile` put this folder on PYTHONPATH. Waits for
the program to import torch; then plimsoll_hook watches it, and plimsoll_spill tells the hook library what may be spilled."""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

_is_watched = bool(os.environ.get("PLIMSOLL_CARD") or os.environ.get("PLIMSOLL_PROFILE"))
_here = os.path.dirname(os.path.abspath(__file__))


def _run_hidden_sitecustomize():
    """The sitecustomize that Python would have loaded without us."""
    path = [p for p in sys.path if os.path.abspath(p or ".") != _here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _look_into(torch):
    import plimsoll_spill

    if _is_watched:
        import plimsoll_hook

        plimsoll_hook.watch(torch)
    if plimsoll_spill.wanted():
        plimsoll_spill.install(torch)


class _WaitForTorch(importlib.abc.MetaPathFinder):
    """Libraries ask for torch's spec to see whether it is installed, before anybody imports it: each spec that is handed out
    must lead to the hook."""

    is_looking = False

    def find_spec(self, name, path, target=None):
        if name != "torch" or self.is_looking:
            return None
        self.is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.is_looking = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_watch(module):
            execute(module)
            sys.meta_path.remove(self)
            _look_into(module)

        spec.loader.exec_module = execute_and_watch
        return spec


if os.environ.get("PLIMSOLL_WORLD"):
    import plimsoll_world

    plimsoll_world.set_environment()
if _is_watched or os.environ.get("PLIMSOLL_HOOK_SPILL"):
    sys.meta_path.insert(0, _WaitForTorch())
_run_hidden_sitecustomize()
