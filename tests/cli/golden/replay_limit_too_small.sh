# 24 is 24 bytes; it says what was probably meant.
$PLIMSOLL replay truth/snapshots/stacks-tiny.pickle.xz --limit 24
