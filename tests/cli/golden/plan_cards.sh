# Several cards, one line each.
$PLIMSOLL plan --model qwen2.5-7b --lora-rank 128 --lora-dropout 0.05 --amp bf16 --loop trainer --batch 2 --accumulate 8 --seq 2048 --checkpoint --gpu 24GiB,80GiB
# Hours and prices decide between cards; names and sizes are echoed as they were understood.
$PLIMSOLL plan -m llama-3.2-1b --lora-rank 8 -b 2 -a 8 -s 1024 -g 24GB,4090,H100,2.5GiB --samples 100000 --price 1.5
$PLIMSOLL plan -m llama-3.2-1b --lora-rank 8 -b 2 -a 8 -s 1024 -g 4090,5090 --samples 100000 --epochs 2
for option in "--samples 0" "--epochs -1 --samples 5" "--price 3" "--price -1 --samples 3" "--epochs 3"; do
  $PLIMSOLL plan -m gpt2 -s 128 -g 4090 $option
done
