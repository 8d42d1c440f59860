# Without files, those that are here are named and not checked.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/machine PLIMSOLL_NVML=nowhere
cp -r truth/../fixtures/check/broken/* .
echo '{"name": "something else"}' >package.json
$PLIMSOLL check
# A name is quoted where it is part of a command.
mkdir odd && cp fixtures/small/train.yaml 'odd/t;touch PWN;.yaml' && cd odd && $PLIMSOLL check 2>&1 | grep -A3 configurations
