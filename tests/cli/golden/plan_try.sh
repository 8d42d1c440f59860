# What --try does not name stays as it is, the micro batch too; with a batch that is asked for it is free.
for more in "" "--effective-batch 32"; do
  "$PLIMSOLL" plan --model gpt2 --batch 8 --accumulate 4 --seq 512 --dtype bf16 --gpu 16GiB --try checkpoint=on,off $more |
    grep -A9 '^planned'
done
