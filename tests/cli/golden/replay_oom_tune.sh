# Out of memory, by fragmentation; the limit is inferred; other settings would have done.
$PLIMSOLL replay truth/snapshots/varlen-cap-oom.pickle.xz --tune
