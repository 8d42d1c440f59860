# A custom YAML file with a global batch that must multiply out, and a plan that needs a line of code. The part that can
# be written does not fit on its own and is refused; after the manual step, the plan is shown as a diff that git
# accepts, written, and undone to the byte. Then the same with a plan that needs only the files.
work=$(mktemp -d) && cp -r fixtures/seed2 "$work/project" && cd "$work/project" || exit 9
files="run.sh configs/pretrain_512m.yaml --model llama-3.2-1b --gpu 16GiB"
there_and_back() {
    $PLIMSOLL apply ../plan.json "$@" --dry-run | tee ../plan.diff | grep -E "^[-+]"
    git apply --check ../plan.diff && echo "git takes it"
    rm -rf ../before && cp -r . ../before && $PLIMSOLL apply ../plan.json "$@" &&
        git apply -R --check ../plan.diff && echo "as the diff says"
    $PLIMSOLL undo && diff -r --exclude=.git --exclude=.plimsoll . ../before && echo "as before"
}
git init -q .
$PLIMSOLL plan $files --out ../plan.json | grep -E "^(now:|planned|NOTHING|chunked_loss 512|without it)"
$PLIMSOLL apply ../plan.json
$PLIMSOLL help chunked_loss > chunked_loss.py && there_and_back --done chunked_loss
echo "== in files alone"
$PLIMSOLL plan $files --fix chunked_loss=off --fix strategy=ddp --out ../plan.json | grep -E "^(now:|planned|NOTHING)"
there_and_back
rm -rf "$work"
