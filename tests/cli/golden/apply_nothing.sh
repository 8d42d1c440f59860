# A plan that changes nothing is no error, and an unknown knob of --done is one.
work=$(mktemp -d) fixtures=$PWD/fixtures && cp -r fixtures/small "$work/project" && cd "$work/project" || exit 9
$PLIMSOLL plan train.yaml --gpu 12GiB --try micro_batch=1,2 --out ../plan.json >/dev/null
$PLIMSOLL apply ../plan.json >/dev/null
$PLIMSOLL plan train.yaml --gpu 12GiB --try micro_batch=1,2 --out ../again.json >/dev/null
cp -r . ../before
$PLIMSOLL apply ../again.json; echo "exit $?"
$PLIMSOLL apply ../again.json --json; echo "exit $?"
$PLIMSOLL apply ../again.json --dry-run 2>&1; echo "exit $?"
$PLIMSOLL apply ../again.json --done chunked_loss 2>&1; echo "exit $?"
$PLIMSOLL apply ../again.json --done chunked-los 2>&1; echo "exit $?"
diff -r . ../before && echo "as before"
# The manual steps of the plan are listed, and the closest of them is named.
cp -r "$fixtures/seed0" ../seed0 && cd ../seed0 || exit 9
$PLIMSOLL plan start_baseline.sh --gpu 32GiB --fix liger=off --fix chunked_loss=512 --fix micro_batch=8 --fix offload=none --fix strategy=none --fix checkpoint=on --out ../seed0.json >/dev/null
$PLIMSOLL apply ../seed0.json --done chunked_los 2>&1; echo "exit $?"
$PLIMSOLL apply ../seed0.json --done everything 2>&1; echo "exit $?"
rm -rf "$work"
