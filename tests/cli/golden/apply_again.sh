# Plans that cannot be applied: already applied, made in another folder, made for several cards.
work=$(mktemp -d) && cp -r fixtures/small "$work/project" && cd "$work/project" || exit 9
$PLIMSOLL plan train.yaml --gpu 12GiB --try micro_batch=1,2 --out ../plan.json >/dev/null
$PLIMSOLL apply ../plan.json | head -1
$PLIMSOLL apply ../plan.json; echo "exit $?" && ls -A && $PLIMSOLL apply ../plan.json --json
$PLIMSOLL apply ../plan.json --rung 2
echo "# edited" >>train.yaml && $PLIMSOLL apply ../plan.json --rung 2
cd .. && $PLIMSOLL apply plan.json
cd project && $PLIMSOLL plan train.yaml --gpu 12GiB,24GiB --try micro_batch=1,2 --json >../plan.json
$PLIMSOLL apply ../plan.json
rm -rf "$work"
