# Under checkpoints that are not reentrant, 8-bit layers keep their inputs: a plan turns them into reentrant ones, where the files have a
# key for it. What only Axolotl's key for Liger's DPO loss would save is said where the run does not fit.
axolotl="base_model: NousResearch/Meta-Llama-3-8B-Instruct
load_in_8bit: true
rl: dpo
adapter: lora
lora_r: 32
lora_target_linear: true
sequence_len: 4096
micro_batch_size: 2
gradient_accumulation_steps: 4
bf16: true
gradient_checkpointing: true
attn_implementation: flash_attention_2
datasets:
  - path: a"
printf '%s\n' "$axolotl" > run.yaml
$PLIMSOLL plan run.yaml --gpu 48GiB | sed -n '/dpo_use_liger/,/^note/p; /^checkpoint/p; /^[+-] *use_re/p; /^[+-]grad/p'
$PLIMSOLL plan run.yaml --gpu 80GiB | grep -c dpo_use_liger
printf '%s\n' "$axolotl" | sed 's/load_in_8bit/load_in_4bit/; s/: lora$/: qlora/' > four.yaml
$PLIMSOLL plan four.yaml --gpu 24GiB | grep -c '^checkpoint.*reentrant'
printf 'model_name_or_path: Qwen/Qwen2.5-7B\nuse_peft: true\nload_in_8bit: true\nlora_r: 16\nper_device_train_batch_size: 4\ngradient_checkpointing: true\nbf16: true\nmax_length: 2048\n' > trl.yaml
$PLIMSOLL plan trl.yaml --gpu 24GiB | grep -c '^checkpoint.*reentrant'
true
