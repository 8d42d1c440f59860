# A bare encoder has no loss of its own: what comes out of the model is what its backward begins with.
for way in ddp fsdp2 zero1 zero2 zero3; do
  $PLIMSOLL estimate --model all-mpnet-base-v2 --batch 4 --seq 128 --strategy $way --world 2 --gpu 24GiB | grep FITS
done
