# Only the machine and the environment: other processes on the card, a setting that PyTorch refuses, files in the folder.
(
part machine
# Only the machine and the environment; other processes are on the first card.
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
# Without file arguments, the files in the folder are named but not checked.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/machine PLIMSOLL_NVML=nowhere
cp -r truth/../fixtures/check/broken/* .
echo '{"name": "something else"}' >package.json
$PLIMSOLL check
) 2>&1 || echo "exit $?"
(
part silent
# A driver that hangs is a warning, and the GPUs are unknown: not none.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/machine
export FAKE_NVML_HANGS=$PWD/hangs PLIMSOLL_NVML_SECONDS=0.2
touch hangs
$PLIMSOLL check
$PLIMSOLL check --json | grep -A1 '"cards"'
$PLIMSOLL profile -- true
) 2>&1 || echo "exit $?"
