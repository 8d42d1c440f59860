# git does not follow links: a diff names the file that one leads to, and apply changes that file.
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
