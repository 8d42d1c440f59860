# --lengths: the longest sample decides memory, typical batches the time.
export COLUMNS=80
run() { $PLIMSOLL "$@" --json | python3 -c 'import json,sys; d=json.load(sys.stdin); n=[x["message"] for x in d["notes"] if "lengths" in x["code"]]; c=d.get("chosen", d); print(n, d.get("device_bytes"), "%.4f" % d["step_seconds"] if "step_seconds" in d else "")'; }
{ echo tokens; for i in $(seq 1 99); do echo $((i * 3)); done; echo 1000; } >lengths.csv
echo "== a few long samples"
run estimate -m gpt2 -b 8 --gpu h200 --lengths lengths.csv
run estimate -m gpt2 -b 8 --gpu h200 --seq 1000
run estimate -m gpt2 -b 8 --gpu h200 --lengths lengths.csv --seq 128
echo '[12, 512, 77.0]' >lengths.json
run estimate -m gpt2 -b 8 --gpu h200 --lengths lengths.json
echo "== files"
cat >train.yaml <<'Y'
base_model: Qwen/Qwen2.5-0.5B
micro_batch_size: 4
gradient_accumulation_steps: 2
sequence_len: 2048
datasets: [{path: a, type: alpaca}]
optimizer: adamw_torch
bf16: true
Y
$PLIMSOLL plan train.yaml --gpu 24GiB --lengths lengths.csv | sed -n '1,/^planned/p'
echo 'sample_packing: true' >>train.yaml
run plan train.yaml --gpu 24GiB --lengths lengths.csv
echo "== mistakes"
printf '12\nabc\n' >bad.txt && $PLIMSOLL estimate -m gpt2 --lengths bad.txt 2>&1
printf '12\n0\n' >bad.txt && $PLIMSOLL estimate -m gpt2 --lengths bad.txt 2>&1
: >empty.txt && $PLIMSOLL estimate -m gpt2 --lengths empty.txt 2>&1
$PLIMSOLL estimate -m gpt2 --lengths missing.txt 2>&1
$PLIMSOLL estimate -m gpt2 --method dpo --lengths lengths.csv 2>&1
printf 'id,tokens\n1,300\n' >bad.txt && $PLIMSOLL estimate -m gpt2 --lengths bad.txt 2>&1
printf '1\0002\n' >bad.txt && $PLIMSOLL estimate -m gpt2 --lengths bad.txt 2>&1
$PLIMSOLL estimate -m gpt2 --lengths lengths.csv --seq 4096 2>&1
echo 5000 >long.txt && $PLIMSOLL estimate -m gpt2 --lengths long.txt 2>&1
echo "== several GPUs wait for the longest of all batches"
run estimate -m gpt2 -b 8 --gpu h200 --lengths lengths.csv --strategy ddp --world 8
