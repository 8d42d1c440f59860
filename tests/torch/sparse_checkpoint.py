"""sparse_checkpoint.py HUB NAME=MODEL:DTYPE...: checkpoints as transformers finds them in its cache, for tests without a
network.

Qwen/Qwen2.5-7B-Instruct=qwen2.5-7b:bfloat16 writes the model qwen2.5-7b of tests/truth/models.json below the folder HUB.
The weights are zeros in sparse files, which take no disk space; beside them are a configuration and a tokenizer of bytes.
Needs torch, and no card."""
import json
import os
import re
import struct
import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedTokenizerFast

MODELS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "truth", "models.json")
CLASSES = {"causal": AutoModelForCausalLM, "seq2seq": AutoModelForSeq2SeqLM, "encoder": AutoModel}
REVISION = "0" * 40
DTYPES = {"bfloat16": ("BF16", 2), "float16": ("F16", 2), "float32": ("F32", 4)}  # name in the file, bytes
SPECIAL = {"unk_token": "<unk>", "pad_token": "<pad>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "<sep>", "mask_token": "<mask>"}


def config_of(name, dtype):
    with open(MODELS) as f:
        fields = json.load(f)[name]
    kind = fields.pop("_kind", "causal")
    return CONFIG_MAPPING[fields.pop("model_type")](**fields, dtype=dtype), kind


def weights_of(config, kind):
    """Name and shape of each tensor; one that is tied to another is not stored."""
    with torch.device("meta"):
        model = CLASSES[kind].from_config(config)
    model.tie_weights()
    seen, weights = set(), {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            weights[name] = list(tensor.shape)
        seen.add(id(tensor))
    config.architectures = [type(model).__name__]
    return weights


def write_weights(path, weights, dtype):
    """The file format safetensors: the length of the header, the header, the data (here: a hole)."""
    (name_in_file, size), header, end = DTYPES[dtype], {"__metadata__": {"format": "pt"}}, 0
    for name, shape in weights.items():
        begin, end = end, end + size * torch.Size(shape).numel()
        header[name] = {"dtype": name_in_file, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + end)


def write_tokenizer(folder):
    words = list(SPECIAL.values()) + sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL).save_pretrained(folder)


def main():
    for pair in sys.argv[2:]:
        name, model, dtype = re.split("[=:]", pair)
        cache = os.path.join(sys.argv[1], "models--" + name.replace("/", "--"))
        folder = os.path.join(cache, "snapshots", REVISION)
        os.makedirs(folder)
        os.makedirs(os.path.join(cache, "refs"))
        with open(os.path.join(cache, "refs", "main"), "w") as f:
            f.write(REVISION)
        config, kind = config_of(model, dtype)
        write_weights(os.path.join(folder, "model.safetensors"), weights_of(config, kind), dtype)
        config.save_pretrained(folder)
        write_tokenizer(folder)


if __name__ == "__main__":
    main()
