# Axolotl refuses DeepSpeed beside FSDP, and dp_shard_size without FSDP: a plan uses only what its file can say.
base="base_model: Qwen/Qwen2.5-14B
sequence_len: 2048
micro_batch_size: 1
gradient_accumulation_steps: 2
optimizer: adamw_torch_fused
bf16: true
gradient_checkpointing: true
sample_packing: true"
fsdp="fsdp_version: 2
fsdp_config:
  offload_params: true
  cpu_ram_efficient_loading: true
  auto_wrap_policy: TRANSFORMER_BASED_WRAP
  transformer_layer_cls_to_wrap: Qwen2DecoderLayer
  reshard_after_forward: true"
show() { $PLIMSOLL plan run.yaml --gpu 24GiB "$@" 2>&1 | sed -n '/^note: FSDP 1/,/^now/p; /^note: offloading/,/^now/p; /^note.*shard/,/^now/p; /^planned/p; /^NOTHING/,/^$/p; /^to do by/,/^changes to/p; /^[+-]/p'; }
(
part beside-fsdp
printf '%s\nactivation_offloading: true\n%s\n' "$base" "$fsdp" > run.yaml
show --world 8
)
(
part shard-size
printf '%s\ndp_shard_size: 8\n%s\n' "$base" "$fsdp" > run.yaml
show
$PLIMSOLL plan run.yaml --gpu 24GiB --fix strategy=zero3 2>&1 | grep -c deepspeed
)
(
part version-1
printf '%s\n%s\n' "$base" "${fsdp/version: 2/version: 1}" > run.yaml
show --world 8
)
(
# Units of FSDP that are smaller than a layer.
part units-inside-layers
printf '%s\n%s\n' "$base" "${fsdp/Qwen2DecoderLayer/Qwen2MLP}" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --world 8 2>&1 | grep -A2 'a part of each'
)
