# sentence-transformers: a loss within one sample may be accumulated, one that compares samples needs an answer from the
# user. The number of texts comes from the loss or the data, or is assumed and reported.
script() {
  cat > train.py <<PY
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses
from datasets import load_dataset
model = SentenceTransformer("bert-base-uncased")
model.max_seq_length = 128
# loss = losses.MultipleNegativesRankingLoss(model)
loss = losses.$1
$2
args = SentenceTransformerTrainingArguments(output_dir="o", per_device_train_batch_size=256, bf16=True)
SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss=loss).train()
PY
  echo "== $1 $2"
  shift 2
  $PLIMSOLL plan train.py --gpu 6GiB "$@" | grep -E '^([0-9]+ samples|note: .*texts|now:|planned|micro_batch|NOTHING|question|unverified: a loss)'
}
script "CosineSimilarityLoss(model, loss_fct=nn.MSELoss())" ""
script "TripletLoss(model)" ""
script "MSELoss(model)" ""
script "SoftmaxLoss(model, 768, 3)" ""
script "CoSENTLoss(model)" ""
script "MultipleNegativesRankingLoss(model)" ""
script "MultipleNegativesRankingLoss(model)" "" --columns 4
script "MultipleNegativesRankingLoss(model)" 'data = load_dataset("sentence-transformers/all-nli", "triplet", split="train")'
script "MultipleNegativesRankingLoss(model)" 'data = load_dataset("sentence-transformers/all-nli", "pair")'
script "MultipleNegativesRankingLoss(model)" 'data = [InputExample(texts=[a, b(1, 2), c[0, 1]]) for a, b, c in rows]'
script "MatryoshkaLoss(model, losses.TripletLoss(model), [768, 64])" ""
# model.fit trains on the DataLoader that it is given, with or without the argument's name.
for objectives in "" "train_objectives="; do
  cat > fit.py <<PY
from sentence_transformers import SentenceTransformer, InputExample, losses
from torch.utils.data import DataLoader
model = SentenceTransformer("bert-base-uncased")
data = [InputExample(texts=[a, b, c]) for a, b, c in rows]
loader = DataLoader(data, shuffle=True, batch_size=64)
model.fit(${objectives}[(loader, losses.MultipleNegativesRankingLoss(model))], epochs=1)
PY
  $PLIMSOLL plan fit.py --gpu 24GiB | grep -E '^GPU|texts per sample'
done
