# DeepSpeed trains in its own 16-bit type whatever type the model is loaded in: accelerate's configuration, a DeepSpeed
# file with "auto", and Lightning's strategies predict the same as a model that is loaded in bf16.
cat > sft.yaml <<'YAML'
model_name_or_path: qwen2.5-0.5b
per_device_train_batch_size: 4
dataset_name: trl-lib/Capybara
max_length: 512
bf16: true
YAML
cat > zero2.yaml <<'YAML'
distributed_type: DEEPSPEED
mixed_precision: bf16
num_machines: 1
num_processes: 4
deepspeed_config:
  gradient_accumulation_steps: 1
  zero_stage: 2
YAML
echo 'accelerate launch --config_file zero2.yaml trl/scripts/sft.py --config sft.yaml' > launch.sh
say() { echo "== $1"; shift; $PLIMSOLL plan "$@" --gpu 48GiB --try alloc_conf=default 2>&1 | grep -E '^(error|qwen|now:)'; }
say "loaded in float32" launch.sh
echo 'dtype: bfloat16' >> sft.yaml
say "loaded in bfloat16" launch.sh
echo '{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}}' > ds.json
cat > full.yaml <<'YAML'
model_name_or_path: qwen2.5-0.5b
stage: sft
finetuning_type: full
deepspeed: ds.json
cutoff_len: 512
per_device_train_batch_size: 4
gradient_accumulation_steps: 1
bf16: true
YAML
say "LLaMA-Factory, which converts nothing under ZeRO 3" full.yaml --world 4
sed -i 's/"stage": 3/"stage": 2/' ds.json
say "LLaMA-Factory, in float32" full.yaml --world 4
sed 's/qwen2.5-0.5b/openai-community\/gpt2/; /deepspeed/d; s/full/lora/' full.yaml > lora.yaml
echo "== LLaMA-Factory, adapters on a checkpoint that is stored in float32"
$PLIMSOLL plan lora.yaml --gpu 48GiB | head -1
cat > light.py <<'PY'
import lightning as L
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("qwen2.5-0.5b", dtype="float32")
batch_size = 4
trainer = L.Trainer(devices=4, strategy="deepspeed_stage_2", precision="bf16-mixed", accumulate_grad_batches=1)
trainer.fit(model)
PY
say "Lightning" light.py -s 512
