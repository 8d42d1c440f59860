# A cached contrastive loss: the number of sequences at a time is changed until it fits, and written. The batch, which is
# compared as a whole, stays. Without a cache nothing fits, and the plan says what a cache would save.
work=$(mktemp -d) && cd "$work" || exit 9
cat >train.py <<'END'
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers import SentenceTransformerTrainingArguments
from sentence_transformers.losses import CachedMultipleNegativesRankingLoss

model = SentenceTransformer("sentence-transformers/all-mpnet-base-v2")
loss = CachedMultipleNegativesRankingLoss(model, mini_batch_size=64)
args = SentenceTransformerTrainingArguments("out", per_device_train_batch_size=256, fp16=True)
trainer = SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss=loss)
END
sed 's/CachedM/M/; s/, mini_batch_size=64//' train.py >plain.py
sed 's/, mini_batch_size=64//' train.py >silent.py
$PLIMSOLL plan train.py --gpu 8GiB --seq 384 --out plan.json | sed -n '3p;/^now:/,/^budget/p'
$PLIMSOLL apply plan.json --dry-run | grep "^[-+]"
$PLIMSOLL apply plan.json | head -1 && grep -c "mini_batch_size=16" train.py
echo "== three columns"
$PLIMSOLL plan train.py --gpu 8GiB --seq 384 --columns 3 | sed -n '3p;/^planned/p'
echo "== the default of the class"
$PLIMSOLL plan silent.py --gpu 8GiB --seq 384 | sed -n '3p;/^planned/p'
echo "== without a cache"
$PLIMSOLL plan plain.py --gpu 8GiB --seq 384 | sed -n '3p;/^now:/,/tokens per second/p'
$PLIMSOLL plan plain.py --gpu 8GiB --seq 384 --json |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["questions"][0]["cached_loss"])'
rm -rf "$work"
