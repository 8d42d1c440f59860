# The first example project: the fastest plan that fits, and why.
$PLIMSOLL plan --model qwen2.5-7b --lora-rank 128 --lora-dropout 0.05 --amp bf16 --loop trainer --batch 2 --accumulate 8 --seq 2048 --checkpoint --gpu 24564MiB --samples 50000 --price 0.5
