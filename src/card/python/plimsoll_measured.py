"""What `plimsoll profile` measures on a real card: how long each step takes, and the memory that PyTorch does not count (CUDA's
context, kernels, NCCL, other processes).

Nothing here makes the program wait for the card: times are measured with events in the stream, which are read at the end."""
import os
import time

_torch = None
_has_events = not os.environ.get("PLIMSOLL_CARD")  # a simulated card finishes everything at once, so its events have no times
_marks = []  # at the end of each optimizer step: an event, or seconds of the host's clock
_outside = {}  # device -> bytes that are in use there and not reserved by PyTorch: when training began, and the most
MOST_MARKS = 100000


def install(torch):
    global _torch
    _torch = torch


def _used():
    """Cards on which PyTorch has memory. Asking another card for its memory would create a context there."""
    if not _torch.cuda.is_initialized():
        return []
    return [i for i in range(_torch.cuda.device_count()) if _torch.cuda.memory_reserved(i)]


def begin(phase):
    """A phase begins (plimsoll_observed)."""
    if phase == "loading":
        return
    for i in _used():
        free, total = _torch.cuda.mem_get_info(i)
        now = total - free - _torch.cuda.memory_reserved(i)
        first, most = _outside.get(i, (now, now))
        _outside[i] = first, max(most, now)


def after_step(steps):
    """`steps` is the number of steps so far. A step of another optimizer of the program may not increase it."""
    used = _used()
    if steps <= len(_marks) or len(_marks) >= MOST_MARKS or not used:
        return
    if not _has_events:
        _marks.append(time.perf_counter())
        return
    current = _torch.cuda.current_device()
    with _torch.cuda.device(current if current in used else used[0]):
        if _torch.cuda.is_current_stream_capturing():  # an event would become part of the program's CUDA graph
            return
        event = _torch.cuda.Event(enable_timing=True)
        event.record()
        _marks.append(event)


def finish():
    """Waits for the card. If a process ended before its work is done, the other ranks would wait for it."""
    for i in _used():
        _torch.cuda.synchronize(i)


def step_seconds():
    """From the end of each step to the end of the next one."""
    pairs = list(zip(_marks, _marks[1:]))
    if not _has_events:
        return [b - a for a, b in pairs]
    try:
        finish()
        return [a.elapsed_time(b) / 1000 for a, b in pairs]
    except Exception:  # after an error the card answers no calls; or the steps ran on several cards
        return []


def device(i):
    properties = _torch.cuda.get_device_properties(i)
    first, most = _outside.get(i, (None, None))
    return {
        "name": properties.name,
        "uuid": str(getattr(properties, "uuid", "")),
        "total_bytes": properties.total_memory,
        "outside_first_bytes": first,
        "outside_peak_bytes": most,
    }
