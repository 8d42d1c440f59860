# A run whose allocator never reuses its large blocks: what it holds unused is no need.
$PLIMSOLL estimate -m qwen2.5-7b --dtype fp16 --amp fp16 -b 2 -s 2048 --lora-rank 128 --checkpoint \
  --loop trainer --gpu 24564MiB --alloc-conf max_split_size_mb:128,expandable_segments:True
