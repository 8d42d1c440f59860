# The document other programs read: the same findings.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/container
cp -r truth/../fixtures/check/broken/* .
FAKE_NVML_BUSY=1 $PLIMSOLL check launch.sh --json
