# Constants in config.py and a launch script, on a 32 GB card.
# The plan is saved, shown as a diff that git accepts, written, and undone to the byte.
work=$(mktemp -d) && cp -r fixtures/seed0 "$work/project" && cd "$work/project" || exit 9
$PLIMSOLL plan start_baseline.sh --gpu 32GiB --fix liger=off --out ../plan.json | grep -E "^(now:|planned|NOTHING)"
$PLIMSOLL apply ../plan.json --dry-run | tee ../plan.diff | grep -E "^[-+]"
git init -q . && git apply --check ../plan.diff && echo "git takes it"
cp -r . ../before && $PLIMSOLL apply ../plan.json # half of the plan would need more memory than before
$PLIMSOLL apply ../plan.json --done chunked_loss && git apply -R --check ../plan.diff && echo "as the diff says"
$PLIMSOLL undo && diff -r --exclude=.git --exclude=.plimsoll . ../before && echo "as before"
rm -rf "$work"
