# What is wrong with a value is told apart: invalid, given twice, computed, not readable. Each message says what to type.
part invalid
printf 'model_name_or_path: gpt2\nper_device_train_batch_size: 0\noutput_dir: out\n' >a.yaml
"$PLIMSOLL" plan a.yaml --gpu 4090 2>&1

part twice
cat >two.py <<'PY'
model = AutoModelForCausalLM.from_pretrained("gpt2")
other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
a = TrainingArguments(per_device_train_batch_size=16)
b = TrainingArguments(per_device_train_batch_size=32)
PY
"$PLIMSOLL" plan two.py --gpu 4090 2>&1
"$PLIMSOLL" plan two.py --gpu 4090 --model gpt2 2>&1

part computed
cat >train.py <<'PY'
model = AutoModelForCausalLM.from_pretrained(cfg["model"])
a = TrainingArguments(per_device_train_batch_size=16)
PY
"$PLIMSOLL" plan train.py --gpu 4090 2>&1

part broken
mkdir conf
printf '{"train_batch_size": 60\n "gradient_accumulation_steps": 2}\n' >conf/ds.json
cat >run.sh <<'SH'
deepspeed train.py --deepspeed conf/ds.json --per_device_train_batch_size 8 \
  --gradient_accumulation_steps 2 --model_name_or_path gpt2
SH
touch train.py
"$PLIMSOLL" plan run.sh --gpu 4090 2>&1

part world
mkdir conf
cat >conf/ds.json <<'JSON'
{"train_batch_size": 60,
 "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2}
JSON
cat >run.sh <<'SH'
deepspeed train.py --deepspeed conf/ds.json --per_device_train_batch_size 8 \
  --gradient_accumulation_steps 2 --model_name_or_path gpt2
SH
touch train.py
"$PLIMSOLL" plan run.sh --gpu 4090 2>&1

part options
plan() { "$PLIMSOLL" plan -m gpt2 -b 16 -s 64 -g 4090 "$@" 2>&1; }
plan --fix micro_batch
plan --fix micro_batch=4 --fix micro_batch=8
plan --fix liger=on --try liger=on,off
plan --fix micro_batch=3
plan --fix strategy=ddp --fix offload=optimizer
plan --effective-batch 0
plan --nodes 2
plan --lora-rank 4 --lora-dropout 1
"$PLIMSOLL" plan nofile.yaml 2>&1

part estimate
estimate() { "$PLIMSOLL" estimate -m gpt2 "$@" 2>&1; }
estimate train.yaml
estimate --gpu 4O90
estimate --gpu 4090,A100
estimate --limit 5
estimate --seq 1k
estimate --mask left
estimate --alloc-conf foo:1
