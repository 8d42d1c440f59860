# Allocator settings in the environment take effect if the files have none.
cat > sft.yaml <<'YAML'
model_name_or_path: qwen2.5-0.5b
per_device_train_batch_size: 4
max_length: 1024
bf16: true
YAML
export HF_HOME=nowhere PLIMSOLL_NVML=nowhere PLIMSOLL_ROOT=truth/../fixtures/check/container
both() {
  $PLIMSOLL plan "$@" --gpu 48GiB | grep -E '^(note: the allocator|now:|fragmentation)'
  $PLIMSOLL check "$@" --gpu 48GiB | grep -E '(PYTORCH|fits)'
}
echo "== without" && both sft.yaml
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
echo "== of the environment" && both sft.yaml
echo "== of a file" && echo 'PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512 python train.py --config sft.yaml' > run.sh
both run.sh sft.yaml
echo "== one that PyTorch refuses" && PYTORCH_CUDA_ALLOC_CONF=expandable:True both sft.yaml
