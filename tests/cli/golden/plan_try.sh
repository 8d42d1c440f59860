# Knobs that --try does not name stay, including the micro batch; with --effective-batch the micro batch is free.
for more in "" "--effective-batch 32"; do
  "$PLIMSOLL" plan --model gpt2 --batch 8 --accumulate 4 --seq 512 --dtype bf16 --gpu 16GiB --try checkpoint=on,off $more |
    grep -A9 '^planned'
done
# The batch is free: as many tokens per second as possible.
$PLIMSOLL plan --model qwen2.5-0.5b --seq 1024 --effective-batch any --try micro_batch=1,2,4,8,16 --try checkpoint=on,off --gpu 24GiB
