"""What `plimsoll run` sees of a training program while it runs: $PLIMSOLL_LIVE/PID.live has one JSON object per line, written
when a phase begins and after optimizer steps, at most four times a second.

Nothing here makes the program wait for the card, or changes its counters."""
import json
import os
import sys
import time

import plimsoll_ranks

INTERVAL = 0.25  # seconds between lines of the same phase
_torch = None
_file = None
_pid = 0
_last = 0.0  # when the last line was written
_step = 0  # steps of the training
_first = 0  # those that were made before this process was started, by the checkpoint that it resumed from
_phase = "loading"


def install(torch):
    global _torch
    _torch = torch
    observe = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if observe:  # it needs an allocator, so it waits for CUDA; a program without CUDA never calls it
        torch.cuda._lazy_call(lambda: observe(_out_of_memory))


def begin(phase):
    """A phase begins (plimsoll_observed)."""
    global _phase
    _phase = phase
    _write()


def after_step(steps):
    global _step
    _step = _first + steps
    if time.monotonic() - _last >= INTERVAL or steps <= 3:
        _write()


def finish():
    """The program ends."""
    if _pid == os.getpid():
        _write()


def resume(path, steps):
    """The program resumes from a checkpoint, made after so many steps; or from none."""
    global _first, _step
    _first = _step = steps
    if plimsoll_ranks.is_first():
        place = "resuming from %s" % path if path else "this run has no checkpoint yet: training starts from the beginning"
        print("plimsoll: " + place, file=sys.stderr, flush=True)
    _write()


def _out_of_memory(device, requested, allocated, free):
    _write({"oom_bytes": requested, "device": device, "free": free})


def _device():
    """The memory of the card on which this process reserved the most; nothing before it has used one."""
    if not _torch.cuda.is_initialized():
        return {}
    reserved, i = max((_torch.cuda.memory_reserved(i), i) for i in range(_torch.cuda.device_count()))
    if not reserved:
        return {}
    stats = _torch.cuda.memory_stats(i)
    free, total = _torch.cuda.mem_get_info(i)
    properties = _torch.cuda.get_device_properties(i)
    return {
        "device": i,
        "card": properties.name,
        "uuid": str(getattr(properties, "uuid", "")),
        "allocated": stats.get("allocated_bytes.all.current", 0),
        "reserved": reserved,
        "peak_allocated": stats.get("allocated_bytes.all.peak", 0),
        "peak_reserved": stats.get("reserved_bytes.all.peak", 0),
        "retries": stats.get("num_alloc_retries", 0),
        "free": free,
        "total": total,
    }


def _line(fields):
    try:
        device = _device()
    except Exception:  # the card answers nothing any more
        device = {}
    return {"t": time.time(), "step": _step, "phase": _phase, **plimsoll_ranks.fields(), **device, **fields}


def _write(fields=()):
    """A file that cannot be written ends the lines, and never the program."""
    global _file, _pid, _last
    _last = time.monotonic()
    try:
        if _pid != os.getpid():  # a forked process has a file of its own, and only if it uses a card
            if _pid and not _torch.cuda.is_initialized():
                return
            _pid = os.getpid()
            _file = os.open(os.path.join(os.environ["PLIMSOLL_LIVE"], "%d.live" % _pid), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if _file is not None:
            os.write(_file, (json.dumps(_line(dict(fields))) + "\n").encode())
    except (OSError, KeyError, ValueError):
        _file = None
