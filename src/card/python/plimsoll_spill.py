"""For a program that may spill memory to the host (`run --spill`): lets the optimizer's state go there first, which is used
once a step, rather than activations and weights, which are used all the time.

An optimizer makes its state in its first step, when a forward and a backward pass have already taken what they need. The state
gets a memory pool of its own, so that it does not take their memory, and the hook library serves from the host at once what
does not fit beside it. It would otherwise first refuse: PyTorch would release the memory of the passes, and the next forward
pass would have to go to the host. Later steps need a little more than the first, so some memory is left free for them.

State that a program loads from a checkpoint before its first step stays in host memory until that step, and then gets its memory
in the same way. It would otherwise take the card's memory first and leave the host's to the passes."""
import ctypes
import functools
import os
import weakref

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
    optimizer = torch.optim.Optimizer
    if hasattr(optimizer, "_process_value_according_to_param_policy"):  # not before PyTorch 2.0
        optimizer.load_state_dict = state.around_loading(optimizer.load_state_dict)


class _State:
    def __init__(self, torch, say):
        self.torch, self.say, self.open = torch, say, None
        self.waiting = weakref.WeakSet()  # optimizers whose state was loaded, and may not be on the card yet

    def begin(self, optimizer, args, kwargs):
        """Before a step. Lightning gives it a function that makes the passes; the state comes after them."""
        self.end()  # of a step that failed
        if optimizer.state and optimizer not in self.waiting:
            return None
        if callable(kwargs.get("closure")):
            return args, dict(kwargs, closure=self.after_passes(optimizer, kwargs["closure"]))
        if len(args) > 1 and callable(args[1]):
            return (args[0], self.after_passes(optimizer, args[1]), *args[2:]), kwargs
        return self.enter(optimizer)

    def after_passes(self, optimizer, closure):
        @functools.wraps(closure)
        def passes(*args, **kwargs):
            self.end()  # a step may call it several times
            result = closure(*args, **kwargs)
            self.enter(optimizer)
            return result

        return passes

    def enter(self, optimizer):
        is_loaded = optimizer in self.waiting
        self.waiting.discard(optimizer)
        if (optimizer.state and not is_loaded) or not self.torch.cuda.is_initialized():
            return
        spare = self.spare(optimizer)
        pool = self.torch.cuda.MemPool()
        context = self.torch.cuda.use_mem_pool(pool)
        context.__enter__()
        self.open = pool, context
        self.say(_COLD, spare)
        for parameter, values in optimizer.state.items() if is_loaded else ():
            if self.torch.is_tensor(parameter) and parameter.is_cuda:
                values.update({name: self.moved(value, parameter.device) for name, value in values.items() if name != "step"})

    def moved(self, value, device):
        """Tensors of the host, also in dicts and lists, on the device."""
        if self.torch.is_tensor(value):
            return value if value.is_cuda else value.to(device)
        if isinstance(value, dict):
            return {name: self.moved(v, device) for name, v in value.items()}
        return type(value)(self.moved(v, device) for v in value) if type(value) in (list, tuple) else value

    def around_loading(self, load):
        """load_state_dict, with state left where the checkpoint has it. PyTorch asks one function where each value belongs."""
        owner, tensor = self.torch.optim.Optimizer, self.torch.Tensor
        place = owner._process_value_according_to_param_policy

        def leave(param, value, param_id, param_groups, key=None):
            stays = type(param) in (tensor, self.torch.nn.Parameter) and param.is_cuda and type(value) is tensor and not value.is_cuda
            if stays and key != "step":  # one number
                param = self.torch.empty(0, dtype=param.dtype)
            return place(param, value, param_id, param_groups, key)

        @functools.wraps(load)
        def loaded(optimizer, *args, **kwargs):
            owner._process_value_according_to_param_policy = staticmethod(leave)
            try:
                self.waiting.add(optimizer)
                return load(optimizer, *args, **kwargs)
            finally:
                owner._process_value_according_to_param_policy = staticmethod(place)

        return loaded

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
