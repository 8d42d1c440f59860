# The same program under other settings and on a smaller card.
$PLIMSOLL replay truth/snapshots/varlen-default.pickle.xz --alloc-conf expandable_segments:True --limit 13GiB
