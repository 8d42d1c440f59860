# runs and runs show, of runs that were really made: one that recovers, one that fails, and one without memory.
export PLIMSOLL_NVML=nowhere XDG_STATE_HOME=$PWD/state HOME=$PWD
trainer="$(dirname "$PLIMSOLL")/fake_trainer"
cp "$trainer" trainer

# Without what changes from run to run.
undated() {
  sed -E "s|$PWD|/home/me|g; s/[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}/2026-01-01 00:00/
    s/[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{6}(-[0-9]+)?/2026-01-01-000000/; s/took .*/took 1.00 s/
    s/^ +[0-9.]+ s  /       1.0 s  /; s/(began|00:00)  .*  (end  |f)/\1  ...  \2/; s/(began|ended|time)\": [0-9.e+]+/\1\": 0/"
}

$PLIMSOLL run --no-check --resume=--resume -- ./trainer --per_device_train_batch_size 8 --gradient_accumulation_steps 2 \
  --max_steps 6 --long-step 4 --card-mib 800 --checkpoint last >said 2>&1
$PLIMSOLL run --no-check -- ./trainer --max_steps 3 --end error >said 2>&1
$PLIMSOLL run --no-check -- true >said 2>&1

$PLIMSOLL runs | undated
for run in 1 2 3; do $PLIMSOLL runs show $run | undated; done
$PLIMSOLL runs show 2 --json | undated | python3 -c '
import json, sys
run = json.load(sys.stdin)
run["samples"] = run["samples"][-1:]  # how many there are depends on the machine
print(json.dumps(run, indent=1))'
$PLIMSOLL runs show 3 --svg memory.svg
echo "exit $?"
$PLIMSOLL runs show 999
echo "exit $?"
