# The machine and the environment alone; others are on the first card.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/machine
FAKE_NVML_BUSY=2 PYTORCH_ALLOC_CONF=expandable_segments:True $PLIMSOLL check
