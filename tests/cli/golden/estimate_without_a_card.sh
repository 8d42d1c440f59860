# Without a card there is no verdict.
$PLIMSOLL estimate --model bert-base --batch 8 --seq 128
