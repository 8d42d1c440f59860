#!/bin/bash
#SBATCH --gres=gpu:4   # four cards
#SBATCH -N 2
#SBATCH --exclusive
set -euo pipefail

# batch per card
BATCH=4
LR=${LR:-1e-4}
EPOCHS="${1:-3}"
: "${WORKERS:=8}"
while getopts b: o; do case $o in b) BATCH=$OPTARG;; esac; done
TOTAL=64; GPUS=4
ARGS="--bf16 --weight_decay 0.1 \
  --seed 42"
EXTRA=(--tf32 True # fast
  --dataloader_num_workers "$WORKERS"
)
EXTRA+=(--lora_target_modules q_proj v_proj)
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node=4 train.py \
    --batch-size $BATCH --lr "$LR" \
    --epochs=$EPOCHS --acc $((TOTAL / GPUS)) --bs2 ${BS2:-16} \
    --name 'my run' --gradient_checkpointing $ARGS "${EXTRA[@]}" \
    -o out "$@" 2>&1 | tee log.txt
