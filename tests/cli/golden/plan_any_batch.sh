# The batch is free: as many tokens per second as possible.
$PLIMSOLL plan --model qwen2.5-0.5b --seq 1024 --effective-batch any --try micro_batch=1,2,4,8,16 --try checkpoint=on,off --gpu 24GiB
