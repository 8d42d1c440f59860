# A DeepSpeed file that another training uses too: the plan writes a copy, and the file itself stays as it is.
mkdir -p deepspeed train
cat >deepspeed/zero2.json <<'END'
{
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "bf16": {"enabled": "auto"},
  "zero_optimization": {"stage": 2, "overlap_comm": false}
}
END
cat >train/one.yaml <<'END'
model_name_or_path: Qwen/Qwen2.5-1.5B
stage: sft
do_train: true
finetuning_type: full
deepspeed: deepspeed/zero2.json  # of all examples
cutoff_len: 1024
per_device_train_batch_size: 1
gradient_accumulation_steps: 1
bf16: true
END
cp train/one.yaml train/other.yaml
cp deepspeed/zero2.json before.json
"$PLIMSOLL" plan train/one.yaml --gpu 16GiB --world 2 --out plan.json --fix micro_batch=1 --fix checkpoint=on --fix strategy=zero2 --fix offload=optimizer --fix alloc_conf=unchanged | grep -A1 -E "^(note: deepspeed|now|offload)"
"$PLIMSOLL" apply plan.json && cmp before.json deepspeed/zero2.json && diff train/other.yaml train/one.yaml
diff before.json deepspeed/zero2_plimsoll.json
"$PLIMSOLL" plan train/one.yaml --gpu 16GiB --world 2 --fix micro_batch=1 --fix checkpoint=on --fix strategy=zero2 --fix offload=optimizer --fix alloc_conf=unchanged | grep -A1 -E "^(now|changes)"
"$PLIMSOLL" undo && cmp train/one.yaml train/other.yaml && ls deepspeed

# The same for a training in a deeper folder, from where only the folders beside the configuration lead to the others.
mkdir -p more/deeper && mv train/one.yaml more/deeper/one.yaml
"$PLIMSOLL" plan more/deeper/one.yaml --gpu 16GiB --world 2 --fix micro_batch=1 --fix checkpoint=on --fix strategy=zero2 --fix offload=optimizer --fix alloc_conf=unchanged | grep -A1 -E "^note: deepspeed"
