# With use_ray, Ray starts the processes of Axolotl, one for each of its workers; with one process there is no DDP.
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
