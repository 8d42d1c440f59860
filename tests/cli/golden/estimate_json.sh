# The document other programs read.
$PLIMSOLL estimate --model gpt2 --batch 4 --seq 512 --limit 8GiB --load init --json
