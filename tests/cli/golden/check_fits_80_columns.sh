# Every line of every report, on a terminal of the usual width.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/container
cp -r truth/../fixtures/check/broken truth/../fixtures/check/ready truth/../fixtures/check/offload.* .
for files in "" broken/launch.sh ready/train.yaml offload.yaml; do
  FAKE_NVML_BUSY=3 $PLIMSOLL check $files
done | awk 'length > 80 { print "too long: " $0 } END { if (NR < 50) print "only " NR " lines" }'
