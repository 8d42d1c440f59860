"""Which rank of a training this process is, and how many there are: what torch.distributed says, or the launcher's variables
before the program has made its process group. Programs that start their ranks themselves (torch.multiprocessing.spawn,
Lightning) do not set RANK."""
import os
import sys

_known = None  # (rank, world) of the process group; it stays when the group is destroyed
_pid = 0


def number(variable, otherwise):
    """A number of the environment; some launchers leave such variables empty."""
    text = os.environ.get(variable, "").strip()
    return int(text) if text.isdigit() else otherwise


def place():
    """Rank and world."""
    global _known, _pid
    if _pid != os.getpid():  # a forked process may become another rank
        _known, _pid = None, os.getpid()
    group = sys.modules.get("torch.distributed")
    try:
        if group and group.is_available() and group.is_initialized():
            _known = group.get_rank(), group.get_world_size()
    except Exception:  # a group that is being made or destroyed
        pass
    return _known or (number("RANK", 0), number("WORLD_SIZE", 1))


def is_first():
    """Whether this process speaks for all ranks of this node."""
    return place()[0] == 0 and number("LOCAL_RANK", 0) == 0


def fields():
    """For a process's JSON. Of a training on several nodes, local_world are the ranks of this one; None: not known. DeepSpeed's launcher calls
    it LOCAL_SIZE."""
    rank, world = place()
    return {"rank": rank, "world": world, "local_rank": number("LOCAL_RANK", 0), "local_world": number("LOCAL_WORLD_SIZE", number("LOCAL_SIZE", None))}
