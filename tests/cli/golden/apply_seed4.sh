# The CMD of a Dockerfile.
# The plan is saved, shown as a diff that git accepts, written, and undone to the byte.
work=$(mktemp -d) && cp -r fixtures/seed4 "$work/project" && cd "$work/project" || exit 9
$PLIMSOLL plan Dockerfile.training --seq 512 --gpu 24GiB --out ../plan.json | grep -E "^(now:|planned|NOTHING)"
$PLIMSOLL apply ../plan.json --dry-run | tee ../plan.diff | grep -E "^[-+]"
git init -q . && git apply --check ../plan.diff && echo "git takes it"
cp -r . ../before && $PLIMSOLL apply ../plan.json && git apply -R --check ../plan.diff && echo "as the diff says"
$PLIMSOLL undo && diff -r --exclude=.git --exclude=.plimsoll . ../before && echo "as before"
rm -rf "$work"
