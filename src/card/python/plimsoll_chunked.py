"""The cross entropy of transformers' language models in chunks of tokens, for `--chunked-loss`.

A model that is given labels calls its output head and gets a _Logits: a tensor with a shape and no data, which knows the
hidden states and the head. What models do with logits (a scale, a cap, a bias, .float(), a shift, .view(-1, vocabulary)) is
noted and not computed. When torch.nn.functional.cross_entropy gets it, it computes the logits of PLIMSOLL_CHUNKED_LOSS tokens
at a time, and in the backward pass once more. So there are never full logits, in any precision.

Everything else that is done with it works too: PyTorch then computes the full logits, and `looked_at` has the line. The
gradients are right in either case, because a _Logits has its own node in autograd's graph.

The head is called as a module, so that adapters, casts and moves between cards happen as they do without this. Where a head
cannot be called in pieces, the model runs as ever, and `reasons` says why."""
import contextlib
import functools
import inspect
import os
import sys
import weakref

import torch
from torch.nn import functional
from torch.utils._pytree import tree_map

import plimsoll_observed

TOKENS = int(os.environ.get("PLIMSOLL_CHUNKED_LOSS") or 0)
losses = 0  # that were computed in chunks
most_tokens = 0  # of one loss
most_bytes = 0  # that the largest float32 logits would have taken
looked_at = {}  # (file, line) -> times that it made full logits necessary
reasons = {}  # why a model's own loss was left as it is -> how often
_libraries = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (__file__, torch.__file__))
_without_labels = 0
_places = weakref.WeakKeyDictionary()  # model -> where it has its head, as weak references


def report():
    """For the process's JSON."""
    return {
        "tokens": TOKENS,
        "losses": losses,
        "most_tokens": most_tokens,
        "float32_logits_bytes": most_bytes,
        "looked_at": [{"file": file, "line": line, "times": times} for (file, line), times in looked_at.items()],
        "off": None if losses else _why_off(),
    }


def _why_off():
    if reasons:
        return max(reasons, key=reasons.get)
    if _without_labels:
        return "the model is given no labels, because the program or its trainer computes the loss (label smoothing, a loss function)"
    if "transformers" not in sys.modules:
        return "the program does not use transformers"
    return "no language model of transformers was called with labels"


def _leave(reason):
    reasons[reason] = reasons.get(reason, 0) + 1


# ---- logits that are not computed ---------------------------------------------------------------------------


class _Product:
    """The head, and what the model does with its result: called with rows of hidden states, gives rows of logits."""

    def __init__(self, head, dims, device_type):
        self.head, self.dims, self.device_type = head, dims, device_type
        self.chain = ()
        self.parameters = [p for p in head.parameters() if p.requires_grad]
        self.inputs = self.parameters  # and tensors of the chain that need gradients
        self.autocast = _autocast_state(device_type)
        self.source = self  # that of the head's own result
        self.is_changed = False  # of the source: somebody wrote into logits
        self.sample = None  # logits of no rows: width, dtype and device

    def then(self, step, tensors=()):
        other = _Product.__new__(_Product)
        other.__dict__.update(self.__dict__)
        other.chain = self.chain + (step,)
        other.inputs = self.inputs + [t for t in tensors if t.requires_grad]
        with torch.no_grad():
            other.sample = step(self.sample)
        return other

    def without_gradients(self):
        other = _Product.__new__(_Product)
        other.__dict__.update(self.__dict__)
        other.inputs = []
        return other

    def __call__(self, rows):
        with _autocast(self.device_type, self.autocast), plimsoll_observed.unseen():
            logits = self.head(rows.unsqueeze(0)).squeeze(0) if self.dims == 3 else self.head(rows)
            for step in self.chain:
                logits = step(logits)
        return logits

    def check_parameters(self):
        """In the backward pass: a gradient for a tensor that the head has no longer would be lost."""
        now = {id(p) for p in self.head.parameters()}
        if any(id(p) not in now for p in self.parameters):
            raise RuntimeError(
                "the weight of the output head was replaced between the forward and the backward pass, which --chunked-loss "
                "cannot follow; run the program without --chunked-loss"
            )

    def check(self):
        if self.source.is_changed:
            raise RuntimeError(
                "the program changes logits in place after it took a part of them, which --chunked-loss cannot follow; "
                "run it without --chunked-loss"
            )


def _autocast_state(device_type):
    try:
        return torch.is_autocast_enabled(device_type), torch.get_autocast_dtype(device_type)
    except TypeError:  # before torch 2.4
        if device_type == "cpu":
            return torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()
        return torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()


def _autocast(device_type, state):
    """Without its cache: a weight that is cast here, without a gradient, must not be taken for another use of it."""
    return torch.autocast(device_type, dtype=state[1], enabled=state[0], cache_enabled=False)


class _Defer(torch.autograd.Function):
    """A _Logits as autograd sees it: a function of the hidden states and of the head's parameters."""

    @staticmethod
    def forward(ctx, product, hidden, *inputs):
        ctx.product = product
        ctx.save_for_backward(hidden, *inputs)
        return _Logits.make(product, hidden.shape[:-1])

    @staticmethod
    def backward(ctx, gradient):
        hidden, *inputs = ctx.saved_tensors
        gradient = gradient.reshape(-1, gradient.shape[-1])
        return (None, *_backward(ctx.product, hidden, inputs, lambda rows, at: (ctx.product(rows), gradient[at]), ctx.needs_input_grad[1]))


def _defer(product, hidden):
    logits = _Defer.apply(product, hidden, *product.inputs)
    logits.product, logits.hidden = product, hidden
    return logits


class _Logits(torch.Tensor):
    @staticmethod
    def make(product, lead):
        sample = product.sample
        self = torch.Tensor._make_wrapper_subclass(_Logits, (*lead, sample.shape[-1]), dtype=sample.dtype, device=sample.device)
        self.product, self.hidden, self.computed = product, None, None
        return self

    def values(self):
        """The logits themselves, without their graph: this tensor has its own."""
        if self.computed is None:
            self.product.check()
            rows = self.hidden.reshape(-1, self.hidden.shape[-1])
            if rows.shape[0] > TOKENS:
                _note_look()
            with torch.no_grad():
                self.computed = self.product(rows).reshape(self.shape)
        return self.computed

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        lazy = _lazy.get(function)
        if lazy is not None and args and isinstance(args[0], _Logits) and args[0].computed is None:
            try:
                result = lazy(function, *args, **kwargs)
            except TypeError:  # arguments that it does not know, such as axis=
                result = NotImplemented
            if result is not NotImplemented:
                return result
        if function in _ELEMENTWISE:
            result = _apply_later(function, args, kwargs)
            if result is not NotImplemented:
                return result
        if function in _MEMORY:
            return function(*map(_values_of, args), **kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        result = function(*tree_map(_values_of, args), **tree_map(_values_of, kwargs or {}))
        if function._schema.is_mutable and args and isinstance(args[0], _Logits) and result is args[0].computed:
            args[0].product.source.is_changed = True
            return args[0]
        return result

    def __reduce_ex__(self, protocol):
        return self.values().__reduce_ex__(protocol)


def _values_of(x):
    return x.values() if isinstance(x, _Logits) else x


def _note_look():
    frame = sys._getframe(2)
    while frame and frame.f_code.co_filename.startswith(_libraries):
        frame = frame.f_back
    place = (frame.f_code.co_filename, frame.f_lineno) if frame else ("?", 0)
    looked_at[place] = looked_at.get(place, 0) + 1


# ---- what is noted and not computed -------------------------------------------------------------------------

_Tensor = torch.Tensor
_ELEMENTWISE = {
    *(_Tensor.float, _Tensor.half, _Tensor.bfloat16, _Tensor.double, _Tensor.to, _Tensor.tanh, torch.tanh, _Tensor.clamp, torch.clamp),
    *(_Tensor.mul, _Tensor.__mul__, _Tensor.__rmul__, torch.mul, _Tensor.div, _Tensor.__truediv__, torch.div, torch.true_divide),
    *(_Tensor.add, _Tensor.__add__, _Tensor.__radd__, torch.add, _Tensor.sub, _Tensor.__sub__, torch.sub, _Tensor.neg, _Tensor.__neg__),
}
# They look at the memory of a tensor, which these have not; none of them is differentiable.
_MEMORY = {
    *(_Tensor.numpy, _Tensor.__array__, _Tensor.tolist, _Tensor.data_ptr, _Tensor.untyped_storage, _Tensor.data.__get__),
    _Tensor.__deepcopy__,
}


def _apply_later(function, args, kwargs):
    """One operation on every logit alone: with numbers, or with a tensor that is the same for all tokens."""
    logits = [x for x in args if isinstance(x, _Logits)]
    if len(logits) != 1 or logits[0].computed is not None or any(isinstance(x, torch.Tensor) for x in kwargs.values()):
        return NotImplemented
    (self,) = logits
    others = [x for x in args if isinstance(x, torch.Tensor) and x is not self]
    is_dtype_of_other = function is _Tensor.to and others
    if is_dtype_of_other or kwargs.get("out") is not None or not all(_is_same_for_all_tokens(x, self) for x in others):
        return NotImplemented

    at = next(i for i, x in enumerate(args) if x is self)
    before, after = args[:at], args[at + 1 :]  # without the logits: the loss keeps this, and would keep them

    def step(rows):
        return function(*map(_per_logit, before), rows, *map(_per_logit, after), **kwargs)

    return _defer(self.product.then(step, others), self.hidden)


def _is_same_for_all_tokens(x, logits):
    if type(x) not in (torch.Tensor, torch.nn.Parameter) or x.dim() > logits.dim():
        return False
    return x.numel() == 1 or (x.shape[-1] == logits.shape[-1] and x.numel() == x.shape[-1])


def _per_logit(x):
    return x.reshape(-1) if isinstance(x, torch.Tensor) and x.dim() > 1 else x


def _same(function, self, *args, **kwargs):
    return self if not args and not kwargs else NotImplemented


def _detached(function, self):
    return _defer(self.product.without_gradients(), self.hidden.detach())


def _cloned(function, self, **kwargs):
    return NotImplemented if kwargs else _defer(self.product, self.hidden)


def _reshaped(function, self, *shape, **kwargs):
    shape = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape)
    if kwargs or not shape or not all(isinstance(n, int) for n in shape):
        return NotImplemented
    width, lead = self.shape[-1], shape[:-1]
    count = functools.reduce(lambda a, b: a * b, lead, 1)
    is_rest = shape[-1] == -1 and -1 not in lead and count * width == self.numel()
    if not lead or not (shape[-1] == width or is_rest):
        return NotImplemented
    return _defer(self.product, self.hidden.reshape(*lead, self.hidden.shape[-1]))


def _flattened(function, self, start_dim=0, end_dim=-1):
    if end_dim % self.dim() == self.dim() - 1 or not (isinstance(start_dim, int) and isinstance(end_dim, int)):
        return NotImplemented
    return _defer(self.product, self.hidden.flatten(start_dim, end_dim % self.dim()))


def _split(function, self, size, dim=0):
    if dim % self.dim() == self.dim() - 1:
        return NotImplemented
    return tuple(_defer(self.product, part) for part in self.hidden.split(size, dim))


def _indexed(function, self, index):
    """Rows, or a slice of the vocabulary."""
    index = index if isinstance(index, tuple) else (index,)
    index = tuple(torch.as_tensor(i) if isinstance(i, list) else i for i in index)
    if not all(i is None or i is Ellipsis or isinstance(i, (int, slice, torch.Tensor)) and not isinstance(i, bool) for i in index):
        return NotImplemented
    dims = sum(_dims_of_index(i) for i in index)
    if Ellipsis in [i for i in index if not isinstance(i, torch.Tensor)]:
        at = next(n for n, i in enumerate(index) if i is Ellipsis)
        index = index[:at] + (slice(None),) * (self.dim() - dims) + index[at + 1 :]
        dims = self.dim()
    product = self.product
    if dims == self.dim():
        last = index[-1]
        if not isinstance(last, slice):
            return NotImplemented
        index = index[:-1]
        if last != slice(None):
            product = product.then(lambda rows: rows[:, last])
    if dims > self.dim():
        return NotImplemented
    return _defer(product, self.hidden[index] if index else self.hidden)


def _dims_of_index(i):
    if i is None or i is Ellipsis:
        return 0
    return i.dim() if isinstance(i, torch.Tensor) and i.dtype == torch.bool else 1


def _argmax(function, self, dim=None, keepdim=False):
    if dim is None or dim % self.dim() != self.dim() - 1:
        return NotImplemented
    self.product.check()
    rows = self.hidden.reshape(-1, self.hidden.shape[-1])
    with torch.no_grad():
        found = torch.cat([self.product(part).argmax(-1) for part in rows.split(TOKENS)])
    return found.reshape(self.shape[:-1] + (1,) * bool(keepdim))


# ---- the loss -----------------------------------------------------------------------------------------------


class _TokenLosses(torch.autograd.Function):
    """The cross entropy of each token."""

    @staticmethod
    def forward(ctx, product, loss_of, hidden, target, *inputs):
        ctx.product, ctx.loss_of = product, loss_of
        ctx.save_for_backward(hidden, target, *inputs)
        return torch.cat([loss_of(product(rows), wanted) for rows, wanted in zip(hidden.split(TOKENS), target.split(TOKENS))])

    @staticmethod
    def backward(ctx, gradient):
        hidden, target, *inputs = ctx.saved_tensors
        found = _backward(
            ctx.product, hidden, inputs, lambda rows, at: (ctx.loss_of(ctx.product(rows), target[at]), gradient[at]), ctx.needs_input_grad[2]
        )
        return (None, None, found[0], None, *found[1:])


def _cross_entropy(
    function, self, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    is_usual = size_average is None and reduce is None and reduction in ("none", "sum", "mean")
    has_classes = type(target) is torch.Tensor and target.dim() == 1 and not target.dtype.is_floating_point
    if not is_usual or not has_classes or self.dim() != 2 or target.shape[0] != self.shape[0] or not self.shape[0]:
        return NotImplemented
    if weight is not None and weight.requires_grad:
        return NotImplemented
    self.product.check()
    device_type = self.product.device_type
    autocast = _autocast_state(device_type)

    def loss_of(logits, wanted):
        with _autocast(device_type, autocast):
            return functional.cross_entropy(logits, wanted, weight, ignore_index=ignore_index, reduction="none", label_smoothing=label_smoothing)

    tokens = _TokenLosses.apply(self.product, loss_of, self.hidden, target, *self.product.inputs)
    _count_loss(self)
    if reduction == "none":
        return tokens
    total = tokens.sum(dtype=torch.float32)  # a sum of many float16 would overflow
    if reduction == "mean":
        is_counted = target != ignore_index
        total = total / (is_counted.sum() if weight is None else (weight[target.clamp(min=0)] * is_counted).sum())
    return total.to(tokens.dtype)


def _count_loss(logits):
    global losses, most_tokens, most_bytes
    losses += 1
    most_tokens = max(most_tokens, logits.shape[0])
    most_bytes = max(most_bytes, logits.numel() * 4)


_lazy = {
    _Tensor.contiguous: _same,
    _Tensor.detach: _detached,
    _Tensor.clone: _cloned,
    _Tensor.view: _reshaped,
    _Tensor.reshape: _reshaped,
    torch.reshape: _reshaped,
    _Tensor.flatten: _flattened,
    torch.flatten: _flattened,
    _Tensor.split: _split,
    torch.split: _split,
    _Tensor.__getitem__: _indexed,
    _Tensor.argmax: _argmax,
    torch.argmax: _argmax,
    functional.cross_entropy: _cross_entropy,
}


# ---- gradients ----------------------------------------------------------------------------------------------


def _backward(product, hidden, inputs, compute, needs_hidden):
    """Gradients of the hidden states and of the inputs. compute(rows, slice) gives a result and its gradient. The logits of
    one chunk exist at a time; gradients of weights are added in place."""
    product.check_parameters()
    rows = hidden.reshape(-1, hidden.shape[-1])
    if torch.is_grad_enabled():  # create_graph: gradients of these gradients are wanted, so all logits are needed
        _note_look()
        result, gradient = compute(rows, slice(None))
        found = list(torch.autograd.grad(result, [hidden] * needs_hidden + inputs, gradient, create_graph=True, allow_unused=True))
        return (found.pop(0) if needs_hidden else None, *found)
    if not rows.shape[0]:  # a sequence of one token has no next one
        return (torch.zeros_like(hidden) if needs_hidden else None, *map(torch.zeros_like, inputs))
    of_hidden = torch.empty_like(rows) if needs_hidden else None
    sums = _Sums(inputs)
    for start in range(0, rows.shape[0], TOKENS):
        at = slice(start, start + TOKENS)
        part = rows[at].detach().requires_grad_(needs_hidden)
        with torch.enable_grad(), sums:
            result, gradient = compute(part, at)
        wanted = [part] * needs_hidden + inputs
        found = list(torch.autograd.grad(result, wanted, gradient, allow_unused=True))
        del result
        if needs_hidden:
            of_hidden[at] = found.pop(0)
        sums.add(found)
        del found
    return (of_hidden.reshape(hidden.shape) if needs_hidden else None, *sums.found())


class _Sums(torch.overrides.TorchFunctionMode):
    """Gradients of the inputs. While it is active, linear layers add to the gradient of their weight in place, where autograd
    would allocate one more of that size for each chunk."""

    def __init__(self, inputs):
        super().__init__()
        self.inputs, self.sums = inputs, [None] * len(inputs)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is functional.linear and len(args) in (2, 3) and not kwargs:
            at = next((i for i, x in enumerate(self.inputs) if x is args[1]), None)
            if at is not None and type(args[1]) in (torch.Tensor, torch.nn.Parameter):
                return _LinearInto.apply(self, at, *args)
        return function(*args, **kwargs)

    def add_product(self, at, left, right):
        weight = self.inputs[at]
        if self.sums[at] is None:
            self.sums[at] = torch.mm(left, right).to(weight.dtype)
        elif self.sums[at].dtype == left.dtype:
            self.sums[at].addmm_(left, right)
        else:
            self.sums[at] += torch.mm(left, right)

    def add(self, found):
        for i, gradient in enumerate(found):
            if gradient is not None and self.sums[i] is not None:
                self.sums[i] += gradient
            elif gradient is not None:
                self.sums[i] = gradient

    def found(self):
        found, self.sums, self.inputs = self.sums, None, None
        return found


class _LinearInto(torch.autograd.Function):
    @staticmethod
    def forward(ctx, sums, at, x, weight, bias=None):
        ctx.sums, ctx.at, ctx.has_bias = sums, at, bias is not None
        ctx.save_for_backward(x, weight)
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        flat = gradient.reshape(-1, gradient.shape[-1])
        of_x = torch.matmul(gradient, weight.to(gradient.dtype)).to(x.dtype) if ctx.needs_input_grad[2] else None
        ctx.sums.add_product(ctx.at, flat.t(), x.reshape(-1, x.shape[-1]).to(gradient.dtype))
        return None, None, of_x, None, flat.sum(0) if ctx.has_bias else None


# ---- the head of a model ------------------------------------------------------------------------------------


class _StandIn:
    """Stands for the head while the model's forward runs; everything but the call is the head's own."""

    def __init__(self, head, model):
        self.__dict__["_head"], self.__dict__["_model"] = head, model

    @property
    def __class__(self):
        return type(self._head)

    def __getattr__(self, name):
        return getattr(self.__dict__["_head"], name)

    def __setattr__(self, name, value):
        setattr(self._head, name, value)

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs:
            logits = _deferred(self._head, self._model, args[0])
            if logits is not None:
                return logits
        return self._head(*args, **kwargs)


def _deferred(head, model, hidden):
    """None: the head is to be called as ever."""
    reason = _obstacle(head, hidden)
    if reason is None:
        product = _Product(head, hidden.dim(), hidden.device.type)
        try:
            with torch.no_grad():
                product.sample = product(hidden.reshape(-1, hidden.shape[-1])[:0])
        except Exception:
            reason = "the output head (%s) cannot be called with a part of the tokens" % type(head).__name__
        else:
            if type(product.sample) is not torch.Tensor or product.sample.dim() != 2:
                reason = "the output head (%s) does not give one tensor of logits" % type(head).__name__
    if reason is None:
        return _defer(product, hidden)
    _leave("%s: %s" % (type(model).__name__, reason))
    return None


def _obstacle(head, hidden):
    if type(hidden) is not torch.Tensor or hidden.dim() not in (2, 3) or not hidden.is_floating_point():
        return "the output head does not get a tensor of hidden states"
    parameters = list(head.parameters())
    if not parameters or any(hasattr(p, "ds_id") or type(p.data) is not torch.Tensor or p.is_meta for p in parameters):
        return "the weight of the output head is sharded or offloaded on its own (ZeRO-3, FSDP)"
    if any(p.numel() == 0 for p in parameters):
        return "the weight of the output head is sharded (FSDP)"
    if any(p._backward_hooks for p in parameters):
        return "the weight of the output head has a hook, which would get the gradient of each chunk"
    if head._forward_hooks or head._forward_pre_hooks:
        return "the output head has forward hooks"
    if any(isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.training and m.p > 0 for m in head.modules()):
        return "the output head has an adapter with dropout"
    return None


def _head_of(model):
    """The head and the modules that have it, as [(module, name)]; None if there is none."""
    try:
        head = model.get_output_embeddings()
    except Exception:  # a model of a kind of its own
        return None
    if type(head) is _StandIn or not isinstance(head, torch.nn.Module):
        return None
    places = [(place(), name) for place, name in _places.get(model, ())]
    if not places or any(module._modules.get(name) is not head for module, name in places):
        places = [(m, name) for m in model.modules() for name, child in m._modules.items() if child is head]
        _places[model] = [(weakref.ref(m), name) for m, name in places]  # they would keep the model
    return (head, places) if places else None


@contextlib.contextmanager
def _stand_in(model, head, places):
    stand_in = _StandIn(head, model)
    for module, name in places:
        module._modules[name] = stand_in
    try:
        yield
    finally:
        for module, name in places:
            module._modules[name] = head


def _around(function, position):
    """A model's forward. `position` is where its labels are among the arguments."""

    @functools.wraps(function)
    def forward(self, *args, **kwargs):
        if torch.compiler.is_compiling() or not TOKENS:
            return function(self, *args, **kwargs)
        labels = kwargs["labels"] if "labels" in kwargs else args[position] if len(args) > position else None
        found = _head_of(self) if labels is not None and _is_usual(self) else None
        if found is None:
            _note_without_labels(self, labels)
            return function(self, *args, **kwargs)
        with _stand_in(self, *found):
            return function(self, *args, **kwargs)

    return forward


def _is_usual(model):
    if getattr(model, "_is_replica", False):
        _leave("torch.nn.DataParallel copies the model")
        return False
    return True


def _watch_compile(base):
    """A model that is compiled as a whole computes its loss in what was compiled, where nothing can be noted."""

    def noting(function):
        @functools.wraps(function)
        def compile(model=None, *args, **kwargs):
            if isinstance(model, torch.nn.Module) and any(isinstance(m, base) and m.can_generate() for m in model.modules()):
                _leave("the model is compiled as a whole by torch.compile")
            return function(model, *args, **kwargs)

        return compile

    torch.compile = noting(torch.compile)
    torch.nn.Module.compile = noting(torch.nn.Module.compile)


def _note_without_labels(model, labels):
    global _without_labels
    if labels is None and model.training and torch.is_grad_enabled():
        _without_labels += 1


def wrap(modeling_utils):
    """Called when transformers.modeling_utils has been imported, before any model is defined."""
    base = modeling_utils.PreTrainedModel
    define = vars(base).get("__init_subclass__")  # since transformers 4.50

    def __init_subclass__(cls, **kwargs):
        if define is not None:
            define.__func__(cls, **kwargs)
        else:
            super(base, cls).__init_subclass__(**kwargs)
        function = cls.__dict__.get("forward")
        names = list(inspect.signature(function).parameters) if inspect.isfunction(function) else []
        if "labels" in names:
            cls.forward = _around(function, names.index("labels") - 1)

    base.__init_subclass__ = classmethod(__init_subclass__)
    _watch_compile(base)


def meet(model):
    """A model that the program calls: whether another library has replaced its forward by one with a loss of its own."""
    for module in model.modules():
        for function in vars(module).get("forward"), type(module).forward:
            file = getattr(getattr(inspect.unwrap(function, stop=_is_fused), "__code__", None), "co_filename", "") if function else ""
            library = _fused_library(file)
            if library:
                _leave("%s: %s already computes the loss without full logits" % (type(module).__name__, library))
                return


def _is_fused(function):
    return _fused_library(getattr(getattr(function, "__code__", None), "co_filename", "")) is not None


def _fused_library(file):
    for folder, name in ("liger_kernel", "Liger-Kernel"), ("trl", "TRL"), ("unsloth", "Unsloth"):
        if os.sep + folder + os.sep in file:
            return name
    return None


plimsoll_observed.visitors.append(meet)
