# What adapters change that a plan adds, or may not add.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF
start='base_model: Qwen/Qwen2.5-0.5B
sequence_len: 512
micro_batch_size: 4
gradient_accumulation_steps: 1
optimizer: adamw_torch
bf16: true'
(
part refused
# Axolotl refuses adapters beside fused MLPs, whatever is allowed.
printf '%s\n' "$start" 'flash_attention: true' 'flash_attn_fuse_mlp: true' >run.yaml
$PLIMSOLL plan run.yaml --gpu 3000MiB --allow lora_rank | grep -E 'lora_rank|^planned|^NO'
)
(
part reference
# With adapters, the model without them is the reference: there is no second model.
printf '%s\n' "$start" 'rl: dpo' >run.yaml
for rank in 'lora_rank=0' 'lora_rank=16'; do
  $PLIMSOLL plan run.yaml --gpu 24GiB --fix $rank | grep -E '^weights'
done
)
(
part kbit
# GPT-J calls its table wte, which Axolotl leaves in float32 beside 4-bit weights.
printf 'base_model: EleutherAI/gpt-j-6b\nmicro_batch_size: 1\nsequence_len: 512\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_target_linear: true\nbf16: true\n' >run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB | grep -E '^weights'
)
(
part evaluation
# check names the largest batch whose logits fit.
printf '%s\n' "$start" 'val_set_size: 0.1' 'evals_per_epoch: 2' 'eval_batch_size: 64' >run.yaml
$PLIMSOLL check run.yaml --gpu 24GiB | grep -A4 '^WOULD FAIL'
)
(
part quantizer
printf 'model:\n  _component_: torchtune.models.llama3_2.lora_llama3_2_1b\n  lora_attn_modules: [q_proj]\n  lora_rank: 8\noptimizer:\n  _component_: torch.optim.AdamW\nbatch_size: 1\nquantizer:\n  _component_: torchtune.training.quantization.Int8DynActInt4WeightQATQuantizer\n  groupsize: 256\n' >tune.yaml
$PLIMSOLL check tune.yaml --gpu 24GiB | grep -A5 '^WOULD FAIL'
)
