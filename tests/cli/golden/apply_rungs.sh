# Whichever rung is written: what it leaves to do by hand and how it is started is said for that one.
cat >train.py <<'S'
import torch
from transformers import AutoModelForCausalLM

BATCH_SIZE = 16
GRAD_ACC = 4
SEQ_LEN = 1024

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
S
echo "== refused: the lines to paste, and a command that can be typed"
$PLIMSOLL plan train.py --gpu "12 GiB" --fix micro_batch=4 --fix checkpoint=off --fix optimizer=adamw-foreach --fix alloc_conf=default --out p.json >/dev/null
$PLIMSOLL apply p.json 2>&1
again=$($PLIMSOLL apply p.json 2>&1 | sed -n 's/^without it: plimsoll //p')
echo "typed again: $again"
eval "$PLIMSOLL $again" 2>&1 | grep -E "^error|as it is|planned:"
echo "== done by hand: what is done is not said again"
$PLIMSOLL apply p.json --done chunked_loss 2>&1 | grep -c use_chunked_loss
cp -r fixtures/seed0 seed && cd seed && chmod -R u+w .
$PLIMSOLL plan start_baseline.sh --gpu 24564MiB --out plan.json >/dev/null
echo "== below the first: an engine that needs a launcher"
for n in 2 3 4 5 6; do
  $PLIMSOLL apply plan.json --rung $n --dry-run 2>&1 >/dev/null | grep -q num_gpus && break
done
$PLIMSOLL apply plan.json --rung $n | grep -A9 "^to do"
