# A folder instead of files: its only training is planned; several are a question; none is an error.
export COLUMNS=80
cat >train.yaml <<'Y'
base_model: Qwen/Qwen2.5-0.5B
micro_batch_size: 4
gradient_accumulation_steps: 2
sequence_len: 1024
datasets: [{path: a, type: alpaca}]
optimizer: adamw_torch
bf16: true
Y
named() { python3 -c 'import json,sys; d=json.load(sys.stdin); print([f["path"] for f in d["files"]], [n["message"] for n in d["notes"] if n["code"] == "unused.file"])'; }
mkdir one && cp train.yaml one/ && echo 'echo not this one' >one/notes.sh
mkdir -p one/.git one/venv && cp train.yaml one/.git/ && cp train.yaml one/venv/
echo 'zero_optimization: {stage: 2}' >one/broken.json && echo '{"zero_optimization": {"stage": 2}}' >one/zero2.json
mkdir started && cp train.yaml started/ && echo 'axolotl train train.yaml' >started/go.sh
mkdir several && for i in 1 2 3 4 5 6; do cp train.yaml several/$i.yaml; done
mkdir -p nothing/inside && echo hello >nothing/inside/notes.txt
echo "== one training"
$PLIMSOLL plan one --gpu 24GiB --json | named
(cd one && $PLIMSOLL plan . --gpu 24GiB --json) | named
$PLIMSOLL plan one one/zero2.json --gpu 24GiB --world 2 --json | named
echo "== started by a script"
$PLIMSOLL plan started --gpu 24GiB --json | named
echo "== several"
$PLIMSOLL plan several --gpu 24GiB 2>&1
$PLIMSOLL check several 2>&1
echo "== none"
$PLIMSOLL plan nothing --gpu 24GiB 2>&1
$PLIMSOLL check one --gpu 24GiB | tail -2
echo "== what is not read"
mkdir -p deep/1/2/3/4/5/6/7 && cp train.yaml deep/1/2/3/4/5/6/7/ && $PLIMSOLL plan deep --gpu 24GiB 2>&1
mkdir many many/data && cp train.yaml many/ && for i in $(seq 601); do echo '{}' >many/data/$i.json; done
$PLIMSOLL plan many --gpu 24GiB 2>&1
mkdir wrong && printf 'base_model: x\n  y: [\n' >wrong/b.yaml && $PLIMSOLL plan wrong --gpu 24GiB 2>&1
cp train.yaml wrong/a.yaml && $PLIMSOLL plan wrong --gpu 24GiB | grep 'cannot be read'
ln -s .. wrong/up && $PLIMSOLL plan wrong --gpu 24GiB | grep '^files'
