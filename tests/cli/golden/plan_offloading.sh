# Who offloads activations: TRL, torchtune and Axolotl have classes of their own, which the plan says in the command that
# predicts it again; a typed --offload-with replaces what the files' ecosystem does.
axolotl="base_model: Qwen/Qwen2.5-0.5B
sequence_len: 1024
micro_batch_size: 4
gradient_accumulation_steps: 1
optimizer: adamw_torch_fused
bf16: true
attn_implementation: flash_attention_2
gradient_checkpointing: true"
with() { $PLIMSOLL plan run.yaml --gpu 80GiB --fix micro_batch=4 --fix offload=activations "$@" 2>&1 | grep -E '^(note: (offload|activation_offloading)|now:|plimsoll estimate)'; }
(
part axolotl-full
printf '%s\nactivation_offloading: true\n' "$axolotl" > run.yaml
with
)
(
part axolotl-adapters
printf '%s\nadapter: lora\nlora_r: 8\nlora_target_linear: true\nactivation_offloading: true\n' "$axolotl" > run.yaml
with
)
(
part axolotl-legacy
printf '%s\nadapter: lora\nlora_r: 8\nlora_target_linear: true\nactivation_offloading: legacy\n' "$axolotl" > run.yaml
with
)
(
part axolotl-hidden-states
printf '%s\nactivation_offloading: hidden_states\n' "$axolotl" > run.yaml
with
)
(
part typed
printf '%s\nactivation_offloading: hidden_states\n' "$axolotl" > run.yaml
with --offload-with save_on_cpu
)
(
part trl
printf '%s\n' 'model_name_or_path: Qwen/Qwen2.5-0.5B' 'max_length: 1024' 'per_device_train_batch_size: 4' 'gradient_accumulation_steps: 1' 'bf16: true' 'activation_offloading: true' 'loss_type: nll' > run.yaml
with
)
(
part no-offload
$PLIMSOLL estimate --model Qwen/Qwen2.5-0.5B --offload-with trl 2>&1
)
