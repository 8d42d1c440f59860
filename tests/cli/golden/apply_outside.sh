# A plan from someone else may name any file: files outside this folder are not changed without --outside.
work=$(mktemp -d) && mkdir "$work/own" "$work/other" && cd "$work/own" || exit 9
cp "$OLDPWD/fixtures/small/train.yaml" ../other/app.yaml
plan() { $PLIMSOLL plan "$1" --gpu 12GiB --try micro_batch=1,2 --out plan.json >/dev/null; }
show() { sed "s,$work,WORK,g"; }
old=$OLDPWD && same() { cmp -s ../other/app.yaml "$old/fixtures/small/train.yaml" && echo unchanged || echo changed; }
echo "== by its path"
plan ../other/app.yaml && $PLIMSOLL apply plan.json 2>&1 | show && same
echo "== by a link"
ln -s ../other/app.yaml train.yaml
plan train.yaml && $PLIMSOLL apply plan.json 2>&1 | show && same
echo "== by a link to its folder"
ln -s ../other conf
plan conf/app.yaml && $PLIMSOLL apply plan.json 2>&1 | show && same
echo "== as meant"
$PLIMSOLL apply plan.json --outside 2>&1 | show && same
$PLIMSOLL undo --outside 2>&1 | show && same
rm -rf "$work"
