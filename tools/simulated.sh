#!/bin/bash
# simulated.sh: runs the commands of the pages that need PyTorch again, with the packages of tests/torch/packages.txt: those in
# "simulated:" comments of docs/unknown-model.md and docs/cases/home-made-model.md.
cd "$(dirname "$0")/.." || exit 2
environment=$(tests/torch/environment.sh) || exit 2
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C XDG_STATE_HOME=$work PATH=$PWD/build:$environment/bin:$PATH
unset COLUMNS CLICOLOR_FORCE

# refresh PAGE FOLDER: the folder is where the commands run
refresh() {
  (cd "$2" && "$root/tools/fresh_blocks.sh" simulated "$root/$1") >"$work/page.md"
  sed "s|$work|~/.local/state|g" "$work/page.md" >"$1"
}
cp tests/fixtures/simulate/sft.py "$work/train.py"
refresh docs/unknown-model.md "$work"
python3 tests/torch/seeds.py --prepare "$work"
refresh docs/cases/home-made-model.md "$work/seed2"
