#!/usr/bin/env python3
"""Prints what web_check.mjs asks, a line each: {"call", "request", "files"}.

usage: tests/web/requests.py FOLDER

"files" are the files and folders that the page would hand over, as paths from the repository's root. Damaged ones are
written below FOLDER.
"""
import glob, json, lzma, os, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import accuracy

FOLDER = os.path.relpath(sys.argv[1], ROOT)


def ask(call, request, files=()):
    print(json.dumps({"call": call, "request": request, "files": list(files)}))


def request_of(model, flags):
    """The request for a model's config.json and a command line."""
    with open(model) as f:
        request = {"model": json.load(f), "versions": accuracy.MEASURED}
    for at, flag in enumerate(flags):
        if flag.startswith("--"):
            has_value = at + 1 < len(flags) and not flags[at + 1].startswith("--")
            request[flag[2:].replace("-", "_")] = flags[at + 1] if has_value else True
    return request


def ask_measured():
    """Every run that tools/accuracy.py predicts, once."""
    asked = set()

    def predict(program, model, flags):
        request = request_of(model, flags)
        key = json.dumps(request, sort_keys=True)
        if key not in asked:
            ask("estimate", request)
        asked.add(key)

    accuracy.predict = predict
    for _ in accuracy.predict_all(None):
        pass
    for _ in accuracy.predict_sharded(None):
        pass


def ask_known():
    for what in ("models", "families", "gpus", "knobs", "colours"):
        ask("list", what)
    base = {"model": "qwen2.5-7b", "lora_rank": 16, "batch": 2, "seq": 2048, "amp": "bf16", "loop": "trainer"}
    ask("estimate", {**base, "gpu": "4090", "timeline": 600})
    ask("estimate", {**base, "gpu": "24GiB", "strategy": "fsdp2", "world": 4, "explain": True})
    ask("estimate", {"model": "model_type=llama hidden_size=2048 num_hidden_layers=2", "batch": 4, "timeline": 50})
    ask("plan", {**base, "gpu": "16GiB"})
    ask("settings", base)
    for dialect in ("transformers", "trl", "axolotl", "llama-factory", "torchtune", "deepspeed", "accelerate", "nothing"):
        ask("settings", {**base, "dialect": dialect})


def below(folder):
    return [os.path.join(at, name) for at, _, names in sorted(os.walk(os.path.join(ROOT, folder))) for name in sorted(names)]


def damaged(name, content):
    path = os.path.join(FOLDER, name)
    os.makedirs(os.path.dirname(os.path.join(ROOT, path)), exist_ok=True)
    with open(os.path.join(ROOT, path), "wb" if isinstance(content, bytes) else "w") as f:
        f.write(content)
    return path


def ask_plans():
    def plan(folder, files, **options):
        files = [os.path.join(folder, f) for f in files]
        ask("plan", {"files": files, **options}, [os.path.relpath(f, ROOT) for f in below(folder)])

    plan("tests/fixtures/seed0", ["start_baseline.sh"], gpu="24564MiB")
    plan("tests/fixtures/seed1", ["configs", "scripts"], gpu="24GiB")
    plan("tests/fixtures/seed2", ["run.sh"], gpu="24GiB")
    plan("tests/fixtures/seed3", ["train.py"], gpu="24GiB")
    plan("tests/fixtures/small", ["train.yaml"], gpu="24GiB")
    plan("tests/fixtures/share/llamafactory", [""], gpu="24GiB")
    many = [damaged(f"many/gr\u00f6\u00dfe/a name with spaces, number {i}.yaml", f"learning_rate: {i}\n") for i in range(300)]
    ask("plan", {"files": [os.path.dirname(many[0])], "gpu": "24GiB", "model": "gpt2"}, many)


def ask_snapshots():
    every = sorted(glob.glob(os.path.join(ROOT, "tests/truth/**/*.pickle.xz"), recursive=True))
    for at, path in enumerate(os.path.relpath(p, ROOT) for p in every[::60]):
        ask("snapshot_open", {"snapshot": path}, [path])
        ask("snapshot_report", {})
        ask("snapshot_timeline", {"columns": 200})
        ask("snapshot_timeline", {"columns": 50, "from": 10, "to": 90})
        ask("snapshot_moment", {"event": 40, "top": 20})
        ask("snapshot_replay", {"alloc_conf": "expandable_segments:True", "tune": at % 5 == 0})
        ask("snapshot_report", {})
    return every[0]


def ask_damaged(snapshot):
    """Cut files, and files that are nested more deeply than a stack is high."""
    with open(snapshot, "rb") as f:
        packed = f.read()
    plain = lzma.decompress(packed)
    for name, content in (("empty.pickle", b""), ("cut.pickle", plain[: len(plain) // 2]), ("cut.pickle.xz", packed[: len(packed) // 2]),
                          ("bent.pickle.xz", packed[:200] + b"\0" * 50 + packed[250:]), ("tuples.pickle", b"\x80\x04" + b"\x29\x85" * 500000 + b"."),
                          ("lists.pickle", b"\x80\x04" + b"](" * 500000)):
        path = damaged(name, content)
        ask("replay", {"snapshot": path}, [path])
        ask("snapshot_open", {"snapshot": path}, [path])
    ask("replay", {"snapshot": "missing.pickle"})
    depth = 200000
    for name, content in (("deep.json", '{"a":' * depth), ("deep.yaml", "[" * depth), ("deep_block.yaml", "".join(" " * i + "a:\n" for i in range(2000))),
                          ("deep.toml", "a = " + "[" * depth), ("deep.py", "learning_rate = " + "(" * depth),
                          ("minus.py", "learning_rate = " + "-" * depth + "1\n"), ("nested.py", "lr = " + "(" * depth + "1" + ")" * depth + "\n"),
                          ("deep.sh", "python train.py --lr " + "$(" * depth), ("braces.sh", "A=" + "${A:-" * depth + "1" + "}" * depth + "\npython train.py --lr $A\n"),
                          ("arithmetic.sh", "A=$((" + "(" * depth + "1" + ")" * depth + "))\npython train.py --lr $A\n"),
                          ("notebook.ipynb", '{"cells": ' + "[" * depth), ("empty.yaml", ""), ("binary.yaml", bytes(range(256)) * 64)):
        path = damaged(name, content)
        ask("plan", {"files": [path], "gpu": "24GiB"}, [path])
        ask("plan", {"model": path, "gpu": "24GiB"}, [path])
        ask("estimate", {"model": path, "gpu": "24GiB"}, [path])
    for request in ("", "{", "[]", "null", '{"model": 3}', '{"model": "qwen2.5-7b", "batch": -1}', '{"modl": "qwen2.5-7b"}', '{"model": "no such model"}',
                    '{"model": "qwen2.5-7b", "gpu": "no such gpu"}', '{"model": {"model_type": "llama", "hidden_size": 1e300}}', '{"a":' * depth,
                    '{"model": ' + "[" * depth, '{"model": "' + "x" * 100000 + '"}', '{"model": "\ud800"}'):
        ask("estimate", request)
        ask("plan", request)


def ask_corpus():
    """Inputs that the fuzzers found, as the files of a training."""
    kinds = {"fuzz_edit_json": "json", "fuzz_edit_yaml": "yaml", "fuzz_edit_toml": "toml", "fuzz_edit_python": "py", "fuzz_edit_shell": "sh",
             "fuzz_project": "yaml", "fuzz_dialect": "yaml", "fuzz_launch": "sh"}
    for corpus, ending in kinds.items():
        for path in sorted(glob.glob(os.path.join(ROOT, "tests/fuzz/corpus", corpus, "*"))):
            with open(path, "rb") as f:
                copy = damaged(f"{corpus}_{os.path.basename(path)}.{ending}", f.read())
            ask("plan", {"files": [copy], "gpu": "24GiB", "model": "gpt2"}, [copy])
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/fuzz/corpus/fuzz_snapshot/*"))):
        path = os.path.relpath(path, ROOT)
        ask("replay", {"snapshot": path}, [path])
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/fuzz/corpus/fuzz_model_config/*"))):
        path = os.path.relpath(path, ROOT)
        ask("estimate", {"model": path}, [path])


os.makedirs(sys.argv[1], exist_ok=True)
os.chdir(ROOT)
ask_known()
ask_measured()
ask_plans()
snapshot = ask_snapshots()
ask_damaged(snapshot)
ask_corpus()
