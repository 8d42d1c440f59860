# Nothing fits: exit 1, and what it would take. DeepSpeed could have the weights on the host.
echo "== with the host"
$PLIMSOLL plan --model qwen2.5-7b --lora-rank 128 --lora-dropout 0.05 --amp bf16 --loop trainer --batch 2 --accumulate 8 --seq 2048 --checkpoint --gpu 16GiB | grep -A1 -E '^(planned|--allow)'
echo "== without"
$PLIMSOLL plan --model qwen2.5-7b --lora-rank 128 --lora-dropout 0.05 --amp bf16 --loop trainer --batch 2 --accumulate 8 --seq 2048 --checkpoint --gpu 16GiB --fix offload=none
