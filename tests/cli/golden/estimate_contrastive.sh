# A contrastive loss by columns: what a cache saves, what a third column adds, and what has no effect.
run() { $PLIMSOLL estimate -m bert-base-uncased --loss contrastive -b 256 -s 256 --amp bf16 --dtype fp32 \
  --loop trainer -g H200 "$@" | grep -E "^(batch|loss|FITS|time|  *total)"; }
run
run --cached-batch 128
run --cached-batch 32
run --columns 3
run --pooling cls | grep FITS
echo "== thousands of mini batches"
$PLIMSOLL estimate -m bert-base-uncased --loss contrastive -b 65536 -s 256 --amp bf16 --dtype fp32 --loop trainer \
  -g H200 --cached-batch 32 | grep -E "^(loss|FITS|time)"
echo "== refused"
$PLIMSOLL estimate -m bert-base-uncased --cached-batch 32
$PLIMSOLL estimate -m bert-base-uncased --loss contrastive --columns 1
$PLIMSOLL estimate -m t5-base --loss contrastive
$PLIMSOLL estimate -m bert-base-uncased --loss contrastive --cached-batch 4 -b 8 --strategy fsdp2 --world 2
$PLIMSOLL estimate -m bert-base-uncased --loss contrastive -b 1048576 -s 64 --cached-batch 8
$PLIMSOLL estimate -m bert-base-uncased --loss contrastive -b 8 --cached-batch 18446744073709551615
