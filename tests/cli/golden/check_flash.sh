# FlashAttention 2 on cards before Ampere, in check and in plan; other cards, and other attention, are fine.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML=none PLIMSOLL_ROOT=fixtures/check/machine
sed 's/bf16: true/fp16: true/' fixtures/small/train.yaml >plain.yaml
{ cat plain.yaml && echo 'flash_attn: fa2'; } >flash.yaml
for card in T4 "RTX 3090"; do
  $PLIMSOLL check flash.yaml --gpu "$card" | grep -A4 "FlashAttention on"
  $PLIMSOLL plan flash.yaml --gpu "$card" --try micro_batch=1 2>&1 | grep -A1 "flash-attn"
done
$PLIMSOLL check plain.yaml --gpu T4 | grep FlashAttention
$PLIMSOLL plan plain.yaml --gpu T4 --try micro_batch=1 2>&1 | grep flash-attn
true
