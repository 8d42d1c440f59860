#!/usr/bin/env python3
"""Asks other memory estimators (tools/estimators.py) for the runs of tests/truth and writes docs/comparison.md: their answers,
ours and what was measured. Each tool is installed into an environment of its own in the cache folder.

usage: tools/compare.py [--check] [PLIMSOLL]
--check installs and writes nothing, and fails if our column of the page is not what the program says now.
"""
import collections, datetime, json, os, platform, statistics, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
import accuracy
import estimators
from estimators import CARDS, GIB, TOOLS

PAGE = os.path.join(accuracy.ROOT, "docs", "comparison.md")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "plimsoll", "compare")
WITH_TORCH = ("torch==2.11.0", "transformers==5.17.0", "numpy==2.4.6")  # as the runs were measured
CONTEXT = 804061184  # of 37 of the 45 runs that recorded the context of their process
MEASURED = {"allocated": "allocated", "reserved": "reserved", "card": "reserved and context"}
HEADS = {("bert", "masked"): "BertForMaskedLM", ("bert", "encoder"): "BertModel", ("mpnet", "encoder"): "MPNetModel",
         ("gpt2", "causal"): "GPT2LMHeadModel", ("t5", "seq2seq"): "T5ForConditionalGeneration", ("gpt_neox", "causal"): "GPTNeoXForCausalLM"}
KINDS = {"mlm": "masked", "encoder": "encoder", "seq2seq": "seq2seq"}
# What the published config.json of these models says beside tests/truth/models.json; transformers' own defaults are the same.
DROPOUT = {"gpt2": {"attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1}, "t5": {"dropout_rate": 0.1},
           "bert": {"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1, "max_position_embeddings": 512},
           "mpnet": {"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1, "max_position_embeddings": 512}}

Answer = collections.namedtuple("Answer", "figure measured")  # figure: bytes, or bytes per card; measured: by the keys of MEASURED
Row = collections.namedtuple("Row", "id job measured ours seconds")


# ---- the runs ---------------------------------------------------------------------------------------


def published(config):
    """The config.json of a model, and its kind."""
    kind = KINDS.get(config.get("_kind"), "causal")
    head = HEADS.get((config["model_type"], kind)) or config["model_type"].capitalize() + "ForCausalLM"
    return DROPOUT.get(config["model_type"], {}) | {k: v for k, v in config.items() if k != "_kind"} | {"architectures": [head]}, kind


def job_of(row, config, predicted):
    """One run in plain words, as the adapters take it. Numbers of parameters are equal to the recorded ones where those are."""
    case = row["case"]
    config, kind = published(config)
    lora = case.get("lora")
    strategy = case.get("strategy")
    offload = "parameters" if case.get("offload") or case.get("offload_param") else "optimizer" if case.get("offload_optimizer") else None
    optimizer = case.get("optim", "adamw_fused").replace("_", "-")
    contrastive = "columns" in case
    loss = "contrastive loss" if contrastive else "chunked loss" if case.get("loss") else None
    autocast = case.get("amp") or case.get("mp")
    return {
        "id": row["id"], "model": case["model"], "kind": kind, "config": config,
        "parameters": predicted["params"] - (predicted["trainable"] if lora else 0), "trainable": predicted["trainable"],
        "batch": case["batch"], "seq": case["seq"], "target_seq": case.get("tgt") or (case["seq"] if kind == "seq2seq" else None),
        "weights": "fp32" if contrastive else case.get("param_dtype") or case.get("param") or "bf16",
        "autocast": autocast if autocast != "0" else None,
        "checkpoint": bool(case.get("ckpt")), "attention": case.get("attn") or "sdpa", "lora": lora, "loss": loss,
        "optimizer": "adamw" if optimizer == "adamw-fused" else optimizer,
        "strategy": f"zero{case['stage']}" if strategy == "zero" else strategy, "world": case.get("world", 1), "offload": offload,
    }


def ddp_flags(case):
    return accuracy.sharded_flags({**case, "mp": case.get("amp")})


def zero_flags(case):
    """The peaks of these runs start after the cache was freed; a model that is loaded in shards leaves nothing there."""
    f = accuracy.sharded_flags({**case, "strategy": f"zero{case['stage']}"}) + ["--load", "sharded"]
    if case.get("offload_optimizer"):
        f += ["--offload", "parameters" if case.get("offload_param") else "optimizer"]
    if case.get("lora"):
        f += ["--lora-rank", str(case["lora"]["r"]), "--lora-dropout", "0", "--lora-targets", case["lora"]["targets"], "--lora-dtype", "bf16"]
    return f


def measured_of(row):
    allocated = row.get("peak_allocated") or row["peak_alloc"]
    return {"allocated": allocated, "reserved": row["peak_reserved"], "card": row["peak_reserved"] + row.get("context_end", CONTEXT)}


def all_runs():
    """(row, its config, flags) of every run that has a measured peak."""
    models = accuracy.load("models")
    for name, steps in (("steps", 3), ("seeds", 3), ("timing", 5), ("timing_more", 5), ("plans", 3)):
        for row in accuracy.load(name):
            yield row, models[row["case"]["model"]], accuracy.flags_of(row["case"], steps)
    for row in accuracy.load("contrastive"):
        yield row, row["config"], accuracy.contrastive_flags(row["case"])
    for name, flags in (("sharded", accuracy.sharded_flags), ("sharded_more", accuracy.sharded_flags),
                        ("sharded_ddp", ddp_flags), ("zero_one_gpu", zero_flags)):
        for row in accuracy.load(name):
            yield row, models[row["case"]["model"]], flags(row["case"])


def our_rows(program):
    with tempfile.TemporaryDirectory() as folder:
        for row, config, flags in all_runs():
            if row.get("status") == "oom":
                continue
            model = accuracy.config_file(folder, row["case"]["model"] + str(len(config)), config)
            start = time.monotonic()
            predicted = accuracy.predict(program, model, flags)
            yield Row(row["id"], job_of(row, config, predicted), measured_of(row), predicted["device_bytes"], time.monotonic() - start)


# ---- the arithmetic ---------------------------------------------------------------------------------


def smallest_card(need):
    return next((card for card in CARDS if need <= card * GIB), CARDS[-1])


def figure_for(answer, card):
    return answer.figure[card] if isinstance(answer.figure, dict) else answer.figure


def error(answer, key):
    """In percent of what was measured. An answer per card counts for the smallest card that holds the run."""
    return accuracy.percent(figure_for(answer, smallest_card(answer.measured["card"])), answer.measured[key])


def most_favourable(answers):
    return min(MEASURED, key=lambda key: statistics.mean(abs(error(a, key)) for a in answers))


def wrong_verdicts(answers):
    """(said to fit and does not, said not to fit and does) over all cards."""
    low = high = 0
    for a in answers:
        for card in CARDS:
            said, fits = figure_for(a, card) <= card * GIB, a.measured["card"] <= card * GIB
            low += said and not fits
            high += fits and not said
    return low, high


def nearer(theirs, key, ours):
    return sum(abs(error(a, key)) < abs(error(b, "card")) for a, b in zip(theirs, ours))


Summary = collections.namedtuple("Summary", "answered key mean median worst low high")


def summary_of(answers, key=None):
    if not answers:
        return Summary(0, None, None, None, None, 0, 0)
    key = key or most_favourable(answers)
    errors = [error(a, key) for a in answers]
    sizes = [abs(e) for e in errors]
    return Summary(len(answers), key, statistics.mean(sizes), statistics.median(sizes), max(errors, key=abs), *wrong_verdicts(answers))


# ---- the other tools --------------------------------------------------------------------------------


class CannotInstall(Exception):
    pass


def library_folder(python):
    run = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def environment(name, *steps, below=None, variables=None):
    """A virtual environment, made once. steps: what is given to pip install, one after another. below: an environment whose packages
    it sees."""
    folder = os.path.join(CACHE, name)
    python, made = os.path.join(folder, "bin", "python"), os.path.join(folder, "made")
    wanted = json.dumps([steps, below])
    if os.path.exists(made):
        with open(made) as f:
            if f.read() == wanted:
                return python
    print(f"installing {name}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    if below:
        with open(os.path.join(library_folder(python), "below.pth"), "w") as f:
            f.write(library_folder(below) + "\n")
    for step in steps:
        pip = subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", "install", *step],
                             env=os.environ | (variables or {}), capture_output=True, text=True)
        if pip.returncode:
            raise CannotInstall((pip.stderr.strip().splitlines() or ["pip failed"])[-1])
    with open(made, "w") as f:
        f.write(wanted)
    return python


def python_of(name):
    tool = TOOLS[name]
    package = f"{tool.package}=={tool.version}"
    steps = (tool.others, ("--no-deps", package)) if tool.is_alone else ((package, *tool.others),)
    below = environment("torch", WITH_TORCH) if tool.with_torch else None
    return environment(name, *steps, below=below, variables=tool.variables)


def ask(name, rows):
    """What the tool says to each job, or the reason why it cannot be asked."""
    try:
        python = python_of(name)
    except CannotInstall as error:
        return {"failed": f"could not be installed: {error}"}
    offline = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            row.job["folder"] = os.path.join(folder, row.job["model"])
            os.makedirs(row.job["folder"], exist_ok=True)
            with open(os.path.join(row.job["folder"], "config.json"), "w") as f:
                json.dump(row.job["config"], f)
        run = subprocess.run([python, os.path.abspath(estimators.__file__), name], input=json.dumps([row.job for row in rows]),
                             env=os.environ | offline | TOOLS[name].variables, capture_output=True, text=True, cwd=folder)
    if run.returncode:
        sys.stderr.write(run.stderr)
        return {"failed": f"does not run: {(run.stderr.strip().splitlines() or ['no message'])[-1]}"}
    said = json.loads(run.stdout)
    for row in said["rows"].values():
        if isinstance(row.get("figure"), dict):
            row["figure"] = {int(card): figure for card, figure in row["figure"].items()}
    return said


# ---- the page ---------------------------------------------------------------------------------------


def gib(value):
    return f"{value / GIB:.2f}"


def our_cell(row):
    return f"{gib(row.ours)} ({accuracy.percent(row.ours, row.measured['card']):+.2f} %)"


def our_answers(rows):
    return [Answer(row.ours, row.measured) for row in rows]


def accuracy_cells(s, digits=1):
    if not s.answered:
        return "| 0 | | | | | | |"
    return (f"| {s.answered} | {MEASURED[s.key]} | {s.mean:.{digits}f} % | {s.median:.{digits}f} % | {s.worst:+.{digits}f} % | {s.low} | {s.high} |")


def our_line(rows):
    return f"| **plimsoll** {accuracy_cells(summary_of(our_answers(rows), 'card'), 2)}"


def answers_of(rows, said):
    return [Answer(said["rows"][row.id]["figure"], row.measured) for row in rows if "figure" in said["rows"][row.id]]


def summary_table(rows, said):
    lines = ["| tool | rows answered | compared with | mean error | median error | worst error | said to fit, does not | said not to fit, does |",
             "|---|---|---|---|---|---|---|---|", our_line(rows)]
    for name, tool in TOOLS.items():
        if "failed" in said[name]:
            lines.append(f"| {tool.package} {tool.version} | {said[name]['failed']} | | | | | | |")
        else:
            lines.append(f"| {tool.package} {tool.version} {accuracy_cells(summary_of(answers_of(rows, said[name])))}")
    return lines


def same_rows_table(rows, said):
    lines = ["| rows that this tool answered | rows | its mean error | ours | its worst error | ours | its wrong verdicts | ours | rows where it is nearer |",
             "|---|---|---|---|---|---|---|---|---|"]
    for name, tool in TOOLS.items():
        if "failed" in said[name]:
            continue
        answered = [row for row in rows if "figure" in said[name]["rows"][row.id]]
        theirs, ours = summary_of(answers_of(rows, said[name])), summary_of(our_answers(answered), "card")
        if answered:
            lines.append(f"| {tool.package} | {len(answered)} | {theirs.mean:.1f} % | {ours.mean:.2f} % | {theirs.worst:+.1f} % | {ours.worst:+.2f} % | "
                         f"{theirs.low + theirs.high} | {ours.low + ours.high} | {nearer(answers_of(rows, said[name]), theirs.key, our_answers(answered))} |")
    return lines


def time_table(rows, said):
    ours = statistics.mean(row.seconds for row in rows)
    lines = ["| tool | start, seconds | one answer, seconds |", "|---|---|---|", f"| **plimsoll** | (in the answer) | {ours:.3f} |"]
    for name, tool in TOOLS.items():
        seconds = [row["seconds"] for row in said[name].get("rows", {}).values() if "seconds" in row]
        if seconds:
            lines.append(f"| {tool.package} | {said[name]['import_seconds']:.2f} | {statistics.mean(seconds):.4f} |")
    return lines


def reasons_table(rows, said):
    lines = ["| tool | why it does not answer | rows |", "|---|---|---|"]
    for name, tool in TOOLS.items():
        reasons = collections.Counter(row["reason"] for row in said[name].get("rows", {}).values() if "reason" in row)
        lines += [f"| {tool.package} | {reason} | {count} |" for reason, count in reasons.most_common()]
    return lines


def rows_table(rows, said):
    names = [name for name in TOOLS if "failed" not in said[name]]
    keys = {name: summary_of(answers_of(rows, said[name])).key for name in names}
    heads = ["run", "allocated", "reserved", "and context", "plimsoll", *(TOOLS[name].package for name in names)]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows:
        cells = []
        for name in names:
            answer = said[name]["rows"][row.id]
            if "figure" in answer:
                a = Answer(answer["figure"], row.measured)
                cells.append(f"{gib(figure_for(a, smallest_card(row.measured['card'])))} ({error(a, keys[name]):+.0f} %)")
            else:
                cells.append(answer["reason"])
        lines.append(f"| {row.id} | " + " | ".join(gib(row.measured[key]) for key in MEASURED) + f" | {our_cell(row)} | " + " | ".join(cells) + " |")
    return lines


def machine():
    try:
        with open("/proc/cpuinfo") as f:
            model = next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.machine()
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}, no GPU"


def page_of(rows, said, day):
    verdicts = len(rows) * len(CARDS)
    lines = [
        "# Comparison with other tools", "",
        f"`make compare` wrote this page on {day} ({machine()}).",
        f"It asks {len(TOOLS)} other tools on PyPI that estimate the GPU memory of training for {len(rows)} runs of `tests/truth`, which were measured on",
        "an NVIDIA H200 (torch 2.11.0, transformers 5.17.0, peft 0.21.0), and compares their answers with the measured peaks. `make test`",
        "checks that our column is what the program says now.", "",
        *summary_table(rows, said), "",
        "- **Rows answered.** A tool gets only rows for which it has an input, and none that its documentation or its own check refuses. No other",
        "  tool's figure depends on accumulation, padding masks, the allocator's settings or a memory limit: rows are not refused for those.",
        "- **Compared with.** Tools mean different things by peak memory: what tensors need (allocated), what PyTorch's allocator takes from the GPU for",
        "  them (reserved), or the whole process (reserved and context). Each of the other tools is compared with whichever makes its mean error",
        "  smallest. Ours is compared with reserved and context, which is what a GPU must hold.",
        f"- **Verdicts.** For GPUs of {', '.join(map(str, CARDS[:-1]))} and {CARDS[-1]} GiB: does the figure fit, and do reserved and context fit?",
        f"  A tool that answers n rows gives {len(CARDS)} × n verdicts; ours gives {verdicts}. Margins that a tool recommends beside its figure are not used.",
        f"- The context is the recorded one, or {CONTEXT:,} bytes, as in most runs that recorded it. Runs that ran out of memory have no peak",
        "  and are left out.", "",
        "## On the same rows", "",
        "Each tool chooses the rows that it can answer, so the lines above are about different rows. Here ours is restricted to theirs.", "",
        *same_rows_table(rows, said), "",
        "## Time", "", "Start: importing the tool, once. Ours starts a process for every answer.", "", *time_table(rows, said), "",
        "## What this comparison does not show", "",
        "- **These runs are ours.** Plimsoll was made with them: where a prediction differed from the measurement, we corrected the program.",
        "  Only those of `plans.json` (33) were predicted before they were run, and nothing was fitted to those of `zero_one_gpu.json` (11), which",
        "  have our largest errors. The other tools were not made with any of these runs. `docs/measurements.md` says what was fitted to what.",
        "- One GPU (H200), one version of each library. fitcheck and canifinetune were adjusted to their authors' GPUs (T4, RTX 4080).",
        "- DDP on one GPU has peaks that change from run to run (`tests/truth/README.md`). The ZeRO runs were measured from the moment at which the",
        "  engine was made and PyTorch's cache freed, which cannot be told to `plimsoll estimate`.",
        "- Figures without activations (accelerate, DeepSpeed) cannot say whether a training fits. DeepSpeed's function says so in its name (model",
        "  states); accelerate's column is called `Training using Adam` and knows neither batch nor length.", "",
        "## What each tool is given, and which figure is taken", ""]
    lines += [f"- **{tool.package}**: {tool.figure}. Given: {tool.given}." for tool in TOOLS.values()]
    lines += ["", "No tool is asked over the network: a model's config.json and its number of parameters come from the recording.", "",
              "## What they do better", ""]
    lines += [f"- **{tool.package}** {tool.better}." for tool in TOOLS.values()]
    lines += ["", "## What they do not answer", "", *reasons_table(rows, said), "",
              "## Every row", "", "<details><summary>GiB, and the error in percent of what the tool is compared with</summary>", "",
              *rows_table(rows, said), "", "</details>", "",
              "## Again", "", "`make compare` installs the tools into the cache folder (`~/.cache/plimsoll/compare`, 6 GB, most of it torch), asks them and",
              "writes this page. The versions and what each tool is told are in `tools/estimators.py`."]
    return "\n".join(lines) + "\n"


def our_part(text):
    """The lines of the page that only our program decides, and the first cells of each row."""
    lines = text.splitlines()
    start = lines.index("## Every row")
    cells = [tuple(cell.strip() for cell in line.split("|")[1:6]) for line in lines[start:] if line.startswith("| ")]
    return [line for line in lines if line.startswith("| **plimsoll** | ")][:1], cells[1:]


def check(program):
    """What is wrong with the page, or None."""
    rows = list(our_rows(program))
    expected = [our_line(rows)], [(row.id, *(gib(row.measured[key]) for key in MEASURED), our_cell(row)) for row in rows]
    with open(PAGE) as f:
        found = our_part(f.read())
    if found == expected:
        return None
    differing = next((pair for pair in zip(found[1], expected[1]) if pair[0] != pair[1]), (found[0], expected[0]))
    return f"docs/comparison.md is not what the program says now: make compare\n  {differing[0]}\n  {differing[1]}"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    program = arguments[0] if arguments else os.path.join(accuracy.ROOT, "build", "plimsoll")
    if "--check" in sys.argv:
        wrong = check(program)
        print(wrong or "docs/comparison.md is what the program says")
        sys.exit(1 if wrong else 0)
    rows = list(our_rows(program))
    said = {}
    for name in TOOLS:
        said[name] = ask(name, rows)
        print(f"{name}: {said[name].get('failed') or f'{len(answers_of(rows, said[name]))} of {len(rows)} rows'}", flush=True)
    if all("failed" in answer for answer in said.values()):
        print("no tool could be installed (packages cannot be downloaded here?); docs/comparison.md is left as it was")
        sys.exit(3)
    with open(PAGE, "w") as f:
        f.write(page_of(rows, said, datetime.date.today().isoformat()))


if __name__ == "__main__":
    main()
