# Launchers that set the allocator's variable themselves: plans name no other word for the same setting and ask for no export,
# in no row, and check gives no hint to set it. The note names the variable that the launcher really sets.
said() { grep -iE 'alloc_conf|expandable' | grep -v '^plimsoll estimate'; }
# try FILE [OPTION...]: the notes, how often the settings are in what is left to do by hand for a lower row, and check's answer
try() {
  $PLIMSOLL plan "$@" --out plan.json 2>&1 | said
  $PLIMSOLL apply plan.json --rung 2 2>&1 | grep -ciE 'alloc'
  $PLIMSOLL plan "$@" --fix alloc_conf=expandable_segments:True --json | python3 -c "
import json, sys
plan = json.load(sys.stdin)
print(plan['chosen']['alloc_conf'], [c['knob'] for c in plan['changes'] if c['knob'] == 'alloc_conf'])"
  $PLIMSOLL check "$@" | said
}
axolotl="base_model: Qwen/Qwen2.5-0.5B
sequence_len: 2048
micro_batch_size: 2
gradient_accumulation_steps: 4
optimizer: adamw_torch_fused
bf16: true
adapter: lora
lora_r: 8
lora_target_linear: true
gradient_checkpointing: true
attn_implementation: flash_attention_2"
(
part axolotl
echo "$axolotl" > run.yaml
try run.yaml --gpu 16GiB
)
(
part axolotl-older-torch
echo "$axolotl" > run.yaml
echo 'torch==2.8.0' > requirements.txt
$PLIMSOLL plan run.yaml --gpu 16GiB 2>&1 | grep -A1 'axolotl train sets'
)
(
part llamafactory
printf '%s\n' 'model_name_or_path: Qwen/Qwen2.5-0.5B' 'stage: sft' 'do_train: true' 'finetuning_type: lora' 'lora_rank: 8' 'cutoff_len: 2048' 'per_device_train_batch_size: 2' 'gradient_accumulation_steps: 4' 'bf16: true' > run.yaml
try run.yaml --gpu 16GiB --world 2
echo one GPU
$PLIMSOLL check run.yaml --gpu 16GiB --world 1 | said
)
(
part llamafactory-torchrun
# DeepSpeed on one GPU needs torchrun, for which the launcher sets what the plan has.
echo '{"bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}' > ds.json
printf '%s\n' 'model_name_or_path: Qwen/Qwen3-4B' 'stage: sft' 'do_train: true' 'finetuning_type: full' 'deepspeed: ds.json' 'cutoff_len: 2048' 'per_device_train_batch_size: 1' 'gradient_accumulation_steps: 2' 'bf16: true' > run.yaml
$PLIMSOLL plan run.yaml --gpu 14GiB --world 1 --fix strategy=zero3 --fix liger=off --fix micro_batch=1 | sed -n '/^note: the planned/,/OPTIM/p; /^alloc_conf  /p'
)
