# LLaMA-Factory v1: the data tell a training from preferences, whose command the file does not name; adapters that only a plan
# has lie on weights in the checkpoint's type, and are lines to add.
base="model: Qwen/Qwen2.5-0.5B
dist_config:
  name: fsdp2
train_dataset: data.yaml
micro_batch_size: 1
cutoff_len: 2048"
(
part pairs
printf '%s\npeft_config:\n  name: lora\n  r: 16\n' "$base" > run.yaml
printf 'pairs:\n  path: some/pairs\n  converter: pair\n' > data.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB 2>&1 | sed -n '/^note: data/,/^note: llama/p; /^now/,/^planned/p'
$PLIMSOLL plan run.yaml --gpu 24GiB --method dpo-llamafactory --seq 1024 2>&1 | sed -n '/^note: LLaMA/,/^note: llama/p; /^now/,/^planned/p'
)
(
part adapters
printf '%s\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --world 2 --fix lora_rank=64 2>&1 | sed -n '/^planned/p; /^weights/p; /^to do/,/^2/p'
)
(
part offload
printf '%s\n' "$base" | sed 's/fsdp2/fsdp2\n  offload_params: true/' > run.yaml
$PLIMSOLL check run.yaml --gpu 24GiB --world 2 2>&1 | grep -A2 'process group'
$PLIMSOLL plan run.yaml --gpu 24GiB --world 2 2>&1 | sed -n '/offload_params/p'
)
(
part 4_bits
printf '%s\npeft_config:\n  name: lora\n  r: 16\n' "$base" | sed s/0.5B/7B/ > run.yaml
$PLIMSOLL plan run.yaml --gpu 12GiB --world 2 --allow quantisation 2>&1 | sed -n '/quant_config/,/compute_dtype/p'
)
