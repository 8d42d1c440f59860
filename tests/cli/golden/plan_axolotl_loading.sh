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
$PLIMSOLL plan run.yaml --gpu 4GiB 2>&1 | sed -n '/^now/,/^NO/p'
)
(
part left-in-16-bits
printf 'base_model: google/gemma-2-2b\n%s\nadapter: qlora\nload_in_4bit: true\nlora_target_linear: true\nembeddings_skip_upcast: true\n' "$base" > run.yaml
show
$PLIMSOLL plan run.yaml --gpu 4GiB 2>&1 | sed -n '/^now/,/^NO/p'
)
(
part experts
printf 'base_model: Qwen/Qwen1.5-MoE-A2.7B\n%s\nadapter: qlora\nload_in_4bit: true\nlora_target_modules: [q_proj, k_proj, v_proj, o_proj]\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 80GiB 2>&1 | grep -A3 -E '^note: bitsandbytes|^now'
printf 'quantize_moe_experts: true\n' >> run.yaml
$PLIMSOLL plan run.yaml --gpu 80GiB 2>&1 | grep -A3 -E '^note: bitsandbytes|^now|quantize_moe'
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
part sixteen-bits
printf 'base_model: google/gemma-4-E2B\n%s\nadapter: lora\nlora_target_modules: [q_proj]\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --fix micro_batch=1 2>&1 | grep -A3 -E '^note: while|^now'

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
