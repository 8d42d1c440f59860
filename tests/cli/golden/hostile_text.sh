# Nothing in files can control the terminal. A diff for other programs is printed unchanged.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML=none PLIMSOLL_ROOT=fixtures/check/machine
python3 "$golden/hostile_text.py"
