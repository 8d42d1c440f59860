# Trainer on eight cards that are too small for full copies: a DeepSpeed file is created, the script refers to it, and
# undo removes the file again. If a file of that name exists, a new plan chooses another name.
work=$(mktemp -d) && cp -r fixtures/share/hf "$work/project" && cd "$work/project" || exit 9
$PLIMSOLL plan launch.sh --seq 2048 --gpu 48GiB --out ../plan.json | grep -E "^(now:|planned|strategy|offload|torchrun|deepspeed)"
$PLIMSOLL apply ../plan.json --dry-run | tee ../plan.diff | grep -E "^[-+]"
git init -q . && git apply --check ../plan.diff && echo "git takes it"
cp -r . ../before && $PLIMSOLL apply ../plan.json && git apply -R --check ../plan.diff && echo "as the diff says"
python3 -c 'import json; print(json.load(open("ds_zero3.json"))["zero_optimization"])'
$PLIMSOLL plan launch.sh --seq 2048 --gpu 48GiB | grep -E "^now:"
$PLIMSOLL undo && diff -r --exclude=.git --exclude=.plimsoll . ../before && echo "as before"
echo '{}' > ds_zero3.json && $PLIMSOLL apply ../plan.json 2>&1
$PLIMSOLL undo >/dev/null && $PLIMSOLL plan launch.sh --seq 2048 --gpu 48GiB | grep -E "^(planned|[+]{3}|[+].*deepspeed)"
rm -rf "$work"
