# Words and numbers that PyYAML reads as something else.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML=nowhere PLIMSOLL_ROOT=truth/../fixtures/check/machine
cp truth/../fixtures/check/accelerate.yaml .
$PLIMSOLL check accelerate.yaml
