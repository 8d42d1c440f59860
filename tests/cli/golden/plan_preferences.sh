# Files that train from preferences: each method is found, what it learns stays, and what is not supported says why.
axolotl="base_model: Qwen/Qwen2.5-0.5B
sequence_len: 1024
micro_batch_size: 2
gradient_accumulation_steps: 4
optimizer: adamw_torch_fused
bf16: true
gradient_checkpointing: true"
trl="model_name_or_path: Qwen/Qwen2.5-0.5B
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
max_length: 1024
bf16: true"
short() { $PLIMSOLL plan $1 --gpu 24GiB 2>&1 | sed -n '/^note/,/^now/p; /^question/,/^no:/p; /^error/,/^help/p'; }
for method in orpo simpo kto; do
  part axolotl-$method
  printf '%s\nrl: %s\nadapter: lora\nlora_r: 16\nlora_alpha: 16\nlora_target_linear: true\n' "$axolotl" $method > run.yaml
  short run.yaml
done
part axolotl-reward
printf '%s\nmodel_type: AutoModelForSequenceClassification\nnum_labels: 1\nreward_model: true\n' "$axolotl" > run.yaml
short run.yaml
part axolotl-grpo
printf '%s\nrl: grpo\n' "$axolotl" > run.yaml
short run.yaml
for loss in apo_zero kto; do
  part trl-$loss
  printf '%s\nloss_type: %s\n' "$trl" $loss > run.yaml
  short run.yaml
done
part trl-reward
printf '%s\ncenter_rewards_coefficient: 0.01\n' "$trl" > run.yaml
short run.yaml
part trl-several
printf '%s\nbeta: 0.1\n' "$trl" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --world 2 | sed -n '/^now/,/^changes/p'
for loss in sigmoid orpo simpo; do
  part llama-factory-$loss
  printf 'model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: dpo\ndo_train: true\nfinetuning_type: lora\npref_loss: %s\ncutoff_len: 1024\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: true\n' $loss > run.yaml
  $PLIMSOLL plan run.yaml --gpu 24GiB | sed -n '/^note: [DOS]/,/^note/p; /^now/p; /^logits/p; /^plimsoll estimate/p'
done
$PLIMSOLL estimate --model qwen2.5-0.5b --method dpo-llamafactory --reference precomputed
true
