# Custom names: plimsoll.yaml is found and tells where positives and negatives per anchor are set. They multiply the
# number of encoded texts; fewer of them, and a split batch, are allowed here.
# The plan is saved, shown as a diff that git accepts, written, and undone to the byte.
work=$(mktemp -d) && cp -r fixtures/seed3 "$work/project" && cd "$work/project" || exit 9
$PLIMSOLL plan conf/config.yaml --gpu 6GiB --allow n_negatives --out ../plan.json | grep -E "^(now:|planned|NOTHING)"
$PLIMSOLL apply ../plan.json --dry-run | tee ../plan.diff | grep -E "^[-+]"
git init -q . && git apply --check ../plan.diff && echo "git takes it"
cp -r . ../before && $PLIMSOLL apply ../plan.json && git apply -R --check ../plan.diff && echo "as the diff says"
$PLIMSOLL undo && diff -r --exclude=.git --exclude=.plimsoll . ../before && echo "as before"
rm -rf "$work"
