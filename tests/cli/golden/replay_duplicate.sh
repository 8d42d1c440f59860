# Three copies of a model, with the lines that created them.
$PLIMSOLL replay truth/snapshots/stacks-duplicate-model.pickle.xz --top 4 | sed -n "/^Duplicated/,\$p"
exit "${PIPESTATUS[0]}"
