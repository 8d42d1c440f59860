# The JSON document for other programs.
$PLIMSOLL plan --model gpt2 --batch 8 --seq 1024 --gpu 8GiB --dtype bf16 --json
