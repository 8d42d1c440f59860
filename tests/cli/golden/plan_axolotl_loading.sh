# Axolotl loads quantised models with adapters through float32 embeddings and lets peft prepare them: tests/truth/loading has
# recordings of its calls. What is neither quantised nor an embedding, head or norm stays float32.
base="sequence_len: 512
micro_batch_size: 1
gradient_accumulation_steps: 1
optimizer: adamw_torch_fused
bf16: true
gradient_checkpointing: true
lora_r: 8"
show() {
  $PLIMSOLL plan run.yaml --gpu 24GiB --fix micro_batch=1 "$@" 2>&1 |
    grep -E '^(now|weights|loading|plimsoll est|there is no|option for)|loading the model'
}
(
part version-1
printf 'base_model: meta-llama/Llama-3.1-70B\n%s\nadapter: qlora\nload_in_4bit: true\nlora_target_linear: true\nfsdp_config:\n  fsdp_version: 1\n  cpu_ram_efficient_loading: true\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --world 8 --try micro_batch=1 2>&1 | sed -n '/^note: loading/,/^note/p; /^now/p'
)
(
part four-bits
printf 'base_model: google/gemma-2-2b\n%s\nadapter: qlora\nload_in_4bit: true\nlora_target_linear: true\n' "$base" > run.yaml
show
$PLIMSOLL plan run.yaml --gpu 4GiB --fix liger=off 2>&1 | sed -n '/^now/,/^NO/p'
)
(
part left-in-16-bits
printf 'base_model: google/gemma-2-2b\n%s\nadapter: qlora\nload_in_4bit: true\nlora_target_linear: true\nembeddings_skip_upcast: true\n' "$base" > run.yaml
show
$PLIMSOLL plan run.yaml --gpu 4GiB --fix liger=off 2>&1 | sed -n '/^now/,/^NO/p'
)
(
part experts
printf 'base_model: Qwen/Qwen1.5-MoE-A2.7B\n%s\nadapter: qlora\nload_in_4bit: true\nlora_target_modules: [q_proj, k_proj, v_proj, o_proj]\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 80GiB 2>&1 | grep -A3 -E '^note: bitsandbytes|^now'
printf 'quantize_moe_experts: true\n' >> run.yaml
$PLIMSOLL plan run.yaml --gpu 80GiB 2>&1 | grep -A3 -E '^note: bitsandbytes|^now|quantize_moe'
)
(
# Quantised experts do not fit either where even they are larger than the GPU.
part experts-too-large
printf 'base_model: Qwen/Qwen1.5-MoE-A2.7B\n%s\nadapter: qlora\nload_in_4bit: true\nquantize_moe_experts: true\nlora_target_modules: [q_proj, k_proj, v_proj, o_proj]\n' "$base" > run.yaml
for gpu in 6 16; do
  $PLIMSOLL plan run.yaml --gpu ${gpu}GiB 2>&1 | sed -n '/^now/,/^NO/p'
  $PLIMSOLL check run.yaml --gpu ${gpu}GiB 2>&1 | grep -A1 'needs .* available'
done
$PLIMSOLL plan run.yaml --gpu 16GiB 2>&1 | grep -c embeddings_skip_upcast
)
(
# Predicted plain, quantised experts need too much while they are loaded: that is no reason to stop sharing them.
part experts-shared
printf 'base_model: Qwen/Qwen1.5-MoE-A2.7B\n%s\nadapter: qlora\nload_in_4bit: true\nquantize_moe_experts: true\nlora_target_modules: [q_proj, k_proj, v_proj, o_proj]\nfsdp_config:\n  fsdp_version: 2\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 80GiB --world 8 2>&1 | grep -E '^(now|planned|strategy)'
)
(
part answers-compared
printf 'base_model: Qwen/Qwen2.5-0.5B\n%s\nadapter: lora\nlora_target_linear: true\nrl: dpo\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --fix micro_batch=1 2>&1 | grep -E -A1 '^(now|fragmentation|there is no)'
)
(
part estimate
$PLIMSOLL estimate --model qwen2.5-0.5b --lora-rank 8 --weights nf4-double --prepare axolotl --amp bf16 --loop trainer --gpu 24GiB 2>&1 | grep -E 'weights  |total|loading'
$PLIMSOLL estimate --model qwen2.5-0.5b --lora-rank 8 --weights nf4-double --prepare peft --amp bf16 --loop trainer --gpu 24GiB 2>&1 | grep -E 'weights  |total|loading'
)
(
# On one GPU, accelerate launch leaves 16-bit weights on the host until the embeddings have their type again; on several, each
# loads them to itself.
part sixteen-bits
printf 'base_model: google/gemma-4-E2B\n%s\nadapter: lora\nlora_target_modules: [q_proj]\n' "$base" > run.yaml
for world in 1 2; do
  $PLIMSOLL plan run.yaml --gpu 24GiB --world $world --fix micro_batch=1 --fix accumulate=1 2>&1 | grep -A3 '^now'
done
$PLIMSOLL plan run.yaml --gpu 14GiB --world 2 --fix micro_batch=1 --fix accumulate=1 2>&1 | grep '^now'
)
(
# FSDP2 shards what each GPU has in full, unless a key keeps it on the host; a plan that adds FSDP2 writes the key.
part whole-on-each
printf 'base_model: Qwen/Qwen2.5-14B\n%s\nadapter: lora\nlora_target_linear: true\nfsdp_config:\n  fsdp_version: 2\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --world 8 --try micro_batch=1 2>&1 | sed -n '/^note: loading/,/^note/p; /^now/p'
printf '  cpu_ram_efficient_loading: true\n' >> run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --world 8 --try micro_batch=1 2>&1 | grep -E '^note: loading|^now'
)
(
# The tower's parameters have gradients and optimizer states where batches have images, unless it is frozen.
part images
printf 'base_model: PaddlePaddle/PaddleOCR-VL\n%s\nprocessor_type: AutoProcessor\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --try micro_batch=1 2>&1 | grep -E '^(gradients|optimizer) '
printf 'freeze_mm_modules: true\n' >> run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --try micro_batch=1 2>&1 | grep -E '^(gradients|optimizer) '
)
(
# What Axolotl refuses in the files as a plan leaves them is a step to do by hand.
part refused
printf 'base_model: Qwen/Qwen2.5-0.5B\n%s\nfsdp_config:\n  fsdp_version: 2\n  activation_checkpointing: true\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --world 2 --try micro_batch=1 2>&1 | sed -n '/^to do/,/^2/p'
)
(
# What a row needs includes loading, so no row below the first needs less.
part loading-in-the-table
printf 'base_model: Qwen/Qwen1.5-MoE-A2.7B\n%s\nadapter: qlora\nload_in_4bit: true\nlora_target_modules: [q_proj, k_proj, v_proj, o_proj]\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 80GiB 2>&1 | sed -n '/^planned/,/^times/p; /^the plan (row/,/^$/p'
)
(
# A shorter sequence saves nothing where loading needs most, so it is not offered. Near the limit PyTorch gives cached
# memory back: what loading reserves is enough, and less may do.
part what-loading-needs
printf 'base_model: mistralai/Ministral-3-3B-Reasoning-2512\nsequence_len: 2048\nmicro_batch_size: 1\nadapter: qlora\nload_in_4bit: true\nlora_r: 32\nlora_target_linear: true\nbf16: true\ngradient_checkpointing: true\nattn_implementation: sdpa\n' > run.yaml
for gpu in 24GiB 4.7GiB; do
  $PLIMSOLL plan run.yaml --gpu $gpu --fix micro_batch=1 --fix checkpoint=reentrant 2>&1 | grep -E '^now|^NO|loading|allow'
done
)
