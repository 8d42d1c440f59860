# What is typed wrong is an error: exit 2.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/machine PLIMSOLL_NVML=nowhere
echo 'a: [1' >broken.yaml
echo hello >notes.txt
for mistake in "missing.yaml" "broken.yaml" "notes.txt" "--gpu RTX4091" "--model qwen2.5-7" "--set micro_batch"; do
  $PLIMSOLL check $mistake
  echo "exit $?" >&2
done
