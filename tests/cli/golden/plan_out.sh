# A plan is never saved over the files it is made from, nor over anything except an older plan. A saved plan is not a
# configuration.
export HF_HOME=nowhere PLIMSOLL_NVML=none PLIMSOLL_ROOT=fixtures/check/machine
cp fixtures/small/train.yaml . && ln -s train.yaml link.yaml && echo mine >notes.txt && : >empty.json
plan() { $PLIMSOLL plan train.yaml --gpu 24GiB --try micro_batch=1 "$@" >/dev/null; echo "exit $?"; }
{
  for out in train.yaml ./train.yaml "$PWD/train.yaml" link.yaml notes.txt -; do plan --out $out; done
  cmp train.yaml fixtures/small/train.yaml && cat notes.txt && ls
  plan --out plan.json && plan --out plan.json && plan --out empty.json
  $PLIMSOLL plan train.yaml plan.json --gpu 24GiB
  $PLIMSOLL check train.yaml plan.json --gpu 24GiB
  $PLIMSOLL plan train.yaml --gpu 24GiB,80GiB --out plan.json
  cp fixtures/small/train.yaml old.svg
  $PLIMSOLL estimate -m gpt2 --svg old.svg && cat old.svg
  $PLIMSOLL estimate -m gpt2 --svg new.svg >/dev/null && $PLIMSOLL estimate -m gpt2 --svg new.svg >/dev/null
  echo "exit $?"
} 2>&1 | sed "s,$PWD,HERE,"
# The text names the file that the plan was saved to, and how to apply it.
$PLIMSOLL plan train.yaml --gpu 24GiB --out "my plan.json" | grep -E 'apply|saved|^changes to'
$PLIMSOLL plan -m gpt2 --gpu 24GiB --out options.json | grep -E 'apply|saved|^the plan \(row 1\)'
