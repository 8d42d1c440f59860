# TRL's trainers cast what is trained of a quantised model to bf16; Axolotl's trainer for texts is not one of them.
show() { $PLIMSOLL plan run.yaml --gpu 24GiB 2>&1 | grep -E '^(adapters|note: assuming TRL|      all logits|plimsoll estimate)|trl 1'; }
trl="model_name_or_path: Qwen/Qwen2.5-0.5B
use_peft: true
lora_r: 64
per_device_train_batch_size: 4
gradient_checkpointing: true
max_length: 1024
bf16: true"
axolotl="base_model: Qwen/Qwen2.5-0.5B
sequence_len: 1024
micro_batch_size: 1
gradient_accumulation_steps: 4
optimizer: adamw_torch_fused
bf16: true
gradient_checkpointing: true
lora_r: 64
lora_target_linear: true
adapter: qlora
load_in_4bit: true"
(
part sft
printf '%s\nload_in_4bit: true\n' "$trl" > run.yaml
show
)
(
part sft-before
printf '%s\nload_in_4bit: true\n' "$trl" > run.yaml
echo 'trl==0.25.0' > requirements.txt
show
)
(
part sft-plain
printf '%s\n' "$trl" > run.yaml
show
)
(
part axolotl-texts
printf '%s\n' "$axolotl" > run.yaml
show
)
(
part axolotl-dpo
printf '%s\nrl: dpo\n' "$axolotl" > run.yaml
show
)
(
part axolotl-orpo
printf '%s\nrl: orpo\n' "$axolotl" > run.yaml
show
)
