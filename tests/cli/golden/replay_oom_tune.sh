# Out of memory by fragmentation; the limit is inferred; other settings would have fitted.
$PLIMSOLL replay truth/snapshots/varlen-cap-oom.pickle.xz --tune
