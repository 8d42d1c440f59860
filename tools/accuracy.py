#!/usr/bin/env python3
"""Predicts every measured run of tests/truth with `plimsoll estimate` and writes docs/accuracy.md.

usage: tools/accuracy.py [--check] [PLIMSOLL]
--check writes nothing and fails if the page is not what the program says now.
"""
import json, math, os, re, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRUTH = os.path.join(ROOT, "tests", "truth")
PAGE = os.path.join(ROOT, "docs", "accuracy.md")
OPTIMIZERS = {"adamw_fused": "adamw", "adamw_torch_fused": "adamw", "adamw_torch": "adamw-foreach"}
HEADS = {"mlm": "BertForMaskedLM", "encoder": "BertModel"}
MEASURED = "transformers=5.17,torch=2.11"  # with which the runs were measured
GIB = 2**30


def load(name):
    with open(os.path.join(TRUTH, name + ".json")) as f:
        return json.load(f)


def config_file(folder, name, config):
    path = os.path.join(folder, name + ".json")
    if not os.path.exists(path):
        config = dict(config)
        head = HEADS.get(config.pop("_kind", ""))
        if head:
            config["architectures"] = [head]
        with open(path, "w") as f:
            json.dump(config, f)
    return path


def flags_of(case, steps):
    """The case's command line."""
    f = ["--batch", case["batch"], "--seq", case["seq"], "--steps", case.get("steps", steps), "--load", "init"]
    f += ["--dtype", case.get("param_dtype", "bf16"), "--mask", case.get("mask", "none")]
    optimizer = case.get("optim", "adamw_fused")
    f += ["--optimizer", OPTIMIZERS.get(optimizer, optimizer.replace("_", "-"))]
    for key, flag in (("amp", "--amp"), ("tgt", "--target-seq"), ("attn", "--attention"), ("loop", "--loop"),
                      ("accum", "--accumulate"), ("alloc_conf", "--alloc-conf")):
        if case.get(key):
            f += [flag, case[key]]
    if case.get("ckpt"):
        f += ["--reentrant" if case.get("reentrant") else "--checkpoint"]
    if case.get("loss"):
        f += ["--loss", {"chunked-model": "chunked"}[case["loss"]], "--loss-chunk", case["chunk"]]
    if case.get("clip") is False:
        f += ["--no-clip"]
    if case.get("del_out"):
        f += ["--delete-outputs"]
    if case.get("cap_gb"):
        f += ["--limit", int(case["cap_gb"] * GIB)]
    lora = case.get("lora")
    if lora:
        targets = lora["targets"]
        f += ["--lora-rank", lora["r"], "--lora-dropout", lora.get("dropout", 0)]
        f += ["--lora-targets", targets if isinstance(targets, str) else ",".join(targets)]
        f += ["--lora-dtype", "fp32" if lora.get("fp32_adapters", True) else "bf16"]
    return [str(x) for x in f]


def contrastive_flags(case):
    options = case["options"]
    f = ["--loss", "contrastive", "--batch", case["batch"], "--seq", case["seq"], "--columns", case["columns"]]
    f += ["--steps", case["steps"], "--dtype", "fp32", "--mask", "pad" if "pad" in options else "ones"]
    f += ["--loop", "trainer" if "trainer" in options else "manual", "--cached-batch", case["mini_batch"]]
    if case["amp"] != "0":
        f += ["--amp", case["amp"]]
    return [str(x) for x in f]


def predict(program, model, flags):
    run = subprocess.run([program, "estimate", "--model", model, "--json", "--versions", MEASURED] + flags, capture_output=True, text=True)
    if run.returncode > 1:
        sys.exit(f"{' '.join(run.args)}\n{run.stdout}{run.stderr}")
    return json.loads(run.stdout)


def predict_all(program):
    models = load("models")
    with tempfile.TemporaryDirectory() as folder:
        for name, steps in (("steps", 3), ("seeds", 3), ("timing", 5), ("timing_more", 5), ("plans", 3)):
            for row in load(name):
                case = row["case"]
                model = config_file(folder, case["model"], models[case["model"]])
                yield name, row, predict(program, model, flags_of(case, steps))
        for row in load("contrastive"):
            model = config_file(folder, "contrastive-" + row["case"]["model"], row["config"])
            yield "contrastive", row, predict(program, model, contrastive_flags(row["case"]))


def sharded_flags(case):
    f = ["--batch", case["batch"], "--seq", case["seq"], "--dtype", case["param"], "--load", "init"]
    f += ["--strategy", case["strategy"], "--world", case["world"]]
    for key, flags in (("ckpt", ["--checkpoint"]), ("mp", ["--amp", case.get("mp")]), ("offload", ["--offload", "parameters"])):
        if case.get(key):
            f += flags
    if case.get("reshard") is False:
        f += ["--no-reshard"]
    return [str(x) for x in f]


def predict_sharded(program):
    models = load("models")
    with tempfile.TemporaryDirectory() as folder:
        for row in load("sharded") + load("sharded_more"):
            case = row["case"]
            model = config_file(folder, case["model"], models[case["model"]])
            yield row, predict(program, model, sharded_flags(case))


def percent(predicted, measured):
    return 100 * (predicted - measured) / measured


def difference(predicted, measured):
    return "equal" if predicted == measured else f"{percent(predicted, measured):+.4f} %"


class Score:
    def __init__(self):
        self.rows = self.equal_allocated = self.equal_reserved = self.inside = 0
        self.verdicts = self.right = 0
        self.worst = 0.0
        self.times = []

    def add(self, row, e):
        ran_out = row["status"] == "oom"
        self.verdicts += 1
        self.right += (e["fits"] is False) == ran_out
        if ran_out or e["fits"] is False:
            return
        allocated, reserved = row["peak_allocated"], row["peak_reserved"]
        self.rows += 1
        self.equal_allocated += e["peak_allocated_bytes"] == allocated
        self.equal_reserved += e["peak_reserved_bytes"] == reserved
        self.worst = max(self.worst, abs(percent(e["peak_allocated_bytes"], allocated)),
                         abs(percent(e["peak_reserved_bytes"], reserved)))
        device = reserved + row.get("context_end", e["context_bytes"])
        self.inside += e["interval_bytes"][0] <= device <= e["interval_bytes"][1]
        if row.get("step_seconds") and e["step_seconds"]:
            self.times.append(abs(percent(e["step_seconds"], row["step_seconds"])))


def row_text(row, e):
    if row["status"] == "oom":
        verdict = "runs out" if e["fits"] is False else "FITS"
        return f"| {row['id']} | runs out | {verdict} | | |"
    if e["fits"] is False:
        return f"| {row['id']} | fits | RUNS OUT | | |"
    text = f"| {row['id']} | {row['peak_allocated']:,} | {difference(e['peak_allocated_bytes'], row['peak_allocated'])}"
    text += f" | {row['peak_reserved']:,} | {difference(e['peak_reserved_bytes'], row['peak_reserved'])} |"
    return text


def sharded_table(rows):
    errors = [abs(percent(e["peak_allocated_bytes"], row["peak_alloc"])) for row, e in rows]
    lines = ["", "## One GPU of several (FSDP2)", "",
             f"Mean error of peak allocated {sum(errors) / len(errors):.4f} %, worst {max(errors):.4f} %.", "",
             "| run | allocated, bytes | predicted | reserved, bytes | predicted |", "|---|---|---|---|---|"]
    for row, e in rows:
        lines.append(f"| {row['id']} | {row['peak_alloc']:,} | {difference(e['peak_allocated_bytes'], row['peak_alloc'])}"
                     f" | {row['peak_reserved']:,} | {difference(e['peak_reserved_bytes'], row['peak_reserved'])} |")
    return lines


def doubtful_runs(program):
    """(name, strategy, error of the device's memory in percent) of every recording with a reason to doubt."""
    dump = os.path.join(os.path.dirname(os.path.realpath(program)), "tests", "core", "estimate", "dump_unverified")
    rows = [line.split("\t") for line in subprocess.run([dump], capture_output=True, text=True, check=True).stdout.splitlines()]
    return [(name, strategy, float(error)) for name, strategy, reasons, error in rows if int(reasons)]


def constant(name):
    with open(os.path.join(ROOT, "src", "core", "estimate", "estimate.c")) as f:
        return float(re.search(rf"#define {name} ([0-9.]+)", f.read()).group(1))


def smallest_margin(errors, verified, share=0.95):
    """In tenths of a percent: the interval then holds that share of the runs."""
    needed = sorted(max(0.0, error / 100 - verified) for error in errors)
    return math.ceil(1000 * needed[math.ceil(share * len(needed)) - 1]) / 1000


def margin_section(runs):
    verified = constant("VERIFIED_MARGIN")
    ddp = [abs(error) for _, strategy, error in runs if strategy == "ddp"]
    others = [abs(error) for _, strategy, error in runs if strategy != "ddp"]
    margin = smallest_margin(ddp, verified)
    if margin != constant("DDP_MARGIN"):
        sys.exit(f"DDP_MARGIN in src/core/estimate/estimate.c is {constant('DDP_MARGIN')}, the recordings say {margin}")
    unverified = constant("UNVERIFIED_MARGIN")
    if smallest_margin(others, verified) > unverified:
        sys.exit(f"UNVERIFIED_MARGIN in src/core/estimate/estimate.c is {unverified}, 95 % of the other runs need {smallest_margin(others, verified)}")
    sure, wide = (sum(error / 100 <= m for error in others) for m in (verified, verified + unverified))
    held = sum(error / 100 <= verified + margin for error in ddp)
    lines = ["", "## What is marked unverified", "",
             f"`estimate` marks {len(runs)} of the recorded runs as unverified. {len(ddp)} of them use",
             "DistributedDataParallel, whose peak depends on how long NCCL holds gradients: their interval is widened by",
             f"{100 * margin:.1f} %, the smallest value that covers 95 % of them ({held} of {len(ddp)}). For the other {len(others)} it is widened by {100 * unverified:.0f} %,",
             "and so it is for whatever has no recording at all (such as other GPUs), where nothing better is known.",
             f"The {100 * verified:.1f} % interval of all runs covers {sure} of these {len(others)}, the wider one {wide}, and the largest error is {max(others):.1f} %.",
             "If several reasons apply, the square root of the sum of their squares is used.", "",
             "| run | error of the device's memory |", "|---|---|"]
    for name, _, error in sorted(runs, key=lambda r: -abs(r[2])):
        if abs(error) >= 0.01:
            lines.append(f"| {name} | {error:+.2f} % |")
    return lines + [f"| {sum(abs(e) < 0.01 for _, _, e in runs)} others | less than 0.01 % |"]


def page_of(results, sharded, doubtful):
    score = Score()
    for _, row, e in results:
        score.add(row, e)
    lines = ["# Accuracy: predicted against measured", "",
             "`make accuracy` generates this page from `tests/truth`; every row is one call of `plimsoll estimate`. Measured on one",
             "NVIDIA H200 with torch 2.11.0, transformers 5.17.0 and peft 0.21.0, each run in a fresh process.", "",
             "| what | result |", "|---|---|",
             f"| runs that fit | {score.rows} |",
             f"| peak allocated equal to the byte | {score.equal_allocated} ({100 * score.equal_allocated / score.rows:.1f} %) |",
             f"| peak reserved equal to the byte | {score.equal_reserved} ({100 * score.equal_reserved / score.rows:.1f} %) |",
             f"| largest error of either | {score.worst:.4f} % |",
             f"| measured device memory within the predicted interval | {score.inside} ({100 * score.inside / score.rows:.1f} %) |",
             f"| predicted correctly whether the run fits | {score.right} of {score.verdicts} |"]
    if score.times:
        lines.append(f"| step time, mean error ({len(score.times)} runs) | {sum(score.times) / len(score.times):.1f} % |")
    titles = {"steps": "Training steps", "seeds": "Limited to the memory of an RTX 4090 and an RTX 5090",
              "timing": "Planning scenarios", "timing_more": "Other models and recipes",
              "plans": "Planned settings and similar ones, limited to the memory of smaller GPUs",
              "contrastive": "Contrastive losses of sentence-transformers, plain and cached"}
    for name, title in titles.items():
        lines += ["", f"## {title}", "", "| run | allocated, bytes | predicted | reserved, bytes | predicted |", "|---|---|---|---|---|"]
        lines += [row_text(row, e) for n, row, e in results if n == name]
    lines += sharded_table(sharded)
    lines += margin_section(doubtful)
    timed = [(row, e) for n, row, e in results if row.get("step_seconds") and e["step_seconds"]]
    if timed:
        lines += ["", "## Seconds per step", "", "| run | measured | predicted | error |", "|---|---|---|---|"]
        for row, e in timed:
            lines.append(f"| {row['id']} | {row['step_seconds']:.3f} | {e['step_seconds']:.3f} | {percent(e['step_seconds'], row['step_seconds']):+.0f} % |")
    return "\n".join(lines) + "\n", score


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    program = arguments[0] if arguments else os.path.join(ROOT, "build", "plimsoll")
    text, score = page_of(list(predict_all(program)), list(predict_sharded(program)), doubtful_runs(program))
    if "--check" not in sys.argv:
        with open(PAGE, "w") as f:
            f.write(text)
        return
    with open(PAGE) as f:
        if f.read() != text:
            print("docs/accuracy.md is not what the program says now: make accuracy")
            print("0 passed, 1 failed")
            sys.exit(1)
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
