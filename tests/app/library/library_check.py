#!/usr/bin/env python3
"""The library as an outsider uses it: it answers what the commands print, its example compiles and runs, and the requests of a
plan predict what the plan says.

usage: library_check.py BUILD_FOLDER
"""
import ctypes, json, os, re, subprocess, sys, tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
TRUTH = os.path.join(ROOT, "tests", "truth", "snapshots")
ENVIRONMENT = {**os.environ, "HF_HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"}

ESTIMATES = [
    {"model": "gpt2", "batch": 4, "seq": 512},
    {"model": "qwen2.5-7b", "lora_rank": 16, "lora_dropout": 0.05, "batch": 2, "checkpoint": True, "gpu": "4090", "amp": "bf16"},
    {"model": "llama-3.1-8b", "strategy": "zero3", "world": 4, "batch": 1, "gpu": "a100-80gb", "versions": "transformers=4.57,torch=2.9"},
    {"model": "mixtral-8x7b", "weights": "nf4", "lora_rank": 8, "limit": "48GiB", "explain": True},
    {"model": "bert-base", "batch": 32, "seq": 128, "alloc_conf": "expandable_segments:True", "no_clip": True},
]
PLANS = [
    {"files": ["tests/fixtures/seed0/start_baseline.sh"], "gpu": "24GiB"},
    {"model": "qwen2.5-0.5b", "batch": 8, "seq": 1024, "gpu": "8GiB", "fix": ["liger=off"], "allow": ["optimizer"]},
    {"model": "qwen2.5-0.5b", "batch": 2, "gpu": "4090,24GiB"},
]
REPLAYS = [
    {"snapshot": os.path.join(TRUTH, "stacks-leak-logits.pickle.xz")},
    {"snapshot": os.path.join(TRUTH, "stacks-duplicate-model.pickle.xz"), "alloc_conf": "max_split_size_mb:128", "tune": True},
]

failures = passed = 0


def check(ok, text):
    global failures, passed
    passed, failures = passed + bool(ok), failures + (not ok)
    print(f"{'ok  ' if ok else 'FAIL'} {text}")


def words_of(request):
    """The command line that asks the same."""
    words = []
    for name, value in request.items():
        if name in ("files", "snapshot"):
            words += value if isinstance(value, list) else [value]
            continue
        for item in value if isinstance(value, list) else [value]:
            words += ["--" + name.replace("_", "-")] + ([] if item is True else [str(item)])
    return words


def command(program, name, request):
    run = subprocess.run([program, name, *words_of(request), "--json"], capture_output=True, text=True, env=ENVIRONMENT, cwd=ROOT)
    return run.stdout


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 320), ("hint", ctypes.c_char * 640), ("file", ctypes.c_char * 512),
                ("byte", ctypes.c_uint64)]


def ask(library, name, request):
    answer, error = ctypes.c_void_p(), Error()
    call = getattr(library, "plimsoll_" + name)
    text = request if isinstance(request, str) else json.dumps(request)
    if call(text.encode(), ctypes.byref(answer), ctypes.byref(error)):
        return "error: " + error.message.decode()
    text = ctypes.string_at(answer).decode()
    library.plimsoll_free(answer)
    return text


def compare(library, program):
    for name, requests in (("estimate", ESTIMATES), ("plan", PLANS), ("replay", REPLAYS)):
        for request in requests:
            expected, got = command(program, name, request), ask(library, name, request)
            check(got == expected and got, f"{name} answers what the command prints: {' '.join(words_of(request))[:90]}")
    for what in ("models", "families", "gpus", "knobs"):
        expected = subprocess.run([program, "help", what, "--json"], capture_output=True, text=True).stdout
        check(ask(library, "list", what) == expected, f"list {what}")


def check_config(library):
    config = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
              "vocab_size": 8000, "max_position_embeddings": 2048, "torch_dtype": "bfloat16"}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w") as file:
            json.dump(config, file)
        by_path = json.loads(ask(library, "estimate", {"model": path, "gpu": "8GiB"}))
    by_text = json.loads(ask(library, "estimate", {"model": config, "gpu": "8GiB"}))
    check(by_text.pop("model") == "config.json" and by_path.pop("model") == path and by_text == by_path,
          "a configuration is the same as text and as a file")


def check_timeline(library):
    answer = json.loads(ask(library, "estimate", {"model": "gpt2", "batch": 4, "gpu": "24GiB", "timeline": 300}))
    t = answer["timeline"]
    lengths = {len(t[key]) for key in ("event", "step", "reserved_bytes", "allocated_bytes", "place")} | {len(p) for p in t["parts"].values()}
    check(lengths == {t["columns"]} and t["columns"] == 300, "the timeline has a value for each column")
    sums = [sum(part[i] for part in t["parts"].values()) for i in range(t["columns"])]
    check(sums == t["allocated_bytes"], "the parts add up to the allocated bytes")
    check(max(t["allocated_bytes"]) == answer["peak_allocated_bytes"], "the timeline reaches the peak")
    names = [p["phase"] for p in t["phases"]]
    check(names[:4] == ["loading", "forward", "backward", "optimizer"], "the phases have their names")


def check_requests(library):
    for request in PLANS[:2]:
        plan = json.loads(ask(library, "plan", request))
        again = json.loads(ask(library, "estimate", plan["ladder"][0]["request"]))
        planned = plan["ladder"][0]["estimate"]
        same = all(again[key] == planned[key] for key in ("device_bytes", "peak_allocated_bytes", "components"))
        check(same, "the request of the first row predicts what the plan says")


def check_example(build):
    """The example of docs/c-interface.md, compiled against what is installed."""
    text = open(os.path.join(ROOT, "docs", "c-interface.md")).read()
    example = re.search(r"```c\n(.*?)```", text, re.S).group(1)
    line = re.search(r"```\n(cc .*?)\n```", text, re.S).group(1)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tools/install.sh", build, os.path.join(folder, "usr")], cwd=ROOT, check=True)
        with open(os.path.join(folder, "fits.c"), "w") as file:
            file.write(example)
        environment = {**ENVIRONMENT, "PKG_CONFIG_PATH": os.path.join(folder, "usr/lib/pkgconfig"),
                       "LD_LIBRARY_PATH": os.path.join(folder, "usr/lib")}
        subprocess.run(line.replace("cc ", "cc -std=c11 -Wall -Werror "), shell=True, cwd=folder, env=environment, check=True)
        run = subprocess.run(["./fits"], capture_output=True, text=True, cwd=folder, env=environment)
        answer = json.loads(run.stdout) if run.returncode == 0 else {}
        check(answer.get("format_version") == 1 and answer.get("fits") in (True, False), f"the example answers {run.stderr}")
        for language, compiler in (("c", ["cc", "-std=c99"]), ("c++", ["c++", "-std=c++11"])):
            flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", language, os.path.join(folder, "usr/include/plimsoll.h")]
            if subprocess.run(["which", compiler[0]], capture_output=True).returncode == 0:
                check(subprocess.run(compiler + flags).returncode == 0, f"the header is {compiler[1][5:]}")


def main(build):
    build = os.path.abspath(build)
    os.chdir(ROOT)
    os.environ.update(ENVIRONMENT)
    library = ctypes.CDLL(os.path.join(build, "release", "libplimsoll.so"))
    compare(library, os.path.join(build, "release", "plimsoll"))
    check_config(library)
    check_timeline(library)
    check_requests(library)
    check_example(build)
    print(f"{passed} passed, {failures} failed")
    return failures > 0


sys.exit(main(*sys.argv[1:]))
