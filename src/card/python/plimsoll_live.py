"""What `plimsoll run` sees of a training program while it runs: $PLIMSOLL_LIVE/PID.live has one JSON object per line, written
after optimizer steps, at most four times a second, and when another phase begins: loading, evaluation or saving.

The peaks of a line are those since the line before, and belong to the phase that the line names. Nothing here makes the
program wait for the card, or changes the counters that it sees."""
import json
import os
import sys
import time

import plimsoll_peaks
import plimsoll_ranks

INTERVAL = 0.25  # seconds between lines of the same phase
STEP = ("training", "optimizer")  # one phase here: a step has both
_torch = None
_file = None
_pid = 0
_last = 0.0  # when the last line was written
_step = 0  # steps of the training
_first = 0  # those that were made before this process was started, by the checkpoint that it resumed from
_phase = "loading"
_tokens = None  # of each sample in the present batch; None: not known
_longest = None  # of the batches before


def install(torch):
    global _torch
    _torch = torch
    plimsoll_peaks.install(torch)
    observe = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if observe:  # it needs an allocator, so it waits for CUDA; a program without CUDA never calls it
        torch.cuda._lazy_call(lambda: observe(_out_of_memory))


def begin(phase):
    """A phase begins (plimsoll_observed)."""
    global _phase
    is_other = phase not in STEP or _phase not in STEP
    if is_other and _pid:
        _write()  # the peak so far belongs to the phase that ends
    _phase = phase
    if is_other:
        _write()


def take_batch(tokens):
    """The program computes a batch with so many tokens in each sample; None: not known, or it does not train (plimsoll_observed)."""
    global _tokens, _longest
    if _tokens and _tokens > (_longest or 0):
        _longest = _tokens
    _tokens = tokens


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
        sys.stderr.write("plimsoll: %s\n" % place)  # in one piece, also where the stream has no buffer
        sys.stderr.flush()
    _write()


def _out_of_memory(device, requested, allocated, free):
    _write({"oom_bytes": requested, "device": device, "free": free, "sample_tokens": _tokens, "longest_tokens": _longest})


def _device():
    """The memory of the card on which this process reserved the most; nothing before it has used one."""
    if not _torch.cuda.is_initialized():
        return {}
    reserved, i = max((plimsoll_peaks.now(i)["reserved_bytes"]["all"]["current"], i) for i in range(_torch.cuda.device_count()))
    if not reserved:
        return {}
    stats = plimsoll_peaks.since_last(i)
    allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
    properties = _torch.cuda.get_device_properties(i)
    try:
        free, total = _torch.cuda.mem_get_info(i)
    except Exception:  # the driver fails; what PyTorch has counted is still known
        free, total = None, properties.total_memory
    return {
        "device": i,
        "card": properties.name,
        "uuid": str(getattr(properties, "uuid", "")),
        "allocated": allocated["current"],
        "reserved": reserved["current"],
        "peak_allocated": allocated["peak"],
        "peak_reserved": reserved["peak"],
        "retries": stats.get("num_alloc_retries", 0),
        "free": free,
        "total": total,
    }


def number(variable, otherwise):
    """A number of the environment; some launchers leave such variables empty."""
    text = os.environ.get(variable, "").strip()
    return int(text) if text.isdigit() else otherwise


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
    except Exception:
        _file = None
