# A bare encoder under Trainer, as sentence-transformers trains it.
$PLIMSOLL estimate -m all-mpnet-base-v2 -b 64 -s 128 --loop trainer --amp bf16 --gpu 24GiB | grep -E "FITS|unverified|outputs"
