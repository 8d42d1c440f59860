# An apply that was killed between two renames: plan and check say so and what to type, and change nothing.
work=$(mktemp -d) && cp -r fixtures/small "$work/project" && cd "$work/project" || exit 9
printf 'deepspeed: ds.json\n' >>train.yaml
printf '{"train_micro_batch_size_per_gpu": 8,\n "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 2}}\n' >ds.json
$PLIMSOLL plan train.yaml --world 2 --gpu 12GiB --try micro_batch=1,2 --out ../plan.json >/dev/null
$PLIMSOLL apply ../plan.json | sed '/^to do by hand/,$d'
mv .plimsoll/applied.1 .plimsoll/journal && cp ds.json.backup ds.json # as if ds.json had not been replaced yet
$PLIMSOLL plan train.yaml --world 2 --gpu 12GiB 2>&1 >/dev/null
$PLIMSOLL check train.yaml --world 2 --gpu 80GiB | grep -A4 interrupted
ls -A && $PLIMSOLL undo
$PLIMSOLL plan train.yaml --world 2 --gpu 80GiB 2>&1 >/dev/null
ls -A && cat ds.json
rm -rf "$work"
