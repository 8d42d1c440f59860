# One GPU keeps its setup unless a sharding library is clearly faster. If that is requested, DeepSpeed gets the type of
# the weights, and afterwards one GPU is started by python alone.
cat > t.py <<'END'
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import torch
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-3B", dtype=torch.bfloat16)
ds = d.map(lambda b: tok(b["text"], truncation=True, max_length=2048))
args = TrainingArguments("out", per_device_train_batch_size=8)
Trainer(model=model, args=args, train_dataset=ds).train()
END
held="--gpu 24GiB --fix checkpoint=on --fix liger=on --fix micro_batch=8 --fix alloc_conf=default"
$PLIMSOLL plan t.py $held | grep -E "^(planned|strategy|optimizer  |[1-9] )|the fastest"
echo "== asked for"
$PLIMSOLL plan t.py $held --fix strategy=zero3 --fix offload=parameters --out plan.json | grep -E "^(planned|[+]args)"
$PLIMSOLL apply plan.json
$PLIMSOLL plan t.py $held --fix strategy=zero3 --fix offload=parameters | grep -E "^(note|now:|planned)"
echo "== with a command"
echo "python t.py" > run.sh
$PLIMSOLL plan run.sh $held --fix strategy=zero3 --fix offload=parameters | grep -E "^now:"
echo "deepspeed t.py" > run.sh
$PLIMSOLL plan run.sh $held --fix strategy=zero3 | grep -E -A1 "GPUs with|assuming 8|^now:"
