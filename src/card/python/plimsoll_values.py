"""Computes integers and booleans for a simulated card, so that programs read their true values.

Kernels of a simulated card do nothing, but programs read some of what they would compute: masks, positions, lengths, counts,
routes. This module computes those on the CPU, in the card's own memory: a device address of the simulated card is also an
address of this process (src/card/stand_ins/card_memory.c).

It registers Python implementations of the operators below under a dispatch key that PyTorch does not use, between autograd
and the backends. Other operators fall through and cost nothing, and no dispatch mode is active, so PyTorch runs the same code
as without this module. torch.tensor() turns that key off while it copies its numbers to the card, so it is wrapped.

A tensor is known if everything it was computed from is known. Floats are known only if they are few and computed from known
values. If a program reads an unknown value, it gets one by a rule (_told), and the line that read it is noted. If a router
chooses among experts by unknown floats, some experts are chosen far more often than others, which is noted, too.
"""
import ctypes
import functools
import os
import sys
import threading

KEY = "Fake"  # PyTorch's FakeTensor uses another one
KEY_IN_BACKWARD = "BackendSelect"  # on in every thread; PyTorch uses it for functions that create tensors
MOST_ELEMENTS = 1 << 26  # of integers; computing more would take longer than the program itself
MOST_FLOATS = 4096

# Operators that return integers or booleans, or that copy, fill and combine small floats: all overloads of each.
ELEMENTWISE = """add sub rsub mul div floor_divide remainder fmod pow neg abs sign eq ne lt le gt ge where minimum maximum
clamp clamp_min clamp_max isin masked_fill bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift
bitwise_right_shift logical_and logical_or logical_xor logical_not ceil floor round trunc reciprocal
sqrt rsqrt exp log"""
REDUCTIONS = """sum prod any all max min amax amin aminmax argmax argmin mean cumsum cumprod cummax cummin count_nonzero bincount
histc equal var std linalg_vector_norm"""
SHAPES = """cat stack index index_put _index_put_impl index_select index_add index_fill gather scatter scatter_add
scatter_reduce take roll flip repeat_interleave sort argsort topk tril triu tril_indices triu_indices constant_pad_nd
searchsorted bucketize unique_dim unique_consecutive _unique _unique2 masked_select masked_scatter nonzero diagonal_copy
resize"""
CREATION = """arange full full_like zeros zeros_like ones ones_like eye linspace scalar_tensor fill zero new_full new_zeros
new_ones copy _to_copy clone"""
RANDOM = "randint randint_like randperm multinomial random bernoulli"
OPERATORS = " ".join([ELEMENTWISE, REDUCTIONS, SHAPES, CREATION, RANDOM]).split()
MOST_CHOICES = 1024  # more experts than any router has, fewer tokens than any vocabulary
MOST_CHOSEN = 32  # more experts than any router chooses for a token; sparse attention chooses hundreds of keys
FINITE = {"isfinite": True, "isnan": False, "isinf": False}  # the answers for floats that were not computed

looked_at = {}  # (file, line) -> [times, type, the value that it got]
routed = {}  # (file, line) -> [times, choices, how many of them are chosen]
_known = {}  # StorageImpl -> (weak reference, the versions of the tensor that are known)
_state = threading.local()
_here = os.path.dirname(__file__) + os.sep


def install(torch):
    """Registers the operators and turns the key on for every thread. Returns false if this version of PyTorch does not allow it."""
    global _torch, _key, _below, _below_in_backward, _excluded, _generator, _card
    _torch = torch
    _card = ctypes.CDLL(None)
    _generator = torch.Generator()
    _generator.manual_seed(0)
    try:
        _key = torch._C._dispatch_key_parse(KEY)
        _below = torch._C._dispatch_keyset_full_after(_key)
        _below_in_backward = torch._C._dispatch_keyset_full_after(torch._C._dispatch_key_parse(KEY_IN_BACKWARD))
        _excluded = torch._C.DispatchKeySet(_key)
        others = torch.library.Library("_", "IMPL", KEY)
        _fall_through(others.m)
        library = torch.library.Library("aten", "IMPL", KEY)
        in_backward = torch.library.Library("aten", "IMPL", KEY_IN_BACKWARD)
    except (AttributeError, RuntimeError, TypeError):
        return False
    install.libraries = others, library, in_backward  # registrations end with these objects
    for overload in _overloads(OPERATORS):
        _register(library, overload, _follow)
    for name, value in FINITE.items():
        for overload in _overloads([name]):
            _register(library, overload, _finite(value))
    for overload in _overloads(["_local_scalar_dense"]):
        _register(library, overload, _scalar)
    for overload in _overloads(name.partition("::")[2] for name in SIZED):
        _register(in_backward, overload, _follow_sized_in_backward)
    _turn_on()
    _leave_backward_alone(torch)
    run = threading.Thread.run

    def run_with_key(self):
        _turn_on()
        return run(self)

    threading.Thread.run = run_with_key
    from torch.utils._device import _device_constructors

    _device_constructors()  # caches the functions that `with torch.device(...)` changes, before they are wrapped
    for owner, name in (torch, "tensor"), (torch, "as_tensor"), (torch.Tensor, "new_tensor"):
        setattr(owner, name, _constructor(getattr(owner, name)))
    for name in "tensor", "as_tensor":  # TorchScript knows its built-in functions by their identity
        torch.jit._builtins._register_builtin(getattr(torch, name), "aten::" + name)
    return True


def _fall_through(registrations):
    """All other operators go on to the next key."""
    if hasattr(registrations, "fallback_fallthrough"):
        registrations.fallback_fallthrough(KEY)  # torch 2.4
    else:
        registrations.fallback(KEY, _torch.library.fallthrough_kernel, False)


def _constructor(function):
    """Wraps torch.tensor or a similar function: a tensor that it makes of numbers is known."""

    def construct(*args, **kwargs):
        t = function(*args, **kwargs)
        if _is_on_card(t) and not any(_is_on_card(x) for x in args[:1]) and _could_be_known(t):
            _mark(t, False)
        return t

    construct.__name__, construct.__doc__ = function.__name__, function.__doc__
    return construct


def _turn_on():
    _torch._C._dispatch_tls_set_dispatch_key_included(_key, True)


def _leave_backward_alone(torch):
    """Gradients are computed without the key. A tensor that Python has seen counts as used by Python, and PyTorch does not add to
    it in place: gradients would be added up in new memory. Python that runs in a backward pass, such as a layer that is
    computed again, has the key. Sizes that depend on values are true in C++, too (_follow_sized_in_backward)."""
    run = getattr(torch.autograd.graph, "_engine_run_backward", None)
    if run is None:
        return
    run = _with_key_excluded(run, True)
    torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = run
    function = torch.autograd.function.BackwardCFunction
    function.apply = _with_key_excluded(function.apply, False)
    hooks = torch.autograd.graph.saved_tensors_hooks
    begin = hooks.__init__

    def begin_with_key(self, pack_hook, unpack_hook):
        begin(self, pack_hook, _with_key_excluded(unpack_hook, False))

    hooks.__init__ = begin_with_key


def _with_key_excluded(function, is_excluded):
    """The function, which runs with the key excluded or not."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        was = _torch._C._dispatch_tls_is_dispatch_key_excluded(_key)
        _torch._C._dispatch_tls_set_dispatch_key_excluded(_key, is_excluded)
        try:
            return function(*args, **kwargs)
        finally:
            _torch._C._dispatch_tls_set_dispatch_key_excluded(_key, was)

    return call


def _overloads(names):
    for name in names:
        for form in (name, name + "_"):
            packet = getattr(_torch.ops.aten, form, None)
            for overload in packet.overloads() if packet is not None else ():
                yield getattr(packet, overload)


def _register(library, overload, handler):
    dispatch = _torch._C
    is_known = dispatch._dispatch_has_kernel(overload.name())  # TorchScript has operators that are not dispatched
    has_out = any(a.is_out for a in overload._schema.arguments)  # called by PyTorch's own kernels, hardly by programs
    if not is_known or has_out or dispatch._dispatch_has_kernel_for_dispatch_key(overload.name(), "CompositeImplicitAutograd"):
        return  # or made of other operators

    def call(keyset, *args, **kwargs):
        return handler(overload, keyset & _below, args, kwargs)

    library.impl(overload, call, with_keyset=True)


def _call(overload, keyset, args, kwargs):
    """The operator itself, on the card."""
    if _has_number_for_tensor(overload, args):
        with _torch._C._ExcludeDispatchKeyGuard(_excluded):
            return overload.overloadpacket(*args, **kwargs)
    return overload.redispatch(keyset, *args, **kwargs)


def _has_number_for_tensor(overload, args):
    """In x + 1, PyTorch converts the 1 to a tensor, and to a number again when it calls Python. The overload does not accept a
    number in the place of a tensor; the overload packet does."""
    tensors = _tensors_of(overload)
    return any(i in tensors and type(x) in (int, float, bool, complex) for i, x in enumerate(args))


@functools.lru_cache(None)
def _tensors_of(overload):
    return {i for i, a in enumerate(overload._schema.arguments) if str(a.type) == "Tensor"}


# ---- what is known ------------------------------------------------------------------------------------------


def _is_on_card(x):
    return isinstance(x, _torch.Tensor) and x.device.type == "cuda"


def _could_be_known(t):
    if type(t).__name__ == "FakeTensor":  # torch.compile traces with tensors that have no memory
        return False
    if t.dtype.is_floating_point or t.dtype.is_complex:
        return t.numel() <= MOST_FLOATS
    return t.numel() <= MOST_ELEMENTS


def _is_known(t):
    if t.numel() == 0:
        return True
    entry = _known.get(t.untyped_storage()._cdata)
    return entry is not None and _version(t) in entry[1] and not entry[0].expired()


def _version(t):
    """It rises with every change in place. Tensors of inference mode have none: a change by an operator that is not among those
    above is not noticed there."""
    return 0 if t.is_inference() else t._version


def _mark(t, is_changed):
    """Notes that the values are known. If the tensor is changed in place, its version is increased after the operator."""
    from torch.multiprocessing.reductions import StorageWeakRef

    if len(_known) > 1 << 14:
        for key in [k for k, entry in _known.items() if entry[0].expired()]:
            del _known[key]
    storage = t.untyped_storage()
    version = _version(t)
    versions = (version, version + 1) if is_changed else (version,)
    _known[storage._cdata] = StorageWeakRef(storage), versions


def _forget(t):
    _known.pop(t.untyped_storage()._cdata, None)


def _on_host(t):
    """A CPU tensor over the same memory and with the same shape."""
    if t.numel() == 0:
        return _torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
    size = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
    memory = (ctypes.c_char * (size * t.element_size())).from_address(t.data_ptr())
    return _torch.frombuffer(memory, dtype=t.dtype).as_strided(t.shape, t.stride())


# ---- computing ----------------------------------------------------------------------------------------------


class _Unknown(Exception):
    pass


def _host_argument(x):
    if isinstance(x, _torch.Tensor):
        if x.device.type != "cuda":
            return x
        if not _could_be_known(x) or not _is_known(x):
            raise _Unknown
        return _on_host(x)
    if isinstance(x, (list, tuple)):
        return type(x)(_host_argument(y) for y in x) if type(x) in (list, tuple) else x
    if isinstance(x, _torch.device):
        return _torch.device("cpu")
    if isinstance(x, _torch.Generator):
        return _generator
    return x


COMPARISONS = {"aten::" + name for name in "eq ne lt le gt ge".split()}


def _compared(x):
    """A single float that was not computed is compared by the value that the program gets when it reads it."""
    if _is_on_card(x) and x.numel() == 1 and x.dtype.is_floating_point and not _is_known(x):
        _note(x)
        return _torch.full(x.shape, _told(x.dtype), dtype=x.dtype)
    return _host_argument(x)


def _compute(overload, args, kwargs, changed):
    """Runs the operator on the CPU, in the card's memory. A tensor that it overwrites completely need not be known before."""
    name = overload._schema.name
    fills = changed is not None and name in ("aten::copy_", "aten::fill_", "aten::zero_", "aten::random_")
    to_host = _compared if changed is None and name in COMPARISONS else _host_argument
    host = [_on_host(x) if fills and x is changed else to_host(x) for x in args]
    named = {k: _host_argument(v) for k, v in kwargs.items() if k != "pin_memory"}
    if "generator" in named or any(a.name == "generator" for a in overload._schema.arguments):
        named["generator"] = _generator
    function = overload.overloadpacket if _has_number_for_tensor(overload, args) else overload
    with _torch._C._ExcludeDispatchKeyGuard(_excluded):
        try:
            return function(*host, **named)
        except RuntimeError as error:
            if changed is not None or "not implemented for" not in str(error):
                raise
            return function(*[_as_double(x) for x in host], **named)  # such as histc, which the card has for integers


def _as_double(x):
    return x.double() if isinstance(x, _torch.Tensor) else x


def _follow(overload, keyset, args, kwargs):
    changed = args[0] if overload._schema.is_mutable and args and _is_on_card(args[0]) else None
    copies_out = overload._schema.name == "aten::copy_" and not _is_on_card(args[0]) and _is_on_card(args[1])
    if copies_out:
        return _copy_out(overload, keyset, args, kwargs)
    if overload._schema.name in SIZED:
        return _follow_sized(overload, keyset, args, kwargs)
    wants = changed is not None and _could_be_known(changed)
    out = _call(overload, keyset, args, kwargs)
    outs = [o for o in (out if isinstance(out, (list, tuple)) else (out,)) if _is_on_card(o)]
    if not outs or not (wants or any(_could_be_known(o) for o in outs)):
        return out
    try:
        result = _compute(overload, args, kwargs, changed)
        if changed is not None:
            _mark(changed, True)
        else:
            _write(outs, result)
    except _Unknown:
        for o in outs:
            _forget(o)
        if overload._schema.name == "aten::topk":
            _choose(args[0], outs[1], args[2] if len(args) > 2 else -1)
    except FAILURES:
        for o in outs:
            _forget(o)
    return out


# The CPU has no such operator, or the program made a mistake that a card would not report.
FAILURES = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)


def _write(outs, result):
    """Copies the results of an operator into its outputs on the card, and marks these as known."""
    results = result if isinstance(result, (list, tuple)) else (result,)
    with _torch._C._ExcludeDispatchKeyGuard(_excluded):
        for o, r in zip(outs, results):
            if o.shape == r.shape:  # the card omits outputs that were not requested, such as counts
                _on_host(o).copy_(r)
                _mark(o, False)
            else:
                _forget(o)


def _choose(scores, indices, dim):
    """Chooses experts for a router whose scores were not computed, as an untrained router does: some experts far more often than
    others. The logarithms of the shares follow a normal distribution of width 1, which was estimated from one forward pass of
    a small Mixtral with random weights; trained routers are more even."""
    if not indices.numel() or scores.shape[dim] > MOST_CHOICES or indices.shape[dim] > MOST_CHOSEN:
        return
    choices, chosen = scores.shape[dim], indices.shape[dim]
    with _torch._C._ExcludeDispatchKeyGuard(_excluded):
        host = _on_host(indices).movedim(dim, -1)
        shares = _torch.special.ndtri((_torch.arange(choices) + 0.5) / choices)
        noise = _torch.rand(*host.shape[:-1], choices, generator=_generator).clamp_(1e-9, 1 - 1e-6)
        host.copy_((shares - (-noise.log()).log()).topk(chosen).indices)
    _mark(indices, False)
    entry = routed.setdefault(_place(), [0, choices, chosen])
    entry[0] += 1


def _finite(value):
    def handler(overload, keyset, args, kwargs):
        out = _call(overload, keyset, args, kwargs)
        if _is_on_card(out) and out.numel() <= MOST_ELEMENTS:
            with _torch._C._ExcludeDispatchKeyGuard(_excluded):
                _on_host(out).fill_(value)
            _mark(out, False)
        return out

    return handler


# Operators whose result has a size that depends on values, and the dimension that they work on (None: all elements).
SIZED = {
    "aten::nonzero": lambda args: None,
    "aten::_unique": lambda args: None,
    "aten::_unique2": lambda args: None,
    "aten::unique_consecutive": lambda args: args[3] if len(args) > 3 else None,
    "aten::unique_dim": lambda args: args[1],
}


def _follow_sized(overload, keyset, args, kwargs):
    """PyTorch copies the size of the result from the card, or reads it as a scalar; the card is told it beforehand. If the result
    is unknown, its size is the largest possible."""
    t = args[0]
    if not _is_on_card(t) or not t.numel():
        return _call(overload, keyset, args, kwargs)
    dim = SIZED[overload._schema.name](args)
    try:
        result = _compute(overload, args, kwargs, None)
        first = result if isinstance(result, _torch.Tensor) else result[0]
        count = first.shape[dim or 0]
    except (_Unknown, *FAILURES):
        result, count = None, t.numel() if dim is None else t.shape[dim]
        _note(t)
    _card.plimsoll_card_answer(ctypes.c_uint64(count))
    _state.is_counting = True
    try:
        out = _call(overload, keyset, args, kwargs)
    finally:
        _state.is_counting = False
        _card.plimsoll_card_forget_answer()
    outs = out if isinstance(out, (list, tuple)) else (out,)
    if result is not None:
        _write(outs, result)
    else:
        for o in outs:
            _forget(o)
    return out


def _follow_sized_in_backward(overload, keyset, args, kwargs):
    """The same where KEY is excluded. It sees masks and indices, but no gradients: masked_select and x[mask] call nonzero."""
    keyset = keyset & _below_in_backward
    if _torch._C._dispatch_tls_is_dispatch_key_excluded(_key):
        return _follow_sized(overload, keyset, args, kwargs)
    return _call(overload, keyset, args, kwargs)


# ---- reading ------------------------------------------------------------------------------------------------


def _told(dtype):
    """The value that a program gets if it reads one that was not computed."""
    return True if dtype == _torch.bool else 0


def _place():
    """The line of the program, or of a library other than PyTorch, that is being run."""
    frame = sys._getframe(2)
    while frame and ("/torch/" in frame.f_code.co_filename or frame.f_code.co_filename.startswith(_here)):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("?", 0)


def _note(t):
    entry = looked_at.setdefault(_place(), [0, str(t.dtype).replace("torch.", ""), _told(t.dtype)])
    entry[0] += 1


def _scalar(overload, keyset, args, kwargs):
    t = args[0]
    if not _is_on_card(t):
        return _call(overload, keyset, args, kwargs)
    answer = _call(overload, keyset, args, kwargs)
    if _is_known(t) or getattr(_state, "is_counting", False):
        return answer
    _note(t)
    return type(answer)(_told(t.dtype))


def _copy_out(overload, keyset, args, kwargs):
    to, t = args[0], args[1]
    out = _call(overload, keyset, args, kwargs)
    with _torch._C._ExcludeDispatchKeyGuard(_excluded):
        if _could_be_known(t) and _is_known(t):
            to.copy_(_on_host(t))
        elif t.numel() <= MOST_ELEMENTS and not t.dtype.is_floating_point or t.numel() <= MOST_FLOATS:
            _note(t)
            to.fill_(_told(t.dtype))
        else:
            _note(t)
    return out
