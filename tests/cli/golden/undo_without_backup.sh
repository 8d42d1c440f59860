# Undo without backups; and files get their old modification times.
cp fixtures/small/train.yaml . && touch -d 2001-02-03 train.yaml && cp -p train.yaml old.yaml
$PLIMSOLL plan train.yaml --gpu 12GiB --try micro_batch=1,2 --out plan.json >/dev/null
apply() { $PLIMSOLL apply plan.json >/dev/null; }
echo "== the time comes back"
apply && date -r train.yaml.backup +%Y && $PLIMSOLL undo && date -r train.yaml +%Y
echo "== restored by hand"
apply && rm train.yaml.backup && cp -p old.yaml train.yaml && $PLIMSOLL undo && $PLIMSOLL undo 2>&1
cmp train.yaml old.yaml && ls -A | grep -c plimsoll
echo "== not restored"
apply && rm train.yaml.backup && cp train.yaml now.yaml && $PLIMSOLL undo 2>&1
$PLIMSOLL undo --force 2>&1 && cmp train.yaml now.yaml && ls -A | grep -c plimsoll
echo "== edited or deleted after it was applied"
cp -p old.yaml train.yaml && apply && echo "# mine" >>train.yaml
$PLIMSOLL undo 2>&1 || $PLIMSOLL undo --force
apply && rm train.yaml
$PLIMSOLL undo 2>&1 || $PLIMSOLL undo --force
echo "== another rung is applied; one that does not exist"
apply && $PLIMSOLL apply plan.json --rung 2 2>&1
$PLIMSOLL undo && $PLIMSOLL apply plan.json --rung 99 2>&1
echo "== nobody sees what was done"
cp -p old.yaml train.yaml
$PLIMSOLL apply plan.json 2>&1 >/dev/full
echo "exit $?" && cmp -s train.yaml now.yaml && echo applied
$PLIMSOLL undo 2>&1 >/dev/full
echo "exit $?" && cmp train.yaml old.yaml && echo restored
echo "== a full disk"
$PLIMSOLL plan train.yaml --gpu 12GiB --try micro_batch=1,2 --out /dev/full 2>&1 | grep -A9 error:
