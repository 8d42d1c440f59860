# A run that can start, as text and as JSON; the same with other processes on the card, and on a card that is too small.
(
part ready
# A run that can start: exit 0.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/machine
cp -r truth/../fixtures/check/ready/* .
$PLIMSOLL check train.yaml launch.sh && $PLIMSOLL check train.yaml launch.sh --json
) 2>&1 || echo "exit $?"
(
part crowded
# The same with other processes on the card, and on a card that is too small.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/machine
cp -r truth/../fixtures/check/ready/* .
FAKE_NVML_BUSY=4 $PLIMSOLL check train.yaml | grep -A 3 'free memory now'
$PLIMSOLL check train.yaml --gpu 16GiB | grep -A 3 'not fit'
) 2>&1 || echo "exit $?"
