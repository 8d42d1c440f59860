# Unknown unpacked arguments of a call make its knobs unclear; explicit arguments are certain.
cat >train.py <<'EOF'
import sys, yaml
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
cfg = yaml.safe_load(open(sys.argv[1]))
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
Trainer(model, TrainingArguments(**cfg["training"])).train()
EOF
$PLIMSOLL check train.py --gpu 80GiB --json | grep -E '"(verdict|why_not_checked|micro_batch)"'
printf 'training:\n  per_device_train_batch_size: 2\n' >c.yaml
$PLIMSOLL check train.py c.yaml --gpu 80GiB --json | grep -E '"(verdict|why_not_checked|micro_batch)"'
