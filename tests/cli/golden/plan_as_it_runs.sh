# The job that is planned is the one that would run: the mask of Trainer's batches, what is not modelled, what was typed.
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
