# Scripts that take their settings from a command line: what is asked for, and --command, which gives it.
export COLUMNS=80
cat >own.py <<'X'
import argparse, torch
from transformers import AutoModelForCausalLM
p = argparse.ArgumentParser()
p.add_argument("--model", required=True)
p.add_argument("--batch-size", type=int, required=True)
args = p.parse_args()
model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16)
for batch in torch.utils.data.DataLoader(data, batch_size=args.batch_size):
    model(**batch).loss.backward()
X
cat >hf.py <<'X'
from transformers import HfArgumentParser, TrainingArguments, Trainer, AutoModelForCausalLM
margs, targs = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained(margs.model_name_or_path)
Trainer(model=model, args=targs).train()
X
cat >click_own.py <<'X'
import click
from transformers import AutoModelForCausalLM
@click.command()
@click.option("--bs", type=int)
@click.option("--base-model")
def main(bs, base_model):
    model = AutoModelForCausalLM.from_pretrained(base_model)
    for batch in DataLoader(d, batch_size=bs):
        model(**batch).loss.backward()
X
settings() { python3 -c 'import json,sys; d=json.load(sys.stdin); c=d.get("chosen"); print(d["model"], c and (c["micro_batch"], c["accumulate"]), d["rungs"][0].get("command"))'; }
echo "== what to type"
$PLIMSOLL plan own.py --gpu 24GiB 2>&1
$PLIMSOLL plan own.py --gpu 24GiB --model gpt2 2>&1
$PLIMSOLL plan hf.py --gpu 24GiB 2>&1
$PLIMSOLL plan click_own.py --gpu 24GiB --model gpt2 2>&1
$PLIMSOLL plan own.py --per_device_train_batch_size 4 2>&1
echo "== a command, with and without the file"
for files in "" own.py; do
  $PLIMSOLL plan $files --command "python own.py --model gpt2 --batch-size 32" --seq 512 --gpu 12GiB --json | settings
done
$PLIMSOLL plan --command "accelerate launch hf.py --model_name_or_path gpt2 --per_device_train_batch_size 32 --bf16" --seq 512 --gpu 12GiB --json | settings
$PLIMSOLL plan --command "python click_own.py --bs 2 --base-model gpt2" --seq 512 --gpu 24GiB --json | settings
echo "== the plan changes the command, and apply shows it"
$PLIMSOLL plan --command "torchrun --nproc_per_node 1 hf.py --model_name_or_path gpt2 --per_device_train_batch_size 32 --bf16" --seq 512 --gpu 12GiB --out plan.json | sed -n '/^your new command/,/^$/p'
$PLIMSOLL apply plan.json
$PLIMSOLL check --command "python own.py --model gpt2 --batch-size 64" --gpu 8GiB | sed -n '/fix:/,/out/p'
echo "== mistakes"
$PLIMSOLL plan --command "" 2>&1
$PLIMSOLL plan --command "python own.py 'a" 2>&1
$PLIMSOLL plan --command "python nothere.py --batch-size 3" --gpu 24GiB 2>&1
$PLIMSOLL plan --command "ls -l" --gpu 24GiB 2>&1
$PLIMSOLL plan --gpu 24GiB --command "python own.py" -- python own.py 2>&1
