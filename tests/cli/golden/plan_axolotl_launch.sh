# Starting Axolotl: Ray starts the processes itself, one for each worker; with one process there is no DDP; what it refuses.
base="base_model: Qwen/Qwen2.5-0.5B
sequence_len: 1024
micro_batch_size: 4
gradient_accumulation_steps: 1
optimizer: adamw_torch_fused
bf16: true
attn_implementation: flash_attention_2"
show() { $PLIMSOLL plan run.yaml --gpu 24GiB "$@" 2>&1 | sed -n '/GPUs with/p; /^note/,/^now/p; /^to do by/,/^$/p'; }
(
part ray
printf '%s\nuse_ray: true\nray_num_workers: 4\n' "$base" > run.yaml
show
)
(
part no-ray
printf '%s\nuse_ray: false\n' "$base" > run.yaml
show --world 4
)
(
# With one process there is no DDP that could search.
part find-unused
printf '%s\nddp_find_unused_parameters: true\n' "$base" > run.yaml
show
show --world 2
)
(
# What Axolotl's own validation refuses.
part refused
fsdp="fsdp_config:
  offload_params: true
  auto_wrap_policy: TRANSFORMER_BASED_WRAP
  transformer_layer_cls_to_wrap: Qwen2DecoderLayer
  fsdp_version"
for change in "adamw_bnb_8bit 2" "adamw_bnb_8bit 1" "adamw_torch_8bit 2" "paged_adamw_8bit 2"; do
  echo "$change"
  printf '%s\n%s: %s\n' "${base/adamw_torch_fused/${change% *}}" "$fsdp" "${change#* }" > run.yaml
  $PLIMSOLL plan run.yaml --gpu 24GiB --world 2 | grep -A 1 'refuses'
done
true
)
