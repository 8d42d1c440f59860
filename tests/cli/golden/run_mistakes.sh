# run and runs: what is not there, and what was typed wrongly.
export HOME=$(mktemp -d) # an empty state folder
unset XDG_STATE_HOME
for line in "runs" "runs --json" "runs show 9" "runs nine" "runs 1 2 3" "runs --svg a.svg" "runs show 1 --svg a.svg" \
  "run" "run --retries many -- true" "run --cap much -- true" "run --spill=some -- true" \
  "run --cap 24 -- true" "run --cap 0 -- true" "run --spill 0 -- true" "run --notify nonsense -- true" "run --notify -- true" \
  "run --chunked-loss many -- true" "run --resume --resume-from last.pt -- true" "run --lr 3 true" "run no-such-program" "runs -n 0"; do
  $PLIMSOLL $line 2>&1
  echo "exit $?"
done
$PLIMSOLL run -- "python train.py" 2>&1
$PLIMSOLL runs # nothing of this is a run
$PLIMSOLL run --help
$PLIMSOLL runs --help
rm -r "$HOME"
