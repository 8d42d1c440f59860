# Several cards, one line each.
$PLIMSOLL plan --model qwen2.5-7b --lora-rank 128 --lora-dropout 0.05 --amp bf16 --loop trainer --batch 2 --accumulate 8 --seq 2048 --checkpoint --gpu 24GiB,32GiB,40GiB,80GiB
