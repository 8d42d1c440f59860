# What check cannot be told is advised as a whole plan command, with the files and options that check was given.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML=none PLIMSOLL_ROOT=fixtures/check/machine
cat >missing.py <<'P'
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("o", per_device_train_batch_size=4, deepspeed="none.json")
Trainer(model=model, args=args).train()
P
$PLIMSOLL check missing.py --gpu 24GiB --world 2 | grep -A4 "cannot tell"
cat >texts.py <<'P'
from sentence_transformers import SentenceTransformer, losses
from torch.utils.data import DataLoader
model = SentenceTransformer("bert-base-uncased")
model.fit([(DataLoader(data, batch_size=64), losses.MultipleNegativesRankingLoss(model))])
P
$PLIMSOLL check texts.py --gpu 24GiB | grep -A2 "how many texts"
cat >batch.py <<'P'
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("o", per_device_train_batch_size=read("batch"))
Trainer(model=model, args=args).train()
P
$PLIMSOLL check batch.py --gpu 24GiB | grep -A4 "cannot tell"
