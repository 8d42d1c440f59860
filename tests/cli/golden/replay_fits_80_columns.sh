# No line of the text is wider than a terminal, but for the one to be copied whole.
for f in snapshots/stacks-leak-logits snapshots/varlen-cap-oom snapshots/stacks-duplicate-model recorded/mempool; do
  $PLIMSOLL replay truth/$f.pickle.xz --tune --limit 9GiB | awk -v f=$f "length(\$0) > 80 && !/^export/ {print f \": \" \$0}"
done
