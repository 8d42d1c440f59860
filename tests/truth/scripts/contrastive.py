"""Contrastive training with sentence-transformers 6.2: plain and cached ranking losses, plain loops and its
Trainer; two layers at real width, two steps, a Python stack on every allocation.

usage: contrastive.py OUTDIR [NAME...]   (each case runs in a process of its own)
"""

import importlib.machinery
import json
import lzma
import os
import pickle
import subprocess
import sys
import time
import types

import torch

# name, model type, widths, batch, length, columns, mini batch (0: not cached), autocast, options
CASES = """
bert-loop bert - 8 128 2 0 0 loop
bert-loop-pad bert - 8 128 2 0 0 loop,pad
bert-loop-3 bert - 8 128 3 0 0 loop
bert-loop-amp bert - 8 128 3 0 bf16 loop,pad
bert-loop-cached bert - 8 128 2 4 0 loop
bert-loop-cached-pad bert - 8 128 3 4 0 loop,pad
bert-loop-cached-odd bert - 10 96 2 4 bf16 loop
bert-loop-cached-ckpt bert - 16 128 2 4 bf16 loop,ckpt
minilm-loop minilm - 32 64 2 0 0 loop
minilm-loop-cached minilm - 32 64 3 8 0 loop
minilm-loop-norm minilm - 32 64 2 0 bf16 loop,norm
mpnet-loop mpnet - 8 96 2 0 0 loop
mpnet-loop-cached mpnet - 8 96 3 4 bf16 loop,pad
bert-loop-cls bert - 8 128 2 0 0 loop,cls
bert-trainer bert - 8 128 2 0 0 trainer
bert-trainer-bf16 bert - 8 128 3 0 bf16 trainer,pad
bert-trainer-cached-bf16 bert - 16 128 2 4 bf16 trainer
bert-trainer-cached-pad bert - 16 128 3 4 0 trainer,pad
bert-trainer-cached-ckpt bert - 16 128 2 4 bf16 trainer,ckpt
bert-trainer-cached-fp16 bert - 16 128 2 4 fp16 trainer
minilm-trainer-cached minilm - 64 64 2 16 bf16 trainer
mpnet-trainer-cached-bf16 mpnet - 16 96 2 4 bf16 trainer
mpnet-trainer mpnet - 16 96 2 0 fp16 trainer
bert-trainer-ckpt bert - 16 128 2 0 bf16 trainer,ckpt
bert-trainer-accum bert - 8 128 2 4 bf16 trainer,accum
roberta-loop-cached roberta - 8 128 2 4 bf16 loop,pad
"""

# all layers, five steps with their seconds, no stacks
ROWS = """
row-bert-b64 bert - 64 256 2 0 bf16 trainer,rows
row-bert-b256-c32 bert - 256 256 2 32 bf16 trainer,rows
row-bert-b256-c128 bert - 256 256 2 128 bf16 trainer,rows
row-bert-b256 bert - 256 256 2 0 bf16 trainer,rows
row-mpnet-b128-3 mpnet - 128 128 3 0 bf16 trainer,rows
row-mpnet-b512-3-c64 mpnet - 512 128 3 64 bf16 trainer,rows
row-minilm-b512 minilm - 512 128 2 0 0 loop,rows
row-minilm-b1024-c128 minilm - 1024 128 2 128 0 loop,rows
row-bert-loop-b128-3-c16 bert - 128 384 3 16 bf16 loop,rows,pad
"""

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class StandIn(types.ModuleType):
    """A package that is imported for evaluation alone and is not installed."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return object


def import_package():
    import transformers.trainer, transformers.modeling_utils, transformers.tokenization_utils_tokenizers  # noqa: F401
    import transformers.models.auto.modeling_auto, transformers.models.bert.modeling_bert  # noqa: F401
    import transformers.models.mpnet.modeling_mpnet, transformers.models.roberta.modeling_roberta  # noqa: F401
    for name in ("scipy", "scipy.sparse", "scipy.stats", "scipy.spatial", "scipy.spatial.distance", "scipy.cluster",
                 "scipy.cluster.hierarchy", "sklearn", "sklearn.metrics", "sklearn.metrics.pairwise", "sklearn.cluster"):
        try:
            __import__(name)
        except ImportError:
            sys.modules[name] = StandIn(name)
            sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)
    import sentence_transformers
    return sentence_transformers


def tokenizer_of(kind, folder):
    from transformers import BertTokenizerFast, MPNetTokenizerFast, RobertaTokenizerFast
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    words = [f"w{i}" for i in range(2000)]
    if kind in ("bert", "minilm"):
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        names = dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
    else:
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        names = dict(pad_token="<pad>", unk_token="<unk>", cls_token="<s>", sep_token="</s>", mask_token="<mask>", bos_token="<s>", eos_token="</s>")
    vocabulary = {w: i for i, w in enumerate(special + words)}
    t = Tokenizer(models.WordLevel(vocabulary, unk_token=names["unk_token"]))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    c, s = names["cls_token"], names["sep_token"]
    t.post_processor = processors.TemplateProcessing(single=f"{c} $A {s}", pair=f"{c} $A {s} $B {s}", special_tokens=[(c, vocabulary[c]), (s, vocabulary[s])])
    from transformers import PreTrainedTokenizerFast
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if kind in ("bert", "minilm") else ["input_ids", "attention_mask"]
    fast = PreTrainedTokenizerFast(tokenizer_object=t, model_input_names=inputs, model_max_length=510, **names)
    fast.save_pretrained(folder)


def config_of(kind, layers):
    from transformers import CONFIG_MAPPING
    if kind == "minilm":
        return CONFIG_MAPPING["bert"](num_hidden_layers=layers or 2, hidden_size=384, num_attention_heads=12, intermediate_size=1536)
    config = CONFIG_MAPPING[kind](num_hidden_layers=layers or 2)
    if kind != "bert":
        config.max_position_embeddings = 514
    return config


def build(case, folder):
    st = import_package()
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import AutoModel
    config = config_of(case["model"], (6 if case["model"] == "minilm" else 12) if "rows" in case["options"] else 0)
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer_of(case["model"], folder)
    body = Transformer(folder)
    body.max_seq_length = case["seq"]
    modules = [body, Pooling(config.hidden_size, pooling_mode="cls" if "cls" in case["options"] else "mean")]
    if "norm" in case["options"]:
        modules.append(Normalize())
    return SentenceTransformer(modules=modules, device="cuda"), config


def texts(case, rows):
    """Every text fills the length, but with 'pad' every second row of each column is a quarter shorter."""
    n = case["seq"] - 2
    short = n - case["seq"] // 4
    return [" ".join(f"w{(r * 7 + i) % 2000}" for i in range(short if "pad" in case["options"] and r % 2 else n)) for r in range(rows)]


def make_loss(model, case):
    from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss, MultipleNegativesRankingLoss
    if case["mini_batch"]:
        return CachedMultipleNegativesRankingLoss(model, mini_batch_size=case["mini_batch"])
    return MultipleNegativesRankingLoss(model)


def mark(case):
    if "rows" in case["options"]:
        torch.cuda.synchronize()
        case.setdefault("ended", []).append(time.perf_counter())


def loop(model, case):
    loss_of = make_loss(model, case)
    model.train()
    params = list(model.parameters())
    opt = torch.optim.AdamW(params, fused=True)
    column = texts(case, case["batch"])
    amp = DTYPES.get(case["amp"])
    tokenize = getattr(model, "preprocess", None) or model.tokenize
    for _ in range(case["steps"]):
        features = []
        for _ in range(case["columns"]):
            f = tokenize(column)
            features.append({k: v.to("cuda") if isinstance(v, torch.Tensor) else v for k, v in f.items()})
        with torch.autocast("cuda", dtype=amp) if amp else torch.enable_grad():
            loss = loss_of(features, None)
        l = loss / 1
        l.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        mark(case)


def trainer(model, case, folder):
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    SentenceTransformerTrainer.add_model_card_callback = lambda self, args: None  # it only writes about the data
    accumulate = 2 if "accum" in case["options"] else 1
    rows = case["batch"] * case["steps"] * accumulate
    data = Dataset.from_dict({f"c{i}": texts(case, rows) for i in range(case["columns"])})
    args = SentenceTransformerTrainingArguments(
        output_dir=folder + "/out", per_device_train_batch_size=case["batch"], max_steps=case["steps"],
        gradient_accumulation_steps=accumulate, bf16=case["amp"] == "bf16", fp16=case["amp"] == "fp16",
        gradient_checkpointing="ckpt" in case["options"], report_to=[], save_strategy="no", disable_tqdm=True)
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        def on_step_end(self, *a, **k):
            mark(case)

    SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss=make_loss(model, case), callbacks=[Clock()]).train()


def record(out, case):
    import tempfile
    folder = tempfile.mkdtemp()
    if os.environ.get("NO_GPU") is None and "rows" not in case["options"]:
        torch.cuda.memory._record_memory_history(enabled="all", context=None if "ckpt" in case["options"] else "all", stacks="python", max_entries=900000)
    model, config = build(case, folder)
    if "ckpt" in case["options"] and "loop" in case["options"]:
        model[0].auto_model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if "loop" in case["options"]:
        loop(model, case)
    else:
        trainer(model, case, folder)
    import sentence_transformers, transformers
    model_body = getattr(model[0], "auto_model", None) or model[0].model
    case["attn"] = model_body.config._attn_implementation
    case["dtype"] = str(next(model.parameters()).dtype).replace("torch.", "")
    if "ended" in case:
        ends = case.pop("ended")
        case["seconds"] = [b - a for a, b in zip(ends, ends[1:])]
    snapshot = torch.cuda.memory._snapshot()
    for events in snapshot["device_traces"]:
        for e in events:
            for f in e.get("frames", []):
                f["filename"] = f["filename"].split("site-packages/")[-1].split("dist-packages/")[-1].split("/scratch/")[-1]
    for s in snapshot["segments"]:
        for b in s["blocks"]:
            for f in b.get("frames", []):
                f["filename"] = f["filename"].split("site-packages/")[-1].split("dist-packages/")[-1].split("/scratch/")[-1]
    if "rows" not in case["options"]:
        with lzma.open(f"{out}/{case['id']}.pickle.xz", "w") as f:
            pickle.dump(snapshot, f)
    stats = torch.cuda.memory_stats()
    c = {k: v for k, v in config.to_dict().items() if k in ("model_type", "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings", "vocab_size", "type_vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob")}
    json.dump({"id": case["id"], "case": case, "config": dict(c, _kind="encoder"),
               "peak_alloc": stats["allocated_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"],
               "torch": torch.__version__, "transformers": transformers.__version__, "sentence_transformers": sentence_transformers.__version__},
              open(f"{out}/{case['id']}.json", "w"), indent=1)
    print(case["id"], stats["allocated_bytes.all.peak"])


def parse(line):
    name, kind, _, batch, length, columns, mini, amp, options = line.split()
    return {"id": name, "model": kind, "batch": int(batch), "seq": int(length), "columns": int(columns),
            "mini_batch": int(mini), "amp": amp, "options": options.split(","), "steps": 5 if "rows" in options else 2}


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[2] == "--one":
        record(sys.argv[1], parse(sys.argv[3]))
    else:
        from concurrent.futures import ThreadPoolExecutor
        lines = [l for l in (ROWS if sys.argv[2:] == ["rows"] else CASES).split("\n")[1:-1] if sys.argv[2:] == ["rows"] or not sys.argv[2:] or l.split()[0] in sys.argv[2:]]
        def one(l):
            r = subprocess.run([sys.executable, __file__, sys.argv[1], "--one", l], capture_output=True, text=True)
            return r.stdout[-300:] + ("" if r.returncode == 0 else f"FAILED {l}\n{r.stderr[-1800:]}")
        with ThreadPoolExecutor(int(os.environ.get("JOBS", "6"))) as pool:
            for o in pool.map(one, lines):
                print(o, end="", flush=True)
