# No setting helps: none is recommended.
$PLIMSOLL replay truth/snapshots/stacks-tiny.pickle.xz --limit 100MiB --tune | tail -1
