"""Runs PLIMSOLL on files whose keys, values and names are full of characters that steer a terminal, on a terminal and
off one, and looks for such characters in what it prints."""
import json, os, pty, re, subprocess, sys

PROGRAM = os.environ["PLIMSOLL"]
C1, OVERRIDE, MARKS = "\x9b31m\x85", "\u202e\u2066", "\u200f\u061c"
EVIL = f"\x1b]0;x\x07\x1b[31m{C1}{OVERRIDE}{MARKS}\x7f"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\udc80-\udcff]")
OWN = re.compile(r"\x1b\[[0-9]*m")  # its own colours
KEYS = """base_model micro_batch_size gradient_accumulation_steps sequence_len adapter lora_r lora_alpha lora_dropout
lora_target_modules load_in_4bit load_in_8bit optimizer learning_rate bf16 fp16 tf32 gradient_checkpointing
gradient_checkpointing_kwargs flash_attention sdp_attention attn_implementation sample_packing pad_to_sequence_len
deepspeed fsdp fsdp_config fsdp_version batch_size num_epochs liger_cross_entropy plugins torch_compile dtype torch_dtype
model_name_or_path per_device_train_batch_size max_seq_length optim strategy precision max_length packing peft_type
quantization_bit finetuning_type cutoff_len template stage distributed_type mixed_precision num_processes num_machines
use_liger_kernel loss loss_type revision run_name version dynamo_backend save_strategy report_to val_set_size""".split()
BASE = {"base_model": "gpt2", "micro_batch_size": "1", "gradient_accumulation_steps": "1", "sequence_len": "64",
        "adapter": "lora", "lora_r": "8"}
failures = []


def quoted(text):
    return json.dumps(text)  # YAML takes these escapes too


def on_terminal(command):
    ours, theirs = pty.openpty()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    child.wait()
    os.close(ours)
    return b"".join(parts).replace(b"\r\n", b"\n")


def look(name, *arguments, is_exact=False):
    command = [PROGRAM, *arguments]
    piped = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    outputs = {"stderr": piped.stderr, "terminal": on_terminal(command)}
    if not is_exact:
        outputs["stdout"] = piped.stdout
    for where, output in outputs.items():
        text = OWN.sub("", output.decode("utf-8", "surrogateescape"))
        found = FORBIDDEN.search(text)
        if found:
            failures.append(f"{name}, {where}: {text[max(0, found.start() - 60):found.end() + 20]!r}")


def write(path, text):
    with open(path, "w", encoding="utf-8", newline="") as out:
        out.write(text)


def config(**changes):
    return "".join(f"{key}: {value}\n" for key, value in {**BASE, **changes}.items())


def main():
    for key in KEYS:
        write("a.yaml", config(**{key: quoted(EVIL)}))
        look(f"check, {key}", "check", "a.yaml", "--gpu", "80GiB")
        look(f"plan, {key}", "plan", "a.yaml", "--gpu", "80GiB", "--fix", "micro_batch=1", "--fix", "accumulate=1")
    for key in ("deepspeed", "fsdp_config"):
        write("a.yaml", config(**{key: quoted(EVIL + ".json")}))
        look(f"check, a file that {key} names", "check", "a.yaml")
        look(f"plan, a file that {key} names", "plan", "a.yaml", "--gpu", "80GiB")
    write("a.yaml", config() + f"{quoted(EVIL)}: 1\n{quoted('micro_batch_siz' + EVIL)}: 2\n")
    look("keys", "check", "a.yaml", "--gpu", "80GiB")
    name = "b" + EVIL.replace("/", "") + ".yaml"
    write(name, config())
    for command in (["check", name, "--gpu", "80GiB"], ["plan", name, "--gpu", "80GiB"],
                    ["plan", name, "--gpu", "80GiB", "--json"], ["check", name, "--json"]):
        look(f"{command[0]}, a file's name", *command)
    look("estimate, a model's name", "estimate", "--model", EVIL, "--batch", "1", "--seq", "64")
    lines = open("fixtures/small/train.yaml", encoding="utf-8").read().splitlines()
    write("c.yaml", "".join(f"{line}\n# {OVERRIDE}{MARKS}\n" for line in lines))
    plan = [PROGRAM, "plan", "c.yaml", "--gpu", "12GiB", "--try", "micro_batch=1,2"]
    subprocess.run([*plan, "--out", "plan.json"], stdout=subprocess.DEVNULL, check=True)
    look("a diff", "apply", "plan.json", "--dry-run", is_exact=True)
    diff = subprocess.run([PROGRAM, "apply", "plan.json", "--dry-run"], stdout=subprocess.PIPE).stdout
    if f" # {OVERRIDE}{MARKS}\n".encode() not in diff:
        failures.append(f"the diff is not exact: {diff!r}")
    write("plan.json", "{" + f'"format_version": 1, "files": [{{"path": {quoted(EVIL)}}}]' + "}")
    look("a plan", "apply", "plan.json")
    os.makedirs(".plimsoll", exist_ok=True)
    for record in (f"plimsoll {EVIL}\n", json.dumps({"kind": "apply", "steps": [{"path": EVIL}]})):
        write(".plimsoll/journal", record)
        look("a journal", "undo")
        look("a journal", "check", "a.yaml")
        write(".plimsoll/applied.1", record)
        look("a record", "undo")
    with open("latin.py", "wb") as out:
        out.write(b"# coding: latin-1\nfrom transformers import TrainingArguments\n"
                  b"TrainingArguments('\x9b', per_device_train_batch_size=1, optim='\xe9\x9b')\n")
    look("Latin-1", "check", "latin.py", "--model", "gpt2", "--gpu", "80GiB")
    print("\n".join(failures) or f"{len(KEYS)} keys and what else was tried: nothing that steers")


main()
