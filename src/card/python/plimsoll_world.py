"""`plimsoll simulate --world`: runs one rank of $PLIMSOLL_WORLD ranks without the others.

The program is told that it is rank 0 of that many (or the rank that its launcher gave it). The other ranks do not exist, so
nothing may wait for them: the rendezvous does not wait for them to join, barriers on the store return at once, and collectives
return this rank's own data in place of theirs (src/card/stand_ins/nccl_collectives.c for NCCL; for gloo, PyTorch's process group
"fake", which does not communicate)."""
import functools
import importlib
import os

is_used = False  # the program made a process group


def wanted():
    return int(os.environ.get("PLIMSOLL_WORLD") or "0")


def set_environment():
    """Sets what a launcher sets for its workers. The number of ranks replaces that of a launcher, which starts fewer."""
    for name, value in ("RANK", "0"), ("LOCAL_RANK", "0"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500"):
        os.environ.setdefault(name, value)
    os.environ.setdefault("LOCAL_WORLD_SIZE", os.environ.get("PLIMSOLL_GPUS", "1"))
    os.environ["WORLD_SIZE"] = str(wanted())


def install(torch):
    try:
        from torch.distributed import distributed_c10d

        rendezvous = importlib.import_module("torch.distributed.rendezvous")  # torch.distributed also has a function of that name
    except ImportError:  # a PyTorch without torch.distributed
        return
    rendezvous.TCPStore = _without_waiting(rendezvous.TCPStore)
    distributed_c10d._store_based_barrier = lambda *args, **kwargs: None
    distributed_c10d.BackendConfig = _without_gloo(distributed_c10d.BackendConfig)
    init = _without_device(distributed_c10d.init_process_group)
    distributed_c10d.init_process_group = torch.distributed.init_process_group = init


def _without_waiting(store):
    def make(*args, **kwargs):
        kwargs["wait_for_workers"] = False
        return store(*args, **kwargs)

    return make


def _without_gloo(config):
    """Replaces gloo, which connects every rank with every other one, by PyTorch's backend "fake", which returns a rank's own data."""
    import torch.testing._internal.distributed.fake_pg  # noqa: F401: registers the backend

    class Config(config):
        def __init__(self, backend):
            super().__init__(backend)
            for device, name in self.device_backend_map.items():
                if name == "gloo":
                    self.device_backend_map[device] = "fake"

    return Config


def _without_device(init):
    """Removes the argument device_id: with it, PyTorch splits the communicator for every group, which needs the other ranks."""

    @functools.wraps(init)
    def init_process_group(*args, **kwargs):
        global is_used
        is_used = True
        kwargs.pop("device_id", None)
        return init(*args, **kwargs)

    return init_process_group
