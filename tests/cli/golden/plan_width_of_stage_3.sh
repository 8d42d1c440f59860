# LLaMA-Factory makes trained parameters float32, but not under ZeRO 3: a plan that changes the sharding changes that, too.
echo '{"bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}' > ds.json
file() {
  printf '%s\n' 'model_name_or_path: Qwen/Qwen3-0.6B' 'stage: sft' 'do_train: true' 'finetuning_type: full' 'cutoff_len: 1024' \
    'per_device_train_batch_size: 1' 'gradient_accumulation_steps: 1' 'bf16: true' "$@"
}
say() { $PLIMSOLL plan run.yaml --gpu 80GiB --world 4 "$@" 2>&1 | grep -E '^(weights|gradients|optimizer) '; }
file 'deepspeed: ds.json' > run.yaml
echo "from stage 3 to DDP"
say --fix strategy=ddp
file > run.yaml
echo "DDP in the file, and stage 3"
say --fix strategy=zero3
