"""Times `plimsoll estimate` and `plimsoll plan` of a 7B LoRA run, whole processes, against their targets.

usage: predict.py PLIMSOLL BENCH_PROCESS [--record PAGE]
"""

import subprocess
import sys
import time

from compare import machine, record

ROUNDS = 25
MODEL = "--model qwen2.5-7b --lora-rank 128 --lora-dropout 0.05 --amp bf16 --seq 2048 --checkpoint --gpu 24GiB"
CACHED = "--model bert-base-uncased --loss contrastive --cached-batch 32 --seq 256 --amp bf16 --loop trainer --gpu 24GiB"
QLORA = "--lora-rank 16 --lora-targets all-linear --weights nf4-double --amp bf16 --seq 2048 --checkpoint --loop trainer --gpu 24GiB"
# Without versions, an estimate also predicts the oldest and the newest that it knows, for its range.
VERSIONS = "--versions transformers=5.17,torch=2.11"
CASES = [  # what, command, seconds, bytes
    ("`estimate` of a 7B LoRA step with given versions", f"estimate {MODEL} --batch 1 --json {VERSIONS}", 0.020, 20e6),
    ("the same without checkpointing", f"estimate {MODEL.replace(' --checkpoint', '')} --batch 1 --json {VERSIONS}", 0.020, 20e6),
    ("the same as the first, with a range over all versions", f"estimate {MODEL} --batch 1 --json", 0.060, 30e6),
    ("`plan` of a 7B LoRA run, all knobs", f"plan {MODEL} --batch 2 --accumulate 8 --json", 2.0, None),
    (
        "the same on 12 GiB, with every --allow",
        f"plan {MODEL.replace('24GiB', '12GiB')} --batch 2 --accumulate 8 --json"
        " --allow optimizer,quantisation,sequence,lora_rank",
        2.0,
        None,
    ),
    ("`plan` of a 32B QLoRA run", f"plan --model qwen2.5-32b {QLORA} --batch 1 --accumulate 4 --json", 2.0, None),
    ("`plan` of a Qwen3.5 27B QLoRA run", f"plan --model qwen3.5-27b {QLORA} --batch 1 --accumulate 2 --json", 2.0, None),
    ("`plan` of the 7B LoRA run on 8 GPUs", f"plan {MODEL} --batch 2 --accumulate 8 --world 8 --strategy ddp --json", 2.0, None),
    ("`estimate` of a cached loss over 65,536 pairs", f"estimate {CACHED} --batch 65536 --json", 0.5, None),
    ("`plan` with a cached loss over 8,192 pairs", f"plan {CACHED} --batch 8192 --json", 1.0, None),
    ("`plan` with a cached loss over 65,536 pairs", f"plan {CACHED} --batch 65536 --json", 2.0, None),
]


def best(process, rounds, command):
    out = subprocess.run([process, str(rounds)] + command, capture_output=True, text=True, check=True).stdout.split()
    return float(out[0]), int(out[1])


def main(plimsoll, process, *options):
    lines, is_met = ["| what | measured | target |", "|---|---|---|"], True
    for what, command, most_seconds, most_bytes in CASES:
        seconds, peak = best(process, ROUNDS if most_seconds < 1 else 5, [plimsoll] + command.split())
        target = f"under {most_seconds * 1000:.0f} ms" + (f", under {most_bytes / 1e6:.0f} MB" if most_bytes else "")
        lines.append(f"| {what} | {seconds * 1000:.1f} ms, {peak / 1e6:.1f} MB peak | {target} |")
        is_met = is_met and seconds < most_seconds and (not most_bytes or peak < most_bytes)
    text = f"{machine()}, {time.strftime('%Y-%m-%d')}, `make bench`:\n\n" + "\n".join(lines)
    print(text)
    if options[:1] == ("--record",):
        record(options[1], "prediction", text)
    if not is_met:
        sys.exit("a target is missed")


main(*sys.argv[1:])
