# The same on a larger card, with the largest tensors.
$PLIMSOLL estimate --model qwen2.5-7b --lora-rank 128 --lora-dropout 0.05 --amp bf16 --loop trainer --batch 2 --accumulate 8 --seq 2048 --checkpoint --gpu H100 --explain
