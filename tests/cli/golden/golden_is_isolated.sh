# These tests do not depend on the environment of whoever runs them.
mkdir -p models/hub
export PYTORCH_NO_CUDA_MEMORY_CACHING=1 PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:8 CUDA_VISIBLE_DEVICES=7
export PLIMSOLL_ROOT=nowhere PLIMSOLL_NVML=nowhere HF_HUB_CACHE=$PWD/models/hub COLUMNS=40 NO_COLOR=1
"$here/golden.sh" "$PLIMSOLL" check_machine plan_one_gpu
