# Words in comments and texts are not code: a device map, a batch norm, a comment that locks the batch.
cat >train.py <<'EOF'
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
# there is no BatchNorm in this model
LOG = "we used device_map= earlier, and TrainingArguments( above it"
# you must have downloaded the dataset first
args = TrainingArguments("out", per_device_train_batch_size=8, deepspeed="ds.json")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
Trainer(model, args).train()
EOF
echo '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}' >ds.json
$PLIMSOLL check train.py --gpu 80GiB --json | grep -c device_map
sed -i 's/, deepspeed="ds.json"//' train.py
$PLIMSOLL plan train.py --gpu 12GiB --seq 512 | sed -n '/^planned/p; /^changes/,/^$/p'
