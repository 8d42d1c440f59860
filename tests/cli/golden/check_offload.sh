# Offload and loader workers in a container; the batch does not multiply out.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/container
cp truth/../fixtures/check/offload.* .
$PLIMSOLL check offload.yaml --world 8 --gpu A100-SXM4-80GB
