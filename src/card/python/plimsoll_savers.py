"""What `plimsoll run`, `simulate` and `profile` do for a program at the end of its optimizer steps, as far as variables ask
for it: PLIMSOLL_EMPTY_CACHE_EVERY=N and PLIMSOLL_GC_EVERY=N release memory after every N-th step."""
import gc
import os
import sys

_empty_every = int(os.environ.get("PLIMSOLL_EMPTY_CACHE_EVERY") or 0)
_collect_every = int(os.environ.get("PLIMSOLL_GC_EVERY") or 0)
_done = 0  # steps
emptied = collected = 0  # times


def after_step(torch, steps):
    """`steps` were made so far. Other optimizers of the same program may step without adding to them."""
    global _done, emptied, collected
    if steps <= _done:
        return
    _done = steps
    if _collect_every and steps % _collect_every == 0:
        gc.collect()
        collected += 1
    if _empty_every and steps % _empty_every == 0 and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
        emptied += 1


def report():
    """For the process's JSON."""
    chunked = sys.modules.get("plimsoll_chunked")
    wants_chunks = os.environ.get("PLIMSOLL_CHUNKED_LOSS")
    return {
        "empty_cache": emptied if _empty_every else None,
        "gc": collected if _collect_every else None,
        "chunked_loss": chunked.report() if chunked else {"off": "the program does not use transformers"} if wants_chunks else None,
    }
