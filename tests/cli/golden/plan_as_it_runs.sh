# The planned job is the one that would run: masks, unsupported features, settings that belong to checkpointing.
(
part as_it_runs
# The planned job is the one that would run: the mask of Trainer's batches, unsupported features, options.
cat > train.py <<'END'
args = TrainingArguments(
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    optim="sgd",
    torch_compile=True,
    torch_empty_cache_steps=10,
)
END
own() { sed -n '/^now:/p; /^note/,/^files:/p'; }
held="--gpu 80GiB --try checkpoint=off"
echo "== as estimate has it, with padding"
$PLIMSOLL plan train.py -m qwen2.5-0.5b -s 2048 $held | grep '^now:'
recipe="-m qwen2.5-0.5b -s 2048 -a 2 -o sgd --loop trainer"
$PLIMSOLL estimate $recipe -b 4 --mask pad --gpu 80GiB | grep -o '^FITS.*of the 80'
$PLIMSOLL estimate $recipe -b 4 --mask longest --gpu 80GiB | grep -o '^FITS.*of the 80'
$PLIMSOLL estimate $recipe -b 4 --mask ones --gpu 80GiB | grep -o '^FITS.*of the 80'
echo "== one sequence has no padding"
$PLIMSOLL plan train.py -m qwen2.5-0.5b -s 2048 -b 1 $held | grep '^now:'
$PLIMSOLL estimate $recipe -b 1 --mask ones --gpu 80GiB | grep -o '^FITS.*of the 80'
echo "== what is not modelled"
$PLIMSOLL plan train.py -m qwen2.5-0.5b -s 2048 $held | grep '^note.*modelled'
echo "== what is typed, also where it is the default"
$PLIMSOLL plan train.py -m qwen2.5-0.5b -s 2048 -b 1 -a 1 -o adamw --mask none --loop manual --json $held |
  grep -E '^    "(micro_batch|accumulate|optimizer)": '
) 2>&1 || echo "exit $?"
(
part reentrant
# When checkpointing is turned on for adapters, use_reentrant=False is added: in a script, in a file, on a command line.
# Then check has no warning.
cat >base.py <<'S'
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from peft import LoraConfig, get_peft_model
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B", torch_dtype="bfloat16")
model = get_peft_model(model, LoraConfig(r=16))
S
cp base.py train.py && cat >>train.py <<'S'
args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=8,
    gradient_checkpointing=False,
    bf16=True,
)
Trainer(model, args).train()
S
show() {
  $PLIMSOLL plan "$@" --gpu 16GiB --seq 2048 --fix checkpoint=on --out plan.json >/dev/null
  $PLIMSOLL apply plan.json --dry-run 2>/dev/null | grep "^[-+].*\(checkpointing\|reentrant\)"
  $PLIMSOLL apply plan.json >/dev/null
  $PLIMSOLL check "$@" --gpu 16GiB | grep -i "reentrant\|options:"
}
show train.py
cp base.py run.py && cat >>run.py <<'S'
args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]
Trainer(model, args).train()
S
cat >run.sh <<'S'
python run.py --output_dir out --per_device_train_batch_size 8 --bf16 true
S
show run.sh
cat >args.yaml <<'S'
output_dir: out
per_device_train_batch_size: 8
bf16: true
S
show run.py args.yaml
) 2>&1 || echo "exit $?"
