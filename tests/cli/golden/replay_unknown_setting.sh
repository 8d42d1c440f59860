$PLIMSOLL replay truth/snapshots/stacks-tiny.pickle.xz --alloc-conf expandable_segment:True
