# A hundred thousand forward passes take no longer than a few that repeat; where that is not known, it is said.
$PLIMSOLL estimate -m tiny-llama -b 1 -s 128 -a 50000 --steps 2 --gpu 24GiB | grep -E "^(note|peak|time|FITS)"
$PLIMSOLL estimate -m t5-small --dtype bf16 -b 2 -s 128 -a 50000 --steps 3 --gpu 24GiB | grep -E "^(note|peak|time|FITS)"
