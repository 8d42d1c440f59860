"""Run by chunked.py under `plimsoll simulate --chunked-loss`, on the CPU, whose tensors compute truly: loss and gradients of
small models of many families with the chunked loss and without. Prints a line for each check."""
import copy
import gc
import inspect
import types
import weakref

import plimsoll_chunked as chunked
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

TOKENS = 7  # divides nothing here
VOCABULARY = 97
SMALL = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
IDS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
T5 = dict(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0, dropout_rate=0.0, pad_token_id=0)
BART = dict(
    vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, dropout=0.0, decoder_start_token_id=2, **IDS
)
FAMILIES = {
    "llama": SMALL,
    "qwen2": dict(SMALL, tie_word_embeddings=True),
    "mistral": SMALL,
    "gemma2": dict(SMALL, head_dim=8, final_logit_softcapping=3.0, query_pre_attn_scalar=8, sliding_window=16),
    "cohere": dict(SMALL, logit_scale=0.25, **IDS),
    "granite": dict(SMALL, logits_scaling=4.0),
    "phi3": dict(SMALL, **IDS),
    "olmo2": SMALL,
    "mixtral": dict(SMALL, num_local_experts=4, num_experts_per_tok=2, output_router_logits=True),
    "gpt2": dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **IDS),
    "gpt_neox": dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4),
    "opt": dict(
        vocab_size=VOCABULARY, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
        word_embed_proj_dim=32, dropout=0.0, **IDS
    ),
    "t5": T5,
    "mt5": dict(T5, tie_word_embeddings=False),
    "bart": BART,
    "pegasus": BART,
}
ENCODERS = "t5", "mt5", "bart", "pegasus"


def say(is_met, text):
    print("%s %s: %s" % ("ok" if is_met else "FAIL", transformers.__version__, text), flush=True)


def make(family, dtype, **options):
    torch.manual_seed(1)
    kind = AutoModelForSeq2SeqLM if family in ENCODERS else AutoModelForCausalLM
    config = AutoConfig.for_model(family, **FAMILIES[family])
    config.use_cache = False
    model = kind.from_config(config, **options).to(dtype)
    for name, buffer in model.named_buffers():
        if name == "final_logits_bias":
            buffer.normal_()
    return model.train()


def batch(n):
    torch.manual_seed(n)
    ids = torch.randint(3, VOCABULARY, (3, 13))
    labels = ids.clone()
    labels[0, 9:] = -100
    labels[2, :5] = -100
    return dict(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels)


def train(model, tokens, accumulation=2, **options):
    """Losses and gradients of a step."""
    chunked.TOKENS = tokens
    model.zero_grad()
    found = []
    for n in range(accumulation):
        loss = model(**batch(n), **options).loss
        (loss / accumulation).backward()
        found.append(loss.detach().float())
    return torch.stack(found), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def distance(plain, other):
    """Of gradients, relative to the largest number of each; some, such as those of key biases, are nothing but rounding."""
    if set(plain) != set(other):
        return float("inf")
    sizes = {k: float(g.float().abs().max()) for k, g in plain.items()}
    least = 1e-3 * max(sizes.values())
    return max(float((plain[k].float() - other[k].float()).abs().max()) / max(sizes[k], least) for k in plain)


def compare(text, model, most, **options):
    before = chunked.losses
    plain, gradients = train(model, 0, **options)
    losses, others = train(model, TOKENS, **options)
    of_loss = float((plain - losses).abs().max() / plain.abs().max())
    of_gradients = distance(gradients, others)
    is_used = chunked.losses > before
    say(is_used and of_loss <= most and of_gradients <= most, "%s: loss %.1e, gradients %.1e, most %.0e%s" % (text, of_loss, of_gradients, most, "" if is_used else " (not chunked: %s)" % chunked._why_off()))


def takes_items(family):
    """Whether the model scales its loss by num_items_in_batch."""
    model = make(family, torch.float32)
    kinds = [p.kind for p in inspect.signature(model.forward).parameters.values()]
    return family not in ENCODERS and inspect.Parameter.VAR_KEYWORD in kinds


def families():
    for family in FAMILIES:
        if family not in transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES:
            print("absent %s" % family)
            continue
        compare("%s float32" % family, make(family, torch.float32), 2e-5)
        # bfloat16 has 8 bits, and the weight's gradient is rounded once for each chunk
        compare("%s bfloat16" % family, make(family, torch.bfloat16), 3e-2)
        if takes_items(family):
            compare("%s num_items_in_batch" % family, make(family, torch.float32), 2e-5, num_items_in_batch=torch.tensor(57))


def in_precise_cases():
    model = make("llama", torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compare("autocast", model, 3e-2)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    compare("gradient checkpointing", model, 2e-5)
    compare("output_hidden_states", make("llama", torch.float32), 2e-5, output_hidden_states=True)
    model = make("llama", torch.float32)
    model.model.requires_grad_(False)
    compare("only the head is trained", model, 2e-5)
    model = make("llama", torch.float32)
    model.lm_head.requires_grad_(False)
    compare("the head is frozen", model, 2e-5)
    model = make("qwen2", torch.float32)
    model.resize_token_embeddings(104)
    compare("a padded vocabulary", model, 2e-5)


def adapters():
    import peft

    for text, options in {
        "LoRA": dict(target_modules=["q_proj", "v_proj"]),
        "LoRA on the head": dict(target_modules=["q_proj", "lm_head"]),
        "modules_to_save": dict(target_modules=["q_proj"], modules_to_save=["lm_head"]),
    }.items():
        model = peft.get_peft_model(make("llama", torch.float32), peft.LoraConfig(r=4, init_lora_weights=False, **options))
        compare(text, model.train(), 2e-5)
    model = peft.get_peft_model(make("llama", torch.float32), peft.LoraConfig(r=4, lora_dropout=0.1, target_modules=["lm_head"]))
    before = chunked.losses
    train(model.train(), TOKENS)
    say(chunked.losses == before and any("dropout" in r for r in chunked.reasons), "LoRA on the head with dropout is left as it is")


def shared():
    """One rank of each way to share a model between cards."""
    import tempfile

    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method="file://%s/store" % folder, rank=0, world_size=1)
        compare("DDP", DistributedDataParallel(make("qwen2", torch.float32)), 2e-5)
        compare("DDP that looks for unused parameters", DistributedDataParallel(make("llama", torch.float32), find_unused_parameters=True), 2e-5)
        for text, heads in ("FSDP2", False), ("FSDP2 with a head of its own", True):
            mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
            model = make("llama", torch.float32)
            for layer in [*model.model.layers] + [model.lm_head] * heads:
                fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
            if not heads:
                compare(text, model, 2e-5)
                continue
            before = chunked.losses
            train(model, TOKENS)
            say(chunked.losses == before and any("sharded" in r for r in chunked.reasons), text + " is left as it is")
        dist.destroy_process_group()


def at_the_edges():
    """Batches and passes of unusual kinds."""
    whole = batch(0)
    for text, inputs in {
        "one sequence": {k: v[:1] for k, v in whole.items()},
        "sequences of one token": {k: v[:, :1] for k, v in whole.items()},
        "no labels but ignored ones": dict(whole, labels=torch.full_like(whole["labels"], -100)),
    }.items():
        (plain, gradients), (loss, others) = [_edge(inputs, tokens) for tokens in (0, TOKENS)]
        is_same = all(torch.allclose(gradients[k], others[k], atol=1e-6, equal_nan=True) for k in gradients)
        say(torch.allclose(plain, loss, equal_nan=True) and is_same, "%s: loss %s, as without" % (text, float(loss)))
    for text, use in {"two backward passes": _twice, "a penalty on gradients": _penalty}.items():
        (plain, gradients), (loss, others) = [use(whole, tokens) for tokens in (0, TOKENS)]
        off = distance(gradients, others)
        say(torch.allclose(plain, loss, rtol=1e-4) and off < 1e-4, "%s: %.6f and %.6f, gradients %.1e" % (text, plain, loss, off))


def _edge(inputs, tokens, use=lambda model, loss: loss.backward()):
    chunked.TOKENS = tokens
    model = make("llama", torch.float32, attn_implementation="eager")  # can be differentiated twice
    loss = model(**inputs).loss
    use(model, loss)
    return loss.detach(), {k: p.grad for k, p in model.named_parameters()}


def _twice(inputs, tokens):
    return _edge(inputs, tokens, lambda model, loss: (loss.backward(retain_graph=True), loss.backward()))


def _penalty(inputs, tokens):
    def use(model, loss):
        gradients = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        (loss + sum(g.square().sum() for g in gradients)).backward()

    return _edge(inputs, tokens, use)


def kept():
    """A model that the program deletes is gone at once."""
    chunked.TOKENS = TOKENS
    model = make("llama", torch.float32)
    model(**batch(0)).loss.backward()
    gone = weakref.ref(model)
    gc.collect()
    gc.disable()
    del model
    say(gone() is None, "a model that is deleted is gone")
    gc.enable()


def left_alone():
    """Where the loss is as ever, the reason is known."""
    model, seen = make("llama", torch.float32), []
    model.lm_head.weight.register_hook(lambda gradient: seen.append(gradient.shape))
    train(model, TOKENS, accumulation=1)
    say(len(seen) == 1 and any("has a hook" in r for r in chunked.reasons), "a hook on the head's weight gets the whole gradient")
    model = make("llama", torch.float32)
    model.lm_head.weight.ds_id = 1
    before = chunked.losses
    train(model, TOKENS)
    say(chunked.losses == before and any("ZeRO-3" in r for r in chunked.reasons), "a head that ZeRO-3 shards")
    model, code = make("llama", torch.float32), {}
    exec(compile("def forward(self, **kwargs): pass", "/packages/liger_kernel/llama.py", "exec"), code)
    model.forward = types.MethodType(code["forward"], model)
    chunked.meet(model)
    say(any("Liger-Kernel already" in r for r in chunked.reasons), "a model whose loss is Liger's")
    model = make("llama", torch.float32)
    plain, gradients = train(model, 0)
    model.compile(backend="eager")
    losses, others = train(model, TOKENS)
    is_same = torch.allclose(plain, losses) and distance(gradients, others) < 1e-4
    say(is_same and chunked.losses == before and any("torch.compile" in r for r in chunked.reasons), "a compiled model")
    wrapped = torch.compile(make("llama", torch.float32), backend="eager")
    losses, others = train(wrapped, TOKENS)
    say(torch.allclose(plain, losses) and chunked.losses == before, "torch.compile around a model")


def uses_of_logits():
    """Whatever a program does with the logits, it gets what it would get without."""
    uses = {
        "log_softmax": lambda x, y: -torch.log_softmax(x, -1)[..., 3].mean(),
        "a temperature, and a distillation loss": lambda x, y: torch.nn.functional.kl_div((x / 2).log_softmax(-1), torch.full_like(x, 1 / VOCABULARY)),
        "labels smoothed": lambda x, y: torch.nn.functional.cross_entropy(x.view(-1, VOCABULARY), y.view(-1), label_smoothing=0.1),
        "weights": lambda x, y: torch.nn.functional.cross_entropy(x.flatten(0, 1), y.flatten(), torch.linspace(0.5, 1.5, VOCABULARY)),
        "a sum": lambda x, y: torch.nn.functional.cross_entropy(x.flatten(0, 1), y.flatten(), reduction="sum"),
        "none": lambda x, y: torch.nn.functional.cross_entropy(x.flatten(0, 1), y.flatten(), reduction="none").pow(2).mean(),
        "another layout": lambda x, y: torch.nn.functional.cross_entropy(x.transpose(1, 2), y),
        "a mask": lambda x, y: torch.nn.functional.cross_entropy(x[y != -100], y[y != -100]),
        "a slice of the vocabulary": lambda x, y: torch.nn.functional.cross_entropy(x[..., 3:50].reshape(-1, 47), y.flatten().clamp(0, 40)),
        "a write": lambda x, y: _written(x),
        "a function of autograd": lambda x, y: _Square.apply(x).mean(),
        "a tensor for each token": lambda x, y: (x * torch.arange(13.0).view(1, 13, 1)).square().mean(),
        "a part of a list": lambda x, y: torch.nn.functional.cross_entropy(x[[0, 2], 1:-1].reshape(-1, VOCABULARY), y[[0, 2], 1:-1].flatten()),
    }
    for text, use in uses.items():
        results = []
        for tokens in 0, TOKENS:
            model = make("llama", torch.float32)
            chunked.TOKENS = tokens
            loss = use(model(**batch(1)).logits, batch(1)["labels"])
            loss.backward()
            results.append((float(loss.detach()), {k: p.grad for k, p in model.named_parameters()}))
        off = distance(results[0][1], results[1][1])
        say(abs(results[0][0] - results[1][0]) <= 1e-5 * abs(results[0][0]) and off < 2e-5, "%s on the logits: gradients %.1e" % (text, off))
    say(any(file == __file__ for file, _ in chunked.looked_at), "the lines that made full logits necessary are known")


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


def _written(x):
    x = x * 1.0
    x[:, 0] = 0
    return x.square().mean()


def looks():
    model, inputs = make("llama", torch.float32), batch(0)
    chunked.TOKENS = 0
    plain = model(**inputs).logits.detach()
    chunked.TOKENS = TOKENS
    chunked.looked_at.clear()
    logits = model(**inputs).logits
    say(logits.shape == plain.shape and logits.dtype == plain.dtype and isinstance(logits, torch.Tensor), "deferred logits have shape and type")
    say(bool((logits.argmax(-1) == plain.argmax(-1)).all()) and not chunked.looked_at, "argmax needs no full logits")
    parts = [p.log_softmax(-1) for p in logits.detach().reshape(-1, VOCABULARY).split(5)]
    say(torch.allclose(torch.cat(parts), plain.reshape(-1, VOCABULARY).log_softmax(-1), atol=1e-5) and not chunked.looked_at, "a few tokens at a time need no full logits")
    say(bool((logits.argmax(axis=-1) == plain.argmax(-1)).all()), "argmax by another name")
    say(torch.allclose(torch.as_tensor(logits.detach().numpy()), plain, atol=1e-5), "numpy() gives the logits")
    say(torch.allclose(copy.deepcopy(logits.detach()), plain, atol=1e-5), "a copy is a plain tensor")
    with torch.no_grad():
        say(torch.allclose(model.eval()(**inputs).logits + 0 * plain, plain, atol=1e-5), "in evaluation too")
    chunked.TOKENS = TOKENS
    say(type(model(input_ids=inputs["input_ids"]).logits) is torch.Tensor, "without labels the logits are plain")
    view = (logits := model.train()(**inputs).logits).view(-1, VOCABULARY)
    logits.mul_(2)
    try:
        torch.nn.functional.cross_entropy(view, inputs["labels"].view(-1))
        say(False, "logits changed behind a view are an error")
    except RuntimeError as error:
        say("--chunked-loss" in str(error), "logits changed behind a view are an error: %s" % error)


for function in families, in_precise_cases, adapters, shared, at_the_edges, kept, left_alone, uses_of_logits, looks:
    function()
