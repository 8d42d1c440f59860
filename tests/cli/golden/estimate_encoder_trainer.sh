# Encoders without a head, on one GPU and on several; the mask has the same effect on both.
(
part encoder_trainer
# A bare encoder under Trainer, as sentence-transformers trains it.
$PLIMSOLL estimate -m all-mpnet-base-v2 -b 64 -s 128 --loop trainer --amp bf16 --gpu 24GiB | grep -E "FITS|unverified|outputs"
) 2>&1 || echo "exit $?"
(
part bare_sharded
# A bare encoder has no loss of its own: backward begins with the output of the model.
for way in ddp fsdp2 zero1 zero2 zero3; do
  $PLIMSOLL estimate --model all-mpnet-base-v2 --batch 4 --seq 128 --strategy $way --world 2 --gpu 24GiB | grep FITS
done
) 2>&1 || echo "exit $?"
(
part sharded_mask
# A mask with padding costs a bias in every layer, with several GPUs as with one.
for mask in none ones pad; do
  $PLIMSOLL estimate --model llama-3.2-1b --strategy fsdp2 --world 4 --batch 4 --seq 2048 --mask $mask --json \
    --gpu H200 | grep -E '"peak_allocated_bytes"'
done
) 2>&1 || echo "exit $?"
