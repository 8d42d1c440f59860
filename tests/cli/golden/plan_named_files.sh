# A configuration that the files refer to is read, or the plan says why not.
cat >train.py <<'S'
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]
Trainer(AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B"), args).train()
S
cat >run.sh <<'S'
torchrun --nproc_per_node 8 train.py --output_dir out --per_device_train_batch_size 2 \
  --bf16 true --deepspeed conf/ds.json
S
try() { $PLIMSOLL plan run.sh --seq 512 --gpu 24GiB "$@" 2>&1 | head -5; }
echo "== missing"
try
echo "== what it says is typed"
try --strategy zero2
mkdir conf
echo "== broken"
echo '{"zero_optimization": {"stage": 2}' >conf/ds.json && try
echo "== a folder of that name"
rm conf/ds.json && mkdir conf/ds.json && try && rmdir conf/ds.json
echo '{"zero_optimization": {"stage": 2}}' >conf/ds.json
echo "== a module"
echo "import settings" | cat - train.py >x && mv x train.py
echo "X = (" >settings.py && try
(
part imports
# Imports are followed over several lines; what a docstring says is no import.
mkdir conf && echo 'BATCH = 4' >conf/sizes.py && echo 'BATCH = 9' >other.py
cat >train.py <<'END'
"""
from other import BATCH
"""
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from conf.sizes import (
    BATCH,
)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
args = TrainingArguments("out", per_device_train_batch_size=BATCH, bf16=True)
Trainer(model=model, args=args).train()
END
$PLIMSOLL plan train.py --seq 512 --gpu 24GiB | grep -E '^(now|files)|batch'
) 2>&1 || echo "exit $?"
