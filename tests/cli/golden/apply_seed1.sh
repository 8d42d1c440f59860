# Hydra overrides, an accelerate YAML and a DeepSpeed JSON: edited as one set.
# The plan is saved, shown as a diff that git accepts, written, and undone to the byte.
work=$(mktemp -d) && cp -r fixtures/seed1 "$work/project" && cd "$work/project" || exit 9
$PLIMSOLL plan scripts/experiments.sh configs/trainer/finetune.yaml configs/accelerate/default_config.yaml configs/accelerate/zero_stage3.json --model llama-3.1-8b --gpu 48GiB --out ../plan.json | grep -E "^(now:|planned|NOTHING)"
$PLIMSOLL apply ../plan.json --dry-run | tee ../plan.diff | grep -E "^[-+]"
git init -q . && git apply --check ../plan.diff && echo "git takes it"
cp -r . ../before && $PLIMSOLL apply ../plan.json && git apply -R --check ../plan.diff && echo "as the diff says"
$PLIMSOLL undo && diff -r --exclude=.git --exclude=.plimsoll . ../before && echo "as before"
rm -rf "$work"
