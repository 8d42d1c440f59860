# A home-made YAML with a global batch that must multiply out.
# The plan is saved, shown as a diff that git takes, written, and taken back to the byte.
work=$(mktemp -d) && cp -r fixtures/seed2 "$work/project" && cd "$work/project" || exit 9
$PLIMSOLL plan run.sh configs/pretrain_512m.yaml --model llama-3.2-1b --gpu 16GiB --out ../plan.json | grep -E "^(as it|planned|NOTHING)"
$PLIMSOLL apply ../plan.json --dry-run | tee ../plan.diff | grep -E "^[-+]"
git init -q . && git apply --check ../plan.diff && echo "git takes it"
cp -r . ../before && $PLIMSOLL apply ../plan.json && git apply -R --check ../plan.diff && echo "as the diff says"
$PLIMSOLL undo && diff -r --exclude=.git --exclude=.plimsoll . ../before && echo "as before"
rm -rf "$work"
