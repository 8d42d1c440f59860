#!/usr/bin/env python3
"""parsers_check.py FRAMEWORK FILES RESULT: has the framework itself read and validate each file of the list FILES (JSON), and writes to
RESULT what it objects to: {file: [objection, ...]}.

Whether a package is installed here is not asked: that is not up to the file."""
import importlib.util
import json
import os
import re
import sys
import warnings

import yaml


def load(path):
    with open(path) as f:
        return yaml.safe_load(f)


def torchtune():
    """Component by component, because the released version lacks some of those that today's files name; and by the recipe that the
    file's comment starts, which looks at the settings when it is constructed."""
    import torch
    import torchtune as package
    from omegaconf import OmegaConf
    from torchtune import config

    # Recipes for several GPUs make a process group when they are constructed; one serves them all.
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    torch.distributed.init_process_group = lambda *words, **named: None
    folder = os.path.join(os.path.dirname(os.path.dirname(package.__file__)), "recipes")  # a folder of scripts, not a package

    def recipe_of(name):
        spec = importlib.util.spec_from_file_location(name, os.path.join(folder, name + ".py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return next(c for c in vars(module).values() if isinstance(c, type) and c.__module__ == name and "Recipe" in c.__name__)

    def read(path):
        found = OmegaConf.load(path)
        plain = OmegaConf.to_container(found, resolve=True)  # every ${...} names a key
        for name in found:
            yield lambda: config.validate(OmegaConf.create({name: plain[name]}))
        with open(path) as f:
            named = re.search(r"tune run (?:--?\S+ \d+ )*(\w+)", f.read())
        if named and os.path.exists(os.path.join(folder, named[1] + ".py")):
            yield lambda: recipe_of(named[1])(found)

    return read


def axolotl():
    import transformers.utils
    from axolotl.integrations.base import PluginManager
    from axolotl.utils.config import prepare_plugins, validate_config
    from axolotl.utils.dict import DictDefault

    transformers.utils.is_flash_attn_2_available = lambda: True
    gpu = {"bf16": True, "fp8": True, "tf32": True, "n_gpu": 1, "compute_capability": "sm_90"}

    def validate(path):
        found = DictDefault(load(path))
        PluginManager._instance = None  # it would keep the plugins of other files
        prepare_plugins(found)
        validate_config(found, capabilities=gpu, env_capabilities={"torch_version": "2.11.0"})

    return lambda path: [lambda: validate(path)]


def llamafactory():
    from llamafactory.hparams import get_train_args, parser
    from llamafactory.v1.config import get_args

    parser._check_extra_dependencies = lambda *words: None
    alone = parser.TrainingArguments.parallel_mode

    def parse(path):
        found = load(path)
        if "__v1__" in path:
            get_args(found)
            return
        # Files with DeepSpeed are read as under torchrun: without it, the parser asks for FORCE_TORCHRUN=1.
        launched = property(lambda _: parser.ParallelMode.DISTRIBUTED) if found.get("deepspeed") else alone
        parser.TrainingArguments.parallel_mode = launched
        get_train_args(found)

    return lambda path: [lambda: parse(path)]


def trl():
    """The parser of TRL's scripts, which the handbook's scripts use. What it does not know is an objection for each key."""
    from trl import DPOConfig, ModelConfig, ScriptArguments, SFTConfig, TrlParser

    try:
        from trl import ORPOConfig
    except ImportError:  # moved in later versions
        from trl.experimental.orpo import ORPOConfig

    def unknown(word):
        raise ValueError("unknown: " + word)

    def read(path):
        kind = next(c for name, c in (("__dpo__", DPOConfig), ("__orpo__", ORPOConfig), ("", SFTConfig)) if name in path)
        script = [] if "dataset_name" in load(path) else ["--dataset_name", "any"]
        words = ["--config", path, *script]
        rest = TrlParser((ScriptArguments, kind, ModelConfig)).parse_args_and_config(words, return_remaining_strings=True)[-1]
        for word in rest:
            if word.startswith("--"):
                yield lambda: unknown(word)

    return read


handbook = trl


def scripts():
    """Python files: the calls of the classes that check their arguments are made, with the script's own arguments."""
    import ast

    import peft
    import torch
    import transformers
    import trl

    names = {"TrainingArguments": transformers.TrainingArguments, "BitsAndBytesConfig": transformers.BitsAndBytesConfig,
             "SFTConfig": trl.SFTConfig, "LoraConfig": peft.LoraConfig, "torch": torch}

    def made(call, path):
        return lambda: eval(compile(ast.Expression(call), path, "eval"), dict(names))

    def read(path):
        with open(path) as f:
            tree = ast.parse(f.read())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                yield made(node, path)

    return read


def launchers():
    """Files of accelerate and DeepSpeed."""
    from accelerate.commands.config.config_args import load_config_from_file
    from deepspeed.runtime.config import DeepSpeedConfig

    def read(path):
        if path.endswith(".json"):
            yield lambda: DeepSpeedConfig(path)
        else:
            yield lambda: load_config_from_file(path)

    return read


def objections(read, path):
    """Each part of the file is a function that raises what the framework objects to; so may finding the parts."""
    found = []
    try:
        for part in read(path):
            try:
                part()
            except Exception as e:  # whatever the framework raises
                found.append("%s: %s" % (type(e).__name__, e))
    except (Exception, SystemExit) as e:
        found.append("%s: %s" % (type(e).__name__, e))
    return found


def main():
    warnings.simplefilter("ignore")
    framework, files, result = sys.argv[1:]
    with open(files) as f:
        paths = json.load(f)
    read = globals()[framework]()
    found = {}
    for path in paths:
        os.chdir(os.path.dirname(path))  # paths in the file are meant from its folder
        found[path] = [line.replace(os.path.dirname(path), ".") for line in objections(read, os.path.abspath(path))]
    # pydantic quotes a part of the file, which is another one after a change.
    found = {path: [re.sub(r" \[type=\w+, input_value=.*", "", line, flags=re.S) for line in lines] for path, lines in found.items()}
    with open(result, "w") as f:
        json.dump(found, f)


if __name__ == "__main__":
    main()
