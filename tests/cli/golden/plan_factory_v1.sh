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
$PLIMSOLL plan run.yaml --gpu 24GiB --method dpo-llamafactory --seq 1024 2>&1 | sed -n '/^note: LLaMA/,/^note: llama/p; /^now/,/^planned/p; /llamafactory-cli dpo/p'
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
# Accumulation follows from global_batch_size: a plan changes the micro batch alone, and prints both keys where there is none.
(
part global_batch
printf '%s\npeft_config:\n  name: lora\n  r: 16\nbatching_strategy: dynamic_padding_free\nglobal_batch_size: 32\n' "$base" | sed 's/batch_size: 1$/batch_size: 8/; s/0.5B/7B/' > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --world 2 --fix strategy=fsdp2 --out plan.json | sed -n '/packed/,/mask/p; /^micro_batch/p; /^accumulate/p; /will not be changed/p'
$PLIMSOLL apply plan.json > /dev/null && grep batch_size run.yaml
sed '/global_batch/d; s/^micro_batch_size: .*/micro_batch_size: 8/' run.yaml > none.yaml
$PLIMSOLL plan none.yaml --gpu 24GiB --world 2 --fix strategy=fsdp2 | sed -n '/^to do/,/^2/p'
sed 's/dynamic_padding_free/dynamic_batching/' run.yaml > filled.yaml
printf '100\n200\n' > lengths.txt
$PLIMSOLL plan filled.yaml --gpu 24GiB --world 2 --fix strategy=fsdp2 --lengths lengths.txt 2>&1 | grep -A2 'note: --lengths'
)
# What is not modelled has to find room while the whole model is loaded, too.
(
part room
printf '%s\npeft_config:\n  name: lora\n  r: 16\n' "$base" | sed 's/0.5B/7B/; s/2048/512/' > run.yaml
printf 'pairs:\n  path: some/pairs\n  converter: pair\n' > data.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --world 8 | sed -n '/^now/,/^  *of/p; /reserves more/p'
$PLIMSOLL check run.yaml --gpu 24GiB --world 8 | grep -A1 'not modelled (see'
)
# FSDPTurbo keeps everything in bf16; a plan with DeepSpeed says where v1 reads its file's name.
(
part turbo
printf '%s\n' "$base" | sed 's/fsdp2/fsdpturbo/; s/0.5B/7B/' > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --world 8 | sed -n '/FSDPTurbo/,/predicted/p'
$PLIMSOLL plan run.yaml --gpu 24GiB --world 8 --fix strategy=zero3 | sed -n '/in place of/,/config_file/p'
)
