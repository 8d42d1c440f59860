# The first example project on its own card: everything that makes it fit is written into the user's files.
work=$(mktemp -d) && cp -r fixtures/seed0 "$work/project" && cd "$work/project" || exit 9
$PLIMSOLL plan start_baseline.sh --gpu 24564MiB --out ../plan.json | grep -E "^(now:|planned|NOTHING|pip|to do by hand|[0-9]. )"
git init -q . && git add . && $PLIMSOLL apply ../plan.json && git diff | grep "^[-+]"
$PLIMSOLL plan start_baseline.sh --gpu 24564MiB | sed -n '/^now:/,/^none/p'
$PLIMSOLL undo >/dev/null && git diff --quiet && echo "as before"
rm -rf "$work"
