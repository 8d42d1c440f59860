# A mask with padding costs a bias in every layer, with several GPUs as with one.
for mask in none ones pad; do
  $PLIMSOLL estimate --model llama-3.2-1b --strategy fsdp2 --world 4 --batch 4 --seq 2048 --mask $mask --json \
    --gpu H200 | grep -E '"peak_allocated_bytes"'
done
