"""PyTorch's memory history, recorded for a part of the run, because recording all of a long run would cost too much.

PLIMSOLL_FIRST=1 records from the start to the end of the first optimizer step and writes PID.first.pickle: what is in memory
twice is seen there. If the program ends before that, it is written then.

Later the parent may ask. It writes a file PID.ask, best by renaming it, with one of these lines:
  history on       record from now on
  snapshot NAME    write what was recorded to the file NAME of the same folder, and record no more
The file is removed when it has been done. It is looked for after a step, at most once a second."""
import os
import pickle
import time

SECONDS = 1.0  # between two looks for a request
_folder = os.environ.get("PLIMSOLL_OUT")
_is_always_on = False
_is_first = False  # recording until the first step ends
_next_look = 0.0


def install(torch, is_always_on):
    """`is_always_on`: the whole run is recorded anyway; it stays so."""
    global _torch, _is_always_on, _is_first
    _torch, _is_always_on = torch, is_always_on
    _is_first = bool(_folder) and os.environ.get("PLIMSOLL_FIRST") == "1"
    if is_always_on or _is_first:
        torch.cuda._lazy_call(_start)


def _start():
    """Stacks of allocations alone: if a free takes a stack while an exception of Python passes through C++ (a checkpoint that
    stops early), CPython 3.11 loses the exception."""
    try:
        _torch.cuda.memory._record_memory_history(context="alloc", max_entries=1 << 22, stacks="python")
    except TypeError:  # before torch 2.1
        if _is_always_on:
            raise


def _stop():
    if not _is_always_on:
        _torch.cuda.memory._record_memory_history(enabled=None)


def _save(name):
    """Under its name when it is complete."""
    path = os.path.join(_folder, name)
    with open(path + ".part", "wb") as f:
        pickle.dump(_torch.cuda.memory._snapshot(), f)
    os.replace(path + ".part", path)


def finish_first():
    """The first step has ended, or the program ends."""
    global _is_first
    if not _is_first or not _torch.cuda.is_initialized():
        return
    _is_first = False
    try:
        _save("%d.first.pickle" % os.getpid())
    except Exception:  # a full disk must not end the training
        pass
    _stop()


def after_step():
    global _next_look
    finish_first()
    now = time.monotonic()
    if not _folder or now < _next_look:
        return
    _next_look = now + SECONDS
    path = os.path.join(_folder, "%d.ask" % os.getpid())
    try:
        os.stat(path)
    except OSError:
        return
    try:
        _answer(path)
    except Exception:  # likewise
        pass


def _answer(path):
    with open(path, errors="replace") as f:
        words = f.read(4096).split()
    if words == ["history", "on"]:
        if not _is_always_on:
            _torch.cuda._lazy_call(_start)
    elif len(words) == 2 and words[0] == "snapshot" and os.path.basename(words[1]) == words[1]:
        if _torch.cuda.is_initialized():
            _save(words[1])
            _stop()
    os.remove(path)
