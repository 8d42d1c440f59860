"""For a program that may spill memory to the host (`run --spill`): lets the optimizer's state go there first, which is used
once a step, rather than activations and weights, which are used all the time.

An optimizer makes its state in its first step, when a forward and a backward pass have already taken what they need. The state
gets a memory pool of its own, so that it does not take their memory, and the hook library serves from the host at once what
does not fit beside it. It would otherwise first refuse: PyTorch would release the memory of the passes, and the next forward
pass would have to go to the host. Later steps need a little more than the first, so some memory is left free for them."""
import ctypes
import os

_OTHER, _COLD = 0, 1  # hook_phase in hook_record.h


def wanted():
    return bool(os.environ.get("PLIMSOLL_HOOK") and os.environ.get("PLIMSOLL_HOOK_SPILL")) and os.environ.get("PLIMSOLL_HOOK_COLD") != "0"


def install(torch):
    function = getattr(ctypes.CDLL(None), "plimsoll_hook_phase", None)
    if function is None or not hasattr(torch.cuda, "use_mem_pool"):  # the library is not loaded; PyTorch before 2.5
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    state = _State(torch, lambda phase, spare: function(phase, ctypes.c_uint64(spare)))
    register_optimizer_step_pre_hook(state.begin)
    register_optimizer_step_post_hook(state.end)


class _State:
    def __init__(self, torch, say):
        self.torch, self.say, self.open = torch, say, None

    def begin(self, optimizer, args, kwargs):
        self.end()  # of a step that failed
        if optimizer.state or not self.torch.cuda.is_initialized():
            return
        spare = self.spare(optimizer)
        pool = self.torch.cuda.MemPool()
        context = self.torch.cuda.use_mem_pool(pool)
        context.__enter__()
        self.open = pool, context
        self.say(_COLD, spare)

    def end(self, *_):
        """The pool goes, and with it what the step needed beside the state; the state keeps its memory."""
        if self.open is None:
            return
        self.say(_OTHER, 0)
        self.open[1].__exit__(None, None, None)
        self.open = None

    def spare(self, optimizer):
        """Bytes for what later steps need beside the state: their temporary tensors, if the memory that the passes have released
        by now is not plenty (twice as much, as its pieces have other sizes), and an eighth for fragmentation. In a small model
        whose passes need little, the steps after the first need a quarter more (bench/hook.py --quick)."""
        reserved = self.torch.cuda.memory_reserved()
        released = reserved - self.torch.cuda.memory_allocated()
        return max(0, 2 * sum(map(_temporary_bytes, optimizer.param_groups)) - released) + reserved // 8


def _temporary_bytes(group):
    """PyTorch's optimizers work on all tensors at once, unless told otherwise, and then need a copy of each."""
    sizes = [_local(p).numel() * p.element_size() for p in group["params"] if p.grad is not None]
    is_fused, is_for_all = group.get("fused"), "foreach" in group and group["foreach"] is not False
    return 0 if is_fused else sum(sizes) if is_for_all else max(sizes, default=0)


def _local(tensor):
    """Of a tensor that is shared between ranks, this rank's part."""
    return getattr(tensor, "_local_tensor", tensor)
