"""Python loads this module when it starts, because `plimsoll simulate` and `plimsoll profile` put this folder on PYTHONPATH. When
the program imports torch, plimsoll_hook begins to watch it."""
import importlib.abc
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


class _WaitForTorch(importlib.abc.MetaPathFinder):
    """Libraries ask for torch's spec only to see whether it is installed, and the program imports torch later. So every spec that
    is returned must call the hook."""

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
            import plimsoll_hook

            plimsoll_hook.watch(module)

        spec.loader.exec_module = execute_and_watch
        return spec


if os.environ.get("PLIMSOLL_WORLD"):
    import plimsoll_world

    plimsoll_world.set_environment()
if os.environ.get("PLIMSOLL_CARD") or os.environ.get("PLIMSOLL_PROFILE"):
    sys.meta_path.insert(0, _WaitForTorch())
_run_hidden_sitecustomize()
