# What Axolotl does by itself with adapters: offloaded activations replace recomputation unless peft prepares quantised
# weights; LoRA kernels are left off with preferences and FSDP 1; Cut Cross Entropy is its loss without logits.
base="base_model: Qwen/Qwen2.5-0.5B
sequence_len: 2048
micro_batch_size: 4
gradient_accumulation_steps: 1
optimizer: adamw_torch_fused
bf16: auto
gradient_checkpointing: true
lora_r: 16
lora_target_linear: true"
show() { $PLIMSOLL plan run.yaml --gpu 24GiB "$@" 2>&1 | sed -n '/^note/,/^planned/p'; }
estimate() { $PLIMSOLL plan run.yaml --gpu 24GiB "$@" 2>&1 | grep -E '^(plimsoll estimate|[0-9]  )'; }
(
part offload-replaces
printf '%s\nadapter: lora\nactivation_offloading: true\n' "$base" > run.yaml
show
estimate
)
(
part old-word
printf '%s\nadapter: lora\n' "${base/checkpointing: true/checkpointing: offload}" > run.yaml
show
)
(
part offload-quantised
printf '%s\nadapter: qlora\nload_in_4bit: true\nactivation_offloading: true\n' "$base" > run.yaml
show
)
(
part offload-hidden-states
printf '%s\nadapter: lora\nactivation_offloading: hidden_states\n' "$base" > run.yaml
show
)
(
part offload-shared
printf '%s\nadapter: lora\nactivation_offloading: true\nfsdp_config:\n  fsdp_version: 2\n' "$base" > run.yaml
show
)
(
# The plan does not write its words for offloaded checkpoints here.
part no-offloaded-checkpoints
printf '%s\nadapter: lora\n' "$base" > run.yaml
estimate
)
(
part preferences
printf '%s\nadapter: lora\nrl: dpo\n' "$base" > run.yaml
show
)
(
part version-1
printf '%s\nadapter: lora\nfsdp_config:\n  fsdp_version: 1\n' "$base" > run.yaml
show
)
(
part cut-cross-entropy
printf '%s\nadapter: lora\nplugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n' "$base" > run.yaml
show
)
(
part without-logits-by-hand
sed 's/Qwen.Qwen2.5-0.5B/google\/gemma-2-2b/' <<< "$base" > run.yaml
printf 'adapter: lora\nval_set_size: 0.1\n' >> run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --fix chunked_loss=512 2>&1 | sed -n '/^to do by/,/^changes/p'
)
(
# llm_int8_skip_modules, which Axolotl sets for this architecture.
part left-plain
sed 's/Qwen.Qwen2.5-0.5B/tiiuae\/Falcon-H1-0.5B-Base/; /target_linear/d; s/batch_size: 4/batch_size: 1/' <<< "$base" > run.yaml
printf 'adapter: qlora\nload_in_4bit: true\nlora_target_modules: [q_proj, in_proj]\n' >> run.yaml
show
)
(
part idle-bits
printf '%s\nadapter: lora\nload_in_4bit: true\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB 2>&1 | sed -n '1,2p; /bits/,/^note/p; /^now/p; /^weights/p'
)
(
part writes-hidden-states
printf '%s\nadapter: lora\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --fix offload=activations --fix checkpoint=on 2>&1 | grep -E '^([-+]|offload)'
)
(
# The list of linear layers has no stacked experts, so dropout does not matter.
part stacked-experts
sed 's/Qwen.Qwen2.5-0.5B/mistralai\/Mixtral-8x7B-v0.1/' <<< "$base" > run.yaml
printf 'adapter: lora\nlora_dropout: 0.05\n' >> run.yaml
$PLIMSOLL plan run.yaml --gpu 141GiB --try micro_batch=1 2>&1 | grep -E '^(error|now|adapters)'
)
(
part code-of-the-checkpoint
printf '%s\nadapter: lora\ntrust_remote_code: true\n' "${base/Qwen\/Qwen2.5-0.5B/microsoft/Phi-3-mini-4k-instruct}" > run.yaml
show | grep -A3 '^note: trust'
)
(
part code-of-no-checkpoint
printf '%s\nadapter: lora\ntrust_remote_code: true\n' "$base" > run.yaml
show | grep '^note: trust' || echo 'no note'
)
