# DeepSpeed's sizes are read, both "auto" and numbers. A model loaded under zero.Init is never whole on a GPU, unless
# accelerate's configuration turns that off.
cat > train.py <<'END'
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out", per_device_train_batch_size=1, gradient_accumulation_steps=2, bf16=True, deepspeed="ds.json")
Trainer(model=model, args=args).train()
END
sizes() {
  echo "{\"zero_optimization\": {\"stage\": $1$2}, \"bf16\": {\"enabled\": \"auto\"}}" > ds.json
  echo "== stage $1$2"
  $PLIMSOLL plan train.py -m qwen2.5-1.5b -s 512 --gpu 80GiB --world 4 --try checkpoint=off | grep -E '^(now:|gradients|optimizer)|sizes'
}
sizes 2
sizes 2 ', "overlap_comm": true'
sizes 2 ', "reduce_bucket_size": "auto"'
sizes 2 ', "reduce_bucket_size": 1e8'
sizes 3
sizes 3 ', "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"'
sizes 3 ', "sub_group_size": 100000000, "stage3_max_live_parameters": 0'
# The names of the fields behind these aliases; a key that DeepSpeed does not have.
sizes 3 ', "sub_group_size": 100000000, "max_live_parameters": 0'
$PLIMSOLL plan train.py -m qwen2.5-1.5b -s 512 --gpu 80GiB --world 4 --try checkpoint=off | grep -c 'not understood'
sizes 3 ', "stage3_max_live_parameter": 0, "live": 1, "offload_optimizer": {"device": "none", "pinned": true}'
$PLIMSOLL plan train.py -m qwen2.5-1.5b -s 512 --gpu 80GiB --world 4 --try checkpoint=off | grep -A4 'known key\|not understood'
sizes 3 ', "reduce_bucket_size": "many"'

# The time of overlap_comm and of memory on the host that is not pinned; neither changes the memory.
pins() { # STAGE KEYS [OPTIONS]
  echo "{\"zero_optimization\": {\"stage\": $1$2}, \"bf16\": {\"enabled\": \"auto\"}}" > ds.json
  echo "== stage $1$2"
  $PLIMSOLL plan train.py ${3:--m qwen2.5-1.5b -s 512} --gpu 80GiB --world 4 --try checkpoint=off | grep -E '^now:|is false|15 GB'
}
pins 3 ', "overlap_comm": true' "-m llama-3.1-8b -s 2048"
pins 3 ', "overlap_comm": false' "-m llama-3.1-8b -s 2048"
for stage in 2 3; do
  for pin in true false; do pins $stage ', "offload_optimizer": {"device": "cpu", "pin_memory": '$pin'}'; done
done
for rank in "" "-m qwen2.5-1.5b -s 512 --lora-rank 8"; do
  for pin in true false; do pins 3 ', "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu", "pin_memory": '$pin'}' "$rank"; done
done

echo "== loading"
large="-m llama-3.1-70b -s 512 --lora-rank 8 --world 8 -b 1 -a 1 --gpu 80GiB"
cat > loop.py <<'END'
from accelerate import Accelerator
from torch.utils.data import DataLoader
accelerator = Accelerator()
loader = DataLoader(data, batch_size=1)
END
flag() {
  printf 'distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 3\n%s' "$1" > accelerate.yaml
  $PLIMSOLL plan loop.py accelerate.yaml $large --fix strategy=zero3 --fix offload=none --fix checkpoint=on | grep -E '^(planned|NOTHING)' -A1
}
flag ''
flag '  zero3_init_flag: true
'
flag '  zero3_init_flag: false
'
echo "== a script's own"
cat > own.py <<'END'
import deepspeed
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
from transformers.integrations import HfDeepSpeedConfig
settings = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}
loader = DataLoader(data, batch_size=1)
# HfDeepSpeedConfig(settings)
model = AutoModelForCausalLM.from_pretrained("x")
engine, *_ = deepspeed.initialize(model=model, config=settings)
END
own() { $PLIMSOLL plan own.py $large --fix checkpoint=on --fix offload=none --fix strategy=zero3 | grep -E '^(planned|NOTHING)' -A1; }
own
sed -i 's/# Hf/keep = Hf/' own.py
own
