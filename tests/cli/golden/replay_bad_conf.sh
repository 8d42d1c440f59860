# The caret points at the value.
$PLIMSOLL replay truth/snapshots/stacks-tiny.pickle.xz --alloc-conf expandable_segments:True,max_split_size_mb:8
