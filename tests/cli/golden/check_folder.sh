# Without files, those that are here are named and not checked.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/machine PLIMSOLL_NVML=nowhere
cp -r truth/../fixtures/check/broken/* .
echo '{"name": "something else"}' >package.json
$PLIMSOLL check
