# Two trainings in one script: changed together if they agree, unclear if they do not.
mkdir p && cd p || exit 9
stages() {
  printf 'one = TrainingArguments("a", per_device_train_batch_size=8, gradient_accumulation_steps=%s)\n' "$1"
  printf 'two = TrainingArguments("b", per_device_train_batch_size=8, gradient_accumulation_steps=%s)\n' "$2"
}
plan() { $PLIMSOLL plan two.py --model ../fixtures/tiny --seq 2048 --gpu 20GiB --fix micro_batch=2 "$@" 2>&1; }
echo "== the same twice"
stages 8 8 >two.py
plan --fix checkpoint=on --out plan.json | grep -o "effective batch.*"
$PLIMSOLL apply plan.json --dry-run
echo "== another accumulation"
stages 8 4 >two.py
plan
echo "== one of them is meant"
plan --set "accumulate=two.py:TrainingArguments#2.gradient_accumulation_steps" | grep -o "effective batch.*"
plan --set "accumulate=two.py:TrainingArguments#2.gradient_accumulation_steps" | grep -o "micro_batch cannot.*"
echo "== one of them has more"
stages 8 '8, gradient_checkpointing=True' >two.py
plan | sed -n '/checkpointing is not clear/,/predicted/p'
