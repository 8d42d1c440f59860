# Axolotl's LoRA kernels, which it turns on by itself: where they stop the run (tests/truth/lora_kernels.json), where they
# replace nothing, and the lines that turn them off or add adapters.
base="sequence_len: 512
micro_batch_size: 1
gradient_accumulation_steps: 1
optimizer: adamw_torch_fused
bf16: true
gradient_checkpointing: true"
adapters="adapter: lora
lora_r: 8
lora_target_linear: true"
kernels() { $PLIMSOLL plan run.yaml --gpu 80GiB "$@" 2>&1 | grep -A2 "^note: Axolotl's LoRA" || echo "no note"; }
steps() { $PLIMSOLL plan run.yaml --gpu 80GiB "$@" 2>&1 | sed -n '/^to do by/,/^changes/p'; }
(
part other-attention
printf 'base_model: allenai/OLMo-2-1124-7B\n%s\n%s\n' "$base" "$adapters" > run.yaml
kernels
steps
)
(
part turned-off
printf 'base_model: allenai/OLMo-2-1124-7B\n%s\n%s\nlora_qkv_kernel: false\n' "$base" "$adapters" > run.yaml
kernels
)
(
part for-the-mlp-alone
printf 'base_model: allenai/OLMo-2-1124-7B\n%s\n%s\nlora_mlp_kernel: true\n' "$base" "$adapters" > run.yaml
kernels
)
(
part other-layers
printf 'base_model: tiiuae/falcon-7b\n%s\n%s\nlora_mlp_kernel: true\n' "$base" "$adapters" > run.yaml
kernels
)
(
part images
printf 'base_model: Qwen/Qwen2.5-VL-7B-Instruct\n%s\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_target_modules: [q_proj, v_proj]\n' "$base" > run.yaml
kernels
)
(
part declared-unsupported
printf 'base_model: PaddlePaddle/PaddleOCR-VL\n%s\n%s\n' "$base" "$adapters" > run.yaml
kernels
)
(
part head-with-labels
printf 'base_model: Qwen/Qwen2.5-0.5B\nreward_model: true\n%s\n%s\n' "$base" "$adapters" > run.yaml
kernels
)
(
part nothing-to-replace
printf 'base_model: Qwen/Qwen2.5-0.5B\n%s\nadapter: lora\nlora_r: 8\nlora_target_modules: [q_proj, v_proj, up_proj]\n' "$base" > run.yaml
kernels
)
(
part output-alone
printf 'base_model: Qwen/Qwen2.5-0.5B\n%s\nadapter: lora\nlora_r: 8\nlora_target_modules: [o_proj]\n' "$base" > run.yaml
kernels
)
(
part adapters-of-the-plan
printf 'base_model: allenai/OLMo-2-1124-7B\n%s\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 12GiB --allow lora_rank --allow quantisation --fix quantisation=nf4-double 2>&1 | sed -n '/^to do by/,/^if you/p'
)
(
part adapters-in-16-bits
printf 'base_model: Qwen/Qwen2.5-7B\n%s\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --fix lora_rank=64 2>&1 | sed -n '/^to do by/,/^if you/p'
)
(
part one-name-fits
printf 'base_model: Qwen/Qwen2.5-0.5B\n%s\nadapter: lora\nlora_r: 8\nlora_target_modules: [o_proj, wq, wk, wv]\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB 2>&1 | sed 2q
)
(
part attention-of-its-own
printf 'base_model: tiiuae/falcon-7b\n%s\nxformers_attention: true\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 80GiB 2>&1 | grep -A2 "^note: transformers' code"
printf 'trust_remote_code: true\n' >> run.yaml
$PLIMSOLL plan run.yaml --gpu 80GiB 2>&1 | grep "^note: transformers' code" || echo 'no note'
)
(
part no-flash-attention
printf 'base_model: meta-llama/Llama-4-Scout-17B-16E\n%s\nadapter: lora\nlora_r: 8\nlora_target_modules: [q_proj]\nflash_attention: true\nlora_qkv_kernel: false\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 80GiB --world 8 2>&1 | grep -iE '^(error|now|attention)|flash'
)
(
part on-with-4-bits
# The plan's 4 bits need another adapter, which turns the kernels on.
printf 'base_model: codellama/CodeLlama-7b-hf\n%s\n%s\nload_in_8bit: true\n' "$base" "$adapters" > run.yaml
$PLIMSOLL plan run.yaml --gpu 8GiB --allow quantisation --fix quantisation=nf4-double --try micro_batch=1 2>&1 | sed -n '/^to do by/,/^if/p'
)
(
part generic-loss
# Axolotl's Cut Cross Entropy has no patch of its own for StableLM.
printf 'base_model: stabilityai/stablelm-2-1_6b\n%s\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 40GiB --fix chunked_loss=512 --try micro_batch=1 2>&1 | sed -n '/^to do by/,/^if/p'
)
