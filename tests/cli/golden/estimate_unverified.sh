# Unmeasured parts are reported and widen the interval.
$PLIMSOLL estimate --model qwen2.5-7b --lora-rank 16 --weights int8 --seq 1024 --gpu T4; echo "exit $?"
# Without a card there is no verdict.
$PLIMSOLL estimate --model bert-base --batch 8 --seq 128
