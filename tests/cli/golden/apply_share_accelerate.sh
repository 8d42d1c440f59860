# accelerate's configuration on two machines: distributed_type and its block are changed together.
work=$(mktemp -d) && cp -r fixtures/share/accelerate "$work/project" && cd "$work/project" || exit 9
$PLIMSOLL plan launch.sh --world 16 --nodes 2 --network 25 --seq 2048 --gpu "A100 40GB SXM" --fix strategy=fsdp2 --out ../plan.json | sed -n '/^to do by hand/,/^changes to/p'
$PLIMSOLL apply ../plan.json --dry-run | tee ../plan.diff | grep -E "^[-+]"
cp -r . ../before && git init -q . && git apply --check ../plan.diff && $PLIMSOLL apply ../plan.json
python3 -c 'import yaml; d = yaml.safe_load(open("accelerate.yaml")); print(d["distributed_type"], d["fsdp_config"])'
$PLIMSOLL undo && diff -r --exclude=.git --exclude=.plimsoll . ../before && echo "as before"
rm -rf "$work"
