# The report of a simulated run: what ran and where, the verdict, and the notes, which are the same in JSON. The program only
# pretends to train: it takes memory of the simulated GPU and leaves what the Python modules would.
export XDG_STATE_HOME=$PWD/state
cat >pretend.py <<'PY'
import argparse, ctypes, json, os
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--accumulate", type=int, default=2)
parser.add_argument("--gib", type=int, default=10)
args = parser.parse_args()


def train():
    from transformers import Trainer, TrainingArguments
    Trainer(model, TrainingArguments("out", per_device_train_batch_size=args.batch_size, gradient_accumulation_steps=args.accumulate)).train()


reserved = args.gib << 30
if ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(reserved)):
    raise SystemExit("out of memory")
process = {"steps": 3, "cuda": "13.0", "values": True, "triton": True, "host_bytes": 1 << 30, "versions": {"torch": "2.11.0"},
  "devices": [{"allocated_bytes.all.peak": reserved - 1, "reserved_bytes.all.peak": reserved}],
  "observed": {"model": {"class": "Net", "parameters": 1000, "trained": 1000}, "optimizer": {"class": "AdamW"}}}
process.update(json.loads(os.environ.get("MORE", "{}")))
with open(os.path.join(os.environ["PLIMSOLL_OUT"], str(os.getpid()) + ".json"), "w") as f:
    json.dump(process, f)
PY
simulate() { $PLIMSOLL simulate --unsandboxed "$@" 2>&1 | sed -E 's/simulated in [0-9.]+ m?s/simulated in TIME/; s#^log: .*#log#; s#\([^ ]*/log\)#(LOG)#; s#^  [^ ]*/log\)#  LOG)#'; }

part "on a GPU with a name, with a size, with a limit, and without any of them"
cp ../pretend.py . && export PLIMSOLL_NVML=nowhere
simulate --gpu 4090 -- python3 pretend.py
simulate --gpu 24GiB --gpus 2 -- python3 pretend.py | sed -n '2,3p'
simulate --gpu 4090 --limit 20GiB -- python3 pretend.py | sed -n '2p; /FITS/,+1p'
simulate --limit 20GiB -- python3 pretend.py | sed -n '2p'
simulate -- python3 pretend.py | sed -n '2,3p; /needs/,+2p'

part "it does not fit, or only just"
cp ../pretend.py .
simulate --gpu 24GiB -- python3 pretend.py --gib 30 | sed -n '/FIT/,$p'
simulate --gpu 24GiB -- python3 pretend.py --gib 23 | sed -n '/FIT/,$p'
{ echo 'import os'; echo 'if os.path.exists("again"): raise SystemExit("broken")'; echo 'open("again", "w")'; cat pretend.py; } >fails.py
simulate --gpu 24GiB -- python3 fails.py --gib 30 | sed -n '/FIT/,/^log/p'

part "several processes on one GPU"
cp ../pretend.py .
simulate --gpu 24GiB -- bash -c 'python3 pretend.py --gib 3; python3 pretend.py' | sed -n '/FITS/,$p'

part "the effective batch, where accumulation can keep it and where it cannot"
cp ../pretend.py .
simulate --gpu 4090 --with micro_batch=2 -- python3 pretend.py --batch-size 4 --accumulate 2 | grep -E "^(changed|note|  )"
simulate --gpu 4090 --with micro_batch=3 -- python3 pretend.py --batch-size 4 --accumulate 2 | grep -E "^(changed|note)"
simulate --gpu 4090 --with micro_batch=2 --with accumulate=2 -- python3 pretend.py --batch-size 4 --accumulate 1 | grep -E "^(changed|note|unchanged)"
grep -v accumul pretend.py | sed 's/from transformers.*/pass/; s/Trainer(model.*/DataLoader(data, batch_size=args.batch_size)/' >plain.py
simulate --gpu 4090 --with micro_batch=2 -- python3 plain.py --batch-size 4 | grep -E "^(changed|note)"

part "notes, in text and in JSON"
cp ../pretend.py .
export MORE='{"values": false, "triton": false, "world": 2, "routed": [{"file": "/x/site-packages/net/moe.py", "line": 7, "times": 2,
  "choices": 8, "chosen": 2}], "looked_at": [{"file": "train.py", "line": 3, "times": 1, "type": "float32", "told": 0}],
  "observed": {"model": {"class": "Net", "parameters": 1000, "trained": 10}, "batch": [4, 512], "has_tokens": true, "batches": 2,
  "strategy": "ddp"}}'
simulate --gpu 4090 --world 8 -- python3 pretend.py
simulate --gpu 4090 --world 8 --json -- python3 pretend.py |
  python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["gpu"], *[(n["code"], n["file"], n["line"]) for n in r["notes"]], sep="\n")'
export MORE='{"world": 8, "is_grouped": true}'
simulate --gpu 4090 --world 8 -- python3 pretend.py | sed -n 3,5p
