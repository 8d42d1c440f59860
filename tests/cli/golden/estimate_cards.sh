# What a size in GB and a short name are taken for; a card's own name and GiB need no words.
for card in 24GB 80gb "H100" "A100 40GB" 23GB 24GiB "H100 SXM" 4090; do
  echo "-- $card" && $PLIMSOLL estimate -m gpt2 -s 128 -g "$card" | grep -A1 -E "^note|^FITS"
done
$PLIMSOLL check fixtures/small/train.yaml -g 24GB | grep -A1 "24GB"
