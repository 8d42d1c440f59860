# The JSON document for other programs.
$PLIMSOLL estimate --model gpt2 --batch 4 --seq 512 --limit 8GiB --load init --json
