# A setting that PyTorch refuses, in the environment: exit 1. No card is a note.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/container PLIMSOLL_NVML=nowhere
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_splt_size_mb:128 $PLIMSOLL check
