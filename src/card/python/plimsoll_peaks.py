"""The peaks of GPU memory since the last line of plimsoll_live, so that steps can be compared.

PyTorch keeps one peak for each counter and GPU, and only a reset tells what came after. The program may read and reset the same
peaks, and must see what it would see without us: its reads get the peaks of before our last reset too, and our next line gets
those of before its last reset."""
import functools

_READERS = ("_cuda_memoryStats", "_accelerator_getDeviceStats")  # torch.cuda and, from torch 2.9 on, torch.accelerator
_RESETS = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")
_own = {}  # name -> PyTorch's own function
_programs = {}  # (reader, device) -> counters with the peaks since the program's last reset, until our last one
_ours = {}  # device -> counters with the peaks since our last reset, until the program's last one


def install(torch):
    for name in _READERS + _RESETS:
        function = getattr(torch._C, name, None)
        if function:
            _own[name] = function
            setattr(torch._C, name, _reading(name) if name in _READERS else _resetting(name))


def _raise(counters, others):
    """Raises each peak to the other one of the same place."""
    for key, value in counters.items():
        if isinstance(value, dict):
            _raise(value, others.get(key, {}))
        elif key == "peak":
            counters[key] = max(value, others.get(key, 0))
    return counters


def _reading(name):
    @functools.wraps(_own[name])
    def read(device):
        return _raise(_own[name](device), _programs.get((name, device), {}))

    return read


def _resetting(name):
    @functools.wraps(_own[name])
    def reset(device):
        try:
            _ours[device] = _raise(now(device), _ours.get(device, {}))
        except Exception:  # the reset below says why
            pass
        for reader in _READERS:
            _programs.pop((reader, device), None)
        return _own[name](device)

    return reset


def now(device):
    """PyTorch's counters of a GPU, as nested dicts."""
    return _own["_cuda_memoryStats"](device)


def since_last(device):
    """The counters, with the peaks since the last call."""
    counters = _raise(now(device), _ours.pop(device, {}))
    for name in _READERS:
        if name in _own:
            _programs[name, device] = _raise(_own[name](device), _programs.get((name, device), {}))
    _own["_cuda_resetPeakMemoryStats"](device)
    return counters
