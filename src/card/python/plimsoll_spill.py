"""For a program that may spill memory to the host (`run --spill`): lets the optimizer's state go there first, which is used
once a step, rather than activations and weights, which are used all the time.

An optimizer makes its state in its first step, when a forward and a backward pass have already taken what they need. The state
gets a memory pool of its own, so that it does not take their memory, and the hook library serves from the host at once what
does not fit beside it. It would otherwise first refuse: PyTorch would release the memory of the passes, and the next forward
pass would have to go to the host."""
import ctypes
import os

_OTHER, _COLD = 0, 1  # hook_phase in hook_record.h


def wanted():
    return bool(os.environ.get("PLIMSOLL_HOOK") and os.environ.get("PLIMSOLL_HOOK_SPILL")) and os.environ.get("PLIMSOLL_HOOK_COLD") != "0"


def install(torch):
    say = getattr(ctypes.CDLL(None), "plimsoll_hook_phase", None)
    if say is None or not hasattr(torch.cuda, "use_mem_pool"):  # the library is not loaded; PyTorch before 2.5
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    state = _State(torch, say)
    register_optimizer_step_pre_hook(state.begin)
    register_optimizer_step_post_hook(state.end)


class _State:
    def __init__(self, torch, say):
        self.torch, self.say, self.open = torch, say, None

    def begin(self, optimizer, args, kwargs):
        self.end()  # of a step that failed
        if optimizer.state or not self.torch.cuda.is_initialized():
            return
        pool = self.torch.cuda.MemPool()
        context = self.torch.cuda.use_mem_pool(pool)
        context.__enter__()
        self.open = pool, context
        self.say(_COLD)

    def end(self, *_):
        """The pool goes, and with it what the step needed beside the state; the state keeps its memory."""
        if self.open is None:
            return
        self.say(_OTHER)
        self.open[1].__exit__(None, None, None)
        self.open = None
