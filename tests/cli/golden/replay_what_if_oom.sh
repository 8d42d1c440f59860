# A card that is too small: DOES NOT FIT, and where.
$PLIMSOLL replay truth/families/llama-bf16.pickle.xz --limit 2GiB --top 2; status=$?
# No setting helps: none is recommended.
$PLIMSOLL replay truth/snapshots/stacks-tiny.pickle.xz --limit 100MiB --tune | tail -1
exit $status
