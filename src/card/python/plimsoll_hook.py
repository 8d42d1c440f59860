"""Watches a training program, on a simulated card or on a real one: counts optimizer steps, records PyTorch's memory history,
and ends the program after the steps that were asked for.

What it finds goes into the folder $PLIMSOLL_OUT: PID.pickle is PyTorch's own snapshot, PID.json what was observed. With
PLIMSOLL_LIVE there is no snapshot of the whole run (see plimsoll_history)."""
import atexit
import ctypes
import functools
import gc
import importlib.util
import json
import os
import pickle
import resource
import sys
import time
import traceback

import plimsoll_collectives
import plimsoll_history
import plimsoll_live
import plimsoll_measured
import plimsoll_observed
import plimsoll_ranks
import plimsoll_resume
import plimsoll_savers
import plimsoll_values
import plimsoll_world

_steps = {}  # id of an optimizer -> steps that it made
_wanted = int(os.environ.get("PLIMSOLL_STEPS", "0"))  # 0: as many as the program makes
_folder = os.environ.get("PLIMSOLL_OUT")
_has_written = 0  # id of the process that has written its files
_pid = os.getpid()
_is_simulated = bool(os.environ.get("PLIMSOLL_CARD"))
_is_measured = bool(os.environ.get("PLIMSOLL_PROFILE"))
_is_live = bool(os.environ.get("PLIMSOLL_LIVE"))
_is_recorded = not _is_live  # PyTorch's memory history: a training that runs for days goes without


def _harmless(function):
    """A training must not end because of what watches it. A simulation shows what went wrong."""

    @functools.wraps(function)
    def harmless(*args):
        try:
            return function(*args)
        except Exception:
            pass

    return harmless if _is_live else function


def watch(torch):
    global _torch
    _torch = torch
    has_values = _is_simulated and os.environ.get("PLIMSOLL_VALUES") != "0" and plimsoll_values.install(torch)  # 0: off, to measure its cost
    if has_values:
        plimsoll_collectives.install(torch)
    if _is_measured:
        plimsoll_measured.install(torch)
        plimsoll_observed.listeners.append(plimsoll_measured.begin)
    if _is_live:
        plimsoll_live.install(torch)
        plimsoll_observed.listeners.append(plimsoll_live.begin)
        plimsoll_observed.batch_listeners.append(plimsoll_live.take_batch)
    if os.environ.get("PLIMSOLL_RESUME"):
        plimsoll_resume.install()
    if plimsoll_world.wanted():
        plimsoll_world.install(torch)
    _observed["values"] = has_values
    _observed["triton"] = importlib.util.find_spec("triton") is not None  # without it, libraries run different code
    for package in "liger_kernel", "bitsandbytes", "deepspeed":  # a plan uses only what is installed
        _observed[package] = importlib.util.find_spec(package) is not None
    plimsoll_history.install(torch, _is_recorded)
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(_before_step)
    register_optimizer_step_post_hook(_after_step)
    plimsoll_observed.install(torch)
    torch.autograd.backward = _before_backward(torch.autograd.backward)  # Tensor.backward calls it
    atexit.register(_write)
    os._exit = _before_exit(os._exit)  # forked processes end with it
    sys.excepthook = _without_our_frames(sys.excepthook)


_observed = {}


class _Compiled:
    """What torch.compile cannot do within a step that it compiles, and what is done after it instead."""

    step = None  # the optimizer that has made one


_compiled = _Compiled()


def _before_step(optimizer, args, kwargs):
    if not plimsoll_observed.is_compiling():
        plimsoll_observed.before_step(optimizer)


def _after_step(optimizer, args, kwargs):
    if plimsoll_observed.is_compiling():
        _compiled.step = optimizer  # compiled code does this whenever it runs
    else:
        _note_step(optimizer)


def _catch_up():
    if _compiled.step is not None:
        optimizer, _compiled.step = _compiled.step, None
        _note_step(optimizer)


@_harmless
def _note_step(optimizer):
    # DeepSpeed steps its optimizer once for each group of parameters: only the first counts.
    if not _steps.get(id(optimizer)) or plimsoll_observed.has_new_gradients():
        _steps[id(optimizer)] = _steps.get(id(optimizer), 0) + 1
    plimsoll_observed.after_step(_made())
    if _is_measured:
        plimsoll_measured.after_step(_made())
    if _is_live:
        plimsoll_live.after_step(_made())
    plimsoll_savers.after_step(_torch, _made())
    plimsoll_history.after_step()
    if _is_simulated:
        stats = _torch.cuda.memory_stats() if _torch.cuda.is_initialized() else {}
        sizes = [stats.get("allocated_bytes.all." + what, 0) for what in ("current", "allocated")]
        ctypes.CDLL(None).plimsoll_card_step(*map(ctypes.c_uint64, [_made(), *sizes]))


def _made():
    """Steps of the optimizer that made the most."""
    return max(_steps.values(), default=0)


def _before_backward(function):
    """Ends the program before the first backward pass after its last step, so that evaluation and saving in between still run."""

    @functools.wraps(function)
    def backward(*args, **kwargs):
        if plimsoll_observed.is_compiling():
            return function(*args, **kwargs)
        _catch_up()
        if _wanted and _made() >= _wanted:
            _end()
        plimsoll_observed.before_backward()
        if _is_simulated:
            ctypes.CDLL(None).plimsoll_card_backward()
        return function(*args, **kwargs)

    return backward


def _without_our_frames(function):
    """The traceback that Python prints is the program's own: frames of our modules that only call what they replace are left out."""

    @functools.wraps(function)
    def excepthook(kind, error, trace):
        known, at = set(), error
        while at is not None and id(at) not in known:
            known.add(id(at))
            at.__traceback__ = _thinned(at.__traceback__)
            at = at.__cause__ or at.__context__
        function(kind, error, error.__traceback__ or trace)

    return excepthook


def _thinned(trace):
    """The innermost frame stays, whosever it is: there the error was raised."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    kept = [f for f in frames[:-1] if os.path.dirname(f.tb_frame.f_code.co_filename) != os.path.dirname(__file__)] + frames[-1:]
    for outer, inner in zip(kept, kept[1:]):
        outer.tb_next = inner
    return kept[0] if kept else None


def _before_exit(function):
    def _exit(status):
        try:
            _write()
        finally:
            function(status)

    return _exit


def _end():
    _observed["was_ended"] = True
    if _is_measured:
        plimsoll_measured.finish()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@_harmless
def _write():
    global _has_written
    _catch_up()
    uses_card = _torch.cuda.is_initialized()
    is_idle = os.getpid() != _pid and not uses_card  # a forked worker that only loads data
    if _has_written == os.getpid() or not _folder or is_idle:
        return
    _has_written = os.getpid()
    if _is_live:
        plimsoll_live.finish()
    path = os.path.join(_folder, str(os.getpid()))
    devices = [_torch.cuda.memory_stats(i) for i in range(_torch.cuda.device_count())] if uses_card else []
    wanted = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_alloc_retries", "num_ooms")
    _observed.update(
        steps=_made(),
        **plimsoll_ranks.fields(),
        failure=_failure(),
        is_grouped=plimsoll_world.is_used,
        versions=_versions(),
        cuda=_torch.version.cuda,  # None: a build without CUDA
        observed=plimsoll_observed.observed,
        savers=plimsoll_savers.report(),
        phases=plimsoll_observed.phases,
        host_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        devices=[{name: stats.get(name, 0) for name in wanted} for stats in devices],
        measured=_measured(len(devices)) if _is_measured and uses_card else None,
        looked_at=[
            {"file": file, "line": line, "times": times, "type": kind, "told": told}
            for (file, line), (times, kind, told) in plimsoll_values.looked_at.items()
        ],
        routed=[
            {"file": file, "line": line, "times": times, "choices": choices, "chosen": chosen}
            for (file, line), (times, choices, chosen) in plimsoll_values.routed.items()
        ],
    )
    if plimsoll_observed.config:
        with open(path + ".config.json", "w") as f:
            f.write(plimsoll_observed.config)
    plimsoll_history.finish_first()
    if uses_card and _is_recorded:
        _dump(path + ".pickle")
    with open(path + ".part", "w") as f:
        json.dump(_observed, f, default=str)
    os.replace(path + ".part", path + ".json")  # a process that is killed before leaves no half of it


def _measured(devices):
    return {"step_seconds": plimsoll_measured.step_seconds(), "devices": [plimsoll_measured.device(i) for i in range(devices)]}


_kept = []


def _dump(path):
    """Does what torch.cuda.memory._dump_snapshot does, but faster. A snapshot has millions of objects, so the garbage collector is
    turned off, and they are not released, which would take longer than writing them: the process ends anyway."""
    gc.disable()
    _kept.append(_torch.cuda.memory._snapshot())
    with open(path, "wb") as f:
        _kept.append(pickle.Pickler(f))
        _kept[-1].dump(_kept[0])


def _failure():
    """The exception that ended the program, which Python keeps for debuggers, and the line of the program's own files that raised
    it. The exit status is not enough, because a shell script may lose it, as in `python train.py | tee log`."""
    exception = getattr(sys, "last_value", None)
    if exception is None:
        return None
    frames = traceback.extract_tb(exception.__traceback__)
    own = [f for f in frames if _is_own(f.filename)] or frames
    text = traceback.format_exception_only(type(exception), exception)[-1].strip().split("\n")[0]
    place = {"file": own[-1].filename, "line": own[-1].lineno} if own else {}
    return dict(place, text=text, time_us=time.time_ns() // 1000)


def _is_own(path):
    """Whether a file is the program's: not installed, and not one of these modules, through which operators pass."""
    return "-packages" + os.sep not in path and "<" not in path and os.path.dirname(path) != os.path.dirname(__file__)


def _versions():
    names = "torch transformers peft accelerate trl deepspeed bitsandbytes lightning".split()
    modules = {name: sys.modules.get(name) for name in names}
    versions = {name: str(getattr(m, "__version__", "?")) for name, m in modules.items() if m}
    versions["python"] = sys.version.split()[0]
    return versions
