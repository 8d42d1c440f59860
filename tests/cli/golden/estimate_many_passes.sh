# A hundred thousand forward passes are computed from a few that repeat; if it is unknown whether they repeat, it says so.
$PLIMSOLL estimate -m tiny-llama -b 1 -s 128 -a 50000 --steps 2 --gpu 24GiB | grep -E "^(note|peak|time|FITS)"
$PLIMSOLL estimate -m t5-small --dtype bf16 -b 2 -s 128 -a 50000 --steps 3 --gpu 24GiB | grep -E "^(note|peak|time|FITS)"
# A run whose allocator never reuses its large blocks: unused memory is not needed memory.
$PLIMSOLL estimate -m qwen2.5-7b --dtype fp16 --amp fp16 -b 2 -s 2048 --lora-rank 128 --checkpoint \
  --loop trainer --gpu 24564MiB --alloc-conf max_split_size_mb:128,expandable_segments:True
