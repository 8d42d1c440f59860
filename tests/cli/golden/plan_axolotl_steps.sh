# Steps of the search and notes that only some of Axolotl's settings have: states of 8 bits, which have no step on the host, and
# checkpoints under FSDP2 with fp8.
base="sequence_len: 512
micro_batch_size: 1
gradient_accumulation_steps: 1
bf16: true
gradient_checkpointing: true"
(
part states-on-the-host
printf 'base_model: Qwen/Qwen2.5-7B\n%s\noptimizer: adamw_torch_8bit\ndeepspeed: deepspeed_configs/zero3_bf16.json\n' "$base" > run.yaml
for allowed in "" "--allow optimizer"; do
  $PLIMSOLL plan run.yaml --gpu 12GiB --world 4 $allowed 2>&1 | sed -n '/^now/,/^$/p; /^would/,/^$/p; /^setting/,/^$/p; /^[-+]optimizer/p'
done
)
(
part fp8
printf 'base_model: Qwen/Qwen2.5-7B\n%s\noptimizer: adamw_torch_fused\nfp8: true\nfsdp_version: 2\nfsdp_config:\n  transformer_layer_cls_to_wrap: Qwen2DecoderLayer\n  activation_checkpointing: false\n' \
  "$(sed '/gradient_ch/d; /bf16/d; s/batch_size: 1/batch_size: 8/' <<< "$base")" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --world 8 2>&1 | grep -A3 -E 'fp8|^checkpoint  '
)
