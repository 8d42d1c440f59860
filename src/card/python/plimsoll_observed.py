"""Observes what a training program does while it runs: the model, what is trained, batches and their lengths, accumulation,
precision, checkpointing, attention, the optimizer, how the model is shared between cards, and the phases of the run.

Nothing here changes what the program computes. A program without transformers and peft is described by what PyTorch shows."""
import contextlib
import functools
import re
import threading
import time

observed = {}
config = None  # the largest model's own configuration, as JSON
phases = []  # [microseconds, name]: when each phase began; "training" is forward and backward
listeners = []  # called with the name of each phase when it begins
visitors = []  # called with each model that the program calls
batch_listeners = []  # called before each batch with the tokens of its samples; None: not known, or it is not of training
_torch = _compiler = None
_is_evaluating = False
_passes = 0  # backward passes since the last step
_lengths = {}  # (sequences, tokens) -> how often a batch had this shape
_has_trained = False  # the batches that were seen are of training
_main = None  # the model that is described; None: none yet
MOST_SHAPES = 512
_met = set()  # ids of the modules that the program calls directly
_classes = set()  # of these, whose __call__ is watched
_described = set()
_inside = threading.local()


def install(torch):
    global _torch, _call, _compiler
    _torch = torch
    _compiler = getattr(torch, "compiler", None)  # since torch 2.1
    begin("loading")
    _call = torch.nn.Module.__call__
    torch.nn.Module.__call__ = _until_first_step
    torch.nn.Module.train = _around_train(torch.nn.Module.train)
    torch.save = torch.serialization.save = _saving(torch.save)  # the second is where pickle looks for it
    _watch_checkpoints()
    _watch_clipping()
    _watch_scaling()


def begin(name):
    """Notes that a phase begins, unless it is the present one."""
    if not phases or phases[-1][1] != name:
        phases.append([int(time.time() * 1e6), name])
        for listener in listeners:
            listener(name)


def _around_train(function):
    """Wraps Module.train(mode). eval() calls it, too, and it calls itself for the modules below: only the outermost call counts."""
    depth = 0

    @functools.wraps(function)
    def train(self, mode=True):
        nonlocal depth
        global _is_evaluating
        depth += 1
        try:
            return function(self, mode)
        finally:
            depth -= 1
            if depth == 0:
                _is_evaluating = not mode
                if phases[-1][1] != "loading" and "steps" in observed:
                    begin("training" if mode else "evaluation")

    return train


def _saving(function):
    @functools.wraps(function)
    def save(*args, **kwargs):
        before = phases[-1][1]
        begin("saving")
        try:
            return function(*args, **kwargs)
        finally:
            begin(before)

    return save


def _noting(function, note):
    """The function, with note() called before each of its calls."""

    @functools.wraps(function)
    def noted(*args, **kwargs):
        note()
        return function(*args, **kwargs)

    return noted


def _watch_checkpoints():
    """Checkpointing is recognised by the functions that run, no matter who turned it on. torch.utils.checkpoint.checkpoint itself
    is not wrapped, because a program may have imported it by name and torch.compile recognises it; the functions that it calls are."""
    import torch.utils.checkpoint as module

    def note(kind):
        if not _is_evaluating:
            observed["checkpointing"] = True
            observed["reentrant"] = observed.get("reentrant", False) or kind == "reentrant"

    for name in "_checkpoint_without_reentrant_generator", "_checkpoint_without_reentrant":  # the second before torch 2.1
        if hasattr(module, name):
            setattr(module, name, _noting(getattr(module, name), lambda: note("saved")))
    forward = module.CheckpointFunction.forward
    module.CheckpointFunction.forward = staticmethod(_noting(forward, lambda: note("reentrant")))


def _watch_clipping():
    utils = _torch.nn.utils
    noted = _noting(utils.clip_grad_norm_, lambda: observed.update(clips=True))
    utils.clip_grad_norm_ = utils.clip_grad.clip_grad_norm_ = noted


def _watch_scaling():
    """A gradient scaler skips the steps in which gradients overflow, which nothing here computes."""
    kinds = getattr(_torch.amp, "GradScaler", None) or _torch.cuda.amp.GradScaler  # the second before torch 2.3
    step = kinds.step

    @functools.wraps(step)
    def noted(self, *args, **kwargs):
        if self.is_enabled():
            observed["scaler"] = True
        return step(self, *args, **kwargs)

    kinds.step = noted


# ---- moments that plimsoll_hook calls ----------------------------------------------------------------------


def before_backward():
    global _passes
    if _passes == 0:
        begin("training")
    _passes += 1


def before_step(optimizer):
    begin("optimizer")
    try:
        _look_at_optimizer(optimizer)
    except Exception:  # an unusual optimizer: it is not described
        pass


def has_new_gradients():
    """Whether a backward pass ran since the last step. True also if none was ever seen: the program may call autograd differently."""
    return _passes > 0 or "accumulation" not in observed


def after_step(steps):
    global _passes
    if _passes:
        observed["accumulation"] = max(observed.get("accumulation", 0), _passes)
    _passes = 0
    observed["steps"] = steps
    begin("training")
    _torch.nn.Module.__call__ = _call


# ---- models and batches ------------------------------------------------------------------------------------


def _until_first_step(self, *args, **kwargs):
    """Replaces Module.__call__ until the optimizer's first step, to find the modules that the program calls directly. After that
    step, the original __call__ is back."""
    if is_compiling():
        return _call(self, *args, **kwargs)
    is_inside = getattr(_inside, "depth", 0) or _torch._C._current_graph_task_id() != -1  # or in a backward pass
    if not is_inside:
        _meet(self, args, kwargs)
    elif observed.get("autocast", "none") == "none":
        observed["autocast"] = _autocast()  # Accelerate turns it on inside the outermost call
    _inside.depth = getattr(_inside, "depth", 0) + 1
    try:
        return _call(self, *args, **kwargs)
    finally:
        _inside.depth -= 1


@contextlib.contextmanager
def unseen():
    """For calls of modules that are not the program's own."""
    _inside.depth = getattr(_inside, "depth", 0) + 1
    try:
        yield
    finally:
        _inside.depth -= 1


def is_compiling():
    """Whether torch.compile is reading this code. It must find nothing here that it cannot compile."""
    return _compiler is not None and _compiler.is_compiling()


def _meet(model, args, kwargs):
    if id(model) in _met:
        return
    _met.add(id(model))
    _watch_class(type(model))
    _before_forward(model, args, kwargs)


def _watch_class(cls):
    """Looks at calls of the modules that the program calls directly. A hook would be a part of the module: pickled with it,
    and read by torch.jit.script."""
    if not _classes.isdisjoint(cls.__mro__) or issubclass(cls, _torch.jit.ScriptModule):
        return
    _classes.add(cls)
    own = vars(cls).get("__call__")

    @functools.wraps(cls.__call__)
    def __call__(self, *args, **kwargs):
        if not is_compiling() and id(self) in _met:
            _before_forward(self, args, kwargs)
        return own(self, *args, **kwargs) if own else super(cls, self).__call__(*args, **kwargs)

    cls.__call__ = __call__


def _before_forward(model, args, kwargs):
    if _torch.jit.is_tracing():
        return
    if phases[-1][1] == "loading":
        begin("training")
    try:
        _look_at_model(model)
        if _main in (None, id(model)):  # a loss is a module too, and its input is not the batch
            _look_at_batch(model, args, kwargs)
    except Exception:  # an unusual model: it is not described
        pass


def _look_at_model(model):
    """Of several models, the largest is described."""
    global _main
    if id(model) in _described:
        return
    _described.add(id(model))
    for visit in visitors:
        visit(model)
    parameters = list(model.parameters())
    is_largest = sum(map(_size, parameters)) > observed.get("model", {}).get("parameters", 0)
    if not is_largest or not any(p.device.type == "cuda" for p in parameters):
        return
    _main = id(model)
    _forget_batches()
    trained = [p for p in parameters if p.requires_grad]
    by_dtype = _by_dtype(parameters)
    observed["model"] = {
        "class": type(_inner(model)).__name__,
        "parameters": sum(by_dtype.values()),
        "trained": sum(map(_size, trained)),
        "dtypes": by_dtype,
        "frozen_dtype": _usual_dtype(p for p in parameters if not p.requires_grad),
        "trained_dtype": _usual_dtype(trained),
    }
    _look_at_config(model)
    observed["strategy"] = _strategy(model)


def _size(parameter):
    """Its elements on all ranks together: DeepSpeed's ZeRO 3 leaves empty tensors with the size beside them."""
    return getattr(parameter, "ds_numel", None) or parameter.numel()


def _by_dtype(parameters):
    counts = {}
    for p in parameters:
        name = str(p.dtype).replace("torch.", "")
        counts[name] = counts.get(name, 0) + _size(p)
    return counts


def _usual_dtype(parameters):
    """The dtype that most of them have; None if there are none."""
    counts = _by_dtype(parameters)
    return max(counts, key=counts.get) if counts else None


def _inner(model):
    """The user's model below wrappers such as DistributedDataParallel and torch.compile."""
    for name in "module", "_orig_mod", "_fsdp_wrapped_module":
        inner = getattr(model, name, None)
        if isinstance(inner, _torch.nn.Module):
            return _inner(inner)
    return model


def _look_at_config(model):
    inner = _inner(model)
    config = getattr(inner, "config", None)
    if config is None:
        return
    get = config.get if isinstance(config, dict) else functools.partial(getattr, config)
    found = {"model_type": get("model_type", None), "attention": get("_attn_implementation", None)}
    observed["model"].update({k: v for k, v in found.items() if isinstance(v, str)})
    observed["checkpointing"] = observed.get("checkpointing", False) or bool(getattr(inner, "is_gradient_checkpointing", False))
    adapters = getattr(inner, "peft_config", None)
    if adapters:
        adapter = next(iter(adapters.values()))
        observed["adapters"] = {
            "type": str(getattr(adapter, "peft_type", "?")).split(".")[-1],
            "rank": getattr(adapter, "r", None),
            "dropout": getattr(adapter, "lora_dropout", None),
            "targets": ",".join(sorted({name.split(".")[-1] for name, module in inner.named_modules() if hasattr(module, "lora_A")})),
        }
    base = inner.get_base_model() if adapters and hasattr(inner, "get_base_model") else inner
    if adapters:
        observed["model"]["class"] = type(base).__name__
    _keep_config(base)


def _keep_config(model):
    """transformers' configuration, with every key, as config.json would have it."""
    global config
    write = getattr(getattr(model, "config", None), "to_json_string", None)
    config = write(use_diff=False) if write else None


def _autocast():
    """The dtype of autocast in this call; "none" without autocast."""
    try:
        enabled = _torch.is_autocast_enabled("cuda")
        dtype = _torch.get_autocast_dtype("cuda")
    except TypeError:  # before torch 2.4
        enabled, dtype = _torch.is_autocast_enabled(), _torch.get_autocast_gpu_dtype()
    return str(dtype).replace("torch.", "") if enabled else "none"


def _strategy(model):
    kinds = {type(m).__name__ for m in model.modules()}
    if "DeepSpeedEngine" in kinds or type(model).__name__ == "DeepSpeedEngine":
        stage = getattr(model, "zero_optimization_stage", None)
        return "deepspeed zero%s" % stage() if callable(stage) else "deepspeed"
    if "FullyShardedDataParallel" in kinds:
        return "fsdp1"
    if any(k.startswith("FSDP") for k in kinds):
        return "fsdp2"
    if "DistributedDataParallel" in kinds:
        return "ddp"
    return "dp" if "DataParallel" in kinds else "none"


def _is_of_other_kind(model):
    """Whether this is a batch of evaluation in a program that trains: those can have another size. In a program that only
    evaluates they are what there is to see."""
    global _has_trained
    is_training = model.training and _torch.is_grad_enabled()
    if is_training and not _has_trained:
        _forget_batches()
        _has_trained = True
    return _has_trained and not is_training


def _forget_batches():
    global _has_trained
    _has_trained = False
    _lengths.clear()
    observed.pop("batch", None)


def _ids_of(args, kwargs):
    """The tensor that is the batch; None if there is none."""
    ids = kwargs.get("input_ids")
    if ids is None:
        ids = next((v for v in list(kwargs.values()) + list(args) if isinstance(v, _torch.Tensor) and v.dim() >= 1), None)
    if ids is None and args and isinstance(args[0], dict):
        ids = args[0].get("input_ids")
    return ids if isinstance(ids, _torch.Tensor) and ids.dim() >= 1 else None


def _tokens_of(ids):
    """The length of the batch's samples, padded; None if they are not sequences of tokens."""
    return ids.shape[1] if ids is not None and ids.dim() == 2 and not ids.dtype.is_floating_point else None


def _look_at_batch(model, args, kwargs):
    is_of_other_kind = _is_of_other_kind(model)
    ids = _ids_of(args, kwargs)
    for listener in batch_listeners:
        listener(None if is_of_other_kind else _tokens_of(ids))
    if is_of_other_kind or ids is None:
        return
    shape = tuple(ids.shape)
    if shape in _lengths or len(_lengths) < MOST_SHAPES:
        _lengths[shape] = _lengths.get(shape, 0) + 1
    largest = observed.get("batch")
    if largest is None or ids.numel() > _count(largest):
        observed["batch"] = list(shape)
        observed["has_tokens"] = not ids.dtype.is_floating_point
        observed["mask"] = kwargs.get("attention_mask") is not None
    observed["batches"] = len(_lengths)


def _count(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def _look_at_optimizer(optimizer):
    if "optimizer" in observed:
        return
    inner = optimizer
    while hasattr(inner, "optimizer") and inner.optimizer is not inner:
        inner = inner.optimizer
    observed["optimizer"] = {
        "class": type(inner).__name__,
        "module": type(inner).__module__.split(".")[0],
        "parameters": sum(p.numel() for g in inner.param_groups for p in g["params"]),
        "name": _name_of(inner),
    }


def _name_of(optimizer):
    """The optimizer's name in transformers' TrainingArguments; None if it has none, or has settings that change its memory."""
    kind, module = type(optimizer).__name__, type(optimizer).__module__.split(".")[0]
    defaults = optimizer.defaults
    if module == "torch" and kind == "AdamW" and not defaults.get("amsgrad"):
        if defaults.get("fused"):
            return "adamw_torch_fused"
        return "adamw-loop" if defaults.get("foreach") is False else "adamw_torch"
    if module == "torch" and kind == "SGD":
        return "sgd-momentum" if defaults.get("momentum") else "sgd"
    return _name_of_bitsandbytes(optimizer) if module == "bitsandbytes" else None


def _name_of_bitsandbytes(optimizer):
    """AdamW, AdamW8bit, PagedAdamW32bit, Lion, ...: the class tells the algorithm, the object its bits and where states are."""
    algorithm = re.fullmatch(r"(?:Paged)?(AdamW|Lion)(?:8bit|32bit)?", type(optimizer).__name__)
    if not algorithm or optimizer.args.min_8bit_size != 4096:  # below that many elements, states have 32 bits
        return None
    name = "%s%s_%dbit" % ("paged_" if optimizer.is_paged else "", algorithm[1].lower(), optimizer.args.optim_bits)
    return None if name == "adamw_32bit" else name
