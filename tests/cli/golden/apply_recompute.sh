# Megatron has no word for recomputing nothing: the option goes, and with it those that belong to it.
cat >m.sh <<'S'
torchrun --nproc_per_node 8 pretrain_gpt.py \
  --micro-batch-size 8 --global-batch-size 256 --seq-length 2048 \
  --bf16 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
  --use-distributed-optimizer
S
$PLIMSOLL plan m.sh -m llama-3.2-1b --gpu 80GiB --fix checkpoint=off --out plan.json >/dev/null
$PLIMSOLL apply plan.json --dry-run 2>/dev/null | grep "^[-+]"
