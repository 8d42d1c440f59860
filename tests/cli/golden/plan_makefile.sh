# Makefiles: the command of a target is planned with the values of make's variables. apply writes a value that stands in the
# Makefile once; others are left to the user. What make computes is not guessed.
export COLUMNS=80
cat >train.py <<'Y'
import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B")
parser.add_argument("--batch-size", type=int, required=True)
parser.add_argument("--accumulate", type=int, default=1)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained(args.model, dtype="bfloat16")
Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=args.batch_size,
                                            gradient_accumulation_steps=args.accumulate, bf16=True)).train()
Y
plan() { $PLIMSOLL plan "$@" --gpu 80GiB --seq 1024 --fix micro_batch=8 --fix liger=off --fix chunked_loss=off --out plan.json 2>&1; }
parts() { sed -n '/^files:/p; /^error/,$p; /^to do/,/^if you/p; /^diff/,/^$/p'; }
one() { printf "$1" >Makefile; shift; plan "${@:-Makefile}" | parts; }
echo "== a project"
cat >Makefile <<'Y'
# BATCH is per GPU
PYTHON ?= python
BATCH = 32  # as in the paper
MODEL := Qwen/Qwen2.5-0.5B
FLAGS = --model $(MODEL)

.PHONY: train test
train: data
	@echo training $(MODEL)
	@$(PYTHON) train.py $(FLAGS) \
		--batch-size $(BATCH) \
		--accumulate 1 $(ARGS)

data:
	python prepare_data.py
test:
	pytest tests
Y
cp Makefile before
plan . | parts
$PLIMSOLL apply plan.json && $PLIMSOLL apply plan.json && sed -n 3p Makefile
$PLIMSOLL undo && cmp before Makefile && echo same
$PLIMSOLL check Makefile --gpu 24GiB --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["files"])'
$PLIMSOLL plan Makefile:train --gpu 24GiB --seq 1024 --json | python3 -c 'import json,sys; print([(f["path"], f.get("target")) for f in json.load(sys.stdin)["files"]])'
echo "== several"
several='BATCH = 32\ntrain:\n\tpython train.py --batch-size $(BATCH)\nbig: BATCH = 64\nbig:\n\tpython train.py --batch-size $(BATCH)\nsame:\n\tpython train.py --batch-size $(BATCH)\n'
one "$several"
one "$several" .
one "$several" Makefile:big
one "$several" Makefile:bgi
one "$several" Makefile:all
echo "== not written"
one 'BATCH = 32\ntrain:\n\tpython train.py --batch-size $(BATCH) --accumulate 1\neval:\n\tpython eval.py --batch-size $(BATCH)\n'
one 'BATCH = 3\nTEN = $(BATCH)2\ntrain:\n\tpython train.py --batch-size $(TEN) --accumulate 1\n'
echo "== not known"
for value in '$(shell cat batch)' '$(word 1,32 64)' '$(A:1=2)' '$($(A))' '$(OTHER)'; do
  one "BATCH = $value\ntrain:\n\tpython train.py --batch-size \$(BATCH)\n" | sed -n 1p
done
one 'ifdef BIG\nBATCH = 32\nelse\nBATCH = 4\nendif\ntrain:\n\tpython train.py --batch-size $(BATCH)\n' | sed -n 1p
one 'BATCH = 32\n-include local.mk\ntrain:\n\tpython train.py --batch-size $(BATCH)\n' | sed -n 1p
one 'define BATCH\n32\nendef\ntrain:\n\tpython train.py --batch-size $(BATCH)\n' | sed -n 1p
one 'train:\n\tpython train.py --batch-size 32 --model '"'"'$(MODEL)'"'"'\n' | sed -n 1p
one 'train:\n\texport BATCH=32\n\tpython train.py --batch-size $$BATCH\n' | sed -n 1p
one '.ONESHELL:\ntrain:\n\tBATCH=32\n\tpython train.py --batch-size $$BATCH\n' | sed -n 1p
echo "== mistakes"
one 'train:\nifdef BIG\n\tpython train.py --batch-size 32\nelse\n\tpython train.py --batch-size 4\nendif\n'
one 'train:\n    python train.py --batch-size 32\n'
one 'train:\n\tpython train.py --batch-size 32 \\\n\t\t--model "Qwen/Qw'
one 'ifdef A\ntrain:\n\tpython train.py --batch-size 32\n'
one 'test:\n\tpytest\n'
one '.RECIPEPREFIX = >\ntrain:\n>python train.py\n'
rm Makefile && plan Makefile
one 'train::\n\tpython train.py --batch-size 32\ntrain::\n\tpython train.py --batch-size 4\n'
echo "== other programs"
one 'serve:\n\tpython -m vllm.entrypoints.api_server\nlint:\n\tpython -m ruff check .\nfit:\n\tpython train.py --batch-size 32\nplots:\n\tpython plots.py\n' | head -1
