# flash-attn's own package, and where it cannot run.
$PLIMSOLL estimate --model llama-3.2-1b --batch 4 --seq 2048 --attention flash --mask pad --gpu H200
$PLIMSOLL estimate --model t5-small --attention flash --gpu H200
$PLIMSOLL estimate --model falcon-7b --attention flash --gpu H200
$PLIMSOLL estimate --model llama-3.2-1b --attention flash --gpu T4
