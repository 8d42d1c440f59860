# The machine and the environment alone: others on the card, a setting that PyTorch refuses, files that lie here.
(
part machine
# The machine and the environment alone; others are on the first card.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/machine
FAKE_NVML_BUSY=2 PYTORCH_ALLOC_CONF=expandable_segments:True $PLIMSOLL check
) 2>&1 || echo "exit $?"
(
part environment
# A setting that PyTorch refuses, in the environment: exit 1. No card is a note.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/container PLIMSOLL_NVML=nowhere
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_splt_size_mb:128 $PLIMSOLL check
) 2>&1 || echo "exit $?"
(
part folder
# Without files, those that are here are named and not checked.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/machine PLIMSOLL_NVML=nowhere
cp -r truth/../fixtures/check/broken/* .
echo '{"name": "something else"}' >package.json
$PLIMSOLL check
) 2>&1 || echo "exit $?"
