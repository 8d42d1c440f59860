# A leak is found, with its line, its rate and the step at which the card is full: exit 1.
$PLIMSOLL replay truth/snapshots/stacks-leak-logits.pickle.xz --limit 24GiB
status=$?
# Where memory ran out during the recording, that step is named, not a later one.
echo && $PLIMSOLL replay truth/snapshots/stacks-leak-logits.pickle.xz --limit 1GiB | grep 'per step'
$PLIMSOLL replay truth/snapshots/stacks-leak-logits.pickle.xz --limit 1GiB --json | grep full_at_step
exit $status
