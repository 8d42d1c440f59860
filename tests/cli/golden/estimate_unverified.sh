# What has no measurement behind it is said, and widens the interval.
$PLIMSOLL estimate --model qwen2.5-7b --lora-rank 16 --weights int8 --seq 1024 --gpu T4
