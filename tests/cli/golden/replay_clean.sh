# Nothing to report: exit 0.
$PLIMSOLL replay truth/snapshots/stacks-tiny.pickle.xz --top 4
