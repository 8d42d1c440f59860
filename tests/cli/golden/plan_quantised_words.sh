# The keys of ecosystems for quantised weights, checkpoints on the host and no adapters.
(
part quantised_words
# TRL and LLaMA-Factory have keys for quantised weights: they are written, with double quantisation if one key sets it.
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
) 2>&1 || echo "exit $?"
(
part offloaded_words
# Checkpoints on the host: Axolotl and Unsloth have a value for it, which no other ecosystem accepts.
say() { echo "== $1"; shift; $PLIMSOLL plan "$@" --fix checkpoint=offloaded --gpu 24GiB 2>&1 | grep -E '^(error|checkpoint offloaded|.*no value of|enable_|[-+] *[a-z_]*checkpointing|[-+].*use_gradient_ch)'; }
cat > tune.yaml <<'YAML'
model:
  _component_: torchtune.models.qwen2_5.qwen2_5_0_5b
tokenizer:
  _component_: torchtune.models.qwen2_5.qwen2_5_tokenizer
  max_seq_len: 512
batch_size: 4
optimizer:
  _component_: torch.optim.AdamW
dtype: bf16
enable_activation_checkpointing: False
enable_activation_offloading: False
YAML
say "torchtune" tune.yaml
cat > sft.yaml <<'YAML'
model_name_or_path: qwen2.5-0.5b
per_device_train_batch_size: 4
max_length: 512
gradient_checkpointing: true
YAML
say "TRL" sft.yaml
cat > ax.yml <<'YAML'
base_model: qwen2.5-0.5b
micro_batch_size: 4
gradient_accumulation_steps: 1
sequence_len: 512
gradient_checkpointing: true
YAML
say "Axolotl" ax.yml
cat > nb.py <<'PY'
from unsloth import FastLanguageModel
from trl import SFTTrainer, SFTConfig
model, tokenizer = FastLanguageModel.from_pretrained("qwen2.5-0.5b", max_seq_length=512, load_in_4bit=True)
model = FastLanguageModel.get_peft_model(model, r=16, use_gradient_checkpointing=True)
trainer = SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=4, gradient_accumulation_steps=1))
trainer.train()
PY
say "Unsloth" nb.py
) 2>&1 || echo "exit $?"
(
part words
# No adapters are shown as "none", not 0; a loss without logits has no row for them.
$PLIMSOLL plan -m llama-3.2-1b -g 24GiB -s 1024 --fix lora_rank=16 | grep -E "^(setting|lora_rank)"
$PLIMSOLL plan -m sentence-transformers/all-MiniLM-L6-v2 --loss contrastive -b 16 -s 128 -g 24GiB | sed -n '/^budget/,/^total/p'
$PLIMSOLL estimate -m sentence-transformers/all-MiniLM-L6-v2 --loss contrastive -b 16 -s 128 | grep -c logits || true
# A file that was cut off is noticed by its missing settings.
printf 'base_model: NousResearch/Meta-Llama-3-8B\nload_in_8bit: false\n' >cut.yaml
HF_HOME=nowhere $PLIMSOLL plan cut.yaml -g 80GiB | grep --no-group-separator -A1 "not set in the files\|files do not set"
) 2>&1 || echo "exit $?"
