"""Runs the training script of tests/fixtures/seed0 for three steps under the memory of a smaller card, with a model
of random weights on disk and random rows of full length; before and after `plimsoll apply`.

usage: applied.py save                      once: the model, 15 GB in /tmp/model
       applied.py FOLDER CAP_BYTES OUT.jsonl
Beside this file: models.json. The environment is what the exports in FOLDER/start_baseline.sh say. Two things are
not as in the script: the model's path, and warmup_ratio, which transformers 5 does not know.
"""

import json
import os
import sys
import time
import traceback

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = "/tmp/model"


def save():
    config = dict(json.load(open(os.path.join(HERE, "models.json")))["qwen2.5-7b"])
    config = transformers.CONFIG_MAPPING[config.pop("model_type")](**config)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float16)
    model.save_pretrained(PATH)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, i):
        ids = torch.randint(5, 150000, (2048,))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def clock_of(result):
    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, *a, **k):
            torch.cuda.synchronize()
            self.start = time.perf_counter()

        def on_step_end(self, *a, **k):
            torch.cuda.synchronize()
            result["times"].append(round(time.perf_counter() - self.start, 4))

    return Clock()


def short_trainer(result):
    class Short(transformers.Trainer):
        def __init__(self, model, args):
            args.max_steps, args.save_strategy, args.disable_tqdm = 3, "no", True
            super().__init__(model=model, args=args, train_dataset=Rows(), callbacks=[clock_of(result)])

    return Short


def train(folder, result):
    os.chdir(folder)
    sys.path.insert(0, os.getcwd())
    load = transformers.AutoModelForCausalLM.from_pretrained
    transformers.AutoModelForCausalLM.from_pretrained = lambda name, **k: load(PATH, **k)
    transformers.AutoTokenizer.from_pretrained = lambda name: None
    import train_baseline

    arguments = train_baseline.TrainingArguments
    train_baseline.TrainingArguments = lambda **k: arguments(**{n: v for n, v in k.items() if n != "warmup_ratio"})
    train_baseline.Trainer = short_trainer(result)
    train_baseline.main()


def run(folder, cap, out):
    result = {"folder": os.path.basename(folder), "cap_bytes": cap, "times": []}
    torch.cuda.init()
    torch.cuda.set_per_process_memory_fraction(cap / torch.cuda.mem_get_info()[1])
    try:
        train(folder, result)
        result["status"] = "ok"
    except torch.OutOfMemoryError:
        result["status"] = "oom"
    except BaseException:
        result.update(status="error", error=traceback.format_exc()[-1500:])
    stats = torch.cuda.memory_stats()
    result.update(peak_allocated=stats["allocated_bytes.all.peak"], peak_reserved=stats["reserved_bytes.all.peak"],
                  alloc_retries=stats["num_alloc_retries"])
    with open(out, "a") as f:
        f.write(json.dumps(result) + "\n")


if sys.argv[1] == "save":
    save()
else:
    run(sys.argv[1], int(sys.argv[2]), os.path.abspath(sys.argv[3]))
