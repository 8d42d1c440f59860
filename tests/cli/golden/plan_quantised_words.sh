# Quantised weights are keys of TRL's and LLaMA-Factory's files: written, with double quantisation where one key says it.
cat > sft.yaml <<'YAML'
model_name_or_path: qwen2.5-7b
per_device_train_batch_size: 1
max_length: 512
dtype: bfloat16
use_peft: true
lora_r: 16
YAML
cat > lf.yaml <<'YAML'
model_name_or_path: qwen2.5-7b
stage: sft
finetuning_type: lora
lora_rank: 16
cutoff_len: 512
per_device_train_batch_size: 1
gradient_accumulation_steps: 1
bf16: true
YAML
for file in sft.yaml lf.yaml; do
  echo "== $file"
  $PLIMSOLL plan $file --gpu 12GiB --allow quantisation --fix offload=none --out plan.json | grep -E '^(planned|quantisation|to do by hand|[0-9]. |[-+][^-+])'
  $PLIMSOLL apply plan.json > /dev/null && $PLIMSOLL plan $file --gpu 12GiB | grep -E '^now:'
done
echo "double_quantization: false" >> lf.yaml
$PLIMSOLL plan lf.yaml --gpu 12GiB | grep -E '^now:'
