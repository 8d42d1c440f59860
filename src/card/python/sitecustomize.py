"""Python loads this module when it starts, because `plimsoll simulate`, `plimsoll profile` and `plimsoll run` put this folder on
PYTHONPATH. When the program imports torch, plimsoll_hook begins to watch it, and plimsoll_spill tells the hook library
what may be spilled."""
import importlib.machinery
import importlib.util
import os
import sys

import plimsoll_imports

_here = os.path.dirname(os.path.abspath(__file__))
_is_watched = any(os.environ.get(name) for name in ("PLIMSOLL_CARD", "PLIMSOLL_PROFILE", "PLIMSOLL_LIVE"))
_may_spill = bool(os.environ.get("PLIMSOLL_HOOK_SPILL"))


def _run_hidden_sitecustomize():
    """Runs the sitecustomize that Python would have loaded instead of this one."""
    path = [p for p in sys.path if os.path.abspath(p or ".") != _here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _look_into(torch):
    if _is_watched:
        import plimsoll_hook

        plimsoll_hook.watch(torch)
    if _may_spill:
        import plimsoll_spill

        if plimsoll_spill.wanted():
            plimsoll_spill.install(torch)


def _chunk_losses(modeling_utils):
    import plimsoll_chunked

    plimsoll_chunked.wrap(modeling_utils)


if os.environ.get("PLIMSOLL_WORLD"):
    import plimsoll_world

    plimsoll_world.set_environment()
if _is_watched or _may_spill:
    plimsoll_imports.after("torch", _look_into)
if _is_watched and os.environ.get("PLIMSOLL_CHUNKED_LOSS"):
    plimsoll_imports.after("transformers.modeling_utils", _chunk_losses)
_run_hidden_sitecustomize()
