# A model held three times, with the lines that made the copies.
$PLIMSOLL replay truth/snapshots/stacks-duplicate-model.pickle.xz --top 4 | sed -n "/^Leaks/,\$p"
exit "${PIPESTATUS[0]}"
