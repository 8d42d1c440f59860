# Questions that only the user can answer, and options to answer them: margins, epochs, names of flags.
asks() { python3 -c 'import json,sys; d = json.load(sys.stdin); print(*[q["about"] + ": " + q["yes"] + " or " + q["no"] for q in d["questions"]], sep="\n")'; }
small="--model gpt2 --batch 16 --seq 256 --gpu 8GiB"
echo "== the loss compares within a batch"
$PLIMSOLL plan $small --contrastive | sed -n '/^question/,/^$/p'
$PLIMSOLL plan $small --contrastive --json | asks
$PLIMSOLL plan $small --batch-norm --json | asks
$PLIMSOLL plan $small --contrastive --allow micro_batch --json | asks
printf 'import torch.nn as nn\nfrom transformers import Trainer, TrainingArguments\nMODEL = "gpt2"\nhead = nn.BatchNorm1d(64)\nargs = TrainingArguments(per_device_train_batch_size=16, num_train_epochs=0.5)\nTrainer(model=MODEL, args=args)\n' >train.py
$PLIMSOLL plan train.py --model gpt2 --seq 256 --gpu 8GiB --json | asks
echo "== steps, of the epochs in the file and of others"
$PLIMSOLL plan train.py --model gpt2 --seq 256 --gpu 8GiB --samples 16000 --price 2 | grep " steps"
$PLIMSOLL plan $small --samples 16000 --epochs 0.25 --json | python3 -c 'import json,sys; c = json.load(sys.stdin)["chosen"]; print(c["steps"], c["price"])'
echo "== margins"
$PLIMSOLL plan ${small/8GiB/14GiB} --try batch=16 --margin 40% | sed -n "/^NOTHING/,/^$/p"
$PLIMSOLL plan $small --try batch=16 --margin 0.6 --try seq=256 --try lora-rank=0 --try loss=full | sed -n '/^NOTHING/,/^$/p'
echo "== the batch that is asked for"
$PLIMSOLL plan --model gpt2 --batch 2 --seq 256 --gpu 8GiB --effective-batch 64 --fix micro_batch=2 | sed -n '/^changes/,/^$/p'
echo "== too many values"
$PLIMSOLL plan $small --try accumulate=$(seq -s, 1 300) 2>&1
$PLIMSOLL plan $small --fix strategy=ddp --fix offload=optimizer 2>&1
