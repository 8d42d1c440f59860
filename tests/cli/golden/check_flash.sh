# FlashAttention on cards before Ampere, and the checkpointing that the file of --fsdp_config turns on.
(
part flash
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
) 2>&1 || echo "exit $?"
(
part fsdp_file
# FSDP's own checkpointing, set in the file of --fsdp_config, with a plimsoll.yaml next to it.
cat >run.sh <<'S'
torchrun --nproc_per_node 2 t.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size 4 --gradient_checkpointing --fsdp "full_shard auto_wrap" --fsdp_config fsdp.json
S
echo '{"activation_checkpointing": true, "xla": false}' >fsdp.json
printf 'knobs:\n  micro_batch: run.sh:--per_device_train_batch_size\n' >plimsoll.yaml
$PLIMSOLL check run.sh --gpu 80GiB >found; grep "^plimsoll.yaml" found; grep -A4 "FSDP's" found
echo '{"activation_checkpointing": false}' >fsdp.json
$PLIMSOLL check run.sh --gpu 80GiB | grep "options:\|both on"
) 2>&1 || echo "exit $?"
