"""Loaded by Python at its start, because `plimsoll simulate`, `plimsoll profile` and `plimsoll run` put this folder on
PYTHONPATH. Waits for the program to import torch; then plimsoll_hook watches it."""
import importlib.machinery
import importlib.util
import os
import sys

import plimsoll_imports

_here = os.path.dirname(os.path.abspath(__file__))


def _run_hidden_sitecustomize():
    """The sitecustomize that Python would have loaded without us."""
    path = [p for p in sys.path if os.path.abspath(p or ".") != _here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _watch(torch):
    import plimsoll_hook

    plimsoll_hook.watch(torch)


def _chunk_losses(modeling_utils):
    import plimsoll_chunked

    plimsoll_chunked.wrap(modeling_utils)


if os.environ.get("PLIMSOLL_WORLD"):
    import plimsoll_world

    plimsoll_world.set_environment()
if any(os.environ.get(name) for name in ("PLIMSOLL_CARD", "PLIMSOLL_PROFILE", "PLIMSOLL_RUN")):
    plimsoll_imports.when_imported("torch", _watch)
    if os.environ.get("PLIMSOLL_CHUNKED_LOSS"):
        plimsoll_imports.when_imported("transformers.modeling_utils", _chunk_losses)
_run_hidden_sitecustomize()
