# Settings that belong together change together: ZeRO's devices and flags, Megatron's recomputation.
(
part zero_set
# With ZeRO, both devices of DeepSpeed and accelerate's zero3_init_flag change and device_map is removed; the result
# reads back as planned.
work=$(mktemp -d) && cd "$work" || exit 9
cat >ds.json <<'EOF'
{
  "train_micro_batch_size_per_gpu": 8,
  "gradient_accumulation_steps": 2,
  "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none"}},
  "bf16": {"enabled": true},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}
}
EOF
cat >acc.yaml <<'EOF'
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  deepspeed_config_file: ds.json
  zero3_init_flag: false
num_machines: 1
num_processes: 4
EOF
cat >go.sh <<'EOF'
accelerate launch --config_file acc.yaml train.py --model_name_or_path qwen2.5-7b \
  --per_device_train_batch_size 8 --gradient_accumulation_steps 2 --bf16 True --max_seq_length 1024
EOF
cat >train.py <<'EOF'
import torch
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]
model = AutoModelForCausalLM.from_pretrained("qwen2.5-7b", dtype=torch.bfloat16, device_map={"": 0})
Trainer(model=model, args=args).train()
EOF
held="--gpu 80GiB --fix micro_batch=8 --fix checkpoint=on --fix liger=off --fix chunked_loss=off --fix alloc_conf=default"
echo "== to the third stage, with all on the host"
$PLIMSOLL plan go.sh $held --fix strategy=zero3 --fix offload=parameters --out plan.json | grep -E "^optimizer|^planned"
$PLIMSOLL apply plan.json --dry-run | tee plan.diff | grep -E "^[-+]"
git init -q . && git apply --check plan.diff && $PLIMSOLL apply plan.json | grep -c changed
$PLIMSOLL check go.sh --gpu 80GiB | grep -E "device_map|zero3_init" || echo "check finds nothing to say of it"
echo "== back, device by device"
$PLIMSOLL plan go.sh $held --fix strategy=zero3 --fix offload=none | grep -E "^[-+] "
$PLIMSOLL plan go.sh $held --fix strategy=zero3 --fix offload=optimizer | grep -E "^[-+] "
echo "== half of it on the host is read as what it is, and written as a whole"
sed -i 's/"offload_optimizer": {"device": "cpu"}/"offload_optimizer": {"device": "none"}/' ds.json
$PLIMSOLL plan go.sh $held --fix strategy=zero3 --fix offload=parameters | grep -E "^note: param|^offload|^[-+] "
echo "== a device_map that comes back would fail"
sed -i 's/dtype=torch.bfloat16/&, device_map={"": 0}/' train.py && $PLIMSOLL check go.sh --gpu 80GiB | grep -A4 "device_map with"
sed -i '/^args/d' train.py && $PLIMSOLL check go.sh --gpu 80GiB | grep "device_map with"
rm -rf "$work"
) 2>&1 || echo "exit $?"
(
part recompute
# Megatron has no value for no recomputation: the option is removed together with those that depend on it.
cat >m.sh <<'S'
torchrun --nproc_per_node 8 pretrain_gpt.py \
  --micro-batch-size 8 --global-batch-size 256 --seq-length 2048 \
  --bf16 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
  --use-distributed-optimizer
S
$PLIMSOLL plan m.sh -m llama-3.2-1b --gpu 80GiB --fix checkpoint=off --out plan.json >/dev/null
$PLIMSOLL apply plan.json --dry-run 2>/dev/null | grep "^[-+]"
) 2>&1 || echo "exit $?"
