# Quantisation-aware training keeps rounded copies of inputs and weights for backward; torchtune's loss in eighths calls the
# head eight times, so it keeps eight copies of it.
of() { grep -E '^[a-z0-9.-]+, bf16|^error|^help|^FITS|^DOES|^note: [0-9]+ inputs|^unverified: quant' | tr -s ' '; }
for qat in none int8-int4 int8-int4:32 int4 axolotl-int8-int4 axolotl-mxfp4; do
  for loss in full eighths; do
    echo "== $qat $loss"
    $PLIMSOLL estimate -m llama-3.1-8b -b 2 -s 2048 --checkpoint --loss $loss --gpu 80GiB --qat $qat 2>&1 | of
  done
done
echo "== adapters"
$PLIMSOLL estimate -m llama-3.1-8b --lora-rank 8 -b 2 --checkpoint --gpu 80GiB --qat int8-int4 2>&1 | of
echo "== a tied head stays as it is, and so do layers whose inputs are no whole groups"
$PLIMSOLL estimate -m qwen2.5-0.5b -b 2 --checkpoint --gpu 80GiB --qat int8-int4 2>&1 | of
echo "== ZeRO 2"
$PLIMSOLL estimate -m llama-3.1-8b -b 2 --checkpoint --strategy zero2 --world 8 --gpu 80GiB --qat int8-int4 2>&1 | of
echo "== what cannot be"
$PLIMSOLL estimate -m llama-3.1-8b --qat axolotl-mxfp4:16 2>&1 | of
$PLIMSOLL estimate -m llama-3.1-8b --qat int9 2>&1 | of
$PLIMSOLL estimate -m llama-3.1-8b --qat int4:x 2>&1 | of
$PLIMSOLL estimate -m llama-3.1-8b --lora-rank 8 --weights nf4 --qat int4 2>&1 | of
$PLIMSOLL estimate -m llama-3.1-8b --lora-rank 8 --dora --qat int4 2>&1 | of
