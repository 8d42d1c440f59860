"""Other tools that estimate the GPU memory of training, each behind one small adapter.

tools/compare.py runs this file with the Python of a tool's own environment, and with the jobs on standard input:
    estimators.py NAME < jobs.json
A job has the fields that job_of() in tools/compare.py writes. An adapter is a function that returns answer(job): bytes, or
bytes per card size if the tool's answer depends on the card. It raises Refused with a reason where the tool has no answer.
"""
import contextlib, importlib.util, json, sys, time

GIB = 2**30
MIB = 2**20
CARDS = (8, 12, 16, 24, 48, 80)  # GiB
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
THREE_MATRICES = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma2", "phi3")
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class Refused(Exception):
    pass


class Tool:
    """package: name on PyPI. is_alone: its own dependencies are not installed (its estimator does not need them, or they exclude each
    other), but others, with theirs. with_torch: it sees the environment that has torch and transformers. variables: for installing
    and running. cannot: what the tool has no input for, or says that it does not do (see features()), with the reason.
    figure: which of its figures is its answer. given: what it is told beyond the obvious. better: what it does better than ours."""

    def __init__(self, package, version, adapter, figure, given, better, cannot, others=(), with_torch=False, is_alone=False,
                 variables=None):
        self.package, self.version, self.adapter = package, version, adapter
        self.figure, self.given, self.better, self.cannot = figure, given, better, cannot
        self.others, self.with_torch, self.is_alone = others, with_torch, is_alone
        self.variables = variables or {}


def features(job):
    """What is special about a job, in the words of the tables below."""
    kinds = {"encoder": "encoder without a head", "seq2seq": "encoder-decoder", "masked": "masked language model"}
    named = [kinds.get(job["kind"]), "LoRA" if job["lora"] else "full fine-tuning", job["loss"], job["strategy"], job["optimizer"]]
    if "num_local_experts" in job["config"]:
        named.append("experts")
    if job["config"]["model_type"] == "gemma2":
        named.append("sliding window")
    if job["offload"]:
        named += ["offload", "offload of " + job["offload"]]
    if job["autocast"] and job["weights"] == "fp32":
        named.append("autocast over fp32 weights")
    if job["weights"] != "fp32" and not job["lora"]:
        named.append("16-bit weights trained in full")
    if job["lora"] and not is_all_linear(job):
        named.append("LoRA on some layers")
    named.append("checkpointing" if job["checkpoint"] else "no checkpointing")
    return [name for name in named if name]


def is_all_linear(job):
    targets = job["lora"]["targets"]
    return targets == "all-linear" or sorted(targets) == sorted(LINEAR)


def plain(job, optimizers):
    """The tool's name for the job's optimizer."""
    if job["optimizer"] not in optimizers:
        raise Refused(f"no {job['optimizer']}")
    return optimizers[job["optimizer"]]


def hidden_size(config):
    return config.get("hidden_size") or config.get("n_embd") or config["d_model"]


# ---- fitcheck ---------------------------------------------------------------------------------------


def fitcheck():
    import fitcheck as tool
    from fitcheck import config_parser

    def answer(job):
        # The two questions that it asks the Hub are answered from here.
        config_parser.hf_hub_download = lambda **_: job["folder"] + "/config.json"
        config_parser._reported_param_count = lambda *_: job["parameters"]
        lora = job["lora"]
        training = tool.TrainingConfig(
            precision=job["autocast"] or job["weights"], batch_size=job["batch"], seq_len=job["seq"], grad_checkpoint=job["checkpoint"],
            optimizer=plain(job, {"adamw": "adamw", "adamw-foreach": "adamw", "adamw-loop": "adamw", "sgd": "sgd", "sgd-momentum": "sgd-momentum"}),
            optimizer_dtype="bf16" if not lora and job["weights"] == "bf16" else "fp32", flash_attn=job["attention"] == "sdpa",
            lora_rank=lora["r"] if lora else None,
            lora_targets=(LINEAR if is_all_linear(job) else lora["targets"]) if lora else list(LINEAR))
        try:
            report = tool.estimate(tool.fetch_model_config(job["model"]), training, tool.get_gpu("h200"))
        except ValueError as error:
            raise Refused(str(error).split(". ")[0].split(" - ")[0])
        return report.total_mib * MIB

    return answer


# ---- canifinetune -----------------------------------------------------------------------------------


def canifinetune():
    from canifinetune.estimator import memory, model_metadata

    def on_card(job, card):
        lora = job["lora"]
        scope = "all_linear"
        if lora and not is_all_linear(job):
            scope = {("q_proj", "v_proj"): "conservative"}.get(tuple(lora["targets"]))
            if not scope:
                raise Refused("LoRA only on groups of layers that it knows")
        try:
            result = memory.estimate(memory.EstimateRequest(
                model_id=job["model"], method="lora" if lora else "full", gpu_vram_gb=card, seq_len=job["seq"],
                micro_batch_size=job["batch"], base_dtype=job["weights"], lora_rank=lora["r"] if lora else 16, lora_target_scope=scope,
                optimizer=plain(job, {"adamw": "adamw_torch_fused", "adamw-foreach": "adamw_torch", "adamw-loop": "adamw_torch", "sgd": "sgd"}),
                gradient_checkpointing=job["checkpoint"], attention_implementation=job["attention"]))
        except ValueError as error:
            raise Refused(str(error).split(". ")[0])
        return (result.memory.total_estimated_gb - result.memory.safety_margin_gb) * GIB

    def answer(job):
        model_metadata.fetch_model_config = lambda *_, **__: job["config"]
        model_metadata.fetch_model_parameter_count = lambda *_, **__: job["parameters"]
        return {card: on_card(job, card) for card in CARDS}

    return answer


# ---- torch-preflight --------------------------------------------------------------------------------


def torch_preflight():
    from torch_preflight import vram
    from torch_preflight.vram.providers import hub, static

    def profile_of(job):
        config = job["config"]
        if job["kind"] == "seq2seq":  # its table has no flan-t5; this is what it holds for t5-base, with flan's sizes
            shape = vram.TransformerShape(
                layers=config["num_layers"], decoder_layers=config["num_decoder_layers"], hidden=config["d_model"], heads=config["num_heads"],
                intermediate=config["d_ff"], vocab=config["vocab_size"], gated_mlp=True, uses_dropout=True, has_lm_head=True,
                tied_embeddings=config["tie_word_embeddings"], encoder_seq_len=job["seq"], activation_family="t5")
            return static.from_shape(shape, job["model"])
        hub.fetch_config = lambda _: config
        return hub.resolve(job["model"])

    def answer(job):
        profile = profile_of(job)
        frozen = 1 - job["trainable"] / (job["parameters"] + job["trainable"]) if job["lora"] else 0.0
        precision = "amp" if job["autocast"] and job["weights"] == "fp32" else {"fp32": "fp32", "bf16": "pure-bf16", "fp16": "pure-fp16"}[job["weights"]]
        config = vram.RunConfig(
            batch_size=job["batch"], seq_len=job["target_seq"] or job["seq"], precision=vram.PrecisionMode(precision),
            optimizer=vram.OptimizerKind("adamw" if job["optimizer"].startswith("adamw") else job["optimizer"]),
            gradient_checkpointing=job["checkpoint"], flash_attention=job["attention"] == "sdpa", world_size=job["world"],
            sharding=vram.Sharding({None: "none", "ddp": "ddp", "fsdp2": "zero-3", "zero2": "zero-2", "zero3": "zero-3"}[job["strategy"]]),
            offload_optimizer=bool(job["offload"]), offload_params=job["offload"] == "parameters", frozen_fraction=frozen)
        return vram.estimate_config(profile, config).total

    return answer


# ---- llm-analysis -----------------------------------------------------------------------------------


def llm_analysis():
    from llm_analysis import analysis, config as configs
    import logging
    logging.disable(logging.CRITICAL)

    def answer(job):
        config = job["config"]
        width = hidden_size(config)
        # It counts two matrices for the MLP. Its own configurations of LLaMA make up for the third with a width of 3/2.
        inner = (config.get("intermediate_size") or 4 * width) * (1.5 if config["model_type"] in THREE_MATRICES else 1)
        model = configs.ModelConfig(
            name=job["model"], num_layers=config.get("num_hidden_layers") or config["n_layer"],
            n_head=config.get("num_attention_heads") or config["n_head"], hidden_dim=width, vocab_size=config["vocab_size"],
            max_seq_len=job["seq"], num_key_value_heads=config.get("num_key_value_heads"), ffn_embed_dim=inner, expansion_ratio=inner / width,
            moe_num_experts=config.get("num_local_experts", 1), moe_top_k=config.get("num_experts_per_tok", 1))
        size = BYTES[job["weights"]]
        states = plain(job, {"adamw": 2, "adamw-foreach": 2, "adamw-loop": 2, "sgd": 0, "sgd-momentum": 1})
        tool = analysis.LLMAnalysis(
            model, configs.GPUConfig("any", 1e6, 4800, 450, 0, 990),
            configs.DtypeConfig("job", 8 * size, 8 * BYTES[job["autocast"] or job["weights"]], 8 * size),
            configs.ParallelismConfig(dp_size=job["world"]))
        full = analysis.ActivationRecomputation.FULL if job["checkpoint"] else analysis.ActivationRecomputation.NONE
        zero = {None: 0, "ddp": 0, "zero2": 2, "zero3": 3, "fsdp2": 3}[job["strategy"]]
        # Its optimizer keeps a master copy and other_op_bytes; the runs have no master copy.
        try:
            result = tool.training(
                batch_size_per_gpu=job["batch"], seq_len=job["seq"], activation_recomputation=full, ds_zero=analysis.DSZeRO(zero),
                master_weights_dtype_bytes=size, other_op_bytes=(states - 1) * size, flash_attn=job["attention"] == "sdpa")
        except AssertionError as error:  # its checks
            raise Refused(str(error))
        return result["(weight+op_state+grad+act)_memory_per_gpu"]

    return answer


# ---- torch-kitsune ----------------------------------------------------------------------------------


def empty_model(job):
    """The job's model on the meta device, from its config.json."""
    import torch, transformers
    config = transformers.AutoConfig.from_pretrained(job["folder"])
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[job["weights"]]
    with torch.device("meta"):
        return getattr(transformers, job["config"]["architectures"][0])._from_config(config, dtype=dtype)


def torch_kitsune():
    import torch
    from kitsune import predict

    def answer(job):
        model = empty_model(job)
        name = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[job["autocast"] or job["weights"]]
        shape = (job["seq"],)
        optimizer = plain(job, {"adamw": "adamw", "adamw-foreach": "adamw", "adamw-loop": "adamw", "sgd": "sgd", "sgd-momentum": "sgd_momentum"})
        lora = job["lora"]
        if lora:
            names = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and "lm_head" not in n]
            targets = names if is_all_linear(job) else lora["targets"]
            config = predict.LoRAConfig(rank=lora["r"], target_modules=tuple(targets), optimizer=optimizer)
            return predict.estimate_lora_memory(model, shape, job["batch"], "float32", config).total_bytes
        if job["world"] > 1 or job["strategy"]:
            strategy = {"ddp": "ddp", "zero2": "zero2", "zero3": "zero3", "fsdp2": "zero3"}[job["strategy"]]
            return predict.estimate_multi_gpu(model, shape, job["batch"] * job["world"], name, optimizer, strategy, job["world"]).total_bytes
        return predict.predict_memory(model, shape, job["batch"], name, optimizer, training=True).total_bytes

    return answer


# ---- accelerate estimate-memory ---------------------------------------------------------------------


def accelerate():
    import types
    from accelerate.commands import estimate as tool

    def answer(job):
        # Whether the repository is on the Hub is answered from here, and the name is a folder.
        tool.verify_on_hub = lambda *_: types.SimpleNamespace(config={}, library_name="transformers")
        model = tool.create_empty_model(job["folder"], "transformers")
        size, _ = tool.calculate_maximum_sizes(model)
        dtype = "float32" if job["weights"] == "fp32" and not job["autocast"] else "float16"
        return max(tool.estimate_training_usage(size, dtype).values())

    return answer


# ---- DeepSpeed --------------------------------------------------------------------------------------


def deepspeed():
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs, model_to_params
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    def answer(job):
        on_host = bool(job["offload"])
        if job["strategy"] == "zero2":
            _, on_card = estimate_zero2_model_states_mem_needs(job["parameters"], job["world"], 1, on_host, 1.5)
            return on_card
        total, largest = model_to_params(empty_model(job))
        _, on_card, _ = estimate_zero3_model_states_mem_needs(
            total, largest, job["world"], 1, on_host, job["offload"] == "parameters", True, 1.5)
        return on_card

    return answer


# ---- training-hub -----------------------------------------------------------------------------------


def training_hub():
    import importlib.metadata, types
    import transformers
    # Its package imports the libraries of all its trainers; the estimator is one file of it.
    path = str(importlib.metadata.distribution("training-hub").locate_file("training_hub/profiling/memory_estimator.py"))
    spec = importlib.util.spec_from_file_location("memory_estimator", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    def from_config(folder, **_):  # it loads the weights to the meta device; a folder with config.json has none
        return transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(folder))

    tool.AutoModel = types.SimpleNamespace(from_pretrained=from_config)
    tool.BasicEstimator._update_model_storage = lambda self: None  # it would keep a file in its own package

    def answer(job):
        lora = job["lora"]
        _, expected, _ = tool.estimate(
            training_method="lora" if lora else "sft", num_gpus=job["world"], model_path=job["folder"], batch_size=job["batch"] * job["world"],
            max_seq_len=job["seq"], verbose=0, lora_r=lora["r"] if lora else 32)
        return expected

    return answer


# ---- the table --------------------------------------------------------------------------------------

NO_CONTRASTIVE = {"contrastive loss": "no loss between pairs of texts"}
NO_CHUNKS = {"chunked loss": "no input for a loss in chunks"}
NO_SHARDING = {name: "one GPU only" for name in ("fsdp2", "zero2", "zero3", "ddp")}
NOT_ADAM = {name: "Adam only" for name in ("sgd", "sgd-momentum", "adafactor")}
DECODERS_ONLY = {name: "decoders only" for name in ("encoder without a head", "encoder-decoder", "masked language model")}

TOOLS = {
    "fitcheck": Tool(
        "fitcheck-llm", "0.3.1", fitcheck,
        "`total_mib`: weights, adapters, optimizer, gradients, activations and overhead of the whole process",
        "the GPU of the runs (`h200`); `--flash-attn` for SDPA; 16-bit optimizer states where 16-bit weights are trained in full. It then adds a master "
        "copy in fp32, which these runs do not have; for fp32 weights under autocast that is right",
        "prices every flag (`--explain`) and searches batch, length and rank together "
        "(`advise`); has its own measurements of 4-bit and int8 LoRA on a T4; estimates serving (KV cache)",
        {**NO_CONTRASTIVE, **NO_CHUNKS, **NO_SHARDING, **DECODERS_ONLY, "sliding window": "no sliding windows", "experts": "no experts"}),
    "canifinetune": Tool(
        "canifinetune", "0.4.1", canifinetune,
        "`total_estimated_gb` without its safety margin, which it reports separately. It adds 8 % of the GPU's memory for overhead, so its "
        "answer depends on the GPU: errors are those for the smallest of the six GPUs that holds the run",
        "the exact number of parameters, as it would get from the Hub",
        "writes a training script with the settings that it estimated, measures it on the user's GPU (`bench`) and corrects itself with that "
        "(`calibrate`); has a local web page",
        {**NO_CONTRASTIVE, **NO_CHUNKS, **NO_SHARDING, **DECODERS_ONLY}),
    "torch-preflight": Tool(
        "torch-preflight", "0.5.0", torch_preflight,
        "`total`: all terms with CUDA context and fragmentation; the middle of its interval",
        "config.json as its Hub lookup reads it; the exact share of frozen parameters for LoRA (its command line has no LoRA); for T5 the sizes "
        "that its own table has for t5-base, with flan's values",
        "finds bugs in training code that have nothing to do with memory (13 rules, with fixes); knows vision models and Whisper by name; "
        "estimates generation; `VRAMGuard` checks any PyTorch model at step 0",
        {**NO_CONTRASTIVE, **NO_CHUNKS, "experts": "no experts", "offload of parameters": "says that it counts all weights"}),
    "llm-analysis": Tool(
        "llm-analysis", "0.2.2", llm_analysis,
        "`(weight+op_state+grad+act)_memory_per_gpu`; its documentation calls it a lower bound",
        "its own ModelConfig, with 3/2 of the MLP's width where it has three matrices, as its own LLaMA configurations have; "
        "bytes of gradients and optimizer states as in the run (no fp32 master copy), recomputation, ZeRO stage",
        "has tensor, pipeline, sequence and expert parallelism; latency, cost and memory of inference",
        {**NO_CONTRASTIVE, **NO_CHUNKS, "LoRA": "full fine-tuning only", "offload": "no offload", "adafactor": "no adafactor",
         "encoder without a head": "always counts logits", "encoder-decoder": "one stack of layers"},
        others=("fire==0.5.0",), is_alone=True),
    "torch-kitsune": Tool(
        "torch-kitsune", "0.7.0", torch_kitsune,
        "`total_bytes`: parameters, gradients, optimizer, activations and 15 % overhead",
        "the model with its head on the meta device in the run's dtype, rather than its Hub lookup, which leaves the head out",
        "takes any `nn.Module`; ranks clouds' GPUs by price; compares DDP with ZeRO 1 to 3 on 1 to 8 GPUs in one table",
        {**NO_CONTRASTIVE, **NO_CHUNKS, "checkpointing": "no input for checkpointing", "adafactor": "no adafactor", "offload": "no offload"},
        with_torch=True),
    "accelerate": Tool(
        "accelerate", "1.15.0", accelerate,
        "`Training using Adam` of `accelerate estimate-memory`: model states for batch size 1, without activations",
        "config.json in a folder; the row float32 for fp32 without autocast, else float16 (its table has no bf16)",
        "knows every model of transformers and timm; shows the size of the largest layer and of int8 and int4 weights",
        {**NO_CONTRASTIVE, **NO_SHARDING, **NOT_ADAM, "LoRA": "all parameters are trained"},
        with_torch=True),
    "deepspeed": Tool(
        "deepspeed", "0.19.8", deepspeed,
        "`estimate_zero2_model_states_mem_needs` and `estimate_zero3_model_states_mem_needs`: bytes per GPU of model states, without activations",
        "numbers of parameters; offload as in the run",
        "also gives the host memory that offload needs, for all combinations at once, from a live model",
        {**NO_CONTRASTIVE, **NOT_ADAM, "LoRA": "all parameters are trained", "fsdp2": "DeepSpeed's ZeRO only", "ddp": "DeepSpeed's ZeRO only",
         "one process": "DeepSpeed's ZeRO only"},
        with_torch=True, variables={"DS_BUILD_OPS": "0", "DS_ACCELERATOR": "cpu"}),
    "training-hub": Tool(
        "training-hub", "0.11.2", training_hub,
        "the expected value (the middle one of three) of `profiling.memory_estimator.estimate`",
        "batch of all GPUs together. It says that full training is in fp32 and LoRA in 16 bits, and its activations are the inputs of "
        "layers, as with checkpointing: it gets only such rows",
        "gives a lower, an expected and an upper bound; knows OSFT; belongs to a library that then trains with the same settings",
        {**NO_CONTRASTIVE, **NO_CHUNKS, **NOT_ADAM, **DECODERS_ONLY, "16-bit weights trained in full": "full training in fp32 only",
         "no checkpointing": "counts activations as with checkpointing", "offload": "no offload", "LoRA on some layers": "LoRA on all layers only",
         "zero2": "no ZeRO", "zero3": "no ZeRO", "ddp": "no DDP"},
        others=("rhai-innovation-mini-trainer==0.9.0", "pandas==3.1.1"), with_torch=True, is_alone=True),
}


def reason_against(tool, job):
    named = features(job) + ([] if job["strategy"] else ["one process"])
    return next((tool.cannot[name] for name in named if name in tool.cannot), None)


def answers(name, jobs):
    """What the tool says to each job: figure (bytes, or per card), or reason; and the seconds that it took."""
    tool = TOOLS[name]
    start = time.monotonic()
    with contextlib.redirect_stdout(sys.stderr):
        answer = tool.adapter()
        imported = time.monotonic() - start
        rows = {}
        for job in jobs:
            reason = reason_against(tool, job)
            if reason:
                rows[job["id"]] = {"reason": reason}
                continue
            start = time.monotonic()
            try:
                rows[job["id"]] = {"figure": answer(job), "seconds": time.monotonic() - start}
            except Refused as refused:
                rows[job["id"]] = {"reason": str(refused)}
    return {"import_seconds": imported, "rows": rows}


if __name__ == "__main__":
    json.dump(answers(sys.argv[1], json.load(sys.stdin)), sys.stdout)
