# The 7B LoRA run of the README on a 24 GB card: exit 1.
$PLIMSOLL estimate --model qwen2.5-7b --lora-rank 128 --lora-dropout 0.05 --amp bf16 --loop trainer --batch 2 --accumulate 8 --seq 2048 --checkpoint --gpu 4090
