# A leak is found, with its line, its rate and the step at which the card is full: exit 1.
$PLIMSOLL replay truth/snapshots/stacks-leak-logits.pickle.xz --limit 24GiB
