# Links, several paths of one file, files of the same name: the diff shows what is written, and git accepts it.
(
part paths
# The same file by several paths, and files of the same name in several folders: the diff shows what is written, and git
# accepts it whatever the paths are.
work=$(mktemp -d) && cp -r fixtures/small "$work/project" && cd "$work/project" || exit 9
plan() { $PLIMSOLL plan "$@" --gpu 12GiB --try micro_batch=1,2 --out ../plan.json >/dev/null; }
mkdir sub && echo "note: another of that name" >sub/train.yaml && ln -s train.yaml link.yaml && git init -q .
echo "-- two of one name"
plan sub/train.yaml train.yaml && $PLIMSOLL apply ../plan.json --dry-run 2>/dev/null | tee ../plan.diff | head -3
git apply --check ../plan.diff && $PLIMSOLL apply ../plan.json | head -1 && git apply -R --check ../plan.diff &&
  $PLIMSOLL undo
echo "-- an absolute path, and one through another folder"
plan "$PWD/train.yaml" && $PLIMSOLL apply ../plan.json --dry-run 2>/dev/null | head -1
plan sub/../train.yaml && $PLIMSOLL apply ../plan.json --dry-run 2>/dev/null | tee ../plan.diff | head -1
git apply --check ../plan.diff && echo "git takes it"
echo "-- the same file twice"
plan train.yaml link.yaml "$PWD/train.yaml" && $PLIMSOLL apply ../plan.json | head -1 && $PLIMSOLL undo
echo "-- outside of the folder"
cd sub && plan ../train.yaml && mv ../plan.json "$work/plan.json"
$PLIMSOLL apply "$work/plan.json" --dry-run 2>../../note >../../plan.diff && grep note: ../../note
(cd / && git apply --check "$work/plan.diff" && echo "git takes it, from the root")
$PLIMSOLL apply "$work/plan.json" 2>&1 | sed "s,$work,WORK,"
$PLIMSOLL apply --outside "$work/plan.json" | sed -n 's/.*--out/--out/p'
$PLIMSOLL undo 2>&1 | sed "s,$work,WORK,"
$PLIMSOLL undo --outside | sed "s,$work,WORK,"
rm -rf "$work"
) 2>&1 || echo "exit $?"
(
part links
# git does not follow links: the diff names the target of a link, and apply changes the target.
work=$(mktemp -d) && mkdir "$work/conf" && cp fixtures/small/train.yaml "$work/conf/real.yaml" && cd "$work" || exit 9
ln -s conf/real.yaml train.yaml && ln -s conf linked && git init -q .
for file in train.yaml linked/real.yaml; do
  $PLIMSOLL plan $file --gpu 12GiB --try micro_batch=1,2 --out plan.json >/dev/null
  $PLIMSOLL apply plan.json --dry-run | tee plan.diff | head -1
  git apply --check plan.diff && echo "git takes it"
done
mkdir below && cd below && ln -s ../conf/real.yaml outside.yaml && cp ../conf/real.yaml own.yaml
$PLIMSOLL plan outside.yaml --gpu 12GiB --try micro_batch=1,2 --out plan.json >/dev/null
$PLIMSOLL apply plan.json --dry-run 2>note >plan.diff && cat note
(cd / && git apply --check "$work/below/plan.diff" && echo "git takes it, from the root")
rm -rf "$work"
) 2>&1 || echo "exit $?"
