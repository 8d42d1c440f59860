# plan -- COMMAND of a program that plimsoll can predict: planned by prediction and proved by a simulated run; if the
# prediction is not right, planned by simulated runs. The program only pretends to train (fixtures/simulate/pretends.py).
export XDG_STATE_HOME=$PWD/state PEAKS=$PWD/peaks.json
config='{"model_type": "llama", "vocab_size": 32000, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 2,
  "num_attention_heads": 8, "num_key_value_heads": 8}'

# peaks FACTOR FACTOR: what is predicted, times the first factor for the program's own micro batch, and times the second
# for others.
peaks() {
  for batch in 1 2 4 8 16 32 64; do
    for conf in max_split_size_mb:10000 expandable_segments:True; do
      $PLIMSOLL estimate -m config.json -b $batch -a $((64 / batch)) -s 512 --dtype fp32 --amp bf16 --loop trainer \
        --alloc-conf $conf --json
    done
  done | python3 -c '
import json, sys
text, peaks = sys.stdin.read(), {}
for batch in 1, 2, 4, 8, 16, 32, 64:
    for conf in "", " expandable":
        one, end = json.JSONDecoder().raw_decode(text)
        text = text[end:].lstrip()
        peaks[str(batch) + conf] = int(one["peak_reserved_bytes"] * float(sys.argv[1 if batch == 4 else 2]))
print(json.dumps(peaks))' "$1" "$2" >peaks.json
}

try() { $PLIMSOLL plan --gpu 6GiB --unsandboxed "$@" -- python3 pretends.py --batch-size 4 --accumulate 16 2>&1 | sed "s#$PWD#PWD#; s#simulate/.*/log#simulate/TIME/log#"; }
start() {
  part "$1"
  cp fixtures/simulate/pretends.py .
  echo "$config" >config.json
  export XDG_STATE_HOME=$PWD/state PEAKS=$PWD/peaks.json
}

start "the prediction is right"
peaks 1 1
try --out plan.json | sed -n '1,/^budget/p; /^your new command/,$p'
$PLIMSOLL apply plan.json
python3 -c 'import json; p = json.load(open("plan.json")); print(p["proof"]["needs_bytes"] > 0, p["model"], p["rungs"][0]["command"])'

# A fallback that needs manual steps: the command that plans without them has its options before the program.
python3 -c 'import json; print(*[r["replan"] for r in json.load(open("plan.json"))["rungs"] if "replan" in r][:1])'
try --fix micro_batch=8 | grep -E "^(micro_batch|proved)"
try --fix checkpoint=on
try --fix chunked_loss=512

start "the prediction of its own settings is wrong"
peaks 1.2 1.2
try --out plan.json
$PLIMSOLL apply plan.json
try --fix checkpoint=on

start "the prediction of the plan is wrong"
peaks 1 1.4
try

start "the model is not known"
peaks 1 1
rm config.json
try | grep -A2 -E "planned|^note: the plan leaves"

start "its own micro batch fits only if PyTorch frees memory in time, and then does not"
rm config.json
echo '{"1": 2000000000, "2": 4000000000, "4": 7000000000}' >peaks.json
ALLOCATED=0.7 try | sed -n '/^simulated runs/,/^planned/p'
