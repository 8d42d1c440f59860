# Checkpoints on the host: Axolotl and Unsloth have a word for it, which no other ecosystem takes.
say() { echo "== $1"; shift; $PLIMSOLL plan "$@" --fix checkpoint=offloaded --gpu 24GiB 2>&1 | grep -E '^(error|checkpoint offloaded|.*no word|enable_|[-+] *[a-z_]*checkpointing|[-+].*use_gradient_ch)'; }
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
