"""Which results of torch.distributed's collectives are known.

The ranks of a simulated run really exchange integers (src/card/stand_ins/nccl_collectives.c), but PyTorch moves them through
its own buffers, which plimsoll_values does not follow. So each operator of c10d is followed as a whole: the integers that a rank
receives are known if those that it sent were known. All ranks run the same program, so what the others sent was known, too.
Floats and large data are not exchanged; they are unknown afterwards.
"""
import plimsoll_values as values

EXCHANGED_BYTES = 1 << 20  # the most that a rank sends to another one, as in nccl_collectives.c
COPIED_BYTES = 256 << 10  # as in card_memory.c

# Which arguments of an operator are the tensors that it writes and those that it sends.
BOTH = "allreduce_ allreduce_coalesced_ reduce_"  # in the first argument
FIRST_AND_SECOND = """allgather_ _allgather_base_ allgather_coalesced_ allgather_into_tensor_coalesced_ gather_ reduce_scatter_
_reduce_scatter_base_ reduce_scatter_tensor_coalesced_ alltoall_ alltoall_base_"""
FROM_ROOT = {"broadcast_": 2, "scatter_": 3}  # the argument that is the root's rank
RECEIVING = "recv_ recv_any_source_"


def install(torch):
    """Registers the operators. A PyTorch without torch.distributed has none."""
    library = torch.library.Library("c10d", "IMPL", values.KEY)
    install.library = library  # registrations end with this object
    for name in " ".join([BOTH, FIRST_AND_SECOND, *FROM_ROOT, RECEIVING]).split():
        packet = getattr(torch.ops.c10d, name, None)
        for overload in packet.overloads() if packet is not None else ():
            values._register(library, getattr(packet, overload), _follow)


def _follow(overload, keyset, args, kwargs):
    name = overload._schema.name.split("::")[1]
    written, sent = list(_tensors(args[0])), list(_sent(name, args))
    are_known = _are_exchanged(name, written, sent) and all(values._is_known(t) for t in sent)
    result = values._call(overload, keyset, args, kwargs)
    for t in written:
        if are_known:
            values._mark(t, False)
        else:
            values._forget(t)
    return result


def _tensors(x):
    """The tensors on the card in an argument: a tensor, a list, or a list of lists."""
    if values._is_on_card(x):
        yield x
    elif isinstance(x, (list, tuple)):
        for y in x:
            yield from _tensors(y)


def _sent(name, args):
    if name in BOTH.split():
        return _tensors(args[0])
    if name in FIRST_AND_SECOND.split():
        return _tensors(args[1])
    if name in FROM_ROOT and _rank(args) == args[FROM_ROOT[name]]:
        return _tensors(args[0] if name == "broadcast_" else args[1])
    return ()


def _rank(args):
    from torch.distributed import ProcessGroup

    group = next(x for x in args if not isinstance(x, (list, tuple, int)) and not values._is_on_card(x))
    return (group if isinstance(group, ProcessGroup) else ProcessGroup.unbox(group)).rank()


def _are_exchanged(name, written, sent):
    if any(t.dtype.is_floating_point or t.dtype.is_complex for t in [*written, *sent]):
        return False
    largest = [max((t.numel() * t.element_size() for t in side), default=0) for side in (written, sent)]
    if name == "allgather_" and largest[0] > COPIED_BYTES:
        return False  # PyTorch gathers into one buffer and copies from there
    return (min(largest) if sent else largest[0]) <= EXCHANGED_BYTES
